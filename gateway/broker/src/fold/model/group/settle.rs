//! What becomes of an event that a member had.

use super::{Group, GroupKey, Wait};
use crate::fold::model::Model;
use crate::ids::{ConnectionId, ConsumerId, Seq};
use crate::limits::UNDELIVERABLE_MAX;
use crate::message::DeathReason;
use crate::request::{Lease, Outcome};

impl Model {
    /// Whose leases of a group are meant; None when it is no group's.
    pub(in crate::fold::model) fn group_leases(
        &self,
        id: ConnectionId,
        lease: &Lease,
    ) -> Option<(GroupKey, Vec<u64>)> {
        match lease {
            Lease::Token(token) => self.world.groups.iter().find_map(|(key, group)| {
                let found = group.leases.iter().find(|(_, l)| l.token == Some(*token))?;
                Some((key.clone(), vec![*found.0]))
            }),
            Lease::Positions(consumer, seqs) => {
                let known = self.connections.get(&id)?.consumers.get(consumer)?;
                let key = self.group_of(known.incarnation)?;
                let mut offsets: Vec<u64> = seqs.iter().map(|s| s.0).collect();
                offsets.sort_unstable();
                offsets.dedup();
                Some((key, offsets))
            }
        }
    }

    /// Settles leases of a group, all of them or none.
    pub(in crate::fold::model) fn settle_group(
        &mut self,
        id: ConnectionId,
        lease: &Lease,
        key: &GroupKey,
        offsets: &[u64],
        outcome: Outcome,
    ) -> Result<u64, &'static str> {
        let mono_ms = self.now.mono_ms;
        let Some(group) = self.group_mut(key) else { return Err("unknown delivery") };
        if let Lease::Positions(consumer, _) = lease {
            let is_its = |offset: &u64| {
                group.leases.get(offset).is_some_and(|l| l.connection == id && l.consumer == *consumer)
            };
            if !offsets.iter().all(is_its) {
                return Err("unknown delivery");
            }
        }
        let count = offsets.len() as u64;
        if let Outcome::Extend { lease_ms } = outcome {
            for offset in offsets {
                if let Some(lease) = group.leases.get_mut(offset) {
                    lease.deadline_ms = Some(mono_ms + lease_ms);
                }
            }
            self.met("extended in a group");
            return Ok(count);
        }
        match outcome {
            Outcome::Ack => {
                for offset in offsets {
                    group.leases.remove(offset);
                }
                group.settle(offsets);
                self.met("acked in a group");
            }
            Outcome::Reject => {
                self.kill(key, offsets, DeathReason::Rejected);
                self.met("rejected in a group");
            }
            Outcome::Requeue { delay_ms: 0 } => self.fail_group(key, offsets, None),
            Outcome::Requeue { delay_ms } => self.fail_group(key, offsets, Some(delay_ms)),
            Outcome::Undeliverable => {
                let (mut again, mut dead) = (Vec::new(), Vec::new());
                for offset in offsets {
                    let times = group.undeliverable.entry(*offset).or_default();
                    *times += 1;
                    if *times >= UNDELIVERABLE_MAX {
                        group.undeliverable.remove(offset);
                        dead.push(*offset);
                    } else {
                        again.push(*offset);
                    }
                }
                self.kill(key, &dead, DeathReason::Undeliverable);
                self.fail_group(key, &again, Some(0));
            }
            Outcome::Extend { .. } => {}
        }
        Ok(count)
    }

    /// Deliveries of these failed. `wait_ms`: how long they wait; None: as the group's retry says.
    pub(in crate::fold::model) fn fail_group(
        &mut self,
        key: &GroupKey,
        offsets: &[u64],
        wait_ms: Option<u64>,
    ) {
        let wall_ms = self.now.wall_ms;
        let Some(group) = self.group_mut(key) else { return };
        let retry = group.spec.retry;
        let mut dead = Vec::new();
        for offset in offsets {
            group.leases.remove(offset);
            if !group.is_open(*offset) {
                continue;
            }
            let attempts = group.attempts(*offset) + 1;
            if retry.attempts_max != 0 && attempts >= retry.attempts_max {
                dead.push(*offset);
                continue;
            }
            let (least, most) = match wait_ms {
                Some(ms) => (ms, ms),
                None => {
                    let doublings = attempts.saturating_sub(1).min(40);
                    let wait = (retry.base_ms << doublings).min(retry.max_ms);
                    let part = wait * u64::from(retry.jitter_percent) / 100;
                    // rounded down at either end
                    ((wait - part).saturating_sub(1), wait + part)
                }
            };
            let at = |ms: u64| if ms == 0 { 0 } else { wall_ms + ms };
            group.failed.insert(*offset, Wait { attempts, least_ms: at(least), most_ms: at(most) });
        }
        self.met("failed in a group");
        self.kill(key, &dead, DeathReason::DeliveryLimit);
    }

    /// These go to the group's dead-letter topic, if it has one and they have not been there before.
    pub(in crate::fold::model) fn kill(&mut self, key: &GroupKey, offsets: &[u64], reason: DeathReason) {
        if offsets.is_empty() {
            return;
        }
        let is_dead_letter_topic =
            self.world.groups.values().any(|g| g.spec.dead_letter_topic.as_ref() == Some(&key.0));
        for offset in offsets {
            let nested = is_dead_letter_topic
                && self
                    .event_of(&key.0, *offset)
                    .is_some_and(|at| !self.events[at].envelope.deaths.is_empty());
            let Some(group) = self.group_mut(key) else { return };
            group.leases.remove(offset);
            if !group.is_open(*offset) {
                continue;
            }
            if nested {
                group.counts.dropped_nested += group.settle(&[*offset]);
                self.met("a dead letter that died again");
            } else if group.spec.dead_letter_topic.is_none() {
                group.counts.dropped += group.settle(&[*offset]);
                self.met("a dead event without a dead-letter topic");
            } else {
                group.dying.insert(*offset, reason);
            }
        }
    }

    /// Leases of a connection, or of one of its consumers, return. Gives how many.
    pub(in crate::fold::model) fn return_group_leases(
        &mut self,
        id: ConnectionId,
        consumer: Option<ConsumerId>,
    ) -> u64 {
        let mut count = 0;
        for key in self.group_keys() {
            let meant = |group: &Group| -> Vec<u64> {
                let of = |l: &crate::fold::model::Lease| {
                    l.connection == id && consumer.is_none_or(|c| c == l.consumer)
                };
                group.leases.iter().filter(|(_, l)| of(l)).map(|(offset, _)| *offset).collect()
            };
            let offsets = meant(&self.world.groups[&key]);
            if !offsets.is_empty() {
                count += offsets.len() as u64;
                self.met("leases of a group returned");
                self.fail_group(&key, &offsets, Some(0));
            }
        }
        count
    }

    /// What a connection holds of groups.
    pub(in crate::fold) fn group_held_by(
        &self,
        id: ConnectionId,
    ) -> Vec<(ConsumerId, Seq, Option<crate::ids::Token>)> {
        let leases = self.world.groups.values().flat_map(|g| &g.leases);
        let own = leases.filter(|(_, l)| l.connection == id);
        own.map(|(offset, l)| (l.consumer, Seq(*offset), l.token)).collect()
    }
}
