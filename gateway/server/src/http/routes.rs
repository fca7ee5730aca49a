//! Assembles the routes of one HTTP listener: its mounts, on the `http` listener the console and admin API too, then
//! policy, then the probes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use framegate_adaptor_api::{HttpContext, Serve, problem, websocket_router};
use framegate_broker::Name;

use super::health::{self, Health};
use super::policy;
use crate::config::HttpSection;
use crate::exit::Ending;
use crate::listeners::{HTTP, HttpMount, ListenerStats};

/// What the routes of all listeners have in common.
pub(crate) struct Assembly {
    /// Made once; vhost and settings are replaced for each mount.
    pub(crate) context: HttpContext,
    /// Sections of the protocols.
    pub(crate) settings: BTreeMap<&'static str, Arc<serde_json::Value>>,
    /// The probes.
    pub(crate) health: Health,
    /// Policy.
    pub(crate) section: HttpSection,
}

/// The routes of one listener.
///
/// # Errors
/// Two mounts that claim one path.
pub(crate) fn assemble(
    assembly: &Assembly,
    listener: &'static str,
    vhost: &Name,
    mounts: &[HttpMount],
    stats: &Arc<ListenerStats>,
) -> Result<Router, Ending> {
    let mut router = Router::new();
    let base = HttpContext { vhost: vhost.clone(), ..assembly.context.clone() };
    for HttpMount { protocol, mount } in mounts {
        let settings = assembly.settings.get(protocol).cloned().unwrap_or_default();
        let context = HttpContext { settings, ..base.clone() };
        let routes = match mount.serve {
            Serve::Http(routes) => routes(&context),
            Serve::WebSocket { .. } => websocket_router(mount, &context, stats.driver()).unwrap_or_default(),
            Serve::Stream(_) => continue,
        };
        router = merged(router, routes, listener, protocol)?;
    }
    if listener == HTTP {
        router = merged(router, framegate_web::router(&base), listener, "web")?;
    }
    let router = router.fallback(not_found).method_not_allowed_fallback(not_allowed);
    let router = policy::apply(router, &assembly.section, stats);
    let health = health::routes(assembly.health.clone()).method_not_allowed_fallback(not_allowed);
    merged(router, health, listener, "health")
}

/// axum's merge panics when two routers have a path in common; that is a start that failed, with its reason.
fn merged(router: Router, routes: Router, listener: &str, of: &str) -> Result<Router, Ending> {
    catch_unwind(AssertUnwindSafe(|| router.merge(routes))).map_err(|_| {
        Ending::usage(format!(
            "{listener}: the routes of '{of}' claim a path that another mount of this listener has; pass --listen with \
             an address of its own for one of them"
        ))
    })
}

async fn not_found(uri: Uri) -> Response {
    problem(StatusCode::NOT_FOUND, "not_found", &format!("there is nothing at {}", uri.path()))
}

async fn not_allowed(uri: Uri) -> Response {
    let detail = format!("{} does not take this method; see the header Allow", uri.path());
    problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &detail)
}
