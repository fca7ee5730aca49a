//! Finds the key to blame when a table does not fit the structs. It says what is wrong, and where it was given.

use toml::{Table, Value};

use super::layers::{Origins, fit};
use super::problem::Problem;

/// One step into a table.
#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

/// Finds the key to blame: every struct has defaults for all keys, so a key that does not fit alone is the one.
pub(super) fn blame(table: &Table, origins: &Origins, detail: String) -> Problem {
    let root = Value::Table(table.clone());
    let (path, value, detail) =
        culprit(&mut Vec::new(), &root).unwrap_or_else(|| (Vec::new(), root.clone(), detail));
    let mut key = String::new();
    for step in &path {
        match step {
            Step::Key(name) if key.is_empty() => key.push_str(name),
            Step::Key(name) => key.push_str(&format!(".{name}")),
            Step::Index(index) => key.push_str(&format!("[{index}]")),
        }
    }
    let secret = key.ends_with(".password") || key.ends_with(".token");
    let shown = if secret { "***".to_owned() } else { value.to_string().chars().take(120).collect() };
    origins.problem(&key, shown, detail)
}

fn culprit(path: &mut Vec<Step>, value: &Value) -> Option<(Vec<Step>, Value, String)> {
    let children: Vec<(Step, &Value)> = match value {
        Value::Table(table) => table.iter().map(|(k, v)| (Step::Key(k.clone()), v)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (Step::Index(i), v)).collect(),
        _ => Vec::new(),
    };
    for (step, child) in children {
        path.push(step);
        if let Err(detail) = fits_alone(path, child) {
            let deeper = culprit(path, child);
            return deeper.or_else(|| Some((path.clone(), child.clone(), detail)));
        }
        path.pop();
    }
    None
}

fn fits_alone(path: &[Step], value: &Value) -> Result<(), String> {
    let wrapped = path.iter().rev().fold(value.clone(), |inner, step| match step {
        Step::Key(key) => Value::Table(Table::from_iter([(key.clone(), inner)])),
        Step::Index(_) => Value::Array(vec![inner]),
    });
    match wrapped {
        Value::Table(table) => fit(&table).map(drop),
        _ => Ok(()),
    }
}
