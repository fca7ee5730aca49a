//! Field tables with the type letters that RabbitMQ and its clients use. A table is a view over its bytes: letters and order
//! come back as they came.
//!
//! ```text
//! table: (key:shortstr letter:u8 value)*      array: (letter:u8 value)*
//! t bool  b i8  B u8  s i16  u u16  I i32  i u32  l L i64  f f32  d f64  D scale:u8 i32  T u64
//! S x u32 length, bytes    A u32 length, array    F u32 length, table    V nothing
//! ```

use bytes::{BufMut as _, BytesMut};

use super::field::{DecodeError, Reader, put_long, put_short};

/// Deepest nesting of tables and arrays.
const DEPTH_MAX: usize = 64;

/// A table whose entries have been checked; without its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Table<'a>(&'a [u8]);

/// An array whose values have been checked; without its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Array<'a>(&'a [u8]);

/// An entry of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: Value<'a>,
    /// Key, letter and value as they stand.
    pub(crate) whole: &'a [u8],
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Void,
    Bool(bool),
    /// An integer of any width, with its letter.
    Int(i64, u8),
    Float(f64),
    /// `value` / 10^`scale`.
    Decimal {
        scale: u8,
        value: i32,
    },
    Str(&'a [u8]),
    Bytes(&'a [u8]),
    Time(u64),
    Array(Array<'a>),
    Table(Table<'a>),
}

impl Value<'_> {
    /// RabbitMQ's word for its type, as its error texts say it.
    pub(crate) fn type_word(&self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Bool(_) => "bool",
            Self::Int(_, letter) => match letter {
                b'b' => "byte",
                b'B' => "unsignedbyte",
                b's' => "short",
                b'u' => "unsignedshort",
                b'i' => "unsignedint",
                b'I' => "signedint",
                _ => "long",
            },
            Self::Float(_) => "double",
            Self::Decimal { .. } => "decimal",
            Self::Str(_) => "longstr",
            Self::Bytes(_) => "binary",
            Self::Time(_) => "timestamp",
            Self::Array(_) => "array",
            Self::Table(_) => "table",
        }
    }
}

/// Checks the entries of a table.
pub(super) fn check_table(bytes: &[u8]) -> Result<Table<'_>, DecodeError> {
    check(bytes, true, 0)?;
    Ok(Table(bytes))
}

fn check(bytes: &[u8], has_keys: bool, depth: usize) -> Result<(), DecodeError> {
    let malformed = |_| DecodeError::Table;
    if depth > DEPTH_MAX {
        return Err(DecodeError::Table);
    }
    let mut reader = Reader::new(bytes);
    while !reader.rest().is_empty() {
        if has_keys {
            reader.short_bytes().map_err(malformed)?;
        }
        match value(&mut reader).map_err(malformed)? {
            Value::Array(Array(inner)) => check(inner, false, depth + 1)?,
            Value::Table(Table(inner)) => check(inner, true, depth + 1)?,
            _ => {}
        }
    }
    Ok(())
}

fn value<'a>(from: &mut Reader<'a>) -> Result<Value<'a>, DecodeError> {
    let [letter] = from.array()?;
    Ok(match letter {
        b'V' => Value::Void,
        b't' => Value::Bool(from.array::<1>()? != [0]),
        b'b' => Value::Int(i8::from_be_bytes(from.array()?).into(), letter),
        b'B' => Value::Int(u8::from_be_bytes(from.array()?).into(), letter),
        b's' => Value::Int(i16::from_be_bytes(from.array()?).into(), letter),
        b'u' => Value::Int(u16::from_be_bytes(from.array()?).into(), letter),
        b'I' => Value::Int(i32::from_be_bytes(from.array()?).into(), letter),
        b'i' => Value::Int(u32::from_be_bytes(from.array()?).into(), letter),
        b'l' | b'L' => Value::Int(i64::from_be_bytes(from.array()?), letter),
        b'f' => Value::Float(f32::from_be_bytes(from.array()?).into()),
        b'd' => Value::Float(f64::from_be_bytes(from.array()?)),
        b'D' => {
            let [scale] = from.array()?;
            Value::Decimal { scale, value: i32::from_be_bytes(from.array()?) }
        }
        b'T' => Value::Time(u64::from_be_bytes(from.array()?)),
        b'S' => Value::Str(from.long_bytes()?),
        b'x' => Value::Bytes(from.long_bytes()?),
        b'A' => Value::Array(Array(from.long_bytes()?)),
        b'F' => Value::Table(Table(from.long_bytes()?)),
        _ => return Err(DecodeError::Table),
    })
}

