//! A job as PUSH, PUSHB and PUSHF give it: options with their bounds, the name in either place, the data. The custom id is
//! `jobId` in PUSH and `customId` elsewhere. Never decides what an option does.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};

use super::fields::{Fields, Range, Refusal, units};
use crate::codec::{Item, Map, Raw, json_units, put_text};
use crate::limits::{
    ATTEMPTS_MAX, DATA_UNITS_MAX, DAY_MS, GROUP_ID_UNITS_MAX, GROUP_PRIORITY_MAX, JOB_NAME_UNITS_MAX,
    PRIORITY_MAX, YEAR_MS,
};

/// JSON text is at most so many units for each byte of MessagePack: no bytes at all take 2 and are `{"type":"Buffer","data":[]},`,
/// while text takes 6 and numbers less.
const UNITS_PER_BYTE: u64 = 14;

/// A job to make.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobInput<'a> {
    pub(crate) name: Cow<'a, str>,
    /// The name came inside the data, where clients of protocol version 2 look for it.
    pub(crate) is_legacy: bool,
    /// One MessagePack value; empty: `undefined`.
    pub(crate) data: Cow<'a, [u8]>,
    pub(crate) custom_id: Option<&'a str>,
    pub(crate) priority: i32,
    pub(crate) delay_ms: u64,
    pub(crate) max_attempts: u32,
    pub(crate) backoff: Backoff,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) unique: Option<Unique<'a>>,
    pub(crate) depends_on: Vec<&'a str>,
    pub(crate) parent_id: Option<&'a str>,
    pub(crate) children_ids: Vec<&'a str>,
    pub(crate) group: Option<Group<'a>>,
    pub(crate) lifo: bool,
    pub(crate) remove_on_complete: bool,
    pub(crate) remove_on_fail: bool,
    pub(crate) durable: bool,
    pub(crate) stall_timeout_ms: Option<i64>,
    pub(crate) stack_trace_limit: u32,
    /// Kept and shown only.
    pub(crate) tags: Vec<&'a str>,
    pub(crate) keep_logs: Option<i64>,
    pub(crate) size_limit: Option<i64>,
    pub(crate) debounce_id: Option<&'a str>,
    pub(crate) debounce_ttl_ms: Option<i64>,
    pub(crate) timestamp_ms: Option<u64>,
    pub(crate) repeat: Option<Raw<'a>>,
    pub(crate) on_child_failure: Policies,
}

/// How long the next attempt waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) delay_ms: u64,
    /// A plain number grows like an exponential one.
    pub(crate) kind: Option<BackoffKind>,
}

/// `backoff.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackoffKind {
    Fixed,
    Exponential,
}

/// De-duplication by key within the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unique<'a> {
    pub(crate) key: &'a str,
    pub(crate) ttl_ms: Option<i64>,
    pub(crate) extend: bool,
    pub(crate) replace: bool,
}

/// The group that a job is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group<'a> {
    pub(crate) id: &'a str,
    pub(crate) max_size: Option<i64>,
}

/// What a final failure does to the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Policies {
    pub(crate) fail_parent: bool,
    pub(crate) remove_dependency: bool,
    pub(crate) ignore_dependency: bool,
    pub(crate) continue_parent: bool,
}

