//! Each rule of the language by our own cases. The public cases are run by `tests/run --only cesql`.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// An event with these attributes.
struct Event(BTreeMap<&'static str, Value<'static>>);

impl Attributes for Event {
    fn attribute(&self, name: &str) -> Option<Value<'_>> {
        self.0.get(name).cloned()
    }
}

fn event() -> Event {
    let text = |text: &'static str| Value::Text(text.into());
    Event(BTreeMap::from([
        ("id", text("a-1")),
        ("source", text("/shop/é")),
        ("type", text("com.order.created")),
        ("count", Value::Int(7)),
        ("flag", Value::Bool(true)),
        ("hop", text("5")),
    ]))
}

/// What an expression gives: its value and error, as one text.
fn shown(expression: &str) -> String {
    let event = event();
    let parsed = match Expression::parse(expression) {
        Ok(parsed) => parsed,
        Err(error) => return format!("parse {error}"),
    };
    let show = |value: &Value<'_>| match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Text(text) => format!("'{text}'"),
    };
    match parsed.evaluate(&event) {
        Ok(value) => show(&value),
        Err(Failure { value, error }) => format!("{} {error:?}", show(&value)),
    }
}

fn all(cases: &[(&str, &str)]) {
    for (expression, wanted) in cases {
        assert_eq!(shown(expression), *wanted, "{expression}");
    }
}

#[test]
fn literals_are_numbers_texts_and_booleans() {
    all(&[
        ("2147483647", "2147483647"),
        ("-2147483648", "-2147483648"),
        ("+3", "3"),
        ("'it\\'s'", "'it's'"),
        (r#""a\"b\c""#, r#"'a"b\c'"#),
        ("tRUE", "true"),
        ("'é'", "'é'"),
    ]);
}

#[test]
fn attributes_keep_their_type_and_any_case_names_them() {
    all(&[
        ("count", "7"),
        ("COUNT + 1", "8"),
        ("flag AND TRUE", "true"),
        ("missing", "false MissingAttribute"),
        ("EXISTS count AND NOT EXISTS missing", "true"),
    ]);
}

#[test]
fn operators_bind_as_in_the_published_grammar() {
    all(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 2 - 3", "5"),
        ("100 / 10 / 5", "2"),
        ("-2 * -3", "6"),
        ("4-1", "3"),
        ("1 + 1 = 2", "true"),
        ("NOT TRUE = FALSE", "true"),
        ("NOT 'a' LIKE 'b'", "false Cast"),
        ("- 5 + 7", "2"),
        ("TRUE OR FALSE AND FALSE", "true"),
        ("FALSE AND FALSE OR TRUE", "false"),
        ("TRUE XOR TRUE AND FALSE", "true"),
        ("TRUE XOR FALSE OR TRUE", "false"),
    ]);
}

#[test]
fn logic_stops_where_the_result_is_certain() {
    all(&[
        ("FALSE AND missing = 1", "false"),
        ("TRUE OR missing = 1", "true"),
        ("TRUE AND missing = 1", "false MissingAttribute"),
        ("FALSE XOR missing = 1", "false MissingAttribute"),
        ("TRUE XOR (FALSE AND missing)", "true"),
        ("1 AND 'yes'", "false Cast"),
    ]);
}

#[test]
fn the_right_side_says_which_equality_is_meant() {
    all(&[
        ("'5' = 5", "true"),
        ("5 = '5'", "true"),
        ("5 = '05'", "false"),
        ("'05' = 5", "true"),
        ("TRUE = 'true'", "true"),
        ("TRUE = 'TRUE'", "false"),
        ("'TRUE' = TRUE", "true"),
        ("'x' = 5", "false Cast"),
        ("'x' != 5", "false Cast"),
        ("hop < 10", "true"),
        ("'a' < 'b'", "false Cast"),
    ]);
}

#[test]
fn arithmetic_that_leaves_32_bits_is_an_error() {
    all(&[
        ("2147483647 + 1", "0 Math"),
        ("-2147483648 - 1", "0 Math"),
        ("-2147483648 / -1", "0 Math"),
        ("-(-2147483648)", "0 Math"),
        ("65536 * 65536", "0 Math"),
        ("7 % -3", "1"),
        ("-7 % 3", "-1"),
        ("-7 / 2", "-3"),
        ("5 + 'x'", "0 Cast"),
    ]);
}

#[test]
fn sets_are_cast_to_what_is_looked_for() {
    all(&[
        ("hop IN (1, 5)", "true"),
        ("count IN ('7')", "true"),
        ("count IN ('x', '7')", "false Cast"),
        ("count NOT IN (1, 2)", "true"),
        ("'a' IN (missing)", "false MissingAttribute"),
    ]);
}

