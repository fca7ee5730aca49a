//! What the core counts beside what is there: every message stands in one place, and every counter says so.

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::Overflow;
use crate::fold::{Core, DETACHED};
use crate::ids::{PoolId, QueueId, Seq};
use crate::state::is_group;

impl Core {
    /// Panics when a counter is wrong.
    pub(super) fn check_counters(&self) {
        let mut leased: BTreeMap<QueueId, BTreeSet<u64>> = BTreeMap::new();
        let (mut tokens, mut holders) = (0, 0);
        for (id, connection) in &self.connections {
            let mut used: BTreeMap<PoolId, u32> = BTreeMap::new();
            for (consumer_id, consumer) in &connection.consumers {
                let live = self.live.get(&consumer.queue);
                let known = live.is_none_or(|l| l.holders.contains(&(*id, *consumer_id)));
                assert!(known, "{consumer_id} of {id} is not known as a holder");
                holders += usize::from(live.is_some());
                for (seq, held) in &consumer.held {
                    assert!(leased.entry(consumer.queue).or_default().insert(*seq), "leased twice");
                    tokens += usize::from(held.token.is_some());
                }
                if let Some(pool) = consumer.pool {
                    *used.entry(pool).or_default() += consumer.held.len() as u32;
                }
            }
            for (pool, live) in &connection.pools {
                assert_eq!(live.used, used.get(pool).copied().unwrap_or(0), "pool {pool} of {id}");
            }
        }
        assert_eq!(self.tokens.len(), tokens, "tokens");
        assert_eq!(self.live.values().map(|l| l.holders.len()).sum::<usize>(), holders, "holders");
        let mut cached = 0;
        for (id, live) in &self.live {
            let leases = leased.remove(id).unwrap_or_default();
            assert_eq!(live.leased, leases.len() as u64, "leased in {id}");
            let entry = crate::fold::cache::ENTRY_BYTES;
            cached += live.frames.values().map(|f| f.as_bytes().len() + entry).sum::<usize>();
            let active = self.connections.values().flat_map(|c| c.consumers.values());
            let active = active.filter(|c| c.active && c.queue == *id).count();
            assert_eq!(live.consumers as usize, active, "consumers of {id}");
            if is_group(*id) {
                assert_eq!(live.held, live.leased + self.check_group(*id, &leases), "held in {id}");
                continue;
            }
            if self.is_park(*id) {
                continue;
            }
            let queue = self.state(*id).queue(*id).expect("a live queue has a state");
            let (mut count, mut bytes, mut out, mut weight) = (0, 0, 0, 0);
            for (seq, slot) in queue.slots.iter() {
                count += 1;
                bytes += u64::from(slot.len);
                assert!(slot.body().is_some() || live.frames.contains_key(&seq), "{seq} has no frame");
                let its = queue.weight(Seq(seq));
                let ready = live.ready.is_ready(seq, its.rank);
                weight += if ready { u64::from(its.bytes) } else { 0 };
                let places = [ready, leases.contains(&seq), live.dying.contains_key(&seq)];
                let places = places.into_iter().filter(|p| *p).count();
                assert!(places <= 1, "{seq} of {id} stands at several places");
                out += u64::from(!ready);
            }
            assert_eq!((queue.count, queue.bytes), (count, bytes), "messages of {id}");
            assert_eq!(live.held, out, "held in {id}");
            let upcoming: Vec<u64> = live.ready.upcoming(queue).collect();
            assert!(upcoming.iter().all(|s| queue.slots.get(*s).is_some()), "what is gone is not next");
            assert_eq!(live.ready.bytes(), weight, "bytes ready in {id}");
            let too_many = queue.spec.properties.length_max.is_some_and(|max| count - out > max);
            let drops = queue.spec.properties.overflow == Overflow::DropHead;
            assert!(!too_many || !drops || live.overfull, "{id} holds too many and nobody looks at it");
        }
        assert!(leased.is_empty(), "leases of queues that are gone");
        assert_eq!(self.cache.bytes(), cached, "bytes in memory");
        assert!(self.connections.contains_key(&DETACHED));
    }
}
