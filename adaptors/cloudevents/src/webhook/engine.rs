//! The subscriptions of one listener: kept by the broker, shown in a table, each with a worker while it is active. Runs as one
//! task; whoever changes a subscription waits for it until the change is on disk.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use framegate_adaptor_api::HttpContext;
use framegate_broker::{
    BrokerError, CancelReason, Connection, Define, Delivery, Effect, HeaderTable, Name, Outbox, Position,
    Request, RequestId, Seq,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::attempt::Post;
use super::counters::COUNTERS;
use super::history::History;
use super::record::{Record, Status};
use super::sender::Sender;
use super::spec::Spec;
use super::store;
use super::worker::Job;
use crate::http::now_ms;
use crate::http::problem::Problem;
use crate::limits::{HOOK_AGAIN, HOOK_CHANGE_TIME, HOOK_CHANGES_MAX, HOOK_LOOK};
use crate::metrics::Counters;
use crate::settings::WebhookSettings;

/// Answers a change when it is on disk.
type Written = oneshot::Sender<Result<(), Problem>>;

/// A change.
pub(crate) enum Command {
    /// Write this version; refused unless it follows the one that is there.
    Put(Box<Record>, Written),
    /// Remove a subscription and its group.
    Delete(String, Written),
    /// A worker says that its subscription cannot go on.
    Disable {
        /// Which.
        id: String,
        /// The version that the worker had.
        version: u64,
        /// Why.
        reason: &'static str,
    },
}

/// A subscription in the table.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) record: Arc<Record>,
    pub(crate) history: Arc<History>,
}

/// The table, and the way to change it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hooks {
    table: watch::Sender<Arc<HashMap<String, Shown>>>,
    /// After a start: whether the table has all that is kept.
    loaded: watch::Sender<bool>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) http: HttpContext,
    pub(crate) settings: Arc<WebhookSettings>,
    sender: Arc<Sender>,
}

impl Hooks {
    /// Starts the task. Must be called on the runtime.
    pub(crate) fn start(http: &HttpContext, settings: WebhookSettings) -> Self {
        let (commands, changes) = mpsc::channel(HOOK_CHANGES_MAX);
        let sender = Sender::new(settings.guard(), Duration::from_millis(settings.timeout_ms));
        let hooks = Self {
            table: watch::channel(Arc::default()).0,
            loaded: watch::channel(false).0,
            commands,
            http: http.clone(),
            settings: Arc::new(settings),
            sender: Arc::new(sender),
        };
        let headers = Arc::new(http.adaptors.headers().clone());
        let engine = Engine { hooks: hooks.clone(), changes, slots: HashMap::new(), headers, lost: false };
        tokio::spawn(engine.run());
        hooks
    }

