//! Answers in the order of their operations: each takes a place when it is read, and leaves when it and all before it are
//! there.

use std::collections::VecDeque;

use framegate_adaptor_api::Outbound;

/// The place of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

/// See the top of the file.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    waiting: VecDeque<Option<String>>,
    first: u64,
}

impl Answers {
    /// The next place.
    pub(crate) fn place(&mut self) -> Place {
        self.waiting.push_back(None);
        Place(self.first + self.waiting.len() as u64 - 1)
    }

    /// Puts an answer in its place; an empty text is no message.
    pub(crate) fn put(&mut self, place: Place, text: String) {
        let at = place.0.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if let Some(slot) = at.and_then(|at| self.waiting.get_mut(at)) {
            *slot = Some(text);
        }
    }

    /// Whether the answer has left.
    pub(crate) fn has_left(&self, place: Place) -> bool {
        place.0 < self.first
    }

    /// Answers that are still to come.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Writes what can leave. True: something did.
    pub(crate) fn flush(&mut self, out: &mut Outbound) -> bool {
        let before = self.first;
        while let Some(Some(_)) = self.waiting.front() {
            self.first += 1;
            let text = self.waiting.pop_front().flatten().unwrap_or_default();
            if !text.is_empty() {
                out.put(text.as_bytes());
                out.end_packet();
            }
        }
        self.first != before
    }
}

#[cfg(test)]
mod tests {
    use framegate_adaptor_api::Chunk;

    use super::*;

    #[test]
    fn answers_leave_in_the_order_of_their_places() {
        let (mut answers, mut out) = (Answers::default(), Outbound::default());
        let (a, b, c) = (answers.place(), answers.place(), answers.place());
        answers.put(b, "b".to_owned());
        assert!(!answers.flush(&mut out));
        answers.put(a, String::new());
        assert!(answers.flush(&mut out));
        assert_eq!(out.take_chunks(), [Chunk::Bytes("b".into()), Chunk::EndPacket]);
        assert!(answers.has_left(b) && !answers.has_left(c));
        assert_eq!(answers.len(), 1);
    }
}
