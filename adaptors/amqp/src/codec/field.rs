//! Fields of methods and properties: read in order, written in order. Bits that stand together share octets, the first bit
//! lowest.
//!
//! ```text
//! octet u8   short u16   long u32   longlong u64, timestamp u64
//! shortstr: u8 length, bytes      longstr: u32 length, bytes      table: u32 length, entries
//! ```

use bytes::{BufMut as _, BytesMut};

use super::table::{Table, check_table};

/// Why bytes are not what they claim to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("ends too early")]
    Truncated,
    #[error("has {0} bytes too many")]
    Trailing(usize),
    #[error("names no method")]
    UnknownMethod,
    #[error("has a malformed table")]
    Table,
}

/// A short string: at most 255 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Short<'a>(pub(crate) &'a [u8]);

impl<'a> Short<'a> {
    /// Text; cut at 255 bytes, between characters.
    pub(crate) fn text(text: &'a str) -> Self {
        let end = text.floor_char_boundary(255);
        Self(text.get(..end).unwrap_or_default().as_bytes())
    }
}

/// A long string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Long<'a>(pub(crate) &'a [u8]);

/// Reads fields.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    bits: u8,
    bits_left: u8,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, bits: 0, bits_left: 0 }
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        self.bits_left = 0;
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.bits_left = 0;
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Bytes behind a length of four bytes.
    pub(crate) fn long_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = u32::from_be_bytes(self.array()?);
        self.take(length as usize)
    }

    /// Bytes behind a length of one byte.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let [length] = self.array()?;
        self.take(length.into())
    }

    fn bit(&mut self) -> Result<bool, DecodeError> {
        if self.bits_left == 0 {
            [self.bits] = self.array()?;
            self.bits_left = 8;
        }
        let bit = self.bits & 1 == 1;
        self.bits >>= 1;
        self.bits_left -= 1;
        Ok(bit)
    }
}

/// Writes fields.
#[derive(Debug)]
pub(crate) struct Writer<'b> {
    pub(crate) out: &'b mut BytesMut,
    bits: u8,
}

impl<'b> Writer<'b> {
    pub(crate) fn new(out: &'b mut BytesMut) -> Self {
        Self { out, bits: 0 }
    }

    fn bit(&mut self, bit: bool) {
        if self.bits == 0 || self.bits == 8 {
            self.out.put_u8(0);
            self.bits = 0;
        }
        if let Some(octet) = self.out.last_mut() {
            *octet |= u8::from(bit) << self.bits;
        }
        self.bits += 1;
    }

    fn bytes(&mut self) -> &mut BytesMut {
        self.bits = 0;
        self.out
    }
}

/// Appends a short string; bytes beyond 255 are left out.
pub(crate) fn put_short(out: &mut BytesMut, bytes: &[u8]) {
    let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    out.put_u8(length);
    out.put_slice(bytes.get(..length.into()).unwrap_or_default());
}

/// Appends a long string.
pub(crate) fn put_long(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.put_slice(bytes);
}

/// A type of field.
pub(crate) trait Field<'a>: Sized {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError>;
    fn put(&self, to: &mut Writer<'_>);
}

macro_rules! integer {
    ($($type:ty),*) => { $(
        impl<'a> Field<'a> for $type {
            fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                Ok(Self::from_be_bytes(from.array()?))
            }
            fn put(&self, to: &mut Writer<'_>) {
                to.bytes().put_slice(&self.to_be_bytes());
            }
        }
    )* };
}

integer!(u8, u16, u32, u64);

impl<'a> Field<'a> for bool {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.bit()
    }
    fn put(&self, to: &mut Writer<'_>) {
        to.bit(*self);
    }
}

impl<'a> Field<'a> for Short<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.short_bytes().map(Self)
    }
    fn put(&self, to: &mut Writer<'_>) {
        put_short(to.bytes(), self.0);
    }
}

impl<'a> Field<'a> for Long<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.long_bytes().map(Self)
    }
    fn put(&self, to: &mut Writer<'_>) {
        put_long(to.bytes(), self.0);
    }
}

impl<'a> Field<'a> for Table<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        check_table(from.long_bytes()?)
    }
    fn put(&self, to: &mut Writer<'_>) {
        put_long(to.bytes(), self.as_bytes());
    }
}
