//! Which event goes to which member, while there are both. What was decided about an event without a delivery (skipped,
//! too old) is one record for all of a slice.

use super::super::Core;
use super::super::live::Taker;
use super::MemberKey;
use crate::group::Distribution;
use crate::ids::{Offset, QueueId, Seq};
use crate::limits::{GROUP_GAP_MAX, SLICE_MESSAGES_MAX};
use crate::record::{SeqSet, Settled};
use crate::request::Effect;

impl Core {
    /// Delivers what can be delivered now.
    pub(in crate::fold) fn dispatch_group(&mut self, id: QueueId) {
        self.bury_events(id);
        let Some(group) = self.durable.group(id) else { return };
        let balanced = group.spec.distribution == Distribution::LoadBalance;
        if !balanced {
            self.assign(id);
        }
        let (mut idle, mut expired) = (Vec::new(), Vec::new());
        let mut done = false;
        for _ in 0..SLICE_MESSAGES_MAX {
            let Some((priority, taker)) = self.live.get_mut(&id).and_then(|l| l.pop_taker()) else {
                done = true;
                break;
            };
            let Some(key) = self.key_of_taker(taker) else { continue };
            let Some(offset) = self.next_for(id, key, balanced) else {
                idle.push((priority, taker));
                if balanced {
                    done = true;
                    break;
                }
                continue;
            };
            let able = match taker {
                Taker::Consumer(..) => self.member_can_take(id, key),
                Taker::Waiter(waiter) => self.still_waits(waiter),
            };
            if !able {
                continue;
            }
            if self.is_too_old(id, offset) {
                self.take_offset(id, key, offset, balanced);
                expired.push(Seq(offset));
                if let Some(live) = self.live.get_mut(&id) {
                    live.rejoin(priority, taker);
                }
                continue;
            }
            if !self.is_resident(id, offset) {
                idle.push((priority, taker));
                self.load_group(id);
                if balanced {
                    done = true;
                    break;
                }
                continue;
            }
            match taker {
                Taker::Consumer(connection, _) => {
                    if let Some(delivery) = self.hand_over(id, offset, key, balanced, None) {
                        self.push_effect(connection, Effect::Delivery(delivery));
                    }
                    if let Some(live) = self.live.get_mut(&id) {
                        live.join(priority, taker);
                    }
                }
                Taker::Waiter(waiter) => self.serve_group(id, waiter, balanced),
            }
        }
        if let Some(live) = self.live.get_mut(&id) {
            for (priority, taker) in idle.into_iter().rev() {
                live.rejoin(priority, taker);
            }
        }
        let progress = !expired.is_empty();
        self.settle_group(id, &SeqSet::from_unsorted(expired), Settled::Expired);
        // room for more to be chosen, or the slice was not enough
        if !done || (!balanced && progress) {
            self.mark_dirty(id);
        }
    }

    fn key_of_taker(&self, taker: Taker) -> Option<MemberKey> {
        match taker {
            Taker::Consumer(connection, consumer) => Some((connection, consumer)),
            Taker::Waiter(waiter) => self.waiters.get(&waiter).map(|w| (w.connection, w.fetch.consumer)),
        }
    }

    /// The next event of the group in order that is not settled, may be seen and waits for nothing. None as well while so
    /// many offsets above the floor are in use that the group pauses.
    pub(super) fn next_offset(&self, id: QueueId) -> Option<u64> {
        let (group, topic) = self.group_and_topic(id)?;
        let live = self.groups.live.get(&id)?;
        if let Some(offset) = live.returned.first() {
            return Some(*offset);
        }
        let mut offset = group.next_open(live.cursor);
        while live.due.contains_key(&offset) {
            offset = group.next_open(offset + 1);
        }
        if offset >= group.floor() + GROUP_GAP_MAX {
            return None;
        }
        let entry = topic.entries.get(offset)?;
        (entry.lsn <= self.durable_to.0).then_some(offset)
    }

    pub(super) fn next_for(&self, id: QueueId, key: MemberKey, balanced: bool) -> Option<u64> {
        if balanced {
            return self.next_offset(id);
        }
        self.groups.live.get(&id)?.members.get(&key)?.assigned.first().copied()
    }

    /// It stands nowhere until the caller says where.
    pub(super) fn take_offset(&mut self, id: QueueId, key: MemberKey, offset: u64, balanced: bool) {
        if !balanced {
            if let Some(group) = self.groups.live.get_mut(&id)
                && group.members.get_mut(&key).is_some_and(|m| m.assigned.remove(&offset))
            {
                group.assigned -= 1;
            }
            return;
        }
        self.pass_offset(id, offset);
    }

    /// Takes an offset out of those that are ready for anybody.
    pub(super) fn pass_offset(&mut self, id: QueueId, offset: u64) {
        if let Some(live) = self.groups.live.get_mut(&id)
            && !live.returned.remove(&offset)
        {
            live.cursor = offset + 1;
            live.passed = live.passed.max(live.cursor);
            self.delivered.insert(id);
        }
    }

    /// By the group's time to live or its own, it is not delivered (again).
    pub(super) fn is_too_old(&self, id: QueueId, offset: u64) -> bool {
        let Some((group, topic)) = self.group_and_topic(id) else { return false };
        let expires = topic.expires_at_ms(Offset(offset));
        let time_ms = topic.entries.get(offset).map_or(0, |e| e.time_ms);
        let old = group.spec.ttl_ms.is_some_and(|ttl| time_ms.saturating_add(ttl) <= self.now.wall_ms);
        old || (expires != 0 && expires <= self.now.wall_ms)
    }
}
