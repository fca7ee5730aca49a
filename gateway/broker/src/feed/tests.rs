//! Feeds against a store that is a list: every interleaving of publishing, evicting, reading, replaying and
//! giving up is a seed. Frames are large and shared, so that a ring holds four of them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use framegate_frame::{Frame, FrameKind, Limits};
use framegate_storage::{Generation, Lsn};

use super::{
    Cursor, FeedEvent, FeedItem, Hub, Page, PageFuture, Parts, Replay, RingBudget, Start, Subscription, Watch,
};
use crate::error::BrokerError;
use crate::ids::{Offset, TopicId, WatchId};
use crate::message::{Envelope, Origin, SharedEvent};
use crate::name::Name;

const GENERATION: Generation = Generation(9);
/// Frames of this size fill a ring with four.
const FRAME_BYTES: usize = 1_000_000;

/// An event at a log position; `origin.seq` tells events of one position apart.
pub(crate) fn event(position: u64, kept: bool) -> FeedEvent {
    numbered(position, position, kept)
}

fn numbered(seq: u64, position: u64, kept: bool) -> FeedEvent {
    static FRAME: LazyLock<Frame> = LazyLock::new(|| {
        Frame::build(FrameKind::Event, [("id", "1")], &vec![7; FRAME_BYTES], &Limits::GATEWAY).unwrap()
    });
    let topic = Name::from_static("t");
    let kept = kept.then_some((TopicId(1), Offset(position)));
    let cursor = Cursor { generation: GENERATION, position: Lsn(position) };
    let origin = Origin { vhost: Name::from_static("/"), name: topic.clone(), id: 1, seq };
    FeedEvent::new(topic, kept, cursor, Envelope::default(), FRAME.clone(), origin)
}

/// What the store keeps, and how its answers come.
#[derive(Default)]
struct Shelf {
    kept: Vec<SharedEvent>,
    visible: u64,
    gone_to: u64,
    /// Counts the times at which something went.
    gone_at: u64,
    /// Events of a page at most.
    page: usize,
    /// Answers wait until they are let go.
    held: bool,
    wakers: Vec<Waker>,
    pages: u32,
    fails: bool,
    /// Never gives anything.
    blind: bool,
}

#[derive(Clone, Default)]
struct Store(Arc<Mutex<Shelf>>);

impl Store {
    fn with<T>(&self, change: impl FnOnce(&mut Shelf) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn let_go(&self) {
        let wakers = self.with(|shelf| {
            shelf.held = false;
            std::mem::take(&mut shelf.wakers)
        });
        wakers.into_iter().for_each(Waker::wake);
    }

    fn answer(&self, after: Lsn, told: Lsn, events_max: usize) -> Result<Page, BrokerError> {
        self.with(|shelf| {
            shelf.pages += 1;
            if shelf.fails {
                return Err(BrokerError::StorageFailed);
            }
            if shelf.blind {
                return Ok(Page::default());
            }
            let above =
                shelf.kept.iter().filter(|event| event.cursor.position.0 > after.0.max(shelf.gone_to));
            let max = if shelf.page == 0 { events_max } else { shelf.page };
            let events: Vec<SharedEvent> = above.take(max).cloned().collect();
            let cut = events.len() == max;
            let last = events.last().map_or(Lsn(0), |event| event.cursor.position);
            let complete_to = if cut { last } else { Lsn(shelf.visible.max(after.0)) };
            let is_new = shelf.gone_to > after.0 && shelf.gone_at > told.0;
            let gone_to = is_new.then_some(Lsn(shelf.gone_to));
            Ok(Page { events, complete_to, gone_to, told: Lsn(shelf.gone_at) })
        })
    }
}

/// Takes its answer either when asked or when let go, so that pages are stale sometimes.
struct Answer {
    store: Store,
    after: Lsn,
    told: Lsn,
    events_max: usize,
    early: Option<Result<Page, BrokerError>>,
}

impl Future for Answer {
    type Output = Result<Page, BrokerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let held = self.store.with(|shelf| {
            if shelf.held {
                shelf.wakers.push(context.waker().clone());
            }
            shelf.held
        });
        if held {
            return Poll::Pending;
        }
        Poll::Ready(
            self.early.take().unwrap_or_else(|| self.store.answer(self.after, self.told, self.events_max)),
        )
    }
}

