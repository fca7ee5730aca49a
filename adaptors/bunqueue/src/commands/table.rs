//! Every command that is served, once. A name that is not here is answered as the original answers an unknown one.

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Command {
    /// `cmd`, exactly so.
    pub(crate) name: &'static str,
    pub(crate) op: Op,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Hello,
    Auth,
    Ping,
}

/// Sorted by name.
const COMMANDS: [Command; 3] = [
    Command { name: "Auth", op: Op::Auth },
    Command { name: "Hello", op: Op::Hello },
    Command { name: "Ping", op: Op::Ping },
];

/// A command by name.
pub(crate) fn command(name: &str) -> Option<&'static Command> {
    let at = COMMANDS.binary_search_by(|command| command.name.cmp(name)).ok()?;
    COMMANDS.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name() {
        for entry in &COMMANDS {
            assert_eq!(command(entry.name), Some(entry));
        }
        assert_eq!(command("ping"), None);
        assert_eq!(command(""), None);
    }
}
