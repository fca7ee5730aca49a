//! The framegate binary.

fn main() {}
