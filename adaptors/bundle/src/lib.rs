//! The list of protocols that are linked in: the `framegate-` dependencies of the manifest. Each crate registers itself;
//! the `use` lines, made by the build script, keep the linker from dropping it.

include!(concat!(env!("OUT_DIR"), "/protocols.rs"));
