//! Before the fold: permissions and routing, on the caller's task, by the current topology.

use std::sync::atomic::Ordering;

use super::Shared;
use crate::definition::{BindTarget, ExchangeKind};
use crate::error::{Access, BrokerError, Kind};
use crate::fold::PARK;
use crate::fold::inbox::Task;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::principal::Principal;
use crate::request::{Answer, Define, JobRequest, Publish, Query, Request};
use crate::routing::{Parts, Targets};

/// Checks a request and routes it when it is a publish. A refusal goes through the fold, so that answers keep their
/// order.
pub(crate) fn route(shared: &Shared, principal: &Principal, vhost: &Name, request: Request) -> Task {
    match request {
        Request::Publish(publish) => route_publish(shared, principal, vhost, publish),
        Request::Atomic(requests) => {
            let tasks = requests.into_iter().map(|r| route(shared, principal, vhost, r)).collect();
            within_a_block(shared, Task::Atomic(tasks))
        }
        Request::Job(request) => Task::Job(request, Box::new(principal.clone())),
        request => match check(principal, vhost, &request) {
            Ok(()) => Task::Request(request),
            Err(error) => Task::Refused(error),
        },
    }
}

/// All of an atomic request goes into one block: together it may be as large as one message or the admission budget.
fn within_a_block(shared: &Shared, task: Task) -> Task {
    let max = shared.limits.message_bytes_max.max(shared.limits.admission_bytes_max) as u64;
    let bytes = bytes(&task) as u64;
    if bytes > max { Task::Refused(BrokerError::TooLarge { bytes, max }) } else { task }
}

/// A request that is held while publishers are.
pub(super) fn publishes(request: &Request) -> bool {
    match request {
        Request::Publish(_) => true,
        Request::Job(request) => matches!(**request, JobRequest::Push(_)),
        Request::Atomic(requests) => requests.iter().any(publishes),
        _ => false,
    }
}

/// Bytes that a task takes from the admission budget.
pub(super) fn bytes(task: &Task) -> usize {
    match task {
        Task::Publish(publish) => publish.0.frame.as_bytes().len().max(1),
        Task::Atomic(tasks) => tasks.iter().map(bytes).sum(),
        Task::Job(request, _) => match &**request {
            JobRequest::Push(jobs) => jobs.iter().map(|job| job.frame.as_bytes().len().max(1)).sum(),
            _ => 0,
        },
        _ => 0,
    }
}

fn route_publish(shared: &Shared, principal: &Principal, vhost: &Name, mut publish: Publish) -> Task {
    if publish.delay_by_exchange && publish.delay_ms > 0 {
        let topology = shared.topology.load();
        let exchange = topology.exchange(vhost, &publish.exchange);
        if !exchange.is_some_and(|e| matches!(e.kind, ExchangeKind::Delayed(_))) {
            publish.delay_ms = 0;
        }
    }
    let watermark = publish.answer == Answer::Watermark;
    let mut targets = Targets::default();
    match find_targets(shared, principal, vhost, &publish, &mut targets) {
        Ok(()) => {
            Metrics::add(&shared.metrics.binding_comparisons, targets.comparisons);
            Task::Publish(Box::new((publish, targets)))
        }
        Err(error) if watermark => Task::RefusedPublish(error),
        Err(error) => Task::Refused(error),
    }
}

fn find_targets(
    shared: &Shared,
    principal: &Principal,
    vhost: &Name,
    publish: &Publish,
    targets: &mut Targets,
) -> Result<(), BrokerError> {
    if shared.stopping.load(Ordering::Acquire) {
        return Err(BrokerError::Stopping);
    }
    let (bytes, max) = (publish.frame.as_bytes().len() as u64, shared.limits.message_bytes_max as u64);
    if bytes > max {
        return Err(BrokerError::TooLarge { bytes, max });
    }
    match publish.keys.first().filter(|_| publish.create_topic || publish.create_queue) {
        Some(key) if publish.create_topic => {
            Name::topic(key)?;
            principal.check(Access::Write, Kind::Topic, key, vhost)?;
        }
        Some(key) => {
            Name::declared(key)?;
            if key == PARK {
                return Err(BrokerError::Reserved { kind: Kind::Queue, name: key.clone() });
            }
            principal.check(Access::Write, Kind::Queue, key, vhost)?;
        }
        None => principal.check(Access::Write, Kind::Exchange, &publish.exchange, vhost)?,
    }
    let topology = shared.topology.load();
    if topology.exchange(vhost, &publish.exchange).is_some_and(|e| e.internal) {
        return Err(BrokerError::Reserved { kind: Kind::Exchange, name: publish.exchange.clone() });
    }
    let headers = |visit: &mut dyn FnMut(&str, crate::definition::HeaderValue<'_>)| {
        shared.headers.read(&publish.frame, visit);
    };
    let property = |property| crate::headers::property(&publish.frame, property);
    let delayed = publish.delay_ms > 0;
    let parts = Parts { keys: &publish.keys, headers: &headers, property: &property, delayed };
    topology.route_parts(vhost, &publish.exchange, &parts, targets)
}

