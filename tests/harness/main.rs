//! The binary under test: the same entry as the product's.

fn main() -> std::process::ExitCode {
    framegate::main()
}
