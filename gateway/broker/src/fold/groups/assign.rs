//! Whom an event is for, in groups where a member is chosen before it has credit.

use super::super::Core;
use super::sticky::{hash_of, key_of, weight};
use super::{GroupLive, MemberKey};
use crate::group::Distribution;
use crate::ids::{Offset, QueueId, Seq};
use crate::limits::{GROUP_ASSIGNED_MAX, SLICE_MESSAGES_MAX};
use crate::record::{SeqSet, Settled};

/// Whom an event is for.
enum Choice {
    Member(MemberKey),
    Nobody,
}

impl Core {
    /// Chooses members for the next events, as long as few enough wait for theirs.
    pub(super) fn assign(&mut self, id: QueueId) {
        let Some(distribution) = self.durable.group(id).map(|g| g.spec.distribution.clone()) else { return };
        let (mut skipped, mut expired) = (Vec::new(), Vec::new());
        for _ in 0..SLICE_MESSAGES_MAX {
            let Some(group) = self.groups.live.get(&id) else { return };
            if group.members.is_empty() || group.assigned >= GROUP_ASSIGNED_MAX {
                break;
            }
            let Some(offset) = self.next_offset(id) else { break };
            if self.is_too_old(id, offset) {
                self.pass_offset(id, offset);
                expired.push(Seq(offset));
                continue;
            }
            if !self.is_resident(id, offset) {
                self.load_group(id);
                break;
            }
            let Some(choice) = self.choose(id, offset, &distribution) else { break };
            self.pass_offset(id, offset);
            match choice {
                Choice::Nobody => skipped.push(Seq(offset)),
                Choice::Member(key) => {
                    let Some(group) = self.groups.live.get_mut(&id) else { return };
                    group.turn += 1;
                    if let Some(member) = group.members.get_mut(&key) {
                        member.assigned.insert(offset);
                        member.turn = group.turn;
                        group.assigned += 1;
                    }
                }
            }
        }
        let more = skipped.len() + expired.len() > 0;
        self.settle_group(id, &SeqSet::from_unsorted(skipped), Settled::Skipped);
        self.settle_group(id, &SeqSet::from_unsorted(expired), Settled::Expired);
        if more {
            self.mark_dirty(id);
        }
    }

    fn choose(&self, id: QueueId, offset: u64, distribution: &Distribution) -> Option<Choice> {
        let (_, topic) = self.group_and_topic(id)?;
        let group = self.groups.live.get(&id)?;
        let frame = self.live.get(&id)?.frames.get(&offset)?;
        let envelope = topic.envelope(Offset(offset));
        let everybody = || group.members.keys().copied();
        Some(match distribution {
            Distribution::Sticky(source) => match key_of(source, &envelope, frame, &self.shared.headers) {
                Some(key) => Choice::Member(strongest(group, key)?),
                None => Choice::Member(self.least_loaded(group, everybody())?),
            },
            Distribution::Filtered => {
                let takes = |key: &MemberKey| {
                    group.members.get(key).is_some_and(|m| {
                        m.filter.as_ref().is_none_or(|filter| filter.matches(&envelope, frame))
                    })
                };
                self.least_loaded(group, everybody().filter(takes)).map_or(Choice::Nobody, Choice::Member)
            }
            Distribution::LoadBalance => Choice::Member(self.least_loaded(group, everybody())?),
        })
    }

    /// Of some members the one that holds and waits for the least; of equals, the one that has waited longest for its turn.
    fn least_loaded(&self, group: &GroupLive, members: impl Iterator<Item = MemberKey>) -> Option<MemberKey> {
        members.min_by_key(|key| {
            let held = self.connections.get(&key.0).and_then(|c| c.consumers.get(&key.1));
            let held = held.map_or(0, |c| c.held.len());
            let (assigned, turn) = group.members.get(key).map_or((0, 0), |m| (m.assigned.len(), m.turn));
            (held + assigned, turn)
        })
    }
}

/// The member that a key is drawn to most.
fn strongest(group: &GroupLive, key: u64) -> Option<MemberKey> {
    let identity = |(key, member): (&MemberKey, &super::MemberLive)| match &member.name {
        Some(name) => hash_of(name.as_bytes()),
        None => hash_of(&[key.0.0.to_le_bytes(), u64::from(key.1.0).to_le_bytes()].concat()),
    };
    let weighed = group.members.iter().map(|entry| (weight(key, identity(entry)), *entry.0));
    weighed.max().map(|(_, member)| member)
}
