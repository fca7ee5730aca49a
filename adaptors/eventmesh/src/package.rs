//! Packages on the wire: cutting them out of a byte stream, and writing them. Never reads a header or a body.
//!
//! ```text
//! magic    9   ASCII `EventMesh`
//! version  4   ASCII `0000`
//! length   4   big-endian; generation A: 8 + h + b, generation B: 13 + h + b
//! header   4   big-endian: h
//! header   h   JSON
//! body     b   JSON, or nothing; generation A writes `null` for nothing
//! ```
//! A package is 21 + h + b bytes in both generations (reference `eventmesh.md` 3.1).

use bytes::{BufMut as _, BytesMut};
use serde::de::IgnoredAny;

use crate::limits::{HEADER_BYTES_MAX, LENGTH_MAX};

const MAGIC: &[u8; 9] = b"EventMesh";
const VERSION: &[u8; 4] = b"0000";
/// Bytes before the header.
const PREFIX_BYTES: usize = 21;

/// What the length field counts beside header and body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// SDKs and servers up to 1.8, and the Go and C SDKs.
    A,
    /// From 1.9 on.
    B,
}

impl Generation {
    fn overhead(self) -> usize {
        match self {
            Self::A => 8,
            Self::B => 13,
        }
    }
}

/// The next package of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut<'a> {
    /// It is there.
    Whole {
        /// JSON.
        header: &'a [u8],
        /// JSON or nothing.
        body: &'a [u8],
        /// How its length counts.
        generation: Generation,
        /// Bytes of the package.
        consumed: usize,
    },
    /// So many bytes must be there before it can be cut, from the start of the input.
    Partial {
        /// Bytes.
        need: usize,
    },
}

/// Input that is no package: the connection ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PackageError {
    #[error("byte {at} of the package is {have:#04x}; it must begin with EventMesh0000")]
    Magic { at: usize, have: u8 },
    #[error("package length {0} is more than {LENGTH_MAX}")]
    Length(usize),
    #[error("header length {have} is not 1 to {max}")]
    Header { have: usize, max: usize },
}

/// Cuts the next package. `generation` is what the connection speaks, None before its first package: then the length decides,
/// and the body where both are possible.
///
/// # Errors
/// At the first byte that is wrong; nothing is waited for that was merely announced and is too much.
pub(crate) fn next_package(input: &[u8], generation: Option<Generation>) -> Result<Cut<'_>, PackageError> {
    let mut start = input.iter().zip(MAGIC.iter().chain(VERSION)).enumerate();
    if let Some((at, (have, _))) = start.find(|(_, (have, expected))| have != expected) {
        return Err(PackageError::Magic { at, have: *have });
    }
    let number = |at: usize| {
        let bytes = input.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(|bytes| u32::from_be_bytes(bytes) as usize)
    };
    let Some(length) = number(13) else { return Ok(Cut::Partial { need: PREFIX_BYTES }) };
    if length > LENGTH_MAX {
        return Err(PackageError::Length(length));
    }
    let Some(header_bytes) = number(17) else { return Ok(Cut::Partial { need: PREFIX_BYTES }) };
    let least = generation.unwrap_or(Generation::A).overhead();
    let max = length.saturating_sub(least).min(HEADER_BYTES_MAX);
    if header_bytes == 0 || header_bytes > max {
        return Err(PackageError::Header { have: header_bytes, max });
    }
    let body_at = PREFIX_BYTES + header_bytes;
    let end = |generation: Generation| PREFIX_BYTES + length - generation.overhead();
    let generation = match generation {
        Some(generation) => generation,
        None if end(Generation::B) < body_at => Generation::A,
        None if end(Generation::B) == body_at => Generation::B,
        None => match input.get(body_at..end(Generation::B)) {
            None => return Ok(Cut::Partial { need: end(Generation::B) }),
            Some(body) if serde_json::from_slice::<IgnoredAny>(body).is_ok() => Generation::B,
            Some(_) => Generation::A,
        },
    };
    let consumed = end(generation);
    match (input.get(PREFIX_BYTES..body_at), input.get(body_at..consumed)) {
        (Some(header), Some(body)) => Ok(Cut::Whole { header, body, generation, consumed }),
        _ => Ok(Cut::Partial { need: consumed }),
    }
}