impl<'a> JobInput<'a> {
    /// Reads a job. `id_field` names the field of the custom id.
    ///
    /// # Errors
    /// The text of the original for what is wrong first.
    pub(crate) fn read(fields: &Fields<'a>, id_field: &str) -> Result<Self, Refusal> {
        let (name, data, is_legacy) = name_and_data(fields)?;
        let group = group(fields)?;
        let priority = match group {
            Some(_) => match fields.number("priority", Range::whole(0, GROUP_PRIORITY_MAX)) {
                Ok(priority) => priority,
                Err(_) => {
                    return Err(format!("group.priority must be between 0 and {GROUP_PRIORITY_MAX}").into());
                }
            },
            None => fields.number("priority", Range::whole(-PRIORITY_MAX, PRIORITY_MAX))?,
        };
        let ms = |name: &str, max: i64| {
            Ok::<_, Refusal>(fields.number(name, Range::upto(max))?.map(i64::unsigned_abs))
        };
        let max_attempts = fields.number("maxAttempts", Range::whole(1, ATTEMPTS_MAX))?.unwrap_or(3);
        let custom_id = match fields.item(id_field) {
            Some(Item::Text(id)) if !id.is_empty() => Some(id),
            Some(Item::Text(_)) | None => None,
            Some(_) => return Err(format!("{id_field} must be a well-formed Unicode string").into()),
        };
        Ok(Self {
            name,
            is_legacy,
            data,
            custom_id,
            priority: i32::try_from(priority.unwrap_or(0)).unwrap_or(0),
            delay_ms: ms("delay", YEAR_MS)?.unwrap_or(0),
            max_attempts: u32::try_from(max_attempts).unwrap_or(3),
            backoff: backoff(fields)?,
            ttl_ms: ms("ttl", YEAR_MS)?,
            timeout_ms: ms("timeout", DAY_MS)?,
            unique: unique(fields)?,
            depends_on: fields.texts("dependsOn")?.unwrap_or_default(),
            parent_id: fields.text("parentId"),
            children_ids: fields.texts("childrenIds")?.unwrap_or_default(),
            group,
            lifo: fields.is_truthy("lifo"),
            remove_on_complete: fields.is_truthy("removeOnComplete"),
            remove_on_fail: fields.is_truthy("removeOnFail"),
            durable: fields.is_truthy("durable"),
            stall_timeout_ms: fields.lenient("stallTimeout"),
            stack_trace_limit: fields
                .lenient("stackTraceLimit")
                .map_or(10, |lines| u32::try_from(lines.max(0)).unwrap_or(u32::MAX)),
            tags: fields.texts("tags")?.unwrap_or_default(),
            keep_logs: fields.lenient("keepLogs"),
            size_limit: fields.lenient("sizeLimit"),
            debounce_id: fields.text("debounceId"),
            debounce_ttl_ms: fields.lenient("debounceTtl"),
            timestamp_ms: fields.lenient("timestamp").map(|ms| u64::try_from(ms).unwrap_or(0)),
            repeat: fields.raw("repeat").filter(|raw| raw.item() != Item::Nil),
            on_child_failure: Policies {
                fail_parent: fields.is_truthy("failParentOnFailure"),
                remove_dependency: fields.is_truthy("removeDependencyOnFailure"),
                ignore_dependency: fields.is_truthy("ignoreDependencyOnFailure"),
                continue_parent: fields.is_truthy("continueParentOnFailure"),
            },
        })
    }
}

/// A name, data, and whether the name came in the data.
type Named<'a> = (Cow<'a, str>, Cow<'a, [u8]>, bool);

/// The job's name, its data without the name, and whether the name was in the data.
fn name_and_data<'a>(fields: &Fields<'a>) -> Result<Named<'a>, Refusal> {
    let data = fields.raw("data");
    let own = fields.raw("name").map(Raw::item);
    let (name, data, is_legacy) = match (own, data.map(Raw::item)) {
        (None, Some(Item::Map(map))) => match map.get("name").map(Raw::item) {
            Some(Item::Text(name)) => (name, Cow::Owned(without_name(map)), true),
            _ => ("default", bytes_of(data), false),
        },
        (None, _) => ("default", bytes_of(data), false),
        (Some(Item::Text(name)), _) => (name, bytes_of(data), false),
        (Some(_), _) => ("", Cow::Borrowed(&[][..]), false),
    };
    if name.is_empty() || units(name) > JOB_NAME_UNITS_MAX {
        return Err("Job name must be a non-empty string of at most 256 characters".into());
    }
    check_data(data.as_ref(), fields.raw("data"))?;
    Ok((Cow::Borrowed(name), data, is_legacy))
}

fn bytes_of(data: Option<Raw<'_>>) -> Cow<'_, [u8]> {
    Cow::Borrowed(data.map_or(&[][..], Raw::bytes))
}

/// Data alone, within its bounds; empty: `undefined`.
pub(crate) fn checked_data<'a>(fields: &Fields<'a>) -> Result<&'a [u8], Refusal> {
    let raw = fields.raw("data");
    let bytes = raw.map_or(&[][..], Raw::bytes);
    check_data(bytes, raw)?;
    Ok(bytes)
}

