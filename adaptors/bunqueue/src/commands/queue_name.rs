//! Names of queues, as PUSH, PULL and few others check them.

use framegate_broker::Name;

use super::fields::{Fields, Refusal};
use crate::codec::Item;
use crate::limits::{NAME_BYTES_MAX, QUEUE_NAME_CHARS_MAX};

/// The queue of a command that checks its name: letters, digits and `_-.:`.
///
/// # Errors
/// The text of the original; a name of 256 characters, which it takes, is refused with the bound of names here.
pub(crate) fn checked_queue(fields: &Fields<'_>) -> Result<Name, Refusal> {
    let name = match fields.item("queue") {
        Some(Item::Text(name)) if !name.is_empty() => name,
        _ => return Err("Queue name is required".into()),
    };
    if name.chars().count() > QUEUE_NAME_CHARS_MAX {
        return Err(format!("Queue name too long (max {QUEUE_NAME_CHARS_MAX} characters)").into());
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte)) {
        return Err("Queue name contains invalid characters".into());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("Queue name too long (max {NAME_BYTES_MAX} characters)").into());
    }
    Name::declared(name).map_err(|error| error.to_string().into())
}

/// The queue of a command that does not check its name; None: no queue can have it.
///
/// # Errors
/// It is missing.
pub(crate) fn any_queue(fields: &Fields<'_>) -> Result<Option<Name>, Refusal> {
    Ok(Name::declared(fields.need_text("queue")?).ok())
}