impl Replay for Store {
    fn page(&self, watch: WatchId, after: Lsn, told: Lsn, events_max: usize, _: usize) -> PageFuture {
        assert_eq!(watch, WatchId(1));
        let early = self
            .with(|shelf| shelf.held && shelf.pages % 2 == 0)
            .then(|| self.answer(after, told, events_max));
        Box::pin(Answer { store: self.clone(), after, told, events_max, early })
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A subscriber that is polled only after it was woken, each time with a future that is dropped when it has to wait.
struct Reader {
    subscription: Subscription,
    woken: Arc<Flag>,
    start: u64,
    seqs: Vec<u64>,
    positions: Vec<u64>,
    lost: Vec<(Option<String>, u64)>,
    /// Events published before it joined.
    joined_at: u64,
    over: bool,
}

impl Reader {
    fn poll(&mut self, max: usize) -> bool {
        if self.over || !self.woken.0.swap(false, Ordering::Relaxed) {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut into = Vec::new();
        let polled = pin!(self.subscription.next(&mut into, max)).poll(&mut Context::from_waker(&waker));
        assert!(into.len() <= max);
        match polled {
            Poll::Ready(more) => {
                self.woken.0.store(true, Ordering::Relaxed);
                self.over = !more;
                assert_eq!(more, !into.is_empty());
            }
            Poll::Pending => assert!(into.is_empty()),
        }
        for item in into {
            match item {
                FeedItem::Event(event) => {
                    self.seqs.push(event.origin.seq);
                    if event.kept.is_some() {
                        self.positions.push(event.cursor.position.0);
                    }
                }
                FeedItem::Lost { requested, resumed_from } => {
                    self.lost.push((requested, resumed_from.position.0));
                }
            }
        }
        polled.is_ready()
    }

    fn read_all(&mut self) {
        while self.poll(3) {}
    }
}

struct World {
    store: Store,
    watch: Arc<Watch>,
    seq: u64,
    position: u64,
    published: Vec<SharedEvent>,
    ended: Arc<AtomicU32>,
}

impl World {
    fn new() -> Self {
        let (store, watch) = (Store::default(), Watch::new(WatchId(1), Lsn(0), &Arc::default()));
        Self { store, watch, seq: 0, position: 0, published: Vec::new(), ended: Arc::default() }
    }

    fn publish(&mut self, kept: bool) {
        self.publish_quietly(kept);
        self.watch.wake();
    }

    fn publish_quietly(&mut self, kept: bool) {
        self.seq += 1;
        self.position += u64::from(kept) * (1 + self.seq % 3);
        let event = Arc::new(numbered(self.seq, self.position, kept));
        self.store.with(|shelf| {
            shelf.visible = self.position;
            shelf.kept.extend(kept.then(|| Arc::clone(&event)));
        });
        assert_eq!(self.watch.push([Arc::clone(&event)]), 1);
        self.published.push(event);
    }

    fn publish_kept(&mut self, count: u32) {
        (0..count).for_each(|_| self.publish(true));
    }

    fn subscribe(&self, start: Start) -> Reader {
        self.subscribe_with(start, None)
    }

    fn subscribe_with(&self, start: Start, lost: Option<(Option<String>, Cursor)>) -> Reader {
        let ended = Arc::clone(&self.ended);
        let subscription = Subscription::new(Parts {
            watch: Arc::clone(&self.watch),
            replay: Arc::new(self.store.clone()),
            start,
            lost,
            told: Lsn(0),
            generation: GENERATION,
            ended: Box::new(move |id| {
                assert_eq!(id, WatchId(1));
                ended.fetch_add(1, Ordering::Relaxed);
            }),
        });
        let start = match start {
            Start::Live => self.position,
            Start::After(position) => position.0,
        };
        assert_eq!(subscription.cursor(), Cursor { generation: GENERATION, position: Lsn(start) });
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        let (seqs, positions, lost) = (Vec::new(), Vec::new(), Vec::new());
        Reader { subscription, woken, start, seqs, positions, lost, joined_at: self.seq, over: false }
    }

    fn kept_above(&self, position: u64) -> Vec<u64> {
        let kept = self.published.iter().filter(|event| event.kept.is_some());
        kept.map(|event| event.cursor.position.0).filter(|at| *at > position).collect()
    }
}

/// A small generator; the seed is the test case.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn check(world: &World, reader: &Reader, seed: u64) {
    assert!(reader.seqs.is_sorted_by(|a, b| a < b), "seed {seed}: {:?}", reader.seqs);
    let reported = |position: &u64| reader.lost.iter().any(|(_, resumed_from)| position <= resumed_from);
    let missing = |position: &u64| !reader.positions.contains(position);
    for position in world.kept_above(reader.start).iter().filter(|position| missing(position)) {
        assert!(reported(position), "seed {seed}: {position} is missing, lost {:?}", reader.lost);
    }
    let live_only =
        world.published.iter().filter(|event| event.kept.is_none() && event.origin.seq > reader.joined_at);
    let live_missing = live_only.filter(|event| !reader.seqs.contains(&event.origin.seq)).count();
    assert!(live_missing == 0 || !reader.lost.is_empty(), "seed {seed}: {live_missing} live events vanished");
    let gone = world.store.with(|shelf| shelf.gone_to);
    assert!(
        live_missing > 0 || gone > 0 || reader.lost.is_empty(),
        "seed {seed}: {:?} for nothing",
        reader.lost
    );
    let read = reader.positions.last().copied().max(reader.lost.last().map(|(_, at)| *at)).unwrap_or(0);
    assert!(reader.subscription.cursor().position.0 >= read);
    assert!(reader.subscription.cursor().position.0 <= world.position.max(reader.start));
}

#[test]
fn nothing_is_missing_doubled_or_out_of_order_whatever_happens_when() {
    for seed in 1..=3000_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::new();
        let (live_only, trims) = (dice.roll(2) == 0, dice.roll(3) == 0);
        world.store.with(|shelf| shelf.page = 1 + dice.roll(6) as usize);
        let mut readers: Vec<Reader> = Vec::new();
        for _ in 0..120 {
            match dice.roll(12) {
                0 if readers.len() < 3 => {
                    let start = match dice.roll(3) {
                        0 => Start::Live,
                        _ => Start::After(Lsn(dice.roll(world.position + 1))),
                    };
                    readers.push(world.subscribe(start));
                }
                1 => world.store.with(|shelf| shelf.held = true),
                2 => world.store.let_go(),
                3 if trims => {
                    let upto = dice.roll(world.position + 1);
                    world.store.with(|shelf| {
                        shelf.gone_at += u64::from(upto > shelf.gone_to);
                        shelf.gone_to = shelf.gone_to.max(upto);
                    });
                }
                4..=7 => {
                    let kept = !live_only || dice.roll(3) > 0;
                    (0..1 + dice.roll(4)).for_each(|_| world.publish(kept));
                }
                _ => {
                    if let Some(count) = (readers.len() as u64).checked_sub(1) {
                        let at = dice.roll(count + 1) as usize;
                        readers[at].poll(1 + dice.roll(4) as usize);
                    }
                }
            }
        }
        world.store.let_go();
        for reader in &mut readers {
            reader.read_all();
            check(&world, reader, seed);
        }
        world.publish(false);
        world.publish(true);
        world.watch.close();
        for reader in &mut readers {
            reader.read_all();
            assert!(reader.over, "seed {seed}: closing ends everybody");
            assert_eq!(
                reader.positions.last(),
                Some(&world.position),
                "seed {seed}: what was left is read first"
            );
            check(&world, reader, seed);
        }
        let count = readers.len() as u32;
        drop(readers);
        assert_eq!(world.ended.load(Ordering::Relaxed), count);
    }
}

#[test]
fn a_short_absence_is_made_up_from_the_ring_without_reading_the_store() {
    let mut world = World::new();
    world.publish_kept(20);
    let cursor = world.kept_above(0)[17];
    let mut reader = world.subscribe(Start::After(Lsn(cursor)));
    reader.read_all();
    assert_eq!(reader.positions, world.kept_above(cursor));
    assert_eq!(world.store.with(|shelf| shelf.pages), 0);
    assert!(reader.lost.is_empty() && reader.subscription.resumed_exactly());
}

#[test]
fn what_is_published_during_a_replay_comes_once_and_after_it() {
    let mut world = World::new();
    world.publish_kept(10);
    world.store.with(|shelf| (shelf.held, shelf.page) = (true, 2));
    let mut reader = world.subscribe(Start::After(Lsn(0)));
    assert!(!reader.poll(10));
    world.publish(false);
    world.publish_kept(2);
    world.store.let_go();
    reader.read_all();
    assert_eq!(reader.seqs, (1..=13).collect::<Vec<_>>());
    let pages = world.store.with(|shelf| shelf.pages);
    world.publish(true);
    reader.read_all();
    assert_eq!((reader.seqs.len(), world.store.with(|shelf| shelf.pages)), (14, pages));
}

#[test]
fn an_event_that_was_live_only_before_joining_is_not_repeated() {
    let mut world = World::new();
    world.publish_kept(1);
    world.publish(false);
    world.publish_kept(1);
    let mut resumed = world.subscribe(Start::After(Lsn(0)));
    let mut live = world.subscribe(Start::Live);
    world.publish(false);
    resumed.read_all();
    live.read_all();
    assert_eq!((resumed.seqs, live.seqs), (vec![1, 3, 4], vec![4]));
}

#[test]
fn a_start_above_what_was_pushed_passes_over_what_is_below_it() {
    let mut world = World::new();
    world.publish_kept(2);
    let start = world.position + 4;
    let mut reader = world.subscribe(Start::After(Lsn(start)));
    world.publish_kept(4);
    reader.read_all();
    assert_eq!(reader.positions, world.kept_above(start));
    assert!(!reader.positions.is_empty() && reader.seqs.first() > Some(&3));
}

#[test]
fn a_slow_reader_falls_behind_the_ring_and_catches_up_from_the_store() {
    let mut world = World::new();
    let mut reader = world.subscribe(Start::Live);
    assert!(!reader.poll(10));
    world.publish_kept(30);
    reader.read_all();
    assert_eq!(reader.positions, world.kept_above(0));
    assert!(reader.lost.is_empty() && world.store.with(|shelf| shelf.pages) > 0);
}

#[test]
fn falling_below_retention_is_reported_once_before_the_next_event() {
    let mut world = World::new();
    let mut reader = world.subscribe(Start::Live);
    world.publish_kept(30);
    let gone_to = world.kept_above(0)[9];
    world.store.with(|shelf| (shelf.gone_to, shelf.gone_at, shelf.page) = (gone_to, 1, 3));
    assert!(reader.poll(1));
    assert_eq!((reader.lost.as_slice(), reader.seqs.as_slice()), (&[(None, gone_to)][..], &[][..]));
    assert_eq!(reader.subscription.cursor().position, Lsn(gone_to));
    reader.read_all();
    assert_eq!((reader.lost.len(), reader.positions), (1, world.kept_above(gone_to)));
}

#[test]
fn live_only_events_that_were_evicted_unread_are_reported_once() {
    let mut world = World::new();
    let mut reader = world.subscribe(Start::Live);
    world.publish_kept(2);
    reader.read_all();
    for _ in 0..10 {
        world.publish(false);
        world.publish(true);
    }
    reader.read_all();
    let position = world.kept_above(0)[1];
    assert_eq!(reader.lost, [(None, position)]);
    assert_eq!(reader.positions, world.kept_above(0), "what is kept is not lost");
    assert_eq!(reader.seqs[reader.seqs.len() - 4..], [19, 20, 21, 22], "what the ring holds is not lost");
    world.publish(false);
    reader.read_all();
    assert_eq!((reader.lost.len(), reader.seqs.last()), (1, Some(&23)));
}

#[test]
fn a_start_that_was_not_found_is_reported_first() {
    let mut world = World::new();
    world.publish_kept(3);
    let from = Cursor { generation: GENERATION, position: Lsn(1) };
    let mut reader = world.subscribe_with(Start::After(Lsn(1)), Some((Some("x.0:9".to_owned()), from)));
    assert!(!reader.subscription.resumed_exactly());
    assert!(reader.poll(1) && reader.seqs.is_empty());
    reader.read_all();
    assert_eq!(reader.lost, [(Some("x.0:9".to_owned()), 1)]);
    assert_eq!(reader.positions, world.kept_above(1));
}

#[test]
fn a_failing_store_ends_the_subscription_and_a_blind_one_does_not_spin() {
    let mut world = World::new();
    world.publish_kept(10);
    world.store.with(|shelf| shelf.fails = true);
    let mut reader = world.subscribe(Start::After(Lsn(0)));
    reader.read_all();
    assert!(reader.over && reader.seqs.is_empty());
    world.store.with(|shelf| (shelf.fails, shelf.blind) = (false, true));
    let mut reader = world.subscribe(Start::After(Lsn(0)));
    reader.read_all();
    assert_eq!((reader.lost.len(), reader.seqs.as_slice()), (1, &[7, 8, 9, 10][..]));
}

#[test]
fn closing_wakes_those_that_wait_for_events_and_those_that_wait_for_a_page() {
    let mut world = World::new();
    world.publish_kept(10);
    world.store.with(|shelf| shelf.held = true);
    let mut live = world.subscribe(Start::Live);
    let mut replaying = world.subscribe(Start::After(Lsn(0)));
    assert!(!live.poll(1) && !replaying.poll(1));
    world.watch.wake();
    assert!(!replaying.woken.0.load(Ordering::Relaxed), "an event is nothing to one that still replays");
    world.watch.close();
    live.read_all();
    replaying.read_all();
    assert!(live.over && replaying.over);
}

#[test]
fn a_place_given_up_is_used_again() {
    let mut world = World::new();
    for _ in 0..100 {
        let mut reader = world.subscribe(Start::Live);
        assert!(!reader.poll(1));
    }
    let mut reader = world.subscribe(Start::Live);
    assert!(!reader.poll(1));
    world.publish(true);
    reader.read_all();
    assert_eq!(reader.seqs, [1]);
    assert_eq!(world.ended.load(Ordering::Relaxed), 100);
}

#[test]
fn all_rings_together_stay_within_their_budget() {
    let budget = Arc::new(RingBudget::default());
    let watches: Vec<_> = (0..100).map(|id| Watch::new(WatchId(id), Lsn(0), &budget)).collect();
    for position in 1..=8 {
        let shared = Arc::new(event(position, true));
        watches.iter().for_each(|watch| assert_eq!(watch.push([Arc::clone(&shared)]), 1));
    }
    // One frame a ring is always kept; here that alone is more than the budget.
    assert!(budget.bytes() <= 101 * (FRAME_BYTES + 100), "{}", budget.bytes());
    drop(watches);
    assert_eq!(budget.bytes(), 0);
}

#[test]
fn many_tasks_on_threads_read_every_event() {
    const SUBSCRIBERS: usize = 200;
    const EVENTS: u64 = 300;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut world = World::new();
    let readers: Vec<_> = (0..SUBSCRIBERS).map(|_| world.subscribe(Start::Live).subscription).collect();
    let tasks: Vec<_> = readers
        .into_iter()
        .enumerate()
        .map(|(i, mut subscription)| {
            runtime.spawn(async move {
                let (mut into, mut seqs) = (Vec::new(), Vec::new());
                while subscription.next(&mut into, 1 + i % 7).await {
                    for item in into.drain(..) {
                        let FeedItem::Event(event) = item else { panic!("{item:?}") };
                        seqs.push(event.origin.seq);
                    }
                    if i % 5 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                seqs
            })
        })
        .collect();
    let hub = Hub::default();
    let mut running = runtime.spawn(hub.clone().run());
    for n in 1..=EVENTS {
        // whether the hub runs, has been dropped in the middle of its work, or runs again: nobody is forgotten
        if n == EVENTS / 3 {
            running.abort();
        } else if n == EVENTS / 2 {
            running = runtime.spawn(hub.clone().run());
        }
        world.publish_quietly(true);
        hub.wake(&world.watch);
    }
    // Closing ends a replay that is under way, so it comes when all have read all.
    runtime.block_on(async {
        while world.watch.waiting() < SUBSCRIBERS {
            tokio::task::yield_now().await;
        }
    });
    world.watch.close();
    for task in tasks {
        assert!(runtime.block_on(task).unwrap().into_iter().eq(1..=EVENTS));
    }
}
