#!/bin/sh
# The same for the published command line: each call is a scenario, its output without ids, times and colours.
#   scenarios-cli.sh BUN ENTRY     BQ_PORT, BQ_HOST: the server
set -u
bun=$1 entry=$2
run=cli-$$
call() {
    title=$1
    shift
    output=$("$bun" "$entry" "$@" --host "${BQ_HOST:-127.0.0.1}" --port "${BQ_PORT:-6789}" 2>&1)
    status=$?
    printf '%s\n' "$output" |
        sed -e 's/\x1b\[[0-9;]*m//g' -e "s/$run/RUN/g" \
            -e 's/[0-9a-f]\{8\}-[0-9a-f]\{4\}-7[0-9a-f]\{3\}-[0-9a-f]\{4\}-[0-9a-f]\{12\}/ID/g' \
            -e 's/[12][0-9]\{12\}/TIME/g' -e 's/[0-9]\{4\}-[0-9-]*T[0-9:.]*Z/TIME/g' |
        python3 -c "import json,sys; print(json.dumps({'scenario': 'cli_$title', 'outcome': [sys.stdin.read(), $status]}))"
}
call push push "$run" '{"x":1}' --job-id "$run-1"
call push_priority push "$run" '{"x":2}' --priority 5 --json
call count queue count "$run"
call jobs_waiting queue jobs "$run" --state waiting --json
call get job get "$run-1" --json
call state job state "$run-1"
call update job update "$run-1" '{"x":9}'
call priority job priority "$run-1" 7
call pause queue pause "$run"
call paused queue paused "$run"
call pull_paused pull "$run"
call resume queue resume "$run"
call pull pull "$run" --json
call state_active job state "$run-1"
call progress job progress "$run-1" 50
call log job log "$run-1" "a line"
call logs job logs "$run-1"
call ack ack "$run-1" --result '{"ok":true}'
call result job result "$run-1"
call state_done job state "$run-1"
call get_unknown job get no-such-job
call cancel_unknown job cancel no-such-job
call rate_limit rate-limit set "$run" 5
call rate_clear rate-limit clear "$run"
call concurrency concurrency set "$run" 5
call concurrency_clear concurrency clear "$run"
call dlq dlq list "$run"
call cron_add cron add "$run-cron" -q "$run" -d '{"a":1}' -s '0 3 * * *'
call cron_delete cron delete "$run-cron"
call cron_delete_again cron delete "$run-cron"
call worker worker register "$run-w" -q "$run"
call drain queue drain "$run"
call obliterate queue obliterate "$run"
call ping ping
