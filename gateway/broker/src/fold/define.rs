//! Definitions: declared, checked against what is there, deleted with everything that hangs on them.

use framegate_storage::Lsn;

use super::live::QueueLive;
use super::{AnswerTo, Core};
use crate::definition::{BindTarget, BindingSpec, ExchangeSpec, QueueSpec, TopicSpec};
use crate::error::{BrokerError, Kind};
use crate::ids::{ConnectionId, QueueId, TopicId};
use crate::name::Name;
use crate::properties::compare_specs;
use crate::record::Record;
use crate::request::{Define, Reply};
use crate::routing::{Removed, is_predeclared};
use crate::state::{GROUP_BIT, VOLATILE_BIT};

/// Prefix of names that belong to the broker.
const RESERVED: &str = "amq.";
/// Every id is used.
pub(super) const NO_IDS: BrokerError =
    BrokerError::Limit { what: "durable queues, topics or groups of the shard", max: GROUP_BIT as u64 };

impl Core {
    /// A definition in its turn.
    pub(super) fn define(&mut self, to: AnswerTo, connection: ConnectionId, vhost: &Name, define: Define) {
        let before = self.encoder.count();
        let result = match define {
            Define::Exchange(spec) => self.declare_exchange(vhost, spec),
            Define::ExchangePassive(name) => self.exchange_info(vhost, &name).map(Reply::Exchange),
            Define::DeleteExchange { name, if_unused } => self.delete_exchange(vhost, &name, if_unused),
            Define::Queue(spec) => self.declare_queue(connection, vhost, spec),
            Define::QueuePassive(name) => self.use_passively(connection, vhost, &name),
            Define::DeleteQueue { name, if_unused, if_empty } => {
                self.delete_queue(connection, vhost, &name, if_unused, if_empty)
            }
            Define::Purge(name) => {
                let queue = self.usable(connection, vhost, &name);
                queue.map(|q| {
                    let messages = self.purge(q);
                    self.queue_purged(vhost, &name, messages);
                    Reply::Removed { messages }
                })
            }
            Define::Bind(binding) => self.bind(connection, vhost, binding),
            Define::Unbind(binding) => self.unbind(connection, vhost, binding),
            Define::Topic(spec) => self.declare_topic(vhost, spec),
            Define::DeleteTopic(name) => self.delete_topic(vhost, &name),
            Define::Group(spec) => self.declare_group(vhost, spec),
            Define::DeleteGroup { topic, group } => self.delete_group(vhost, &topic, &group),
            Define::SeekGroup { topic, group, to } => self.seek_group(vhost, &topic, &group, to),
        };
        let gate = if self.encoder.count() == before { Lsn(0) } else { self.newest() };
        self.sync |= gate.0 != 0;
        self.answer(to, gate, result);
    }

    fn declare_exchange(&mut self, vhost: &Name, spec: ExchangeSpec) -> Result<Reply, BrokerError> {
        let reserved = || BrokerError::Reserved { kind: Kind::Exchange, name: spec.name.clone() };
        if let Some(current) = self.editor.current().exchange(vhost, &spec.name) {
            let differs = |argument: &str, current: String, given: String| {
                let (name, argument) = (spec.name.clone(), argument.to_owned());
                BrokerError::Inequivalent { kind: Kind::Exchange, name, argument, current, given }
            };
            if current.kind != spec.kind {
                let none = |value: Option<String>| value.unwrap_or("none".to_owned());
                return Err(match current.kind.differs(&spec.kind) {
                    Some((argument, now, given)) if current.kind.as_str() == spec.kind.as_str() => {
                        differs(&argument, none(now), none(given))
                    }
                    _ => differs("type", current.kind.as_str().to_owned(), spec.kind.as_str().to_owned()),
                });
            }
            for (argument, now, given) in [
                ("durable", current.durable, spec.durable),
                ("auto_delete", current.auto_delete, spec.auto_delete),
                ("internal", current.internal, spec.internal),
            ] {
                if now != given && !(is_predeclared(&spec.name) && argument != "durable") {
                    return Err(differs(argument, now.to_string(), given.to_string()));
                }
            }
            if current.alternate != spec.alternate {
                let text = |name: &Option<Name>| name.as_ref().map_or("none".to_owned(), ToString::to_string);
                return Err(differs("alternate-exchange", text(&current.alternate), text(&spec.alternate)));
            }
        } else {
            if spec.name.is_empty() || spec.name.starts_with(RESERVED) {
                return Err(reserved());
            }
            Name::declared(&spec.name)?;
            self.editor.declare_exchange(vhost, spec.clone());
            if spec.durable {
                self.log(Record::DefineExchange { vhost: vhost.clone(), spec: spec.clone() }, None, true);
            }
            self.exchange_created(vhost, &spec);
        }
        self.exchange_info(vhost, &spec.name).map(Reply::Exchange)
    }

