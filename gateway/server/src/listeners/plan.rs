//! Which listeners there are: the registry's mounts, moved and switched off by the configuration. Pure; opens nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use framegate_adaptor_api::{DefaultListener, Mount, ProtocolPlugin, Serve, Session, SessionContext};
use framegate_broker::Name;

use crate::config::{Config, ListenerSection, Origins, Problem};

/// Name of the server's own listener, which shared mounts are merged into.
pub(crate) const HTTP: &str = "http";
const HTTP_PORT: u16 = 8080;

/// A listener to be bound.
pub(crate) struct Planned {
    /// Its name.
    pub(crate) name: &'static str,
    /// Where.
    pub(crate) addr: SocketAddr,
    /// The address is the built-in default.
    pub(crate) is_default: bool,
    /// Vhost of clients that name none.
    pub(crate) vhost: Name,
    /// What it does with a connection.
    pub(crate) kind: PlannedKind,
}

/// What a listener does with a connection.
pub(crate) enum PlannedKind {
    /// Hands it to a session.
    Stream {
        /// Name of the protocol, also of its section of the configuration.
        protocol: &'static str,
        /// Makes the session.
        open: fn(&SessionContext) -> Box<dyn Session>,
    },
    /// Serves HTTP with the routes of these mounts.
    Http(Vec<HttpMount>),
}

/// A mount on an HTTP listener.
#[derive(Clone, Copy)]
pub(crate) struct HttpMount {
    /// Name of the protocol, also of its section of the configuration.
    pub(crate) protocol: &'static str,
    /// What it serves.
    pub(crate) mount: &'static Mount,
}

