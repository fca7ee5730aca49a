//! Placeholder face; see ARCHITECTURE.md.