#[test]
fn like_takes_characters_not_bytes() {
    all(&[
        ("source LIKE '/shop/_'", "true"),
        ("type LIKE 'com.%.created'", "true"),
        ("type NOT LIKE 'com.%'", "false"),
        ("count LIKE '7'", "true"),
    ]);
}

#[test]
fn functions_count_characters_and_know_their_range() {
    all(&[
        ("LENGTH(source)", "7"),
        ("RIGHT(source, 1)", "'é'"),
        ("LEFT('é!', 1)", "'é'"),
        ("UPPER('é')", "'É'"),
        ("SUBSTRING('é!?', 2, 1)", "'!'"),
        ("SUBSTRING('abc', 1, -1)", "'' Function"),
        ("SUBSTRING('', 1)", "'' Function"),
        ("CONCAT_WS('-', id, count, flag)", "'a-1-7-true'"),
        ("LENGTH(missing)", "0 MissingAttribute"),
        ("LEFT('abc', 'x')", "'' Cast"),
        ("INT('2147483648')", "0 Cast"),
        ("INT(' 1')", "0 Cast"),
        ("NOPE(1)", "false MissingFunction"),
        ("ABS(1, 2)", "false MissingFunction"),
    ]);
    assert_eq!(
        Expression::parse("1 IN (ABS(NOPE(1)))").unwrap().unknown_function().as_deref(),
        Some("NOPE with 1 arguments")
    );
    assert_eq!(Expression::parse("CONCAT() = ''").unwrap().unknown_function(), None);
}

#[test]
fn text_that_functions_make_has_a_bound() {
    let doubled = (0..17).fold("'x'".to_owned(), |inner, _| format!("CONCAT({inner}, {inner})"));
    assert!(doubled.len() > 4096, "longer than an expression may be, so concatenate an attribute instead");
    let event = Event(BTreeMap::from([("id", Value::Text("x".repeat(60_000).into()))]));
    let expression = Expression::parse("CONCAT(id, id)").unwrap();
    let failure = expression.evaluate(&event).unwrap_err();
    assert_eq!((failure.error, failure.value), (EvalError::Function, Value::Text("".into())));
}

#[test]
fn what_is_no_expression_is_refused_with_its_place() {
    all(&[
        ("", "parse at byte 0: a value should stand here"),
        ("1 +", "parse at byte 3: a value should stand here"),
        ("(1", "parse at byte 2: a closing parenthesis is missing"),
        ("1 2", "parse at byte 2: the expression should end here"),
        ("'abc", "parse at byte 0: the text that begins with ' has no end"),
        ("id LIKE 5", "parse at byte 8: LIKE needs a pattern in quotes"),
        ("id IN ()", "parse at byte 7: a value should stand here"),
        ("id IN 5", "parse at byte 6: IN needs a set in parentheses"),
        ("2147483648", "parse at byte 0: the number does not fit in 32 bits"),
        ("my_ext = 1", "parse at byte 0: no attribute can be named my_ext"),
        ("a ? b", "parse at byte 2: '?' has no meaning here"),
        ("EXISTS (id)", "parse at byte 7: EXISTS needs the name of an attribute"),
        ("AND", "parse at byte 0: a value should stand here"),
        ("+'5'", "parse at byte 1: + stands before a number only"),
    ]);
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    assert!(Expression::parse(&deep(20)).is_ok());
    assert!(Expression::parse(&deep(100)).unwrap_err().reason.contains("nested deeper"));
    assert!(Expression::parse(&"-".repeat(4000)).unwrap_err().reason.contains("nested deeper"));
    assert!(Expression::parse(&format!("1{}", "+1".repeat(1000))).is_err());
    let wide = format!("FALSE{}", " OR FALSE".repeat(400));
    assert_eq!(Expression::parse(&wide).unwrap().evaluate(&event()), Ok(Value::Bool(false)));
    assert!(Expression::parse(&" ".repeat(5000)).unwrap_err().reason.contains("longer"));
}

#[test]
fn only_true_without_error_passes() {
    let passes = |text: &str| Expression::parse(text).unwrap().passes(&event());
    assert!(passes("type = 'com.order.created'") && passes("flag"));
    assert!(!passes("count") && !passes("'true'") && !passes("NOT 10") && !passes("missing = 1"));
}

proptest! {
    #[test]
    fn any_text_is_an_expression_or_a_refusal(text in "[ ()0-9a-cA-E'\"\\\\%_+*/<>=!,-]{0,40}|.{0,40}") {
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.evaluate(&event());
        }
    }

    #[test]
    fn words_in_any_order_never_panic(words in prop::collection::vec(prop::sample::select(vec![
        "AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "id", "count", "5", "'a%'", "(", ")", ",", "-", "+",
        "*", "/", "%", "=", "<>", "<", "ABS", "CONCAT", "SUBSTRING",
    ]), 0..25)) {
        if let Ok(expression) = Expression::parse(&words.join(" ")) {
            let _ = expression.evaluate(&event());
        }
    }
}
