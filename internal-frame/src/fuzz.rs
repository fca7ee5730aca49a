//! The entry point of fuzzing: any input, all invariants. Panics only if an invariant is broken, so it must never
//! be called on a peer's bytes in a running gateway.

use bytes::Bytes;

use crate::builder::FrameBuilder;
use crate::chunk::StreamChunk;
use crate::error::FrameError;
use crate::escape::{escape_bytes, unescape_bytes};
use crate::event::Event;
use crate::frame::Frame;
use crate::head::FrameHead;
use crate::kind::FrameKind;
use crate::limits::Limits;
use crate::names::is_reserved_from_clients;
use crate::private::Private;
use crate::request::StreamRequest;

/// Parses `input` under all limits and checks every invariant of what comes out. Returns whether it is a frame
/// under [`Limits::GATEWAY`].
///
/// # Panics
/// If an invariant is broken.
#[doc(hidden)]
pub fn fuzz_parse(input: &[u8]) -> bool {
    let escaped = escape_bytes(input);
    assert_eq!(unescape_bytes(&escaped).as_deref(), Ok(input), "escaped bytes come back");

    let gateway = try_parse(input, &Limits::GATEWAY);
    let narrow = try_parse(input, &Limits::EVENTMESH);
    for (trusted, limits) in [(&gateway, Limits::GATEWAY), (&narrow, Limits::EVENTMESH)] {
        let public = try_parse(input, &limits.public());
        match (trusted, public) {
            (Ok(trusted), Ok(public)) => assert_eq!(trusted, &public),
            (Ok(frame), Err(_)) => assert!(!names_are_sound(frame), "public ingest refused sound names"),
            (Err(_), Ok(_)) => panic!("public ingest took what is no frame"),
            (Err(_), Err(_)) => {}
        }
    }
    match (&gateway, &narrow) {
        (Ok(wide), Ok(narrow)) => assert_eq!(wide, narrow),
        (Ok(wide), Err(error)) => assert_eq!(wide.fits(&Limits::EVENTMESH), Err(*error)),
        (Err(_), Ok(_)) => panic!("narrow limits took what wide limits refused"),
        (Err(_), Err(_)) => {}
    }
    if let Ok(frame) = &gateway {
        check_frame(frame, input);
        check_rebuild(frame);
        check_strip(frame);
        check_views(frame);
    }
    gateway.is_ok()
}

fn try_parse(input: &[u8], limits: &Limits) -> Result<Frame, FrameError> {
    let first = Frame::parse(Bytes::copy_from_slice(input), limits);
    let second = Frame::parse(Bytes::copy_from_slice(input), limits);
    assert_eq!(first, second, "parsing has no memory");
    if let Err(error) = &first {
        assert!(!error.to_string().is_empty());
        assert!(error.offset().is_none_or(|offset| offset <= input.len()), "{error}");
    }
    first
}

fn names_are_sound(frame: &Frame) -> bool {
    let mut names: Vec<&str> = frame.attrs().map(|(name, _)| name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    names.len() == all && !names.contains(&"")
}

fn check_frame(frame: &Frame, input: &[u8]) {
    assert_eq!(frame.as_bytes(), input, "bytes are kept");
    assert_eq!(frame.attrs().count(), frame.attr_count());
    let data_start = input.len() - frame.data().len();
    assert_eq!(frame.data(), input.get(data_start..).unwrap_or_default());
    assert_eq!(frame.data_bytes(), frame.data());
    assert_eq!(frame.attr("\u{0}no such name"), None);
    for (name, _) in frame.attrs() {
        let last = frame.attrs().filter(|pair| pair.0 == name).last().map(|pair| pair.1);
        assert_eq!(frame.attr(name), last, "the last duplicate counts");
    }
    let first = frame.attrs().next().filter(|pair| pair.0.starts_with('~'));
    assert_eq!(frame.private(), first.map(|(name, value)| (name.trim_start_matches('~'), value)));
}

fn check_rebuild(frame: &Frame) {
    let head = FrameHead::new(frame.kind()).flags(frame.flags()).seq(frame.seq());
    let private = frame.private().map(|(adaptor, text)| Private::escaped(adaptor, text));
    let heads = [(head, 0), (head.private(private), usize::from(private.is_some()))];
    for (head, skipped) in heads {
        let attrs = frame.attrs().skip(skipped);
        let built = FrameBuilder::new(head, attrs, frame.data().len(), &Limits::GATEWAY);
        let mut builder = built.expect("what was parsed can be built");
        for fragment in frame.data().chunks(7) {
            builder.push(fragment).expect("data of the announced length is taken");
        }
        let built = builder.finish().expect("all data is there");
        assert_eq!(&built, frame, "building again gives the same bytes");
        assert!(frame.attrs().all(|(name, _)| built.attr(name) == frame.attr(name)));
    }
}

fn check_strip(frame: &Frame) {
    let stripped = frame.strip_reserved(&Limits::GATEWAY).expect("less fits too");
    assert!(stripped.attrs().all(|(name, _)| !is_reserved_from_clients(name)));
    assert!(stripped.attrs().eq(frame.attrs().filter(|pair| !is_reserved_from_clients(pair.0))));
    assert_eq!(stripped.data(), frame.data());
    let plain = frame.strip_private(&Limits::GATEWAY).expect("less fits too");
    assert_eq!(plain.private(), None);
    assert_eq!((plain.kind(), plain.flags(), plain.seq()), (frame.kind(), frame.flags(), frame.seq()));
}

fn check_views(frame: &Frame) {
    let limits = &Limits::GATEWAY;
    match frame.kind() {
        FrameKind::StreamRequest => {
            if let Ok(view) = StreamRequest::from_frame(frame) {
                let built = view.to_frame(limits).expect("a view fits where its frame did");
                assert_eq!(StreamRequest::from_frame(&built), Ok(view));
            }
        }
        FrameKind::StreamChunk => {
            if let Ok(view) = StreamChunk::from_frame(frame) {
                let built = view.to_frame(limits).expect("a view fits where its frame did");
                assert_eq!(StreamChunk::from_frame(&built), Ok(view));
            }
        }
        FrameKind::Event => {
            let view = Event::from_frame(frame).expect("every event frame has a view");
            let built = view.to_frame(limits).expect("a view fits where its frame did");
            let again = Event::from_frame(&built).and_then(|view| view.to_frame(limits));
            assert_eq!(again.as_ref(), Ok(&built), "the canonical form is stable");
            assert_eq!(built.data(), frame.data());
        }
    }
}