/// The size that data may have, and that JSON can say it.
fn check_data(bytes: &[u8], raw: Option<Raw<'_>>) -> Result<(), Refusal> {
    let Some(raw) = raw else { return Ok(()) };
    let may_be_large = bytes.len() as u64 > DATA_UNITS_MAX / UNITS_PER_BYTE;
    // only a tag of a 64-bit integer can be what JSON cannot say, and most data hold no such byte at all
    let may_be_big = bytes.iter().any(|byte| matches!(byte, 0xCF | 0xD3));
    if may_be_large || may_be_big {
        match json_units(raw) {
            None => return Err("Job data must be JSON serializable".into()),
            Some(units) if units > DATA_UNITS_MAX => return Err("Job data too large (max 10MB)".into()),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The entries of a map but those named `name`.
fn without_name(map: Map<'_>) -> Vec<u8> {
    let is_name = |key: Raw<'_>| matches!(key.item(), Item::Text("name"));
    let kept = map.filter(|(key, _)| !is_name(*key)).count();
    let mut buffer = BytesMut::new();
    put_map_head(&mut buffer, kept);
    for (key, value) in map.filter(|(key, _)| !is_name(*key)) {
        buffer.put_slice(key.bytes());
        buffer.put_slice(value.bytes());
    }
    buffer.into()
}

/// The same with `name` put first again, for a client that looks for it there. Data that is no map is unchanged.
pub(crate) fn with_name(data: Raw<'_>, name: &str) -> Option<Vec<u8>> {
    let Item::Map(map) = data.item() else { return None };
    let mut buffer = BytesMut::new();
    put_map_head(&mut buffer, map.count() + 1);
    put_text(&mut buffer, "name");
    put_text(&mut buffer, name);
    for (key, value) in map {
        buffer.put_slice(key.bytes());
        buffer.put_slice(value.bytes());
    }
    Some(buffer.into())
}

fn put_map_head(buffer: &mut BytesMut, count: usize) {
    match u16::try_from(count) {
        Ok(count) => {
            buffer.put_u8(0xDE);
            buffer.put_u16(count);
        }
        Err(_) => {
            buffer.put_u8(0xDF);
            buffer.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }
}

fn group<'a>(fields: &Fields<'a>) -> Result<Option<Group<'a>>, Refusal> {
    let max_size = fields.positive("groupMaxSize", "group.maxSize")?;
    let id = match fields.item("groupId") {
        None => return Ok(None),
        Some(Item::Text(id)) => id,
        Some(_) => return Err("groupId must be a string".into()),
    };
    check_group_id(id)?;
    Ok(Some(Group { id, max_size }))
}

/// 1 to 256 characters without NUL.
pub(crate) fn check_group_id(id: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.contains('\0') {
        return Err("groupId must be a non-empty string".into());
    }
    if units(id) > GROUP_ID_UNITS_MAX {
        return Err(format!("groupId must be at most {GROUP_ID_UNITS_MAX} characters").into());
    }
    Ok(())
}

fn backoff(fields: &Fields<'_>) -> Result<Backoff, Refusal> {
    let range = Range::upto(DAY_MS);
    let Some(Item::Map(map)) = fields.item("backoff") else {
        let delay_ms = fields.number("backoff", range)?.unwrap_or(1000).unsigned_abs();
        return Ok(Backoff { delay_ms, kind: None });
    };
    let map = Fields::of(map);
    let kind = match map.text("type") {
        Some("fixed") => BackoffKind::Fixed,
        Some("exponential") => BackoffKind::Exponential,
        _ => return Err("backoff.type must be 'fixed' or 'exponential'".into()),
    };
    match map.number_as("delay", "backoff.delay", range)? {
        Some(delay) => Ok(Backoff { delay_ms: delay.unsigned_abs(), kind: Some(kind) }),
        None => Err("backoff.delay is required".into()),
    }
}

fn unique<'a>(fields: &Fields<'a>) -> Result<Option<Unique<'a>>, Refusal> {
    let Some(key) = fields.text("uniqueKey").filter(|key| !key.is_empty()) else { return Ok(None) };
    let Some(dedup) = fields.map("dedup")? else {
        return Ok(Some(Unique { key, ttl_ms: None, extend: false, replace: false }));
    };
    Ok(Some(Unique {
        key,
        ttl_ms: dedup.lenient("ttl").filter(|ttl| *ttl > 0),
        extend: dedup.is_truthy("extend"),
        replace: dedup.is_truthy("replace"),
    }))
}
