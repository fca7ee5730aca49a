//! Properties of a content: a word of flags, then the values of the flags that are set. A view over the bytes.
//!
//! ```text
//! 8000 content-type ss   4000 content-encoding ss   2000 headers table   1000 delivery-mode u8   0800 priority u8
//! 0400 correlation-id ss 0200 reply-to ss           0100 expiration ss   0080 message-id ss      0040 timestamp u64
//! 0020 type ss           0010 user-id ss            0008 app-id ss       0004 cluster-id ss      0001 one more word follows
//! ```

use bytes::{BufMut as _, BytesMut};

use super::field::{DecodeError, Field, Reader, Short, Writer};
use super::table::Table;

macro_rules! properties {
    ($($bit:literal $name:ident : $type:ty),* $(,)?) => {
        /// See the top of the file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub(crate) struct Properties<'a> {
            $(pub(crate) $name: Option<$type>,)*
        }

        impl<'a> Properties<'a> {
            /// Reads flags and values.
            pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(bytes);
                let flags = u16::get(&mut reader)?;
                let mut more = flags;
                while more & 1 != 0 {
                    more = u16::get(&mut reader)?;
                }
                let mut properties = Self::default();
                $(if flags & $bit != 0 {
                    properties.$name = Some(Field::get(&mut reader)?);
                })*
                match reader.rest().len() {
                    0 => Ok(properties),
                    more => Err(DecodeError::Trailing(more)),
                }
            }

            /// Appends flags and values.
            pub(crate) fn put(&self, out: &mut BytesMut) {
                let mut flags = 0_u16;
                $(if self.$name.is_some() {
                    flags |= $bit;
                })*
                out.put_u16(flags);
                let mut writer = Writer::new(out);
                $(if let Some(value) = &self.$name {
                    value.put(&mut writer);
                })*
            }
        }
    };
}

properties! {
    0x8000 content_type: Short<'a>,
    0x4000 content_encoding: Short<'a>,
    0x2000 headers: Table<'a>,
    0x1000 delivery_mode: u8,
    0x0800 priority: u8,
    0x0400 correlation_id: Short<'a>,
    0x0200 reply_to: Short<'a>,
    0x0100 expiration: Short<'a>,
    0x0080 message_id: Short<'a>,
    0x0040 timestamp: u64,
    0x0020 kind: Short<'a>,
    0x0010 user_id: Short<'a>,
    0x0008 app_id: Short<'a>,
    0x0004 cluster_id: Short<'a>,
}