fn check(principal: &Principal, vhost: &Name, request: &Request) -> Result<(), BrokerError> {
    let may = |access, kind, name: &Name| principal.check(access, kind, name, vhost);
    match request {
        Request::Fetch(fetch) => may(Access::Read, Kind::Queue, &fetch.queue),
        Request::Browse(browse) => may(Access::Read, Kind::Queue, &browse.queue),
        Request::Consume(consume) => may(Access::Read, Kind::Queue, &consume.queue),
        Request::ConsumeGroup(consume, _) => may(Access::Read, Kind::Topic, &consume.queue),
        Request::FetchGroup(fetch, _) => may(Access::Read, Kind::Topic, &fetch.queue),
        Request::Define(define) => match define {
            Define::Exchange(spec) => {
                may(Access::Configure, Kind::Exchange, &spec.name)?;
                match &spec.alternate {
                    Some(alternate) => may(Access::Write, Kind::Exchange, alternate),
                    None => Ok(()),
                }
            }
            Define::DeleteExchange { name, .. } => may(Access::Configure, Kind::Exchange, name),
            Define::Queue(spec) => {
                // of a name that the broker makes only the beginning is known
                let made = spec.name.is_empty().then(|| Name::from_static(spec.prefix));
                let name = made.as_ref().unwrap_or(&spec.name);
                may(Access::Configure, Kind::Queue, name)?;
                match &spec.properties.dead_letter_exchange {
                    Some(exchange) => {
                        may(Access::Read, Kind::Queue, name)?;
                        may(Access::Write, Kind::Exchange, exchange)
                    }
                    None => Ok(()),
                }
            }
            Define::DeleteQueue { name, .. } => may(Access::Configure, Kind::Queue, name),
            Define::Purge(name) => may(Access::Read, Kind::Queue, name),
            Define::Bind(binding) | Define::Unbind(binding) => {
                match &binding.target {
                    BindTarget::Queue(name) => may(Access::Write, Kind::Queue, name)?,
                    BindTarget::Topic(name) => may(Access::Write, Kind::Topic, name)?,
                    BindTarget::Exchange(name) => may(Access::Write, Kind::Exchange, name)?,
                }
                may(Access::Read, Kind::Exchange, &binding.exchange)
            }
            Define::Topic(spec) => may(Access::Configure, Kind::Topic, &spec.name),
            Define::DeleteTopic(name) => may(Access::Configure, Kind::Topic, name),
            Define::Group(spec) => {
                may(Access::Configure, Kind::Topic, &spec.topic)?;
                match &spec.dead_letter_topic {
                    Some(dead) => {
                        may(Access::Read, Kind::Topic, &spec.topic)?;
                        may(Access::Write, Kind::Topic, dead)
                    }
                    None => Ok(()),
                }
            }
            Define::DeleteGroup { topic, .. } | Define::SeekGroup { topic, .. } => {
                may(Access::Configure, Kind::Topic, topic)
            }
            Define::ExchangePassive(_) | Define::QueuePassive(_) => Ok(()),
        },
        Request::Query(Query::Presence(topic)) => may(Access::Read, Kind::Topic, topic),
        Request::Query(Query::History(query)) => may(Access::Read, Kind::Topic, &query.topic),
        Request::Query(Query::Connections)
            if !(principal.has_tag("administrator") || principal.has_tag("monitoring")) =>
        {
            let name = Name::from_static("connections");
            let (vhost, user) = (vhost.clone(), principal.name().clone());
            Err(BrokerError::Forbidden { kind: Kind::Vhost, name, vhost, user, access: Access::Read })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::QueueSpec;
    use crate::principal::Grant;

    #[test]
    fn the_default_exchange_and_queues_without_a_name_have_names_for_patterns() {
        let pattern = |text: &str| regex_lite::Regex::new(&format!("^(?:{text})$")).ok();
        let user = |configure, write| {
            let vhost = Name::from_static("/");
            let grant = Grant { vhost, configure: pattern(configure), write: pattern(write), read: None };
            Principal::new(Name::from_static("ann"), Vec::new(), vec![grant])
        };
        let vhost = Name::from_static("/");
        let unnamed =
            Request::Define(Define::Queue(QueueSpec { prefix: "amq.gen-", ..QueueSpec::default() }));
        assert_eq!(check(&user("amq\\.gen.*", ""), &vhost, &unnamed), Ok(()));
        assert!(check(&user("app\\..*|", ""), &vhost, &unnamed).is_err());
        let write = |user: &Principal| user.check(Access::Write, Kind::Exchange, &Name::default(), &vhost);
        assert_eq!(write(&user("", "amq\\.default")), Ok(()));
        assert!(write(&user("", "app\\..*|")).is_err());
    }
}
