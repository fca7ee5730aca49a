//! Properties of frames made from arbitrary fields.

use bytes::Bytes;
use framegate_frame::{
    Event, Extensions, Flags, Frame, FrameBuilder, FrameError, FrameHead, FrameKind, Limits, Private,
    StreamChunk, StreamRequest, escape_bytes, unescape_bytes, unescape_into,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn attributes(count: usize) -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![
        4 => "[a-z]{1,12}",
        1 => Just("id".to_owned()),
        1 => Just("meta".to_owned()),
        1 => Just(String::new()),
        1 => "\\PC{1,40}",
    ];
    vec((name, prop_oneof![3 => "\\PC{0,40}", 1 => "[a-z]{100,300}"]), 0..count)
}

fn kinds() -> impl Strategy<Value = FrameKind> {
    prop_oneof![Just(FrameKind::StreamRequest), Just(FrameKind::StreamChunk), Just(FrameKind::Event)]
}

fn pairs(attrs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> + Clone {
    attrs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fields_come_back_in_order_however_the_data_is_cut(
        kind in kinds(), flags: u8, seq: i32, attrs in attributes(64), data in vec(any::<u8>(), 0..2000),
        cut in 1usize..700,
    ) {
        let head = FrameHead::new(kind).flags(Flags::from_bits(flags)).seq(seq);
        let mut builder = FrameBuilder::new(head, pairs(&attrs), data.len(), &Limits::EVENTMESH).unwrap();
        for fragment in data.chunks(cut) {
            builder.push(fragment).unwrap();
        }
        let built = builder.finish().unwrap();
        let parsed = Frame::parse(built.as_bytes().clone(), &Limits::EVENTMESH).unwrap();
        for frame in [&built, &parsed] {
            prop_assert_eq!((frame.kind(), frame.flags().bits(), frame.seq()), (kind, flags, seq));
            prop_assert!(frame.attrs().eq(pairs(&attrs)));
            prop_assert_eq!(frame.attrs().len(), attrs.len());
            prop_assert_eq!(frame.data(), &data);
            for (name, _) in pairs(&attrs) {
                prop_assert_eq!(frame.attr(name), pairs(&attrs).filter(|pair| pair.0 == name).last().map(|p| p.1));
            }
            prop_assert_eq!(frame.attr("NotThere"), None);
        }
    }

    #[test]
    fn public_ingest_refuses_exactly_empty_and_duplicate_names(attrs in attributes(200)) {
        let mut names: Vec<&str> = pairs(&attrs).map(|pair| pair.0).collect();
        names.sort_unstable();
        let sound = names.windows(2).all(|pair| pair[0] != pair[1]) && names.first() != Some(&"");
        let built = Frame::build(FrameKind::Event, pairs(&attrs), b"", &Limits::GATEWAY).unwrap();
        let parsed = Frame::parse(built.into_bytes(), &Limits::GATEWAY.public());
        let public = Frame::build(FrameKind::Event, pairs(&attrs), b"", &Limits::GATEWAY.public());
        prop_assert_eq!(parsed.is_ok(), sound);
        prop_assert_eq!(public.is_ok(), sound);
        if let Err(error) = parsed {
            let named = matches!(error, FrameError::EmptyName { .. } | FrameError::DuplicateName { .. });
            prop_assert!(named, "{}", error);
        }
    }

    #[test]
    fn any_bytes_survive_the_escape(bytes in vec(any::<u8>(), 0..500)) {
        let text = escape_bytes(&bytes);
        prop_assert_eq!(text.chars().count(), bytes.len());
        prop_assert_eq!(unescape_bytes(&text).unwrap(), bytes.as_slice());
        let mut out = b"before".to_vec();
        unescape_into(&text, &mut out).unwrap();
        prop_assert_eq!(&out[6..], &bytes);
        let head = FrameHead::new(FrameKind::Event).private(Some(Private::bytes("p", &bytes)));
        let frame = FrameBuilder::new(head, [], 0, &Limits::GATEWAY).unwrap().finish().unwrap();
        prop_assert_eq!(frame.private(), Some(("p", &*text)));
    }

    #[test]
    fn text_is_unescaped_only_if_all_characters_are_bytes(text in "\\PC{0,30}") {
        let bytes: Option<Vec<u8>> = text.chars().map(|character| u8::try_from(character).ok()).collect();
        prop_assert_eq!(unescape_bytes(&text).ok().map(|bytes| bytes.into_owned()), bytes);
    }

    #[test]
    fn stream_views_come_back(sid in "\\PC{0,20}", word in "\\PC{1,20}", text in "\\PC{0,99}", seq: i32, done: bool) {
        let word = Some(word.as_str());
        let request = StreamRequest { sid: &sid, reply_to: word, model: None, conversation: word, prompt: &text };
        let frame = request.to_frame(&Limits::EVENTMESH).unwrap();
        prop_assert_eq!(StreamRequest::from_frame(&frame).unwrap(), request);
        let chunk = StreamChunk { sid: &sid, seq, done, error: word, etype: None, meta: word, text: &text };
        let frame = chunk.to_frame(&Limits::EVENTMESH).unwrap();
        prop_assert_eq!(frame.flags().bits(), 6 + u8::from(done));
        prop_assert_eq!(StreamChunk::from_frame(&frame).unwrap(), chunk);
    }

    #[test]
    fn event_keeps_its_extensions(attrs in attributes(20), id in "\\PC{0,20}", data in vec(any::<u8>(), 0..99)) {
        let extensions: Vec<(&str, &str)> = pairs(&attrs).collect();
        let event =
            Event { id: Some(&id), extensions: Extensions::from(&extensions[..]), data: &data, ..Event::default() };
        let frame = event.to_frame(&Limits::EVENTMESH).unwrap();
        let read = Event::from_frame(&frame).unwrap();
        prop_assert_eq!(read.id, Some(id.as_str()));
        prop_assert_eq!(read.data, &data);
        prop_assert!(read.extensions.eq(event.extensions.clone()));
    }

    #[test]
    fn noise_is_never_a_panic(bytes in vec(any::<u8>(), 0..200), kind in 0u8..5, count in 0u16..9, data in 0u32..50) {
        let header = [&[0xEF, 1, kind, 0, 0, 0, 0, 0][..], &count.to_be_bytes(), &data.to_be_bytes()].concat();
        framegate_frame::fuzz_parse(&bytes);
        framegate_frame::fuzz_parse(&[header, bytes.clone()].concat());
        let _ = Frame::parse(Bytes::from(bytes), &Limits::EVENTMESH.public());
    }
}