    /// Waits until the table has all that is kept.
    ///
    /// # Errors
    /// It takes too long.
    pub(crate) async fn loaded(&self) -> Result<(), Problem> {
        let mut loaded = self.loaded.subscribe();
        let is_loaded = timeout(HOOK_CHANGE_TIME, loaded.wait_for(|loaded| *loaded)).await;
        if matches!(is_loaded, Ok(Ok(_))) { Ok(()) } else { Err(unavailable()) }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Shown> {
        self.table.borrow().get(id).cloned()
    }

    /// All, by age.
    pub(crate) fn all(&self) -> Vec<Shown> {
        let mut all: Vec<Shown> = self.table.borrow().values().cloned().collect();
        all.sort_by(|a, b| (a.record.created_ms, &a.record.id).cmp(&(b.record.created_ms, &b.record.id)));
        all
    }

    /// What requests of a subscription have in common.
    ///
    /// # Errors
    /// The receiver's URL or a header cannot be used under the settings of now.
    pub(crate) fn post(&self, spec: &Spec) -> Result<Post, Problem> {
        let sink = spec.sink(&self.settings)?;
        let mut headers: axum::http::HeaderMap = spec.headers()?.into_iter().collect();
        if let Some(authorization) = spec.authorization()? {
            headers.insert(axum::http::header::AUTHORIZATION, authorization);
        }
        Ok(Post::new(Arc::clone(&self.sender), self.settings.origin.clone(), sink, headers))
    }

    fn show(&self, record: &Arc<Record>) -> Arc<History> {
        let history = self.get(&record.id).map(|shown| shown.history).unwrap_or_default();
        let shown = Shown { record: Arc::clone(record), history: Arc::clone(&history) };
        self.table.send_modify(|table| {
            Arc::make_mut(table).insert(record.id.clone(), shown);
        });
        history
    }

    fn hide(&self, id: &str) {
        self.table.send_modify(|table| {
            Arc::make_mut(table).remove(id);
        });
    }
}

/// A subscription in the engine.
#[derive(Default)]
struct Slot {
    /// The newest version that was seen.
    record: Option<Arc<Record>>,
    /// Where it stands in the queue.
    seq: Option<Seq>,
    /// A version that is being written, and who waits for it.
    writing: Option<(Arc<Record>, Option<Written>)>,
    /// Where the version stands that it takes the place of.
    replaces: Option<Seq>,
    /// Stops the worker when it is dropped or set.
    worker: Option<watch::Sender<bool>>,
    /// Who waits for its end.
    ended: Option<Written>,
}

struct Engine {
    hooks: Hooks,
    changes: mpsc::Receiver<Command>,
    slots: HashMap<String, Slot>,
    headers: Arc<HeaderTable>,
    /// The queue was deleted: everything is written again.
    lost: bool,
}

/// What an answer of the broker is about.
enum Asked {
    Written(String),
    GroupDeleted(String),
    /// Whether the queue has handed out all that was in it.
    Looked,
}

struct Link {
    connection: Connection,
    outbox: Outbox,
    last: u64,
    asked: HashMap<RequestId, Asked>,
}

impl Link {
    async fn ask(&mut self, request: Request, asked: Option<Asked>) -> Result<(), BrokerError> {
        self.last += 1;
        let id = RequestId(self.last);
        if let Some(asked) = asked {
            self.asked.insert(id, asked);
        }
        self.connection.submit(vec![(id, request)]).await
    }

    /// All in one batch: what stands behind a definition is routed by it.
    async fn ask_all(&mut self, requests: Vec<Request>) -> Result<(), BrokerError> {
        let first = self.last + 1;
        self.last += requests.len() as u64;
        self.connection.submit((first..).map(RequestId).zip(requests).collect()).await
    }
}

impl Engine {
    async fn run(mut self) {
        let mut stopping = self.hooks.http.stopping.clone();
        loop {
            let ended = tokio::select! {
                ended = self.session() => ended,
                _ = async { drop(stopping.wait_for(|stopping| *stopping).await) } => return,
            };
            match ended {
                Err(BrokerError::Stopping | BrokerError::StorageFailed) => return,
                Err(error) => {
                    tracing::warn!(%error, "subscriptions of web hooks cannot be read; trying again");
                }
                Ok(()) => {}
            }
            // what was asked has no answer any more
            for slot in self.slots.values_mut() {
                let waits = slot.writing.take().and_then(|(_, written)| written);
                for written in waits.into_iter().chain(slot.ended.take()) {
                    let _ = written.send(Err(unavailable()));
                }
                (slot.seq, slot.replaces) = (None, None);
            }
            sleep(HOOK_AGAIN).await;
        }
    }

    async fn session(&mut self) -> Result<(), BrokerError> {
        let mut first = None;
        if !self.lost && !self.is_kept().await? {
            // nobody has subscribed yet: no queue until somebody does
            self.hooks.loaded.send_replace(true);
            first = Some(self.changes.recv().await.ok_or(BrokerError::Stopping)?);
        }
        let (connection, outbox) =
            self.hooks.http.broker.connect(&store::keeper(), &self.hooks.http.vhost, "webhooks")?;
        let mut link = Link { connection, outbox, last: 0, asked: HashMap::new() };
        let mut requests = vec![store::declare()];
        if std::mem::take(&mut self.lost) {
            let records = self.slots.values().filter_map(|slot| slot.record.as_ref());
            requests.extend(records.filter_map(|record| store::put(record, None).ok()));
        }
        requests.push(store::consume());
        link.ask_all(requests).await?;
        if let Some(command) = first {
            self.change(&mut link, command).await?;
        }
        loop {
            let looks = !*self.hooks.loaded.borrow() && link.asked.is_empty();
            tokio::select! {
                effects = link.outbox.recv() => {
                    for effect in effects.ok_or(BrokerError::Stopping)? {
                        self.hear(&mut link, effect).await?;
                    }
                }
                command = self.changes.recv() => match command {
                    Some(command) => self.change(&mut link, command).await?,
                    None => return Err(BrokerError::Stopping),
                },
                () = sleep(HOOK_LOOK), if looks => link.ask(store::look(), Some(Asked::Looked)).await?,
            }
        }
    }

