//! Evaluation (spec sections 3.4 and 3.7). Every operation has a value even when it fails: the zero of its type, save where
//! the specification says otherwise.

use super::Attributes;
use super::parser::{Compare, Logic, Math, Node};
use super::value::{EvalError, Failure, Type, Value};

type Outcome<'a> = Result<Value<'a>, Failure<'a>>;

/// The value of a tree for an event.
pub(super) fn evaluate<'a>(node: &'a Node, event: &'a dyn Attributes) -> Outcome<'a> {
    match node {
        Node::Literal(value) => Ok(value.clone()),
        Node::Attribute(name) => {
            event.attribute(name).ok_or_else(|| failure(Type::Bool, EvalError::MissingAttribute))
        }
        Node::Exists(name) => Ok(Value::Bool(event.attribute(name).is_some())),
        Node::Not(operand) => not(operand, event),
        Node::Minus(operand) => {
            let value = operand_as_int(operand, event)?;
            value.checked_neg().map(Value::Int).ok_or_else(|| failure(Type::Int, EvalError::Math))
        }
        Node::Like(operand, pattern) => {
            let text = evaluate(operand, event).map_err(|f| failure(Type::Bool, f.error))?.into_text();
            Ok(Value::Bool(pattern.matches(&text)))
        }
        Node::In(operand, set) => is_in(operand, set, event),
        Node::Math(operator, left, right) => {
            let (left, right) = (operand_as_int(left, event)?, operand_as_int(right, event)?);
            math(*operator, left, right).map(Value::Int).ok_or_else(|| failure(Type::Int, EvalError::Math))
        }
        Node::Compare(operator, left, right) => {
            compare(*operator, left, right, event).map(Value::Bool).map_err(|e| failure(Type::Bool, e))
        }
        Node::Logic(before, last) => {
            logic(before, last, event).map(Value::Bool).map_err(|e| failure(Type::Bool, e))
        }
        Node::Call(function, arguments) => {
            let of = |error| failure(function.returns(), error);
            let mut values = Vec::with_capacity(arguments.len());
            for (at, argument) in arguments.iter().enumerate() {
                let value = evaluate(argument, event).map_err(|f| of(f.error))?;
                values.push(value.cast(function.argument(at)).map_err(of)?);
            }
            function.call(values)
        }
        Node::Unknown(..) => Err(failure(Type::Bool, EvalError::MissingFunction)),
    }
}

fn failure<'a>(kind: Type, error: EvalError) -> Failure<'a> {
    Failure { value: kind.zero(), error }
}

fn operand_as_int<'a>(node: &'a Node, event: &'a dyn Attributes) -> Result<i32, Failure<'a>> {
    let value = evaluate(node, event).map_err(|f| failure(Type::Int, f.error))?;
    value.into_int().map_err(|error| failure(Type::Int, error))
}

/// A value that is no Boolean counts as false, so that NOT gives true beside the error; the public cases want that for an
/// Integer too, although INT to BOOL is a legal cast elsewhere.
fn not<'a>(operand: &'a Node, event: &'a dyn Attributes) -> Outcome<'a> {
    match evaluate(operand, event) {
        Err(failed) => Err(failure(Type::Bool, failed.error)),
        Ok(Value::Int(_)) => Err(Failure { value: Value::Bool(true), error: EvalError::Cast }),
        Ok(value) => match value.into_bool() {
            Ok(value) => Ok(Value::Bool(!value)),
            Err(error) => Err(Failure { value: Value::Bool(true), error }),
        },
    }
}

/// Elements are cast to the type of what is looked for.
fn is_in<'a>(operand: &'a Node, set: &'a [Node], event: &'a dyn Attributes) -> Outcome<'a> {
    let of = |error| failure(Type::Bool, error);
    let wanted = evaluate(operand, event).map_err(|f| of(f.error))?;
    for element in set {
        let element = evaluate(element, event).map_err(|f| of(f.error))?;
        if element.cast(wanted.kind()).map_err(of)? == wanted {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn math(operator: Math, left: i32, right: i32) -> Option<i32> {
    match operator {
        Math::Add => left.checked_add(right),
        Math::Subtract => left.checked_sub(right),
        Math::Multiply => left.checked_mul(right),
        Math::Divide => left.checked_div(right),
        Math::Remainder => left.checked_rem(right),
    }
}

fn compare<'a>(
    operator: Compare,
    left: &'a Node,
    right: &'a Node,
    event: &'a dyn Attributes,
) -> Result<bool, EvalError> {
    let left = evaluate(left, event).map_err(|f| f.error)?;
    let right = evaluate(right, event).map_err(|f| f.error)?;
    if let Compare::Equal | Compare::NotEqual = operator {
        // the right side says which equality is meant
        let left = left.cast(right.kind())?;
        return Ok((left == right) == (operator == Compare::Equal));
    }
    let order = left.into_int()?.cmp(&right.into_int()?);
    Ok(match operator {
        Compare::Less => order.is_lt(),
        Compare::LessOrEqual => order.is_le(),
        Compare::Greater => order.is_gt(),
        _ => order.is_ge(),
    })
}

/// `first op (second op (...))`, without recursion: what comes later is negated by the XORs before it.
fn logic<'a>(
    before: &'a [(Node, Logic)],
    last: &'a Node,
    event: &'a dyn Attributes,
) -> Result<bool, EvalError> {
    let value = |node| evaluate(node, event).map_err(|f| f.error)?.into_bool();
    let mut negated = false;
    for (operand, operator) in before {
        match (operator, value(operand)?) {
            (Logic::And, false) => return Ok(negated),
            (Logic::Or, true) => return Ok(!negated),
            (Logic::Xor, operand) => negated ^= operand,
            (Logic::And, true) | (Logic::Or, false) => {}
        }
    }
    Ok(value(last)? ^ negated)
}
