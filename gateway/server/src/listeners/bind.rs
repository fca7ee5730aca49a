//! Binds listeners. A listener that cannot be bound ends the start with one message that names the way out.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use super::plan::{Planned, PlannedKind};
use crate::exit::Ending;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;

/// A listener with its socket.
pub(crate) struct Bound {
    /// What was planned.
    pub(crate) planned: Planned,
    /// The socket.
    pub(crate) socket: TcpListener,
    /// The extra socket on `[::1]` of a default address.
    pub(crate) extra: Option<TcpListener>,
}

impl Bound {
    /// (name, address), the address of the main socket first.
    pub(crate) fn addresses(&self) -> Vec<(String, String)> {
        [Some(&self.socket), self.extra.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|socket| socket.local_addr().ok())
            .map(|addr| (self.planned.name.to_owned(), addr.to_string()))
            .collect()
    }
}

/// Binds one listener. Must run inside the runtime.
///
/// # Errors
/// An ending with its message.
pub(crate) fn bind(planned: Planned) -> Result<Bound, Ending> {
    let socket = listen(planned.addr).map_err(|e| refused(planned.name, planned.addr, &e))?;
    let mut extra = None;
    if planned.is_default && matches!(planned.kind, PlannedKind::Stream { .. }) {
        let addr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), planned.addr.port());
        match listen(addr) {
            Ok(socket) => extra = Some(socket),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                return Err(refused(planned.name, addr, &error));
            }
            Err(error) => tracing::warn!("{}: {addr} is left out: {error}", planned.name),
        }
    }
    Ok(Bound { planned, socket, extra })
}

/// Refuses an address that others can reach while everybody would be let in.
///
/// # Errors
/// An ending with its message.
pub(crate) fn check_reach(planned: &Planned, open_to_all: bool, allowed: bool) -> Result<(), Ending> {
    if planned.addr.ip().is_loopback() || !open_to_all || allowed {
        return Ok(());
    }
    Err(Ending::usage(format!(
        "{}: {} is not a loopback address and no credentials are configured; add [[auth.users]] or [[auth.tokens]] \
         to the configuration, or pass --allow-anonymous",
        planned.name, planned.addr
    )))
}

fn listen(addr: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

fn refused(name: &str, addr: SocketAddr, error: &std::io::Error) -> Ending {
    let mut other = addr;
    let message = match error.kind() {
        ErrorKind::AddrInUse => {
            other.set_port(addr.port().checked_add(1).unwrap_or(1024));
            format!("{addr} is in use; stop the other program, or pass --listen {name}={other}")
        }
        ErrorKind::PermissionDenied => {
            other.set_port(addr.port().saturating_add(8000));
            format!("{addr} is not allowed for this user ({error}); pass --listen {name}={other}")
        }
        ErrorKind::AddrNotAvailable => {
            let loopback = SocketAddr::from(([127, 0, 0, 1], addr.port()));
            format!("{addr} is not an address of this machine; pass --listen {name}={loopback}")
        }
        _ => format!("{addr} cannot be bound: {error}; pass --listen {name}=IP:PORT with another address"),
    };
    Ending::usage(format!("{name}: {message} or --listen {name}=off"))
}

#[cfg(test)]
mod tests {
    use framegate_broker::Name;

    use super::*;
    use crate::exit::Exit;

    fn planned(addr: SocketAddr) -> Planned {
        Planned {
            name: "toy",
            addr,
            is_default: false,
            vhost: Name::from_static("/"),
            kind: PlannedKind::Http(Vec::new()),
        }
    }

    #[tokio::test]
    async fn an_address_in_use_names_the_way_out() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let addr = other.local_addr().expect("an address");
        let ending = bind(planned(addr)).err().expect("refused");
        let next = SocketAddr::new(addr.ip(), addr.port().checked_add(1).unwrap_or(1024));
        assert_eq!(ending.exit, Exit::Usage);
        assert_eq!(
            ending.message,
            format!(
                "toy: {addr} is in use; stop the other program, or pass --listen toy={next} or --listen toy=off"
            )
        );
    }

    #[tokio::test]
    async fn a_foreign_address_names_the_way_out() {
        let ending = bind(planned(SocketAddr::from(([192, 0, 2, 1], 9)))).err().expect("refused");
        assert_eq!(
            ending.message,
            "toy: 192.0.2.1:9 is not an address of this machine; pass --listen toy=127.0.0.1:9 or --listen toy=off"
        );
    }

    #[test]
    fn an_open_door_is_for_loopback_only() {
        let everywhere = planned(SocketAddr::from(([0, 0, 0, 0], 5)));
        assert!(check_reach(&everywhere, false, false).is_ok());
        assert!(check_reach(&everywhere, true, true).is_ok());
        assert!(check_reach(&planned(SocketAddr::from(([127, 0, 0, 9], 5))), true, false).is_ok());
        let ending = check_reach(&everywhere, true, false).expect_err("refused");
        assert_eq!(
            ending.message,
            "toy: 0.0.0.0:5 is not a loopback address and no credentials are configured; add [[auth.users]] or \
             [[auth.tokens]] to the configuration, or pass --allow-anonymous"
        );
    }
}