    /// Whether the queue of subscriptions is there.
    async fn is_kept(&self) -> Result<bool, BrokerError> {
        let http = &self.hooks.http;
        match http.broker.call(&store::keeper(), &http.vhost, store::look()).await {
            Ok(_) => Ok(true),
            Err(BrokerError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn hear(&mut self, link: &mut Link, effect: Effect) -> Result<(), BrokerError> {
        match effect {
            Effect::Delivery(delivery) => self.found(link, &delivery).await,
            Effect::Reply(id, result) => match (link.asked.remove(&id), result) {
                (Some(Asked::Written(id)), Err(error)) => {
                    self.not_written(&id, error.into());
                    Ok(())
                }
                (Some(Asked::Written(id)), Ok(reply)) if !store::is_kept(&reply) => {
                    self.not_written(&id, unavailable());
                    Ok(())
                }
                (Some(Asked::GroupDeleted(id)), _) => self.ended(link, &id).await,
                (Some(Asked::Looked), Ok(reply)) => {
                    self.hooks.loaded.send_if_modified(|loaded| {
                        *loaded = store::is_handed_out(&reply);
                        *loaded
                    });
                    Ok(())
                }
                // the queue is somebody else's, or holds other messages
                (None | Some(Asked::Looked), Err(error)) => Err(error),
                _ => Ok(()),
            },
            Effect::Cancelled { reason, .. } => {
                self.lost = reason == CancelReason::QueueDeleted;
                tracing::warn!(
                    "the queue {} is gone; subscriptions of web hooks are written again",
                    store::QUEUE
                );
                let vhost = self.hooks.http.vhost.clone();
                let name = Name::from_static(store::QUEUE);
                Err(BrokerError::NotFound { kind: framegate_broker::Kind::Queue, name, vhost })
            }
            _ => Ok(()),
        }
    }

    /// A version that is on disk.
    async fn found(&mut self, link: &mut Link, delivery: &Delivery) -> Result<(), BrokerError> {
        link.connection.written(delivery.window_bytes());
        let Position::Queue(seq) = delivery.position else { return Ok(()) };
        let Some(record) = store::read(delivery) else {
            tracing::warn!(
                "a message in {} is no subscription of this gateway's; it is dropped",
                store::QUEUE
            );
            return link.ask(store::forget(vec![seq]), None).await;
        };
        let slot = self.slots.entry(record.id.clone()).or_default();
        let is_older = slot.record.as_ref().is_some_and(|known| known.version > record.version);
        if is_older {
            return link.ask(store::forget(vec![seq]), None).await;
        }
        let stale = slot.seq.replace(seq);
        let written = slot.writing.take_if(|(writing, _)| writing.version == record.version);
        if written.is_some() {
            slot.replaces = None;
        }
        self.apply(Arc::new(record), link).await?;
        if let Some((_, Some(written))) = written {
            let _ = written.send(Ok(()));
        }
        match stale {
            Some(stale) => link.ask(store::forget(vec![stale]), None).await,
            None => Ok(()),
        }
    }

    fn not_written(&mut self, id: &str, problem: Problem) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.seq = slot.seq.or(slot.replaces.take());
        if let Some((_, Some(written))) = slot.writing.take() {
            let _ = written.send(Err(problem));
        }
        if slot.record.is_none() {
            self.slots.remove(id);
        }
    }

    async fn change(&mut self, link: &mut Link, command: Command) -> Result<(), BrokerError> {
        let (record, written) = match command {
            Command::Put(record, written) => (*record, Some(written)),
            Command::Delete(id, written) => {
                let slot = self.slots.get_mut(&id);
                let Some((slot, record)) =
                    slot.and_then(|slot| slot.record.clone().map(|record| (slot, record)))
                else {
                    let _ = written.send(Err(missing()));
                    return Ok(());
                };
                slot.ended = Some(written);
                (record.with(Status::Deleting), None)
            }
            Command::Disable { id, version, reason } => {
                let record = self.slots.get(&id).and_then(|slot| slot.record.clone());
                let Some(record) = record.filter(|record| record.version == version) else { return Ok(()) };
                Counters::add(&COUNTERS.disabled, 1);
                tracing::warn!(webhook = %id, reason, sink = %record.spec.sink, "a web hook is disabled");
                (record.with(Status::Disabled { reason: reason.to_owned(), at_ms: now_ms() }), None)
            }
        };
        let id = record.id.clone();
        let refuse = |written: Option<Written>, problem| {
            if let Some(written) = written {
                let _ = written.send(Err(problem));
            }
        };
        let most = self.hooks.settings.subscriptions_max;
        if !self.slots.contains_key(&id) && self.slots.len() >= most {
            refuse(
                written,
                Problem::new(429, "limit", format!("there are at most {most} web-hook subscriptions")),
            );
            return Ok(());
        }
        let slot = self.slots.entry(id.clone()).or_default();
        let follows = slot.record.as_ref().map_or(1, |known| known.version + 1) == record.version;
        if slot.writing.is_some() || !follows {
            let conflict = || Problem::new(409, "conflict", "the subscription was changed meanwhile");
            refuse(written, conflict());
            refuse(slot.ended.take(), conflict());
            return Ok(());
        }
        let record = Arc::new(record);
        match store::put(&record, slot.seq) {
            Ok(request) => {
                slot.replaces = slot.seq.take();
                slot.writing = Some((record, written));
                link.ask(request, Some(Asked::Written(id))).await
            }
            Err(detail) => {
                refuse(written, Problem::new(400, "bad_request", detail));
                Ok(())
            }
        }
    }

    /// A version is in force: the table shows it, and its worker runs or does not.
    async fn apply(&mut self, record: Arc<Record>, link: &mut Link) -> Result<(), BrokerError> {
        let history = self.hooks.show(&record);
        let Some(slot) = self.slots.get_mut(&record.id) else { return Ok(()) };
        slot.record = Some(Arc::clone(&record));
        // the old one ends with what it has under way
        slot.worker = None;
        match &record.status {
            Status::Active => {
                match self.hooks.post(&record.spec).and_then(|post| Ok((post, record.spec.filters()?))) {
                    Ok((post, filters)) => {
                        let (stop, stopped) = watch::channel(false);
                        slot.worker = Some(stop);
                        let after = self.hooks.settings.disable_after_s;
                        let job = Job {
                            record,
                            broker: self.hooks.http.broker.clone(),
                            vhost: self.hooks.http.vhost.clone(),
                            headers: Arc::clone(&self.headers),
                            post: Arc::new(post),
                            filters,
                            history,
                            stop: stopped,
                            stopping: self.hooks.http.stopping.clone(),
                            tell: self.hooks.commands.clone(),
                            disable_after: (after > 0).then(|| Duration::from_secs(after)),
                        };
                        tokio::spawn(job.run());
                        Ok(())
                    }
                    Err(problem) => {
                        tracing::warn!(webhook = %record.id, detail = %problem.detail, "a web hook does not run under the settings of now");
                        Ok(())
                    }
                }
            }
            Status::Deleting => {
                self.hooks.hide(&record.id);
                let (topic, group) = (Name::topic(&record.spec.config.topic), record.group_name());
                let (Ok(topic), Some(group)) = (topic, group) else {
                    return self.ended(link, &record.id).await;
                };
                let request = Request::Define(Define::DeleteGroup { topic, group });
                link.ask(request, Some(Asked::GroupDeleted(record.id.clone()))).await
            }
            Status::Pending { .. } | Status::Paused | Status::Disabled { .. } => Ok(()),
        }
    }

    /// A subscription whose group is gone: nothing is left of it.
    async fn ended(&mut self, link: &mut Link, id: &str) -> Result<(), BrokerError> {
        let Some(slot) = self.slots.remove(id) else { return Ok(()) };
        self.hooks.hide(id);
        if let Some(ended) = slot.ended {
            let _ = ended.send(Ok(()));
        }
        match slot.seq {
            Some(seq) => link.ask(store::forget(vec![seq]), None).await,
            None => Ok(()),
        }
    }
}

pub(crate) fn missing() -> Problem {
    Problem::new(404, "not_found", "there is no such web-hook subscription")
}

pub(crate) fn unavailable() -> Problem {
    let problem = Problem::new(503, "draining", "subscriptions of web hooks cannot be changed now");
    Problem { retry_after_s: Some(5), ..problem }
}