/// A package does not fit its length field's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Writes a package: `header` and `body` append theirs. `body` gives false when there is none.
///
/// # Errors
/// It is too large; nothing of it is left in the buffer.
pub(crate) fn put_package(
    buffer: &mut BytesMut,
    generation: Generation,
    header: impl FnOnce(&mut BytesMut),
    body: impl FnOnce(&mut BytesMut) -> bool,
) -> Result<(), TooLarge> {
    let start = buffer.len();
    buffer.put_slice(MAGIC);
    buffer.put_slice(VERSION);
    buffer.put_u64(0);
    header(buffer);
    let header_bytes = buffer.len() - start - PREFIX_BYTES;
    if !body(buffer) && generation == Generation::A {
        buffer.put_slice(b"null");
    }
    let length = buffer.len() - start - PREFIX_BYTES + generation.overhead();
    if length > LENGTH_MAX || header_bytes > HEADER_BYTES_MAX {
        buffer.truncate(start);
        return Err(TooLarge);
    }
    let lengths = (length as u64) << 32 | header_bytes as u64;
    if let Some(place) = buffer.get_mut(start + 13..start + PREFIX_BYTES) {
        place.copy_from_slice(&lengths.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::header::Header;

    const VECTORS: &str = include_str!("../../../tests/vectors/eventmesh/tcp-packages.json");

    fn vectors(list: &str) -> Vec<(String, Vec<u8>, Value)> {
        let file: Value = serde_json::from_str(VECTORS).unwrap();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let read = |vector: &Value| {
            let hex = vector["hex"].as_str().unwrap().as_bytes();
            (vector["name"].as_str().unwrap().to_owned(), hex.chunks(2).map(byte).collect(), vector.clone())
        };
        file[list].as_array().unwrap().iter().map(read).collect()
    }

    fn generation(vector: &Value) -> Generation {
        if vector["generation"] == "A" { Generation::A } else { Generation::B }
    }

    /// Cuts as a connection does: what is partial comes again, with one byte more.
    fn cut_byte_by_byte(bytes: &[u8]) -> (Vec<u8>, Vec<u8>, Generation, usize) {
        for end in 0..=bytes.len() {
            match next_package(&bytes[..end], None).unwrap() {
                Cut::Partial { need } => assert!(need > end && need <= bytes.len(), "{need} at {end}"),
                Cut::Whole { header, body, generation, consumed } => {
                    return (header.to_vec(), body.to_vec(), generation, consumed);
                }
            }
        }
        panic!("never whole");
    }

    #[test]
    fn every_recorded_package_is_cut_and_written_again() {
        let vectors = vectors("packages");
        assert_eq!(vectors.len(), 40);
        for (name, bytes, vector) in &vectors {
            let (header, body, found, consumed) = cut_byte_by_byte(bytes);
            assert_eq!((found, consumed), (generation(vector), bytes.len()), "{name}");
            assert_eq!(header, vector["header_json"].as_str().unwrap().as_bytes(), "{name}");
            assert_eq!(body, vector["body_json"].as_str().unwrap_or_default().as_bytes(), "{name}");
            assert!(Header::parse(&header).is_ok(), "{name}");
            let mut again = BytesMut::new();
            let has_body = !body.is_empty() && body != b"null";
            put_package(
                &mut again,
                found,
                |buffer| buffer.put_slice(&header),
                |buffer| {
                    buffer.put_slice(if has_body { &body } else { b"" });
                    has_body
                },
            )
            .unwrap();
            assert_eq!(&again[..], &bytes[..], "{name}");
        }
    }

    #[test]
    fn packages_in_one_segment_are_cut_one_by_one() {
        for generation_of_all in [Generation::A, Generation::B] {
            let all: Vec<_> =
                vectors("packages").into_iter().filter(|v| generation(&v.2) == generation_of_all).collect();
            let stream: Vec<u8> = all.iter().flat_map(|(_, bytes, _)| bytes.clone()).collect();
            let (mut at, mut known, mut count) = (0, None, 0);
            while at < stream.len() {
                let Ok(Cut::Whole { generation, consumed, .. }) = next_package(&stream[at..], known) else {
                    panic!("at {at}");
                };
                known = Some(generation);
                at += consumed;
                count += 1;
            }
            assert_eq!((count, known), (all.len(), Some(generation_of_all)));
        }
    }

    #[test]
    fn what_is_no_package_is_refused_at_once() {
        for (name, bytes, vector) in vectors("edge") {
            let whole = next_package(&bytes, None);
            if !vector["expect"].as_str().is_some_and(|expect| expect.starts_with("close")) {
                assert!(matches!(whole, Ok(Cut::Whole { .. })), "{name}: {whole:?}");
                continue;
            }
            let refused = match whole {
                Err(_) => true,
                Ok(Cut::Whole { header, .. }) => Header::parse(header).is_err(),
                Ok(Cut::Partial { .. }) => false,
            };
            assert!(refused, "{name}");
        }
        let announced = [b"EventMesh0000".as_slice(), &[0, 0x40, 0, 1, 0, 0, 0, 9]].concat();
        assert_eq!(next_package(&announced, None), Err(PackageError::Length(LENGTH_MAX + 1)));
        let fits = [b"EventMesh0000".as_slice(), &[0, 0x40, 0, 0, 0, 0, 0, 9]].concat();
        assert!(matches!(next_package(&fits, Some(Generation::A)), Ok(Cut::Partial { .. })));
    }

    #[test]
    fn package_that_is_too_large_leaves_nothing_behind() {
        let mut buffer = BytesMut::from(&b"before"[..]);
        let write = |buffer: &mut BytesMut, bytes: usize| {
            let put = |buffer: &mut BytesMut| {
                buffer.put_bytes(b' ', bytes);
                true
            };
            put_package(buffer, Generation::B, |buffer| buffer.put_slice(b"{}"), put)
        };
        assert_eq!(write(&mut buffer, LENGTH_MAX - 13 - 2 + 1), Err(TooLarge));
        assert_eq!(&buffer[..], b"before");
        assert_eq!(write(&mut buffer, LENGTH_MAX - 13 - 2), Ok(()));
    }
}
