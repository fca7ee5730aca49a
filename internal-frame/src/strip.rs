//! Frames without some of their attributes: what clients must not send, and what other gateways must not see.
//! Never changes order, flags, sequence number or data.

use crate::builder::FrameBuilder;
use crate::error::FrameError;
use crate::frame::Frame;
use crate::head::FrameHead;
use crate::limits::Limits;
use crate::names::{PRIVATE_PREFIX, is_reserved_from_clients};

impl Frame {
    /// This frame without the names that no client may send; see
    /// [`is_reserved_from_clients`]. For raw frames from clients.
    ///
    /// # Errors
    /// As [`Frame::retain`].
    pub fn strip_reserved(&self, limits: &Limits) -> Result<Frame, FrameError> {
        self.retain(limits, |name| !is_reserved_from_clients(name))
    }

    /// This frame without private attributes (`~`). For raw frames to other gateways.
    ///
    /// # Errors
    /// As [`Frame::retain`].
    pub fn strip_private(&self, limits: &Limits) -> Result<Frame, FrameError> {
        self.retain(limits, |name| !name.starts_with(PRIVATE_PREFIX))
    }

    /// This frame with only the attributes whose name `keep` takes: a clone if it takes all of them, else a copy.
    /// `keep` is asked several times for each name.
    ///
    /// # Errors
    /// The limit that the result breaks, in either case, so that a frame made for the gateway's limits is checked
    /// for a narrower peer.
    pub fn retain(&self, limits: &Limits, keep: impl Fn(&str) -> bool) -> Result<Frame, FrameError> {
        if self.attrs().all(|(name, _)| keep(name)) {
            self.fits(limits)?;
            return Ok(self.clone());
        }
        let head = FrameHead::new(self.kind()).flags(self.flags()).seq(self.seq());
        let attrs = self.attrs().filter(|&(name, _)| keep(name));
        let mut builder = FrameBuilder::new(head, attrs, self.data().len(), limits)?;
        builder.push(self.data())?;
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Flags, FrameKind};

    fn frame(attrs: &[(&str, &str)]) -> Frame {
        let head = FrameHead::new(FrameKind::Event).flags(Flags::from_bits(0xF8)).seq(-3);
        let mut builder =
            FrameBuilder::new(head, attrs.iter().copied(), 4, &Limits::GATEWAY).expect("test frame");
        builder.push(b"data").unwrap();
        builder.finish().unwrap()
    }

    #[test]
    fn reserved_names_go_and_everything_else_stays() {
        let whole = frame(&[
            ("~amqp", "x"),
            ("id", "1"),
            ("emmqoffset", "7"),
            ("~late", ""),
            ("b", ""),
            ("empopck", "k"),
        ]);
        let public = whole.strip_reserved(&Limits::EVENTMESH).unwrap();
        assert_eq!(public.attrs().collect::<Vec<_>>(), [("id", "1"), ("b", "")]);
        assert_eq!((public.flags().bits(), public.seq(), public.data()), (0xF8, -3, &b"data"[..]));
        let plain = whole.strip_private(&Limits::EVENTMESH).unwrap();
        assert_eq!(
            plain.attrs().map(|pair| pair.0).collect::<Vec<_>>(),
            ["id", "emmqoffset", "b", "empopck"]
        );
    }

    #[test]
    fn frame_without_such_names_is_shared_not_copied() {
        let whole = frame(&[("id", "1")]);
        let stripped = whole.strip_reserved(&Limits::EVENTMESH).unwrap();
        assert_eq!(stripped.as_bytes().as_ptr(), whole.as_bytes().as_ptr());
    }

    #[test]
    fn narrower_limits_are_checked_whether_or_not_something_was_removed() {
        let value = "v".repeat(5000);
        for attrs in [&[("k", value.as_str())][..], &[("~a", ""), ("k", &value)]] {
            let refused = frame(attrs).strip_private(&Limits::EVENTMESH).unwrap_err();
            assert!(refused.is_limit(), "{refused}");
        }
        assert!(frame(&[("~a", &value), ("k", "")]).strip_private(&Limits::EVENTMESH).is_ok());
    }
}
