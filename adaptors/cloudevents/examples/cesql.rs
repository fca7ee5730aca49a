//! Evaluates CESQL: one JSON object a line on standard input, `{"expression": "...", "event": {...}}`, one on standard output,
//! `{"result": ..., "error": null | "parse" | "math" | ...}`. The public cases are run through it.

use std::io::{BufRead, Write};

use framegate_cloudevents::{Attributes, EvalError, Expression, Failure, Value};
use serde_json::{Value as Json, json};

struct Event(Json);

impl Attributes for Event {
    fn attribute(&self, name: &str) -> Option<Value<'_>> {
        Some(match self.0.get(name)? {
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Int(number.as_i64().and_then(|number| number.try_into().ok())?),
            Json::String(text) => Value::Text(text.into()),
            other => Value::Text(other.to_string().into()),
        })
    }
}

fn shown(value: Value<'_>) -> Json {
    match value {
        Value::Bool(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::Text(text) => text.into_owned().into(),
    }
}

fn name(error: EvalError) -> &'static str {
    match error {
        EvalError::Math => "math",
        EvalError::Cast => "cast",
        EvalError::MissingAttribute => "missingAttribute",
        EvalError::MissingFunction => "missingFunction",
        EvalError::Function => "functionEvaluation",
    }
}

fn answer(line: &str) -> Result<Json, serde_json::Error> {
    let case: Json = serde_json::from_str(line)?;
    let event = Event(case["event"].clone());
    let Ok(expression) = Expression::parse(case["expression"].as_str().unwrap_or_default()) else {
        return Ok(json!({"result": null, "error": "parse"}));
    };
    Ok(match expression.evaluate(&event) {
        Ok(value) => json!({"result": shown(value), "error": null}),
        Err(Failure { value, error }) => json!({"result": shown(value), "error": name(error)}),
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        writeln!(out, "{}", answer(&line?)?)?;
    }
    Ok(())
}
