//! What the load shares: numbered bodies, and the check that each reader got every number once and in order.

use std::io;

/// Length of a body in bytes.
pub(crate) const BODY_BYTES: usize = 256;
/// Begins each body; nothing else that the servers write has a capital E.
const MARK: &[u8] = b"EVT";
const DIGITS: usize = 10;

/// The body of an event.
pub(crate) fn body(number: u64) -> Vec<u8> {
    let mut body = format!("EVT{number:010}").into_bytes();
    body.resize(BODY_BYTES, b'x');
    body
}

/// Finds the numbers in a byte stream.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    /// End of what was read before, shorter than a mark with its digits.
    carry: Vec<u8>,
    /// Number that comes next; the first one that comes may be any.
    pub(crate) next: u64,
    started: bool,
}

impl Finder {
    /// Takes what was read. Calls `found` for each number.
    ///
    /// # Errors
    /// A number is missing, doubled or out of order.
    pub(crate) fn take(&mut self, bytes: &[u8], mut found: impl FnMut(u64)) -> io::Result<()> {
        let joined;
        let mut rest = bytes;
        if !self.carry.is_empty() {
            self.carry.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.carry);
            rest = &joined;
        }
        while let Some(at) = rest.iter().position(|b| *b == b'E') {
            let Some(text) = rest.get(at..at + MARK.len() + DIGITS) else {
                self.carry = rest[at..].to_vec();
                return Ok(());
            };
            if &text[..MARK.len()] == MARK {
                let number =
                    text[MARK.len()..].iter().fold(0, |n, d| n * 10 + u64::from(d.wrapping_sub(b'0')));
                if number != self.next && self.started {
                    return Err(io::Error::other(format!("expected {}, got {number}", self.next)));
                }
                self.started = true;
                found(number);
                self.next = number + 1;
                rest = &rest[at + text.len()..];
            } else {
                rest = &rest[at + 1..];
            }
        }
        Ok(())
    }
}