    fn delete_exchange(&mut self, vhost: &Name, name: &Name, if_unused: bool) -> Result<Reply, BrokerError> {
        if is_predeclared(name) {
            return Err(BrokerError::Reserved { kind: Kind::Exchange, name: name.clone() });
        }
        if self.editor.current().exchange(vhost, name).is_none() {
            return Err(Self::missing(Kind::Exchange, name, vhost));
        }
        if if_unused && self.editor.is_used(vhost, name) {
            return Err(BrokerError::InUse { kind: Kind::Exchange, name: name.clone() });
        }
        self.drop_exchange(vhost, name);
        Ok(Reply::Done)
    }

    fn drop_exchange(&mut self, vhost: &Name, name: &Name) {
        let durable = self.editor.current().exchange(vhost, name).is_some_and(|e| e.durable);
        if durable {
            self.log(Record::DeleteExchange { vhost: vhost.clone(), name: name.clone() }, None, true);
        }
        let removed = self.editor.delete_exchange(vhost, name);
        self.bindings_deleted(vhost, &removed.bindings);
        self.exchange_deleted(vhost, name);
        self.after_removal(vhost, removed);
    }

    /// Bindings went: exchanges that live by them go too.
    fn after_removal(&mut self, vhost: &Name, removed: Removed) {
        for name in removed.unused {
            self.drop_exchange(vhost, &name);
        }
    }

    fn declare_queue(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        mut spec: QueueSpec,
    ) -> Result<Reply, BrokerError> {
        if spec.name.is_empty() {
            spec.name = Name::new(&made_name(spec.prefix))?;
        } else if let Some(queue) = self.editor.current().queue(vhost, &spec.name) {
            self.usable(connection, vhost, &spec.name)?;
            self.check_equal(queue, &spec)?;
            self.touch(queue);
            return Ok(self.queue_reply(queue));
        } else if spec.name.starts_with(RESERVED) {
            return Err(BrokerError::Reserved { kind: Kind::Queue, name: spec.name });
        }
        Name::declared(&spec.name)?;
        spec.properties.check()?;
        let queue = self.make_queue(connection, vhost, spec)?;
        Ok(self.queue_reply(queue))
    }

    fn check_equal(&self, queue: QueueId, spec: &QueueSpec) -> Result<(), BrokerError> {
        let Some(current) = self.state(queue).queue(queue).map(|q| &q.spec) else { return Ok(()) };
        compare_specs(current, spec).map_err(|differs| BrokerError::Inequivalent {
            kind: Kind::Queue,
            name: spec.name.clone(),
            argument: differs.argument,
            current: differs.current,
            given: differs.given,
        })
    }

    /// A passive declaration is a use too.
    fn use_passively(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        name: &Name,
    ) -> Result<Reply, BrokerError> {
        let queue = self.usable(connection, vhost, name)?;
        self.touch(queue);
        Ok(self.queue_reply(queue))
    }

    /// Makes a queue that is not there.
    pub(super) fn make_queue(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        spec: QueueSpec,
    ) -> Result<QueueId, BrokerError> {
        let max = self.shared.limits.queues_max;
        if self.editor.counts(vhost).queues >= max {
            return Err(BrokerError::Limit { what: "queues of a vhost", max: max as u64 });
        }
        let name = spec.name.clone();
        let volatile = spec.exclusive || !spec.durable;
        let owner = spec.exclusive.then_some(connection);
        let properties = spec.properties.clone();
        let gated = spec.properties.deliver_durable || self.store.caps().shared;
        let mut opens_at = Lsn(0);
        let (id, vhost) = if volatile {
            let id = self.volatile_id()?;
            let record = Record::DefineQueue { id, vhost: vhost.clone(), spec: Box::new(spec) };
            self.apply_unlogged(id, record);
            // ids of volatile queues come again: their numbers do not
            let first = self.claim.epoch.0.saturating_sub(1) << 32 | self.volatile_round() << 24 | 1;
            if let Some(queue) = self.volatile.queue_mut(id) {
                queue.slots.skip_to(first);
            }
            (id, vhost)
        } else {
            let id = self.durable.next_queue().ok_or(NO_IDS)?;
            let record = Record::DefineQueue { id, vhost: vhost.clone(), spec: Box::new(spec) };
            opens_at = self.log(record, None, true).0;
            self.opening.push_back((opens_at, id));
            (id, vhost)
        };
        let first = self.state(id).queue(id).map_or(1, |q| q.slots.next());
        let mut live = QueueLive { opens_at, ..QueueLive::new(first, 0, owner, &properties) };
        if gated && !volatile {
            live.visible = 0;
        }
        self.live.insert(id, live);
        self.touch(id);
        if owner.is_some()
            && let Some(connection) = self.connections.get_mut(&connection)
        {
            connection.exclusive.push(id);
        }
        self.editor.add_queue(vhost, name, id);
        if let Some(live) = self.live.get_mut(&id) {
            live.since = self.editor.version();
        }
        self.queue_created(vhost, id);
        Ok(id)
    }