impl<'a> Table<'a> {
    /// Reads a table that has no length in front (AMQPLAIN's response).
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        check_table(bytes)
    }

    /// The entries without their length.
    pub(crate) fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let mut reader = Reader::new(self.0);
        std::iter::from_fn(move || {
            let before = reader.rest();
            let key = reader.short_bytes().ok()?;
            let value = value(&mut reader).ok()?;
            let whole = before.get(..before.len() - reader.rest().len())?;
            Some(Entry { key, value, whole })
        })
    }

    /// The value of a key; of duplicates the first.
    pub(crate) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.iter().find(|entry| entry.key == key.as_bytes()).map(|entry| entry.value)
    }
}

impl<'a> Array<'a> {
    /// The values in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut reader = Reader::new(self.0);
        std::iter::from_fn(move || (!reader.rest().is_empty()).then(|| value(&mut reader).ok()).flatten())
    }
}

/// Writes a table or an array with its length.
#[derive(Debug)]
pub(crate) struct TableWriter<'b> {
    out: &'b mut BytesMut,
    start: usize,
}

impl<'b> TableWriter<'b> {
    /// Begins one; `end` writes its length.
    pub(crate) fn begin(out: &'b mut BytesMut) -> Self {
        let start = out.len();
        out.put_u32(0);
        Self { out, start }
    }

    pub(crate) fn end(self) {
        let from = self.start + 4;
        let length = u32::try_from(self.out.len() - from).unwrap_or(u32::MAX);
        if let Some(place) = self.out.get_mut(self.start..from) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Bytes that were there before `begin` aside: nothing was put in.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.len() == self.start + 4
    }

    fn key(&mut self, key: &str, letter: u8) -> &mut BytesMut {
        put_short(self.out, super::field::Short::text(key).0);
        self.out.put_u8(letter);
        self.out
    }

    /// An entry as it stands.
    pub(crate) fn copy(&mut self, entry: &Entry<'_>) {
        self.out.put_slice(entry.whole);
    }

    pub(crate) fn void(&mut self, key: &str) {
        self.key(key, b'V');
    }

    pub(crate) fn flag(&mut self, key: &str, flag: bool) {
        self.key(key, b't').put_u8(flag.into());
    }

    /// As clients do: four bytes when that is enough.
    pub(crate) fn int(&mut self, key: &str, number: i64) {
        match i32::try_from(number) {
            Ok(number) => self.key(key, b'I').put_i32(number),
            Err(_) => self.long(key, number),
        }
    }

    pub(crate) fn long(&mut self, key: &str, number: i64) {
        self.key(key, b'l').put_i64(number);
    }

    pub(crate) fn float(&mut self, key: &str, number: f64) {
        self.key(key, b'd').put_f64(number);
    }

    pub(crate) fn time(&mut self, key: &str, seconds: u64) {
        self.key(key, b'T').put_u64(seconds);
    }

    pub(crate) fn text(&mut self, key: &str, text: &[u8]) {
        put_long(self.key(key, b'S'), text);
    }

    pub(crate) fn bytes(&mut self, key: &str, bytes: &[u8]) {
        put_long(self.key(key, b'x'), bytes);
    }

    /// A table in this one.
    pub(crate) fn table(&mut self, key: &str) -> TableWriter<'_> {
        TableWriter::begin(self.key(key, b'F'))
    }

    /// An array in this table.
    pub(crate) fn array(&mut self, key: &str) -> TableWriter<'_> {
        TableWriter::begin(self.key(key, b'A'))
    }

    /// A text value of this array.
    pub(crate) fn item_text(&mut self, text: &[u8]) {
        self.out.put_u8(b'S');
        put_long(self.out, text);
    }

    /// A table that is a value of this array.
    pub(crate) fn item_table(&mut self) -> TableWriter<'_> {
        self.out.put_u8(b'F');
        TableWriter::begin(self.out)
    }
}
