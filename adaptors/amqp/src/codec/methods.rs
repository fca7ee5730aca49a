//! Every method of AMQP 0-9-1 with RabbitMQ's additions: one table gives the type, how it is read and how it is written.

use bytes::{BufMut as _, BytesMut};

use super::field::{DecodeError, Field, Long, Reader, Short, Writer};
use super::table::Table;

/// Class and number of a method; 0.0 where a close is nobody's fault in particular.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MethodId {
    pub(crate) class: u16,
    pub(crate) method: u16,
}

impl MethodId {
    /// No method.
    pub(crate) const NONE: Self = Self { class: 0, method: 0 };

    pub(crate) const fn new(class: u16, method: u16) -> Self {
        Self { class, method }
    }

    /// Of a method frame's payload.
    pub(crate) fn of(payload: &[u8]) -> Option<Self> {
        let (&[c0, c1, m0, m1], _) = payload.split_first_chunk::<4>()?;
        Some(Self { class: u16::from_be_bytes([c0, c1]), method: u16::from_be_bytes([m0, m1]) })
    }
}

macro_rules! methods {
    ($($class:literal, $number:literal $name:ident { $($field:ident : $type:ty),* $(,)? })*) => {
        /// A method with its arguments, borrowed from where it was read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Method<'a> {
            $($name { $($field: $type),* },)*
        }

        impl<'a> Method<'a> {
            /// Reads the payload of a method frame.
            pub(crate) fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(payload);
                let class = u16::get(&mut reader)?;
                let number = u16::get(&mut reader)?;
                let method = match (class, number) {
                    $(($class, $number) => Self::$name { $($field: Field::get(&mut reader)?),* },)*
                    _ => return Err(DecodeError::UnknownMethod),
                };
                match reader.rest().len() {
                    0 => Ok(method),
                    more => Err(DecodeError::Trailing(more)),
                }
            }

            /// Appends the payload of a method frame.
            pub(crate) fn encode(&self, out: &mut BytesMut) {
                let id = self.id();
                out.put_u16(id.class);
                out.put_u16(id.method);
                let mut writer = Writer::new(out);
                match self {
                    $(Self::$name { $($field),* } => { $($field.put(&mut writer);)* let _ = &mut writer; })*
                }
            }

            /// Its class and number.
            pub(crate) fn id(&self) -> MethodId {
                match self {
                    $(Self::$name { .. } => MethodId::new($class, $number),)*
                }
            }
        }
    };
}

