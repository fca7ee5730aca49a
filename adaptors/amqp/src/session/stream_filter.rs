//! What a consumer wants of a stream: messages whose header `x-stream-filter-value` is one of its values, and those without one
//! if it says so. RabbitMQ leaves out what it can and has clients look again; here nothing else comes.
//!
//! | argument of `basic.consume` | value |
//! |---|---|
//! | `x-stream-filter` | a text, or an array of texts |
//! | `x-stream-match-unfiltered` | a boolean; false by default |

use framegate_adaptor_api::Egress;
use framegate_broker::HeaderValue;

use crate::codec::{MethodId, Table, Value};
use crate::failure::Failure;
use crate::limits::FILTER_VALUES_MAX;

/// Header of a message.
const VALUE: &str = "x-stream-filter-value";

/// See the top of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StreamFilter {
    values: Vec<Box<[u8]>>,
    unfiltered: bool,
}

impl StreamFilter {
    /// The filter of a consumer, if it has one.
    ///
    /// # Errors
    /// 406 for values of other types, or too many.
    pub(super) fn of(arguments: &Table<'_>, method: MethodId) -> Result<Option<Self>, Failure> {
        let refused =
            || Failure::precondition(method, "x-stream-filter is neither a text nor an array of texts");
        let mut values: Vec<Box<[u8]>> = Vec::new();
        match arguments.get("x-stream-filter") {
            None => return Ok(None),
            Some(Value::Str(value)) => values.push(value.into()),
            Some(Value::Array(array)) => {
                for item in array.iter() {
                    let Value::Str(value) = item else { return Err(refused()) };
                    if values.len() == FILTER_VALUES_MAX {
                        let text = format!("x-stream-filter has more than {FILTER_VALUES_MAX} values");
                        return Err(Failure::precondition(method, text));
                    }
                    values.push(value.into());
                }
            }
            Some(_) => return Err(refused()),
        }
        let unfiltered = arguments.get("x-stream-match-unfiltered") == Some(Value::Bool(true));
        Ok(Some(Self { values, unfiltered }))
    }

    /// Whether a message is wanted.
    pub(super) fn wants(&self, message: &Egress<'_>) -> bool {
        let mut found = None;
        message.headers.read(message.frame, &mut |name, value| {
            if let (VALUE, HeaderValue::Text(text)) = (name, value) {
                found = Some(self.values.iter().any(|wanted| **wanted == *text.as_bytes()));
            }
        });
        found.unwrap_or(self.unfiltered)
    }
}
