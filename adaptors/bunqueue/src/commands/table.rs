//! Every command that is served, once. A name that is not here is answered as the original answers an unknown one.

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Command {
    /// `cmd`, exactly so.
    pub(crate) name: &'static str,
    pub(crate) op: Op,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Ack,
    AckBatch,
    AddLog,
    Auth,
    Cancel,
    ChangeDelay,
    ChangePriority,
    Clean,
    ClearConcurrency,
    ClearLogs,
    Count,
    Discard,
    Dlq,
    Drain,
    ExtendLock,
    ExtendLocks,
    Fail,
    GetCountsPerPriority,
    GetDeduplicationJobId,
    GetDlqConfig,
    GetDlqStats,
    GetJob,
    GetJobByCustomId,
    GetJobCounts,
    GetJobs,
    GetLogs,
    GetProgress,
    GetQueueLimits,
    GetResult,
    GetStallConfig,
    GetState,
    Heartbeat,
    Hello,
    IsPaused,
    JobHeartbeat,
    JobHeartbeatBatch,
    ListQueues,
    ListWorkers,
    MoveToDelayed,
    MoveToWait,
    Obliterate,
    Pause,
    Ping,
    Progress,
    Promote,
    PromoteJobs,
    Pull,
    PullBatch,
    PurgeDlq,
    Push,
    PushBatch,
    RateLimit,
    RateLimitClear,
    RegisterWorker,
    RemoveDeduplicationKey,
    RemoveDlqJob,
    RemoveJobDeduplicationKey,
    Resume,
    RetryCompleted,
    RetryDlq,
    SetConcurrency,
    SetDlqConfig,
    SetStallConfig,
    SubscribeEvents,
    UnregisterWorker,
    UnsubscribeEvents,
    Update,
    WaitJob,
}

/// Sorted by name.
const COMMANDS: [Command; 68] = [
    Command { name: "ACK", op: Op::Ack },
    Command { name: "ACKB", op: Op::AckBatch },
    Command { name: "AddLog", op: Op::AddLog },
    Command { name: "Auth", op: Op::Auth },
    Command { name: "Cancel", op: Op::Cancel },
    Command { name: "ChangeDelay", op: Op::ChangeDelay },
    Command { name: "ChangePriority", op: Op::ChangePriority },
    Command { name: "Clean", op: Op::Clean },
    Command { name: "ClearConcurrency", op: Op::ClearConcurrency },
    Command { name: "ClearLogs", op: Op::ClearLogs },
    Command { name: "Count", op: Op::Count },
    Command { name: "Discard", op: Op::Discard },
    Command { name: "Dlq", op: Op::Dlq },
    Command { name: "Drain", op: Op::Drain },
    Command { name: "ExtendLock", op: Op::ExtendLock },
    Command { name: "ExtendLocks", op: Op::ExtendLocks },
    Command { name: "FAIL", op: Op::Fail },
    Command { name: "GetCountsPerPriority", op: Op::GetCountsPerPriority },
    Command { name: "GetDeduplicationJobId", op: Op::GetDeduplicationJobId },
    Command { name: "GetDlqConfig", op: Op::GetDlqConfig },
    Command { name: "GetDlqStats", op: Op::GetDlqStats },
    Command { name: "GetJob", op: Op::GetJob },
    Command { name: "GetJobByCustomId", op: Op::GetJobByCustomId },
    Command { name: "GetJobCounts", op: Op::GetJobCounts },
    Command { name: "GetJobs", op: Op::GetJobs },
    Command { name: "GetLogs", op: Op::GetLogs },
    Command { name: "GetProgress", op: Op::GetProgress },
    Command { name: "GetQueueLimits", op: Op::GetQueueLimits },
    Command { name: "GetResult", op: Op::GetResult },
    Command { name: "GetStallConfig", op: Op::GetStallConfig },
    Command { name: "GetState", op: Op::GetState },
    Command { name: "Heartbeat", op: Op::Heartbeat },
    Command { name: "Hello", op: Op::Hello },
    Command { name: "IsPaused", op: Op::IsPaused },
    Command { name: "JobHeartbeat", op: Op::JobHeartbeat },
    Command { name: "JobHeartbeatB", op: Op::JobHeartbeatBatch },
    Command { name: "ListQueues", op: Op::ListQueues },
    Command { name: "ListWorkers", op: Op::ListWorkers },
    Command { name: "MoveToDelayed", op: Op::MoveToDelayed },
    Command { name: "MoveToWait", op: Op::MoveToWait },
    Command { name: "Obliterate", op: Op::Obliterate },
    Command { name: "PULL", op: Op::Pull },
    Command { name: "PULLB", op: Op::PullBatch },
    Command { name: "PUSH", op: Op::Push },
    Command { name: "PUSHB", op: Op::PushBatch },
    Command { name: "Pause", op: Op::Pause },
    Command { name: "Ping", op: Op::Ping },
    Command { name: "Progress", op: Op::Progress },
    Command { name: "Promote", op: Op::Promote },
    Command { name: "PromoteJobs", op: Op::PromoteJobs },
    Command { name: "PurgeDlq", op: Op::PurgeDlq },
    Command { name: "RateLimit", op: Op::RateLimit },
    Command { name: "RateLimitClear", op: Op::RateLimitClear },
    Command { name: "RegisterWorker", op: Op::RegisterWorker },
    Command { name: "RemoveDeduplicationKey", op: Op::RemoveDeduplicationKey },
    Command { name: "RemoveDlqJob", op: Op::RemoveDlqJob },
    Command { name: "RemoveJobDeduplicationKey", op: Op::RemoveJobDeduplicationKey },
    Command { name: "Resume", op: Op::Resume },
    Command { name: "RetryCompleted", op: Op::RetryCompleted },
    Command { name: "RetryDlq", op: Op::RetryDlq },
    Command { name: "SetConcurrency", op: Op::SetConcurrency },
    Command { name: "SetDlqConfig", op: Op::SetDlqConfig },
    Command { name: "SetStallConfig", op: Op::SetStallConfig },
    Command { name: "SubscribeEvents", op: Op::SubscribeEvents },
    Command { name: "UnregisterWorker", op: Op::UnregisterWorker },
    Command { name: "UnsubscribeEvents", op: Op::UnsubscribeEvents },
    Command { name: "Update", op: Op::Update },
    Command { name: "WaitJob", op: Op::WaitJob },
];

/// A command by name.
pub(crate) fn command(name: &str) -> Option<&'static Command> {
    let at = COMMANDS.binary_search_by(|command| command.name.cmp(name)).ok()?;
    COMMANDS.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name() {
        for entry in &COMMANDS {
            assert_eq!(command(entry.name), Some(entry));
        }
        assert_eq!(command("ping"), None);
        assert_eq!(command(""), None);
    }
}
