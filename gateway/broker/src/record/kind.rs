//! Codes of the record kinds. A code is never used again for something else.

use super::Record;

/// Set in a record's flags when a version that does not know the kind may pass it over.
pub(crate) const MAY_BE_SKIPPED: u8 = 0x80;

macro_rules! kinds {
    ($($name:ident = $code:literal $(skip $skip:literal)?),* $(,)?) => {
        /// See the module.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum RecordKind { $($name = $code),* }
        impl RecordKind {
            /// Reads a code.
            pub(crate) fn of(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
            /// Flags that every record of the kind has.
            pub(crate) fn flags(self) -> u8 {
                match self { $($(Self::$name if $skip => MAY_BE_SKIPPED,)?)* _ => 0 }
            }
        }
    };
}

kinds! {
    Enqueue = 1,
    EnqueueRef = 2,
    Ack = 3,
    Return = 4,
    Delivered = 5 skip true,
    Append = 6,
    AppendRef = 7,
    Retain = 8,
    DefineQueue = 16,
    DeleteQueue = 17,
    DefineExchange = 18,
    DeleteExchange = 19,
    Bind = 20,
    Unbind = 21,
    DefineTopic = 22,
    DeleteTopic = 23,
    DefineGroup = 64,
    DeleteGroup = 65,
    SeekGroup = 66,
    SettleGroup = 67,
    FailGroup = 68,
    GroupStands = 69,
    Job = 72,
    PauseJobs = 73,
    JobRules = 74,
    JobCare = 76,
    Start = 32,
    Tick = 33 skip true,
    Spill = 34 skip true,
    Move = 48,
    MoveRef = 49,
    MoveEvent = 50,
    MoveEventRef = 51,
    Standing = 56,
    At = 57,
    QueueNumbers = 58,
    TopicNumbers = 59,
    Remembered = 60,
    Lost = 61 skip true,
}

impl RecordKind {
    /// The kind of a record.
    pub(crate) fn for_record(record: &Record) -> Self {
        use super::Body;
        match record {
            Record::Enqueue { body: Body::At(_), .. } => Self::EnqueueRef,
            Record::Enqueue { .. } => Self::Enqueue,
            Record::Ack { .. } => Self::Ack,
            Record::Return { .. } => Self::Return,
            Record::Delivered { .. } => Self::Delivered,
            Record::Append { body: Body::At(_), .. } => Self::AppendRef,
            Record::Append { .. } => Self::Append,
            Record::Retain { .. } => Self::Retain,
            Record::DefineQueue { .. } => Self::DefineQueue,
            Record::DeleteQueue { .. } => Self::DeleteQueue,
            Record::DefineExchange { .. } => Self::DefineExchange,
            Record::DeleteExchange { .. } => Self::DeleteExchange,
            Record::Bind { .. } => Self::Bind,
            Record::Unbind { .. } => Self::Unbind,
            Record::DefineTopic { .. } => Self::DefineTopic,
            Record::DeleteTopic { .. } => Self::DeleteTopic,
            Record::DefineGroup { .. } => Self::DefineGroup,
            Record::DeleteGroup { .. } => Self::DeleteGroup,
            Record::SeekGroup { .. } => Self::SeekGroup,
            Record::SettleGroup { .. } => Self::SettleGroup,
            Record::FailGroup { .. } => Self::FailGroup,
            Record::GroupStands { .. } => Self::GroupStands,
            Record::Job(_) => Self::Job,
            Record::PauseJobs { .. } => Self::PauseJobs,
            Record::JobRules { .. } => Self::JobRules,
            Record::JobCare { .. } => Self::JobCare,
            Record::Start { .. } => Self::Start,
            Record::Tick => Self::Tick,
            Record::Spill { .. } => Self::Spill,
            Record::Move { body: Body::At(_), .. } => Self::MoveRef,
            Record::Move { .. } => Self::Move,
            Record::MoveEvent { body: Body::At(_), .. } => Self::MoveEventRef,
            Record::MoveEvent { .. } => Self::MoveEvent,
            Record::Standing { .. } => Self::Standing,
            Record::At { .. } => Self::At,
            Record::QueueNumbers { .. } => Self::QueueNumbers,
            Record::TopicNumbers { .. } => Self::TopicNumbers,
            Record::Remembered { .. } => Self::Remembered,
            Record::Lost => Self::Lost,
        }
    }
}
