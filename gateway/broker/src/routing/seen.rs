//! A set for one route: finds out whether something was met before. Stays on the stack while it is small, and does
//! not turn quadratic when it is large.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::hash::Seed;

/// Members up to which the set is a list.
const FEW_MAX: usize = 16;

/// Numbers met so far: ids, or addresses of parts of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Seen {
    few: SmallVec<[usize; FEW_MAX]>,
    many: HashSet<usize, Seed>,
}

impl Seen {
    /// True when `member` is met for the first time.
    pub(super) fn first(&mut self, member: usize) -> bool {
        if self.few.len() < FEW_MAX {
            if self.few.contains(&member) {
                return false;
            }
            self.few.push(member);
            return true;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.iter().copied());
        }
        self.many.insert(member)
    }

    /// As `first`, for a part of a snapshot, which is identified by where it is.
    pub(super) fn first_ref<T>(&mut self, part: &T) -> bool {
        self.first(std::ptr::from_ref(part).addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_every_member_before_and_after_it_grows() {
        let mut seen = Seen::default();
        for round in 0..2 {
            for member in 0..100 {
                assert_eq!(seen.first(member), round == 0, "{member}");
            }
        }
    }
}
