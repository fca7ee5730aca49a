//! What the load shares: numbered bodies, and the check that each reader got every body once, whole and in order.

use std::io;
use std::sync::Arc;

/// Length of a body in bytes.
pub(crate) const BODY_BYTES: usize = 256;
/// Begins each body. Nothing else that a server writes holds these three letters in a row.
const MARK: &[u8] = b"EVT";

/// A body.
pub(crate) type Body = [u8; BODY_BYTES];

/// The body of a message: mark, ten digits, filling. Safe inside JSON.
pub(crate) fn body(number: u64) -> Body {
    let mut body = [b'x'; BODY_BYTES];
    let head = format!("EVT{number:010}");
    body[..head.len()].copy_from_slice(head.as_bytes());
    body
}

/// All bodies of a run, made before it starts.
pub(crate) fn bodies(count: u64) -> Arc<Vec<Body>> {
    Arc::new((0..count).map(body).collect())
}

/// Finds the bodies in a byte stream, however it is cut, without copying it.
#[derive(Debug)]
pub(crate) struct Finder {
    bodies: Arc<Vec<Body>>,
    /// Number that comes next.
    pub(crate) next: u64,
    /// Bytes of it seen so far.
    seen: usize,
}

impl Finder {
    /// Expects these bodies.
    pub(crate) fn new(bodies: Arc<Vec<Body>>) -> Self {
        Self { bodies, next: 0, seen: 0 }
    }

    /// Whether every body came.
    pub(crate) fn done(&self) -> bool {
        self.next == self.bodies.len() as u64
    }

    /// Takes what was read. Calls `found` with the number of each whole body.
    ///
    /// # Errors
    /// A body is missing, doubled, damaged or out of order.
    pub(crate) fn take(&mut self, bytes: &[u8], mut found: impl FnMut(u64)) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.seen == 0 {
                let Some(at) = rest.iter().position(|b| *b == MARK[0]) else { return Ok(()) };
                rest = &rest[at..];
            }
            if self.seen < MARK.len() {
                if rest[0] != MARK[self.seen] {
                    // not a body; this byte may begin one
                    self.seen = 0;
                    if rest[0] != MARK[0] {
                        rest = &rest[1..];
                    }
                    continue;
                }
                self.seen += 1;
                rest = &rest[1..];
                continue;
            }
            let wanted = self.bodies.get(self.next as usize).map(|body| &body[self.seen..]);
            let len = rest.len().min(BODY_BYTES - self.seen);
            if wanted.is_none_or(|wanted| wanted[..len] != rest[..len]) {
                return Err(io::Error::other(format!(
                    "message {} is missing, doubled, damaged or out of order",
                    self.next
                )));
            }
            self.seen += len;
            rest = &rest[len..];
            if self.seen == BODY_BYTES {
                found(self.next);
                (self.next, self.seen) = (self.next + 1, 0);
            }
        }
        Ok(())
    }
}
