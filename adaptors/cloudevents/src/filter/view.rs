//! A message as filters see it: the attributes that its JSON event would have, without writing it.

use std::borrow::Cow;

use framegate_adaptor_api::Egress;
use framegate_frame::is_reserved_from_clients;
use framegate_frame::names::{CONTEXT, DATACONTENTTYPE, TIME};

use super::{Attributes, Value};
use crate::event::{Scalar, Sink, check_value, media_type, private_of, scalar_of, visit};

/// See the module.
pub(crate) struct View<'a>(pub(crate) Egress<'a>);

impl Attributes for View<'_> {
    fn attribute(&self, name: &str) -> Option<Value<'_>> {
        let frame = self.0.frame;
        if name == DATACONTENTTYPE {
            return media_type(frame).map(|text| Value::Text(text.into()));
        }
        match frame.attr(name) {
            // as it stands in the frame: nearly always
            Some(value)
                if name != TIME && !is_reserved_from_clients(name) && check_value(name, value).is_ok() =>
            {
                let private = private_of(frame).unwrap_or_default();
                let scalar =
                    if CONTEXT.contains(&name) { Scalar::Text } else { scalar_of(private, name, value) };
                Some(typed(value.into(), scalar))
            }
            _ => {
                let mut found = Found { name, value: None };
                visit(self.0, None, &mut found);
                found.value
            }
        }
    }
}

/// Keeps the attribute of a name.
struct Found<'n> {
    name: &'n str,
    value: Option<Value<'static>>,
}

impl Sink for Found<'_> {
    fn attribute(&mut self, name: &str, value: &str, scalar: Scalar) {
        if name == self.name {
            self.value = Some(typed(value.to_owned().into(), scalar));
        }
    }
}

/// A number beyond 32 bits stays text.
fn typed(text: Cow<'_, str>, scalar: Scalar) -> Value<'_> {
    match scalar {
        Scalar::Boolean => Value::Bool(text == "true"),
        Scalar::Integer => text.parse().map_or(Value::Text(text), Value::Int),
        Scalar::Text => Value::Text(text),
    }
}
