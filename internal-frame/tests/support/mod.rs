//! Reads the EventMesh vectors. Never checks anything: the tests do.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The vectors of a file in `tests/vectors/eventmesh`.
pub(crate) fn vectors(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/eventmesh").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut file: Value = serde_json::from_str(&text).expect("vector files are JSON");
    match file["vectors"].take() {
        Value::Array(vectors) => vectors,
        other => panic!("no vectors but {other}"),
    }
}

/// The bytes of a vector's `hex` member.
pub(crate) fn bytes_of(vector: &Value) -> Vec<u8> {
    let hex = vector["hex"].as_str().expect("every vector has bytes");
    let digits: Vec<u8> = hex.chars().map(|digit| digit.to_digit(16).expect("a hex digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
