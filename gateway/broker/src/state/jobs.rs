//! Jobs as the log knows them: one entry for each, found by id and by the place of its message. An entry goes when its message
//! goes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use crate::ids::{QueueId, Seq};
use crate::job::{Job, JobId, JobOrder, JobPhase};
use crate::name::Name;

/// Tables that a snapshot shares: whoever changes one afterwards copies that one.
const TABLES: usize = 1024;

/// A job and where it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobEntry {
    pub(crate) vhost: Name,
    /// The queue that it is a job of.
    pub(crate) home: QueueId,
    /// Where its message is: there, or among those that are kept.
    pub(crate) place: (QueueId, Seq),
    pub(crate) job: Job,
}

/// A job in the list of its queue: phase, creation, id.
pub(crate) type JobOrder3 = (JobPhase, u64, JobId);

/// One table.
pub(crate) type Table = HashMap<(Name, JobId), Arc<JobEntry>, BuildHasherDefault<DefaultHasher>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Jobs {
    tables: Vec<Arc<Table>>,
    by_place: HashMap<(QueueId, u64), (Name, JobId)>,
    /// Jobs of a queue, by phase, in the order in which they are listed.
    of_queue: BTreeMap<QueueId, OfQueue>,
    /// Completed jobs of a vhost, oldest first.
    completed: BTreeMap<Name, BTreeSet<JobOrder>>,
    paused: BTreeSet<QueueId>,
}

#[derive(Debug, Default)]
struct OfQueue {
    listed: BTreeSet<JobOrder3>,
    counts: [u64; 3],
    keys: HashMap<Arc<str>, JobId>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            tables: vec![Arc::default(); TABLES],
            by_place: HashMap::new(),
            of_queue: BTreeMap::new(),
            completed: BTreeMap::new(),
            paused: BTreeSet::new(),
        }
    }
}

fn slot(phase: JobPhase) -> usize {
    match phase {
        JobPhase::Queued => 0,
        JobPhase::Completed => 1,
        JobPhase::Failed => 2,
    }
}

impl Jobs {
    fn table(&self, key: &(Name, JobId)) -> usize {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        usize::try_from(hash % TABLES as u64).unwrap_or(0)
    }

    /// A job by id.
    pub(crate) fn get(&self, vhost: &Name, id: &JobId) -> Option<&Arc<JobEntry>> {
        let key = (vhost.clone(), Arc::clone(id));
        self.tables.get(self.table(&key))?.get(&key)
    }

    /// The job whose message stands there.
    pub(crate) fn at(&self, queue: QueueId, seq: u64) -> Option<&Arc<JobEntry>> {
        if self.by_place.is_empty() {
            return None;
        }
        let (vhost, id) = self.by_place.get(&(queue, seq))?;
        self.get(vhost, id)
    }

    /// The queue has jobs, or had some.
    pub(crate) fn has(&self, queue: QueueId) -> bool {
        self.of_queue.contains_key(&queue)
    }

