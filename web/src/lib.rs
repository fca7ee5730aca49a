//! The console at `/` and the admin API under `/admin/v1` that it, `framegate status` and scripts use.
//!
//! Both see the broker through the same client as any HTTP route. The console is four files in the binary: no build
//! step, nothing from elsewhere.

mod access;
mod api;
mod assets;
mod problem;

pub use api::router;
