//! Jobs as the log knows them: one entry for each, found by id and by the place of its message. An entry goes when its message
//! goes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use crate::ids::{QueueId, Seq};
use crate::job::{Job, JobCare, JobId, JobOrder, JobPhase, JobRules};
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

/// Jobs as a snapshot shares them.
#[derive(Debug, Clone)]
pub(super) struct FrozenJobs {
    pub(super) tables: Vec<Arc<Table>>,
    pub(super) paused: BTreeSet<QueueId>,
    pub(super) rules: BTreeMap<QueueId, JobRules>,
    pub(super) cares: BTreeMap<QueueId, JobCare>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Jobs {
    tables: Vec<Arc<Table>>,
    /// Jobs by the number of their message.
    places: HashMap<QueueId, BTreeMap<u64, (Name, JobId)>>,
    /// Jobs of a queue, by phase, in the order in which they are listed.
    of_queue: BTreeMap<QueueId, OfQueue>,
    /// Completed jobs of a vhost, oldest first.
    completed: BTreeMap<Name, BTreeSet<JobOrder>>,
    paused: BTreeSet<QueueId>,
    /// Of queues that have some.
    rules: BTreeMap<QueueId, JobRules>,
    /// Of queues that have another than the usual one.
    cares: BTreeMap<QueueId, JobCare>,
}

/// Jobs of one phase behind one of them.
fn range(phase: JobPhase, after: Option<&JobOrder3>) -> (Bound<JobOrder3>, Bound<JobOrder3>) {
    let least = |phase| (phase, 0, JobId::from(""));
    let end = match phase {
        JobPhase::Queued => Bound::Excluded(least(JobPhase::Completed)),
        JobPhase::Completed => Bound::Excluded(least(JobPhase::Failed)),
        JobPhase::Failed => Bound::Unbounded,
    };
    let begin = after.filter(|after| after.0 == phase).cloned();
    (begin.map_or(Bound::Included(least(phase)), Bound::Excluded), end)
}

#[derive(Debug, Default)]
struct OfQueue {
    vhost: Name,
    listed: BTreeSet<JobOrder3>,
    /// Those that have ended: phase, when, id.
    ended: BTreeSet<JobOrder3>,
    counts: [u64; 3],
    keys: HashMap<Arc<str>, JobId>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            tables: vec![Arc::default(); TABLES],
            places: HashMap::new(),
            of_queue: BTreeMap::new(),
            completed: BTreeMap::new(),
            paused: BTreeSet::new(),
            rules: BTreeMap::new(),
            cares: BTreeMap::new(),
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
        self.find(&(vhost.clone(), Arc::clone(id)))
    }

    fn find(&self, key: &(Name, JobId)) -> Option<&Arc<JobEntry>> {
        self.tables.get(self.table(key))?.get(key)
    }

    /// The job whose message stands there.
    pub(crate) fn at(&self, queue: QueueId, seq: u64) -> Option<&Arc<JobEntry>> {
        let (vhost, id) = self.places.get(&queue)?.get(&seq)?;
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

    /// Jobs of a queue in one phase behind one of them, by creation.
    pub(crate) fn list<'a>(
        &'a self,
        queue: QueueId,
        phase: JobPhase,
        after: Option<&JobOrder3>,
    ) -> impl DoubleEndedIterator<Item = &'a JobOrder3> + use<'a> {
        let range = range(phase, after);
        self.of_queue.get(&queue).into_iter().flat_map(move |of| of.listed.range(range.clone()))
    }