/// Plans all listeners, sorted by name.
///
/// # Errors
/// A listener or protocol in the configuration that does not exist, a mount that wants to share a listener that is none.
pub(crate) fn plan(
    protocols: &[&'static ProtocolPlugin],
    config: &Config,
    origins: &Origins,
) -> Result<Vec<Planned>, Problem> {
    known_names(protocols, config, origins)?;
    let mut streams = Vec::new();
    let mut https: BTreeMap<&'static str, (Placed, Vec<HttpMount>)> = BTreeMap::new();
    https.insert(HTTP, (placed(config, HTTP, Some(HTTP_PORT)), Vec::new()));
    let mut shared = Vec::new();
    for plugin in protocols {
        for mount in plugin.mounts {
            let port = match mount.default {
                DefaultListener::Port(port) => Some(port),
                DefaultListener::Off(_) | DefaultListener::Shared(_) => None,
            };
            let place = placed(config, mount.name, port);
            let http = HttpMount { protocol: plugin.name, mount };
            match (mount.serve, mount.default) {
                (Serve::Stream(open), _) => streams.push((plugin.name, mount.name, open, place)),
                (_, DefaultListener::Shared(host)) if place.is_default => shared.push((host, http)),
                _ => {
                    https.entry(mount.name).or_insert((place, Vec::new())).1.push(http);
                }
            }
        }
    }
    for (host, http) in shared {
        let Some((_, mounts)) = https.get_mut(host) else {
            let allowed = format!("'{host}' is no HTTP listener, but protocol '{}' shares it", http.protocol);
            return Err(origins.problem(&format!("listeners.{}", http.mount.name), "(shared)", allowed));
        };
        mounts.push(http);
    }
    let mut planned = Vec::new();
    for (protocol, name, open, place) in streams {
        planned.extend(listener(config, name, place, PlannedKind::Stream { protocol, open }));
    }
    for (name, (place, mounts)) in https {
        planned.extend(listener(config, name, place, PlannedKind::Http(mounts)));
    }
    planned.sort_by_key(|p| p.name);
    Ok(planned)
}

/// Every listener with the address in force, for the effective configuration. Mounts that share a listener are left out.
pub(crate) fn effective(
    protocols: &[&'static ProtocolPlugin],
    planned: &[Planned],
) -> BTreeMap<String, ListenerSection> {
    let own = |mount: &&Mount| !matches!(mount.default, DefaultListener::Shared(_));
    let names = protocols.iter().flat_map(|p| p.mounts.iter().filter(own).map(|m| m.name)).chain([HTTP]);
    let off =
        names.map(|name| (name.to_owned(), ListenerSection { addr: Some("off".to_owned()), vhost: None }));
    let mut all: BTreeMap<String, ListenerSection> = off.collect();
    for listener in planned {
        let (addr, vhost) = (Some(listener.addr.to_string()), Some(listener.vhost.to_string()));
        all.insert(listener.name.to_owned(), ListenerSection { addr, vhost });
    }
    all
}

/// Where the configuration puts a listener.
#[derive(Debug, Clone, Copy)]
struct Placed {
    addr: Option<SocketAddr>,
    is_default: bool,
}

fn placed(config: &Config, name: &str, default_port: Option<u16>) -> Placed {
    match config.listeners.get(name).and_then(|l| l.addr.as_deref()) {
        // An address that does not parse was refused by the configuration; "off" is left.
        Some(addr) => Placed { addr: addr.parse().ok(), is_default: false },
        None => Placed {
            addr: default_port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
            is_default: true,
        },
    }
}

fn listener(config: &Config, name: &'static str, place: Placed, kind: PlannedKind) -> Option<Planned> {
    let vhost = config.listeners.get(name).and_then(|l| l.vhost.as_deref()).unwrap_or("/");
    let vhost = Name::new(vhost).unwrap_or_default();
    place.addr.map(|addr| Planned { name, addr, is_default: place.is_default, vhost, kind })
}

fn known_names(
    protocols: &[&'static ProtocolPlugin],
    config: &Config,
    origins: &Origins,
) -> Result<(), Problem> {
    let mut listeners: Vec<&str> = protocols.iter().flat_map(|p| p.mounts.iter().map(|m| m.name)).collect();
    listeners.push(HTTP);
    listeners.sort_unstable();
    for (name, section) in &config.listeners {
        if !listeners.contains(&name.as_str()) {
            let value = section.addr.as_deref().unwrap_or("{}");
            let allowed = format!("there is no such listener; there are {}", listeners.join(", "));
            let key = match section.addr {
                Some(_) => format!("listeners.{name}.addr"),
                None => format!("listeners.{name}"),
            };
            return Err(origins.problem(&key, format!("{value:?}"), allowed));
        }
    }
    for (name, settings) in &config.protocols {
        let key = format!("protocols.{name}");
        let Some(plugin) = protocols.iter().find(|p| p.name == name) else {
            let names: Vec<&str> = protocols.iter().map(|p| p.name).collect();
            let allowed = format!("there is no such protocol; there are {}", names.join(", "));
            return Err(origins.problem(&key, settings, allowed));
        };
        (plugin.check)(settings).map_err(|said| origins.problem(&key, settings, said))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, load};

    fn no_session(_: &SessionContext) -> Box<dyn Session> {
        unreachable!("plans open no sessions")
    }

    fn no_routes(_: &framegate_adaptor_api::HttpContext) -> axum::Router {
        axum::Router::new()
    }

    fn even(settings: &serde_json::Value) -> Result<(), String> {
        match settings.get("size").and_then(serde_json::Value::as_u64) {
            Some(size) if size % 2 == 1 => Err("size must be even".to_owned()),
            _ => Ok(()),
        }
    }

    static TOY: ProtocolPlugin = ProtocolPlugin {
        name: "toy",
        mounts: &[
            Mount { name: "toy", default: DefaultListener::Port(7000), serve: Serve::Stream(no_session) },
            Mount { name: "toy-http", default: DefaultListener::Off(7001), serve: Serve::Http(no_routes) },
            Mount {
                name: "toy-web",
                default: DefaultListener::Shared("http"),
                serve: Serve::Http(no_routes),
            },
        ],
        check: even,
    };

    fn planned(listen: &[(&str, &str)]) -> Result<Vec<Planned>, String> {
        let listen = listen.iter().map(|(n, a)| ((*n).to_owned(), (*a).to_owned())).collect();
        let (config, origins) =
            load(None, [], &Flags { listen, ..Flags::default() }).map_err(|e| e.to_string())?;
        plan(&[&TOY], &config, &origins).map_err(|e| e.to_string())
    }

    fn shown(plan: &[Planned]) -> Vec<String> {
        let mounts = |kind: &PlannedKind| match kind {
            PlannedKind::Stream { .. } => "stream".to_owned(),
            PlannedKind::Http(mounts) => mounts.iter().map(|m| m.mount.name).collect::<Vec<_>>().join("+"),
        };
        plan.iter().map(|p| format!("{} {} {} [{}]", p.name, p.addr, p.is_default, mounts(&p.kind))).collect()
    }

    #[test]
    fn defaults_are_loopback_and_shared_mounts_join_the_http_listener() {
        let plan = planned(&[]).expect("a plan");
        assert_eq!(shown(&plan), ["http 127.0.0.1:8080 true [toy-web]", "toy 127.0.0.1:7000 true [stream]"]);
        assert_eq!(plan[0].vhost, "/");
    }

    #[test]
    fn listeners_move_go_off_and_come_on() {
        let plan =
            planned(&[("toy", "off"), ("toy-http", "127.0.0.1:0"), ("toy-web", "[::1]:9")]).expect("a plan");
        assert_eq!(
            shown(&plan),
            [
                "http 127.0.0.1:8080 true []",
                "toy-http 127.0.0.1:0 false [toy-http]",
                "toy-web [::1]:9 false [toy-web]"
            ]
        );
        assert_eq!(
            shown(&planned(&[("http", "off")]).expect("a plan")),
            ["toy 127.0.0.1:7000 true [stream]"]
        );
        assert_eq!(planned(&[("toy-web", "off")]).expect("a plan").len(), 2);
    }

    #[test]
    fn the_effective_listeners_are_all_that_have_an_address_or_could() {
        let plan = planned(&[("toy", "127.0.0.1:5")]).expect("a plan");
        let shown: Vec<String> = effective(&[&TOY], &plan)
            .into_iter()
            .map(|(name, l)| format!("{name} {} {}", l.addr.unwrap_or_default(), l.vhost.unwrap_or_default()))
            .collect();
        assert_eq!(shown, ["http 127.0.0.1:8080 /", "toy 127.0.0.1:5 /", "toy-http off "]);
    }

    #[test]
    fn unknown_names_are_refused_with_those_that_exist() {
        assert_eq!(
            planned(&[("tyo", "off")]).err().expect("refused"),
            "flag --listen: listeners.tyo.addr = \"off\": there is no such listener; there are http, toy, toy-http, \
             toy-web"
        );
    }

    #[test]
    fn a_protocol_checks_its_own_section() {
        let refused = |value: &str, name: &str| {
            let env = [(format!("FRAMEGATE_PROTOCOLS__{name}__SIZE"), value.to_owned())];
            let (config, origins) = load(None, env, &Flags::default()).expect("a configuration");
            plan(&[&TOY], &config, &origins).err().map(|e| e.to_string())
        };
        assert_eq!(refused("2", "TOY"), None);
        let said = refused("3", "TOY").expect("refused");
        assert!(said.contains("protocols.toy = {\"size\":3}: size must be even"), "{said}");
        let said = refused("3", "TOYS").expect("refused");
        assert!(said.contains("there is no such protocol; there are toy"), "{said}");
    }
}
