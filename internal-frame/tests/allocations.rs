//! How often frames allocate: never to be parsed and read, once to be built. Counted by a global allocator, per
//! thread, so this file is a binary of its own.

use allocation_counter::measure;
use bytes::Bytes;
use framegate_frame::{
    Event, Frame, FrameBuilder, FrameHead, FrameKind, Limits, Private, escape_bytes, unescape_bytes,
    unescape_into,
};

const ATTRS: [(&str, &str); 10] = [
    ("specversion", "1.0"),
    ("id", "order-123"),
    ("source", "/checkout"),
    ("type", "com.example.order.created"),
    ("datacontenttype", "application/json"),
    ("subject", "orders"),
    ("time", "2026-01-01T00:00:05.120Z"),
    ("emttl", "60000"),
    ("emcorrelationid", "corr-1"),
    ("partitionkey", "kunde-\u{fc}"),
];

fn wire(attrs: usize) -> Bytes {
    let names: Vec<String> = (0..attrs).map(|index| format!("name{index}")).collect();
    let attrs = ATTRS.into_iter().take(attrs).chain(names.iter().skip(10).map(|name| (&name[..], "v")));
    Frame::build(FrameKind::Event, attrs, &[b'd'; 256], &Limits::GATEWAY)
        .map(Frame::into_bytes)
        .expect("legal")
}

#[track_caller]
fn assert_allocations(expected: u64, run: impl FnOnce()) {
    assert_eq!(measure(run).count_total, expected);
}

#[test]
fn parsing_allocates_nothing() {
    for attrs in [0, 10, 64, 1024] {
        for limits in [Limits::GATEWAY, Limits::GATEWAY.public()] {
            let bytes = wire(attrs);
            assert_allocations(0, || drop(Frame::parse(bytes, &limits).unwrap()));
        }
    }
}

#[test]
fn refusing_allocates_nothing() {
    let whole = wire(10);
    for end in [0, 13, 14, 40, whole.len() - 1] {
        let cut = whole.slice(..end);
        assert_allocations(0, || assert!(Frame::parse(cut, &Limits::GATEWAY).is_err()));
    }
    let lying = Bytes::from_static(b"\xEF\x01\x03\0\0\0\0\0\0\x01\x03\xFF\xFF\xFF\0\x01k\x7F\xFF\xFF\xFF");
    assert_allocations(0, || assert!(Frame::parse(lying, &Limits::GATEWAY).is_err()));
}

#[test]
fn reading_allocates_nothing() {
    let frame = Frame::parse(wire(10), &Limits::GATEWAY).unwrap();
    let first = frame.clone();
    assert_allocations(0, || {
        assert_eq!(frame.attr("partitionkey"), Some("kunde-\u{fc}"));
        assert_eq!(frame.attr("absent"), None);
        assert_eq!(frame.attrs().count(), 10);
        assert_eq!(frame.private(), None);
        assert_eq!(Event::from_frame(&frame).unwrap().id, Some("order-123"));
        assert_eq!(frame.clone(), first);
        assert_eq!(frame.data_bytes().len(), 256);
        assert!(frame.fits(&Limits::EVENTMESH.public()).is_ok());
        assert_eq!(frame.strip_reserved(&Limits::GATEWAY).unwrap(), frame);
    });
}

#[test]
fn building_allocates_once_up_to_64_kib_of_data() {
    let data = vec![b'd'; 64 << 10];
    for length in [0, 1, 256, data.len()] {
        let data = &data[..length];
        assert_allocations(1, || {
            drop(Frame::build(FrameKind::Event, ATTRS, data, &Limits::GATEWAY).unwrap());
        });
        assert_allocations(1, || {
            let private = Private::bytes("amqp", b"\x80\x00\x10text/plain");
            let head = FrameHead::new(FrameKind::Event).private(Some(private));
            let mut builder = FrameBuilder::new(head, ATTRS, length, &Limits::GATEWAY.public()).unwrap();
            data.chunks(100).for_each(|fragment| builder.push(fragment).unwrap());
            drop(builder.finish().unwrap());
        });
        let event = Event { id: Some("1"), extensions: ATTRS[..].into(), data, ..Event::default() };
        assert_allocations(1, || drop(event.to_frame(&Limits::GATEWAY).unwrap()));
    }
}

#[test]
fn announced_data_is_not_allocated() {
    let info = measure(|| {
        drop(FrameBuilder::new(FrameHead::new(FrameKind::Event), ATTRS, 64 << 20, &Limits::GATEWAY).unwrap());
    });
    assert_eq!(info.count_total, 1);
    assert!(info.bytes_total <= (64 << 10) + 1024, "{} bytes", info.bytes_total);
}

#[test]
fn escaping_allocates_only_for_bytes_above_127() {
    let (plain, mixed) = (b"{\"a\":1}", b"\x80\x00\xFFabc");
    assert_allocations(0, || drop(unescape_bytes(&escape_bytes(plain)).unwrap()));
    assert_allocations(1, || drop(escape_bytes(mixed)));
    let text = escape_bytes(mixed);
    assert_allocations(1, || drop(unescape_bytes(&text).unwrap()));
    let mut out = Vec::with_capacity(text.len());
    assert_allocations(0, || unescape_into(&text, &mut out).unwrap());
}