    /// Jobs of a queue that have ended that way behind one of them, by the time of their end.
    pub(crate) fn ended<'a>(
        &'a self,
        queue: QueueId,
        phase: JobPhase,
        after: Option<&JobOrder3>,
    ) -> impl DoubleEndedIterator<Item = &'a JobOrder3> + use<'a> {
        let range = range(phase, after);
        self.of_queue.get(&queue).into_iter().flat_map(move |of| of.ended.range(range.clone()))
    }

    /// Places of a queue's jobs that have ended.
    pub(crate) fn places_of_ended(&self, queue: QueueId) -> Vec<(QueueId, Seq)> {
        let Some(of) = self.of_queue.get(&queue) else { return Vec::new() };
        let entry = |id: &JobId| self.find(&(of.vhost.clone(), Arc::clone(id)));
        of.ended.iter().filter_map(|(.., id)| Some(entry(id)?.place)).collect()
    }

    /// Places of jobs whose message is not there.
    pub(crate) fn lost(&self, is_there: impl Fn(QueueId, u64) -> bool) -> Vec<(QueueId, Seq)> {
        let all = self.places.iter().flat_map(|(queue, of)| of.keys().map(|seq| (*queue, *seq)));
        all.filter(|(queue, seq)| !is_there(*queue, *seq)).map(|(queue, seq)| (queue, Seq(seq))).collect()
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

    /// How fast jobs of a queue are handed out, when anything limits it.
    pub(crate) fn rules(&self, queue: QueueId) -> Option<&JobRules> {
        self.rules.get(&queue)
    }

    /// How fast jobs of a queue are handed out from now on.
    pub(super) fn rule(&mut self, queue: QueueId, rules: JobRules) {
        self.of_queue.entry(queue).or_default();
        match rules == JobRules::default() {
            true => self.rules.remove(&queue),
            false => self.rules.insert(queue, rules),
        };
    }

    /// What becomes of jobs of a queue whose workers are silent, and of dead ones.
    pub(crate) fn care(&self, queue: QueueId) -> JobCare {
        self.cares.get(&queue).copied().unwrap_or_default()
    }

    /// The same from now on.
    pub(super) fn care_for(&mut self, queue: QueueId, care: JobCare) {
        self.of_queue.entry(queue).or_default();
        match care == JobCare::default() {
            true => self.cares.remove(&queue),
            false => self.cares.insert(queue, care),
        };
    }

    /// A job is this from now on.
    pub(super) fn put(&mut self, entry: JobEntry) {
        let key = (entry.vhost.clone(), Arc::clone(&entry.job.id));
        self.forget(&key);
        self.places.entry(entry.place.0).or_default().insert(entry.place.1.0, key.clone());
        let of = self.of_queue.entry(entry.home).or_default();
        of.vhost = entry.vhost.clone();
        let job = &entry.job;
        if let (Some(finished_ms), true) = (job.finished_ms, job.phase != JobPhase::Queued) {
            of.ended.insert((job.phase, finished_ms, Arc::clone(&job.id)));
        }
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
        if let Some(places) = self.places.get_mut(&entry.place.0) {
            places.remove(&entry.place.1.0);
            if places.is_empty() {
                self.places.remove(&entry.place.0);
            }
        }
        let job = &entry.job;
        if let Some(of) = self.of_queue.get_mut(&entry.home) {
            of.listed.remove(&(job.phase, job.created_ms, Arc::clone(&job.id)));
            of.counts[slot(job.phase)] -= 1;
            if let Some(finished_ms) = job.finished_ms {
                of.ended.remove(&(job.phase, finished_ms, Arc::clone(&job.id)));
            }
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
        while let Some(key) = self.places.get(&queue).and_then(|places| {
            places.range(first..first.saturating_add(len)).next().map(|(_, key)| key.clone())
        }) {
            self.forget(&key);
        }
    }

    /// A queue is gone, and all its jobs.
    pub(super) fn queue_gone(&mut self, queue: QueueId) {
        self.gone(queue, 0, u64::MAX);
        if let Some(of) = self.of_queue.get(&queue) {
            let keys: Vec<_> = of.listed.iter().map(|(.., id)| (of.vhost.clone(), Arc::clone(id))).collect();
            keys.iter().for_each(|key| self.forget(key));
        }
        self.of_queue.remove(&queue);
        self.paused.remove(&queue);
        self.rules.remove(&queue);
        self.cares.remove(&queue);
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
        for (queue, rules) in &self.rules {
            format!("{queue:?}{rules:?}").hash(hasher);
        }
        for (queue, care) in &self.cares {
            format!("{queue:?}{care:?}").hash(hasher);
        }
    }

    /// Shares the entries with a snapshot.
    pub(super) fn freeze(&self) -> FrozenJobs {
        FrozenJobs {
            tables: self.tables.clone(),
            paused: self.paused.clone(),
            rules: self.rules.clone(),
            cares: self.cares.clone(),
        }
    }
}
