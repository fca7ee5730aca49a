//! The framegate binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    framegate::main()
}
