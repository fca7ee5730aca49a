//! A protocol's section of the configuration, key by key. Never knows what a key means.

use serde_json::Value;

/// One key that the operator set.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Its name, one of those that the section has.
    pub key: &'a str,
    /// What it was set to.
    pub value: &'a Value,
}

impl<'a> Setting<'a> {
    /// A whole number.
    ///
    /// # Errors
    /// It is something else, or not within the bounds: key, value and what is allowed.
    pub fn number(&self, min: u64, max: u64) -> Result<u64, String> {
        let number = self.value.as_u64().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| self.must_be(format_args!("{min} to {max}")))
    }

    /// A text that is allowed.
    ///
    /// # Errors
    /// It is something else: key, value and `allowed`.
    pub fn text(&self, allowed: &str, is_allowed: impl Fn(&str) -> bool) -> Result<&'a str, String> {
        let text = self.value.as_str().filter(|text| is_allowed(text));
        text.ok_or_else(|| self.must_be(format_args!("{allowed}")))
    }

    fn must_be(&self, allowed: std::fmt::Arguments<'_>) -> String {
        format!("{} = {}: must be {allowed}", self.key, self.value)
    }
}

/// Hands over each key of a section that is set; `Null` is an empty section.
///
/// # Errors
/// The section is no map of keys, has a key beyond `keys`, or `set` refuses a value: what, and what is allowed.
pub fn read_section(
    name: &str,
    keys: &[&str],
    section: &Value,
    mut set: impl FnMut(Setting<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let members = match section {
        Value::Null => return Ok(()),
        Value::Object(members) => members,
        other => return Err(format!("{name} = {other}: must be a section with keys")),
    };
    for (key, value) in members {
        if !keys.contains(&key.as_str()) {
            return Err(format!("{key}: unknown key; {name} has {}", keys.join(", ")));
        }
        set(Setting { key, value })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_handed_over_and_what_is_wrong_is_named() {
        let read = |section: Value| {
            let mut all = Vec::new();
            read_section("toy", &["size", "kind"], &section, |setting| {
                all.push(match setting.key {
                    "size" => setting.number(1, 9)?.to_string(),
                    _ => setting.text("\"a\" or \"b\"", |text| ["a", "b"].contains(&text))?.to_owned(),
                });
                Ok(())
            })
            .map(|()| all)
        };
        assert_eq!(read(Value::Null), Ok(Vec::new()));
        assert_eq!(read(json!({"kind": "b", "size": 9})), Ok(vec!["b".to_owned(), "9".to_owned()]));
        for (section, error) in [
            (json!({"size": 0}), "size = 0: must be 1 to 9"),
            (json!({"size": 10}), "size = 10: must be 1 to 9"),
            (json!({"size": "1"}), "size = \"1\": must be 1 to 9"),
            (json!({"kind": "c"}), "kind = \"c\": must be \"a\" or \"b\""),
            (json!({"sort": 1}), "sort: unknown key; toy has size, kind"),
            (json!([1]), "toy = [1]: must be a section with keys"),
        ] {
            assert_eq!(read(section), Err(error.to_owned()));
        }
    }
}
