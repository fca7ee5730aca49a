//! Properties of a message: the JSON object that a client gave, checked, and the few values that other protocols and the broker
//! know. Never changes the object: it is delivered as it came, with what is missing added.

use std::borrow::Cow;

use framegate_adaptor_api::AdaptError;

use crate::json::{self, Shape};

/// Largest time to live in ms that is kept: about 136 years.
const EXPIRATION_MS_MAX: u64 = 1 << 42;

/// Properties with a meaning beyond this protocol. Absent ones are None.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Properties<'a> {
    pub(crate) content_type: Option<Cow<'a, str>>,
    pub(crate) delivery_mode: Option<i64>,
    pub(crate) priority: Option<i32>,
    pub(crate) correlation_id: Option<Cow<'a, str>>,
    pub(crate) reply_to: Option<Cow<'a, str>>,
    pub(crate) expiration_ms: Option<u64>,
    pub(crate) message_id: Option<Cow<'a, str>>,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) message_type: Option<Cow<'a, str>>,
    pub(crate) user_id: Option<Cow<'a, str>>,
    /// There are members that only this protocol's own object can carry.
    pub(crate) has_own: bool,
}

impl<'a> Properties<'a> {
    /// Reads an object. Members that the protocol does not know are allowed; null is absent.
    ///
    /// # Errors
    /// `Invalid` naming the property.
    pub(crate) fn parse(object: &'a str) -> Result<Self, AdaptError> {
        let mut properties = Self::default();
        let mut problem = None;
        let read = json::members(object, |name, raw| {
            if let Err(reason) = properties.take(&name, raw) {
                problem.get_or_insert_with(|| invalid(&format!("properties.{name}"), reason));
            }
        });
        read.map_err(|error| invalid("properties", &error.to_string()))?;
        problem.map_or(Ok(properties), Err)
    }

    fn take(&mut self, name: &str, raw: &'a str) -> Result<(), &'static str> {
        if json::shape(raw) == Shape::Null {
            self.has_own = true;
            return Ok(());
        }
        match name {
            "contentType" => self.content_type = Some(text(raw)?),
            "correlationId" => self.correlation_id = Some(text(raw)?),
            "replyTo" => self.reply_to = Some(text(raw)?),
            "messageId" => self.message_id = Some(text(raw)?).filter(|id| !id.is_empty()),
            "type" => self.message_type = Some(text(raw)?),
            "deliveryMode" => {
                let mode = json::integer(raw).filter(|mode| matches!(mode, 1 | 2));
                self.delivery_mode = Some(mode.ok_or("must be 1 or 2")?);
                self.has_own |= mode == Some(1);
            }
            "priority" => {
                let priority = json::integer(raw).filter(|priority| (0..=255).contains(priority));
                self.priority = priority.and_then(|priority| i32::try_from(priority).ok());
                self.priority.ok_or("must be a whole number from 0 to 255")?;
            }
            "timestamp" => {
                self.timestamp_ms = Some(json::integer(raw).ok_or("must be a whole number of ms")?);
            }
            "expiration" => {
                self.has_own = true;
                self.expiration_ms = Some(expiration(raw).ok_or("must be a whole number of ms, 0 or more")?);
            }
            "userId" => {
                self.has_own = true;
                self.user_id = Some(text(raw)?);
            }
            "contentEncoding" | "appId" => {
                self.has_own = true;
                text(raw)?;
            }
            _ => self.has_own = true,
        }
        Ok(())
    }
}

fn text(raw: &str) -> Result<Cow<'_, str>, &'static str> {
    json::text(raw).ok_or("must be a string")
}

/// A number, or a string of digits.
fn expiration(raw: &str) -> Option<u64> {
    let number = match json::shape(raw) {
        Shape::Text => {
            let digits = json::text(raw).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse().ok()?
        }
        _ => u64::try_from(json::integer(raw)?).ok()?,
    };
    Some(number).filter(|ms| *ms <= EXPIRATION_MS_MAX)
}

pub(crate) fn invalid(what: &str, reason: &str) -> AdaptError {
    AdaptError::Invalid { what: what.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_properties_are_read_and_own_ones_noticed() {
        let object =
            r#"{"contentType":"a/b","priority":4,"messageId":"m","timestamp":5,"type":"t","replyTo":"r"}"#;
        let properties = Properties::parse(object).unwrap();
        assert_eq!(properties.content_type.as_deref(), Some("a/b"));
        assert_eq!((properties.priority, properties.timestamp_ms), (Some(4), Some(5)));
        assert!(!properties.has_own);
        for own in [r#"{"appId":"a"}"#, r#"{"x":[1]}"#, r#"{"deliveryMode":1}"#, r#"{"type":null}"#] {
            assert!(Properties::parse(own).unwrap().has_own, "{own}");
        }
        for expiration in ["5000", "\"5000\"", "5e3"] {
            let object = format!("{{\"expiration\":{expiration}}}");
            assert_eq!(Properties::parse(&object).unwrap().expiration_ms, Some(5000));
        }
    }

    #[test]
    fn a_bad_property_is_named() {
        for (object, name) in [
            (r#"{"contentType":1}"#, "properties.contentType"),
            (r#"{"deliveryMode":3}"#, "properties.deliveryMode"),
            (r#"{"priority":256}"#, "properties.priority"),
            (r#"{"priority":-1}"#, "properties.priority"),
            (r#"{"expiration":"1x"}"#, "properties.expiration"),
            (r#"{"expiration":""}"#, "properties.expiration"),
            (r#"{"expiration":-1}"#, "properties.expiration"),
            (r#"{"timestamp":"now"}"#, "properties.timestamp"),
            (r#"{"appId":{}}"#, "properties.appId"),
        ] {
            match Properties::parse(object) {
                Err(AdaptError::Invalid { what, .. }) => assert_eq!(what, name),
                other => panic!("{object}: {other:?}"),
            }
        }
    }
}