    fn delete_queue(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        name: &Name,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<Reply, BrokerError> {
        let queue = self.usable(connection, vhost, name)?;
        if if_unused && self.live.get(&queue).is_some_and(|l| l.consumers > 0) {
            return Err(BrokerError::InUse { kind: Kind::Queue, name: name.clone() });
        }
        let messages = self.ready_count(queue);
        if if_empty && messages > 0 {
            return Err(BrokerError::NotEmpty { name: name.clone(), messages });
        }
        self.drop_queue(queue);
        Ok(Reply::Removed { messages })
    }

    /// A queue goes with its messages, bindings and consumers.
    pub(super) fn drop_queue(&mut self, queue: QueueId) {
        let Some(state) = self.state(queue).queue(queue) else { return };
        let (vhost, name, messages) = (state.vhost.clone(), state.spec.name.clone(), state.count);
        self.forget_kept_jobs(queue);
        self.end_takers(queue);
        let owner = self.forget_live(queue).and_then(|l| l.owner);
        if let Some(connection) = owner.and_then(|o| self.connections.get_mut(&o)) {
            connection.exclusive.retain(|q| *q != queue);
        }
        let record = Record::DeleteQueue { id: queue };
        if queue.0 & VOLATILE_BIT != 0 {
            self.apply_unlogged(queue, record);
        } else {
            self.log(record, None, true);
        }
        let removed = self.editor.remove_queue(&vhost, &name);
        self.bindings_deleted(&vhost, &removed.bindings);
        self.queue_deleted(&vhost, &name, messages);
        self.after_removal(&vhost, removed);
    }

    /// A queue name that no queue has may be a topic's.
    fn to_topic(&self, vhost: &Name, binding: &mut BindingSpec) {
        if let BindTarget::Queue(name) = &binding.target
            && self.editor.current().queue(vhost, name).is_none()
            && self.editor.current().topic(vhost, name).is_some()
        {
            binding.target = BindTarget::Topic(name.clone());
        }
    }

    /// The volatile side of a queue or group goes, with everything that speaks of it: its id may be given again.
    pub(super) fn forget_live(&mut self, id: QueueId) -> Option<QueueLive> {
        self.uncache_queue(id);
        self.delivered.remove(&id);
        self.timers.forget(id);
        self.void_work(id);
        self.forget_jobs_of(id);
        let live = self.live.remove(&id)?;
        if live.visible != u64::MAX {
            self.gated_visible.retain(|v| v.1 != id);
        }
        Some(live)
    }

    fn bind(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        mut binding: BindingSpec,
    ) -> Result<Reply, BrokerError> {
        self.to_topic(vhost, &mut binding);
        if let BindTarget::Queue(name) = &binding.target {
            self.usable(connection, vhost, name)?;
        }
        let max = self.shared.limits.bindings_max;
        if self.editor.counts(vhost).bindings >= max {
            return Err(BrokerError::Limit { what: "bindings of a vhost", max: max as u64 });
        }
        if self.editor.check_bind(vhost, &binding)? && self.editor.bind(vhost, &binding) {
            if self.is_durable(vhost, &binding) {
                self.log(Record::Bind { vhost: vhost.clone(), binding: binding.clone() }, None, true);
            }
            self.binding_created(vhost, &binding);
        }
        Ok(Reply::Done)
    }

    fn unbind(
        &mut self,
        connection: ConnectionId,
        vhost: &Name,
        mut binding: BindingSpec,
    ) -> Result<Reply, BrokerError> {
        self.to_topic(vhost, &mut binding);
        let binding = &binding;
        if self.editor.current().exchange(vhost, &binding.exchange).is_none() {
            return Err(Self::missing(Kind::Exchange, &binding.exchange, vhost));
        }
        match &binding.target {
            BindTarget::Queue(name) => {
                self.usable(connection, vhost, name)?;
            }
            BindTarget::Exchange(name) if self.editor.current().exchange(vhost, name).is_none() => {
                return Err(Self::missing(Kind::Exchange, name, vhost));
            }
            BindTarget::Topic(name) if self.editor.current().topic(vhost, name).is_none() => {
                return Err(Self::missing(Kind::Topic, name, vhost));
            }
            BindTarget::Exchange(_) | BindTarget::Topic(_) => {}
        }
        let durable = self.is_durable(vhost, binding);
        let removed = self.editor.unbind(vhost, binding);
        self.bindings_deleted(vhost, &removed.bindings);
        // as it was made: the arguments may have been given in another order now
        if let Some(made) = removed.bindings.first().filter(|_| durable) {
            self.log(Record::Unbind { vhost: vhost.clone(), binding: made.clone() }, None, true);
        }
        self.after_removal(vhost, removed);
        Ok(Reply::Done)
    }

    /// Both ends of a binding survive a restart.
    fn is_durable(&self, vhost: &Name, binding: &BindingSpec) -> bool {
        let topology = self.editor.current();
        let durable = |name: &Name| topology.exchange(vhost, name).is_some_and(|e| e.durable);
        durable(&binding.exchange)
            && match &binding.target {
                BindTarget::Queue(name) => {
                    topology.queue(vhost, name).is_some_and(|q| q.0 & VOLATILE_BIT == 0)
                }
                BindTarget::Exchange(name) => durable(name),
                BindTarget::Topic(_) => true,
            }
    }

    fn declare_topic(&mut self, vhost: &Name, spec: TopicSpec) -> Result<Reply, BrokerError> {
        let name = spec.name.clone();
        if let Some(current) = self.topic_named(vhost, &name) {
            let text = |v: Option<u64>| v.map_or("default".to_owned(), |v| v.to_string());
            for (argument, now, given) in [
                ("age_ms_max", current.spec.age_ms_max, spec.age_ms_max),
                ("bytes_max", current.spec.bytes_max, spec.bytes_max),
            ] {
                if now != given && given.is_some() {
                    let (argument, current, given) = (argument.to_owned(), text(now), text(given));
                    return Err(BrokerError::Inequivalent {
                        kind: Kind::Topic,
                        name,
                        argument,
                        current,
                        given,
                    });
                }
            }
        } else {
            self.make_topic(vhost, spec)?;
        }
        let topic = self.topic_named(vhost, &name).ok_or_else(|| Self::missing(Kind::Topic, &name, vhost))?;
        Ok(Reply::Topic(self.topic_info(topic)))
    }

    /// Makes a topic that is not there.
    pub(super) fn make_topic(&mut self, vhost: &Name, spec: TopicSpec) -> Result<TopicId, BrokerError> {
        Name::topic(&spec.name)?;
        let max = self.shared.limits.topics_max;
        if self.editor.counts(vhost).topics >= max {
            return Err(BrokerError::Limit { what: "topics of a vhost", max: max as u64 });
        }
        let (id, name) = (self.durable.next_topic().ok_or(NO_IDS)?, spec.name.clone());
        self.log(Record::DefineTopic { id, vhost: vhost.clone(), spec }, None, true);
        self.editor.add_topic(vhost, name, id);
        Ok(id)
    }

    fn delete_topic(&mut self, vhost: &Name, name: &Name) -> Result<Reply, BrokerError> {
        let id = self
            .editor
            .current()
            .topic(vhost, name)
            .ok_or_else(|| Self::missing(Kind::Topic, name, vhost))?;
        self.drop_topic(id);
        Ok(Reply::Done)
    }

    /// A topic goes with its events.
    pub(super) fn drop_topic(&mut self, id: TopicId) {
        let Some(topic) = self.durable.topic(id) else { return };
        let (vhost, name) = (topic.vhost.clone(), topic.spec.name.clone());
        self.forget_groups_of(id);
        self.log(Record::DeleteTopic { id }, None, true);
        let removed = self.editor.remove_topic(&vhost, &name);
        self.topic_idle_since.remove(&id);
        self.bindings_deleted(&vhost, &removed.bindings);
        self.after_removal(&vhost, removed);
    }
}

/// A name that nobody has: the prefix and 22 characters of base64url.
pub(super) fn made_name(prefix: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut random = uuid::Uuid::new_v4().as_u128();
    let mut name = String::with_capacity(prefix.len() + 22);
    name.push_str(prefix);
    for _ in 0..22 {
        name.extend(ALPHABET.get((random & 63) as usize).map(|byte| char::from(*byte)));
        random >>= 6;
    }
    name
}
