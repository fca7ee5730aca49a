//! Equality of header values: by type, then by value. Integers of any width are one type and floats of any width
//! another; an integer never equals a float, and text never equals bytes (as RabbitMQ compares).

use std::borrow::{Borrow, Cow};
use std::hash::{Hash, Hasher};

use crate::definition::HeaderValue;

/// A header value that can be looked up.
#[derive(Debug, Clone)]
pub(super) struct Value<'a>(pub(super) HeaderValue<'a>);

/// A value of any lifetime, so that a borrowed one finds an owned one in a map.
pub(super) trait AnyValue {
    fn value(&self) -> &HeaderValue<'_>;
}

impl AnyValue for Value<'_> {
    fn value(&self) -> &HeaderValue<'_> {
        &self.0
    }
}

impl<'a> Borrow<dyn AnyValue + 'a> for Value<'static> {
    fn borrow(&self) -> &(dyn AnyValue + 'a) {
        self
    }
}

impl PartialEq for dyn AnyValue + '_ {
    fn eq(&self, other: &Self) -> bool {
        equal(self.value(), other.value())
    }
}

impl Eq for dyn AnyValue + '_ {}

impl Hash for dyn AnyValue + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.value(), state);
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        equal(&self.0, &other.0)
    }
}

impl Eq for Value<'_> {}

impl Hash for Value<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.0, state);
    }
}

/// Both zeros are one number, all NaN are one value: equality must be reflexive for a map.
fn float_bits(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

fn equal(a: &HeaderValue<'_>, b: &HeaderValue<'_>) -> bool {
    match (a, b) {
        (HeaderValue::Float(a), HeaderValue::Float(b)) => float_bits(*a) == float_bits(*b),
        (a, b) => a == b,
    }
}

fn hash<H: Hasher>(value: &HeaderValue<'_>, state: &mut H) {
    match value {
        HeaderValue::Null => 0_u8.hash(state),
        HeaderValue::Bool(v) => (1_u8, *v).hash(state),
        HeaderValue::Int(v) => (2_u8, *v as u64).hash(state),
        HeaderValue::Float(v) => (3_u8, float_bits(*v)).hash(state),
        HeaderValue::Text(v) => (4_u8, Cow::as_ref(v)).hash(state),
        HeaderValue::Bytes(v) => (5_u8, Cow::as_ref(v)).hash(state),
        HeaderValue::Time(v) => (6_u8, *v).hash(state),
    }
}