methods! {
    10, 10 ConnectionStart { version_major: u8, version_minor: u8, server_properties: Table<'a>, mechanisms: Long<'a>, locales: Long<'a> }
    10, 11 ConnectionStartOk { client_properties: Table<'a>, mechanism: Short<'a>, response: Long<'a>, locale: Short<'a> }
    10, 20 ConnectionSecure { challenge: Long<'a> }
    10, 21 ConnectionSecureOk { response: Long<'a> }
    10, 30 ConnectionTune { channel_max: u16, frame_max: u32, heartbeat: u16 }
    10, 31 ConnectionTuneOk { channel_max: u16, frame_max: u32, heartbeat: u16 }
    10, 40 ConnectionOpen { vhost: Short<'a>, reserved_1: Short<'a>, reserved_2: bool }
    10, 41 ConnectionOpenOk { reserved_1: Short<'a> }
    10, 50 ConnectionClose { code: u16, text: Short<'a>, class: u16, method: u16 }
    10, 51 ConnectionCloseOk {}
    10, 60 ConnectionBlocked { reason: Short<'a> }
    10, 61 ConnectionUnblocked {}
    10, 70 ConnectionUpdateSecret { secret: Long<'a>, reason: Short<'a> }
    10, 71 ConnectionUpdateSecretOk {}

    20, 10 ChannelOpen { reserved_1: Short<'a> }
    20, 11 ChannelOpenOk { reserved_1: Long<'a> }
    20, 20 ChannelFlow { active: bool }
    20, 21 ChannelFlowOk { active: bool }
    20, 40 ChannelClose { code: u16, text: Short<'a>, class: u16, method: u16 }
    20, 41 ChannelCloseOk {}

    30, 10 AccessRequest { realm: Short<'a>, exclusive: bool, passive: bool, active: bool, write: bool, read: bool }
    30, 11 AccessRequestOk { ticket: u16 }

    40, 10 ExchangeDeclare { reserved_1: u16, exchange: Short<'a>, kind: Short<'a>, passive: bool, durable: bool, auto_delete: bool, internal: bool, nowait: bool, arguments: Table<'a> }
    40, 11 ExchangeDeclareOk {}
    40, 20 ExchangeDelete { reserved_1: u16, exchange: Short<'a>, if_unused: bool, nowait: bool }
    40, 21 ExchangeDeleteOk {}
    40, 30 ExchangeBind { reserved_1: u16, destination: Short<'a>, source: Short<'a>, routing_key: Short<'a>, nowait: bool, arguments: Table<'a> }
    40, 31 ExchangeBindOk {}
    40, 40 ExchangeUnbind { reserved_1: u16, destination: Short<'a>, source: Short<'a>, routing_key: Short<'a>, nowait: bool, arguments: Table<'a> }
    40, 51 ExchangeUnbindOk {}

    50, 10 QueueDeclare { reserved_1: u16, queue: Short<'a>, passive: bool, durable: bool, exclusive: bool, auto_delete: bool, nowait: bool, arguments: Table<'a> }
    50, 11 QueueDeclareOk { queue: Short<'a>, message_count: u32, consumer_count: u32 }
    50, 20 QueueBind { reserved_1: u16, queue: Short<'a>, exchange: Short<'a>, routing_key: Short<'a>, nowait: bool, arguments: Table<'a> }
    50, 21 QueueBindOk {}
    50, 50 QueueUnbind { reserved_1: u16, queue: Short<'a>, exchange: Short<'a>, routing_key: Short<'a>, arguments: Table<'a> }
    50, 51 QueueUnbindOk {}
    50, 30 QueuePurge { reserved_1: u16, queue: Short<'a>, nowait: bool }
    50, 31 QueuePurgeOk { message_count: u32 }
    50, 40 QueueDelete { reserved_1: u16, queue: Short<'a>, if_unused: bool, if_empty: bool, nowait: bool }
    50, 41 QueueDeleteOk { message_count: u32 }

    60, 10 BasicQos { prefetch_size: u32, prefetch_count: u16, global: bool }
    60, 11 BasicQosOk {}
    60, 20 BasicConsume { reserved_1: u16, queue: Short<'a>, consumer_tag: Short<'a>, no_local: bool, no_ack: bool, exclusive: bool, nowait: bool, arguments: Table<'a> }
    60, 21 BasicConsumeOk { consumer_tag: Short<'a> }
    60, 30 BasicCancel { consumer_tag: Short<'a>, nowait: bool }
    60, 31 BasicCancelOk { consumer_tag: Short<'a> }
    60, 40 BasicPublish { reserved_1: u16, exchange: Short<'a>, routing_key: Short<'a>, mandatory: bool, immediate: bool }
    60, 50 BasicReturn { code: u16, text: Short<'a>, exchange: Short<'a>, routing_key: Short<'a> }
    60, 60 BasicDeliver { consumer_tag: Short<'a>, delivery_tag: u64, redelivered: bool, exchange: Short<'a>, routing_key: Short<'a> }
    60, 70 BasicGet { reserved_1: u16, queue: Short<'a>, no_ack: bool }
    60, 71 BasicGetOk { delivery_tag: u64, redelivered: bool, exchange: Short<'a>, routing_key: Short<'a>, message_count: u32 }
    60, 72 BasicGetEmpty { reserved_1: Short<'a> }
    60, 80 BasicAck { delivery_tag: u64, multiple: bool }
    60, 90 BasicReject { delivery_tag: u64, requeue: bool }
    60, 100 BasicRecoverAsync { requeue: bool }
    60, 110 BasicRecover { requeue: bool }
    60, 111 BasicRecoverOk {}
    60, 120 BasicNack { delivery_tag: u64, multiple: bool, requeue: bool }

    85, 10 ConfirmSelect { nowait: bool }
    85, 11 ConfirmSelectOk {}

    90, 10 TxSelect {}
    90, 11 TxSelectOk {}
    90, 20 TxCommit {}
    90, 21 TxCommitOk {}
    90, 30 TxRollback {}
    90, 31 TxRollbackOk {}
}