    /// Queues that have jobs, or had some.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.of_queue.keys().copied()
    }

    /// Jobs of a queue in one phase.
    pub(crate) fn count(&self, queue: QueueId, phase: JobPhase) -> u64 {
        self.of_queue.get(&queue).map_or(0, |of| of.counts[slot(phase)])
    }

    /// Jobs of a queue in one phase, by creation.
    pub(crate) fn list(
        &self,
        queue: QueueId,
        phase: JobPhase,
    ) -> impl DoubleEndedIterator<Item = &JobOrder3> {
        let least = |phase| (phase, 0, JobId::from(""));
        let end = match phase {
            JobPhase::Queued => Bound::Excluded(least(JobPhase::Completed)),
            JobPhase::Completed => Bound::Excluded(least(JobPhase::Failed)),
            JobPhase::Failed => Bound::Unbounded,
        };
        let of = self.of_queue.get(&queue).into_iter();
        of.flat_map(move |of| of.listed.range((Bound::Included(least(phase)), end.clone())))
    }

    /// The job that holds a key of a queue.
    pub(crate) fn holder(&self, queue: QueueId, key: &str) -> Option<&JobId> {
        self.of_queue.get(&queue)?.keys.get(key)
    }

    /// The oldest completed job of a vhost, when there are more than so many.
    pub(crate) fn surplus(&self, vhost: &Name, max: usize) -> Option<&JobId> {
        let completed = self.completed.get(vhost).filter(|completed| completed.len() > max)?;
        completed.first().map(|(_, id)| id)
    }

    pub(crate) fn is_paused(&self, queue: QueueId) -> bool {
        self.paused.contains(&queue)
    }

    /// A queue is held back, or no longer.
    pub(super) fn pause(&mut self, queue: QueueId, paused: bool) {
        self.of_queue.entry(queue).or_default();
        match paused {
            true => self.paused.insert(queue),
            false => self.paused.remove(&queue),
        };
    }

    /// A job is this from now on.
    pub(super) fn put(&mut self, entry: JobEntry) {
        let key = (entry.vhost.clone(), Arc::clone(&entry.job.id));
        self.forget(&key);
        self.by_place.insert((entry.place.0, entry.place.1.0), key.clone());
        let of = self.of_queue.entry(entry.home).or_default();
        let job = &entry.job;
        of.listed.insert((job.phase, job.created_ms, Arc::clone(&job.id)));
        of.counts[slot(job.phase)] += 1;
        if let (Some(unique), JobPhase::Queued) = (&job.terms.unique, job.phase) {
            of.keys.insert(Arc::clone(&unique.key), Arc::clone(&job.id));
        }
        if let (JobPhase::Completed, Some(finished_ms)) = (job.phase, job.finished_ms) {
            self.completed.entry(entry.vhost.clone()).or_default().insert((finished_ms, Arc::clone(&job.id)));
        }
        let at = self.table(&key);
        if let Some(table) = self.tables.get_mut(at) {
            Arc::make_mut(table).insert(key, Arc::new(entry));
        }
    }

    fn forget(&mut self, key: &(Name, JobId)) {
        let at = self.table(key);
        let Some(table) = self.tables.get_mut(at).filter(|table| table.contains_key(key)) else { return };
        let Some(entry) = Arc::make_mut(table).remove(key) else { return };
        self.by_place.remove(&(entry.place.0, entry.place.1.0));
        let job = &entry.job;
        if let Some(of) = self.of_queue.get_mut(&entry.home) {
            of.listed.remove(&(job.phase, job.created_ms, Arc::clone(&job.id)));
            of.counts[slot(job.phase)] -= 1;
            if let Some(unique) = &job.terms.unique
                && of.keys.get(&unique.key) == Some(&job.id)
            {
                of.keys.remove(&unique.key);
            }
        }
        if let (Some(completed), Some(finished_ms)) = (self.completed.get_mut(&entry.vhost), job.finished_ms)
        {
            completed.remove(&(finished_ms, Arc::clone(&job.id)));
        }
    }

    /// Messages are gone, and their jobs with them.
    pub(super) fn gone(&mut self, queue: QueueId, first: u64, len: u64) {
        if self.by_place.is_empty() {
            return;
        }
        for seq in first..first.saturating_add(len) {
            if let Some(key) = self.by_place.get(&(queue, seq)).cloned() {
                self.forget(&key);
            }
        }
    }

    /// A queue is gone, and all its jobs: gives the places of those that are kept elsewhere.
    pub(super) fn queue_gone(&mut self, queue: QueueId) {
        let keys: Vec<_> = self
            .tables
            .iter()
            .flat_map(|table| table.iter())
            .filter(|(_, entry)| entry.home == queue || entry.place.0 == queue)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.forget(&key);
        }
        self.of_queue.remove(&queue);
        self.paused.remove(&queue);
    }

    /// Hashes every entry, in the order of their ids.
    pub(super) fn hash_content(&self, hasher: &mut impl Hasher) {
        let mut entries: Vec<_> = self.tables.iter().flat_map(|table| table.values()).collect();
        entries.sort_unstable_by(|a, b| (&a.vhost, &a.job.id).cmp(&(&b.vhost, &b.job.id)));
        for entry in entries {
            format!("{entry:?}").hash(hasher);
        }
        for queue in &self.paused {
            queue.0.hash(hasher);
        }
    }

    /// Shares the entries with a snapshot.
    pub(super) fn freeze(&self) -> (Vec<Arc<Table>>, Vec<QueueId>) {
        (self.tables.clone(), self.paused.iter().copied().collect())
    }
}
