//! What each piece of the log still holds, counted from a frozen state, and which pieces are worth emptying. Pure.

use framegate_storage::{BodyRef, Extent, Pos};

use crate::state::{Frozen, Placed};

/// Messages and events of one round that are written again at most; the rest waits for the next snapshot.
const SURVIVORS_MAX: usize = 256 * 1024;

/// A body in a piece of the log that is mostly dead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Survivor {
    /// Whose.
    pub(crate) what: Placed,
    /// Where it stands.
    pub(crate) body: BodyRef,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Messages and events in the state.
    pub(crate) entries: u64,
    /// Their bytes, those in the newest piece included. A body that several queues share counts for each.
    pub(crate) live_bytes: u64,
    /// When it was made, ms since the Unix epoch.
    pub(crate) time_ms: u64,
    /// Pieces that hold nothing.
    pub(crate) released: u64,
    /// Pieces that could not be given back.
    pub(crate) unreleased: u64,
    /// Some of them can only go after one more snapshot.
    pub(crate) follow: bool,
    /// What is to be written again.
    pub(crate) survivors: Vec<Survivor>,
    /// Live bytes of each piece.
    live: Vec<u64>,
}

impl Survey {
    /// Counts.
    pub(crate) fn new(extents: &[Extent], states: &[&Frozen]) -> Self {
        let mut survey = Self { live: vec![0; extents.len()], ..Self::default() };
        let mut last = 0;
        for state in states {
            state.bodies(&mut |_, body| {
                survey.entries += 1;
                survey.live_bytes += u64::from(body.len);
                if let Some(at) = find(extents, body.block, last) {
                    survey.live[at] += u64::from(body.len);
                    last = at;
                }
            });
        }
        for (live, extent) in survey.live.iter_mut().zip(extents) {
            *live = (*live).min(extent.bytes);
        }
        survey
    }

    /// Each piece with the bytes that live in it.
    pub(crate) fn live(&self, extents: &[Extent]) -> Vec<(Extent, u64)> {
        extents.iter().copied().zip(self.live.iter().copied()).collect()
    }

    /// The pieces below `upto` that hold nothing. The state knows nothing of what was written from there on: such a piece
    /// only looks empty.
    pub(crate) fn dead<'e>(&self, extents: &'e [Extent], upto: Pos) -> Vec<&'e Extent> {
        let known = extents.iter().zip(&self.live).filter(|(extent, _)| extent.end <= upto);
        known.filter(|(_, live)| **live == 0).map(|(extent, _)| extent).collect()
    }

    /// While the log takes more than twice what lives in it and two pieces: the emptiest pieces first, never one that is
    /// more than half full. So what is written again is at most what was written. Only pieces below `upto` are emptied.
    pub(crate) fn choose(&mut self, extents: &[Extent], upto: Pos, states: &[&Frozen]) {
        let disk: u64 = extents.iter().map(|e| e.bytes).sum();
        let largest = extents.iter().map(|e| e.bytes).max().unwrap_or(0);
        let live: u64 = self.live.iter().sum();
        let dead: u64 =
            extents.iter().zip(&self.live).filter(|(_, live)| **live == 0).map(|(e, _)| e.bytes).sum();
        let mut surplus = (disk - dead).saturating_sub(2 * live + 2 * largest);
        let mut order: Vec<usize> = (0..extents.len())
            .filter(|at| {
                let (extent, live) = (&extents[*at], self.live[*at]);
                live > 0 && live <= extent.bytes / 2 && extent.end <= upto
            })
            .collect();
        order.sort_by_key(|at| self.live[*at] * 1024 / extents[*at].bytes.max(1));
        let mut chosen = vec![false; extents.len()];
        for at in order {
            if surplus == 0 {
                break;
            }
            chosen[at] = true;
            surplus = surplus.saturating_sub(extents[at].bytes - self.live[at]);
        }
        if !chosen.contains(&true) {
            return;
        }
        let mut last = 0;
        for state in states {
            state.bodies(&mut |what, body| {
                let Some(at) = find(extents, body.block, last) else { return };
                last = at;
                if chosen[at] && self.survivors.len() < SURVIVORS_MAX {
                    self.survivors.push(Survivor { what, body });
                }
            });
        }
        // in the order in which they stand: read in one go, and those of one body side by side
        self.survivors.sort_by_key(|s| (s.body.block, s.body.offset));
    }
}

/// The piece in which a block stands; `hint` is looked at first.
fn find(extents: &[Extent], block: Pos, hint: usize) -> Option<usize> {
    let holds = |at: &usize| extents.get(*at).is_some_and(|e| (e.first..e.end).contains(&block));
    Some(hint)
        .filter(holds)
        .or_else(|| extents.partition_point(|e| e.first <= block).checked_sub(1).filter(holds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;

    #[test]
    fn a_piece_that_was_closed_after_the_state_was_frozen_is_not_dead() {
        let extent = |n: u64| Extent { first: Pos(n * 100), end: Pos(n * 100 + 100), bytes: 100 };
        let extents = [extent(0), extent(1), extent(2)];
        let frozen = State::default().freeze();
        let survey = Survey::new(&extents, &[&frozen]);
        let dead = |upto| survey.dead(&extents, Pos(upto)).iter().map(|e| e.first.0).collect::<Vec<_>>();
        assert_eq!(dead(150), [0], "the second was written on, the third is newer");
        assert_eq!(dead(200), [0, 100]);
    }
}
