//! Which addresses a web hook may be sent to: public ones, and those that the operator lists. Decides about addresses only; never
//! resolves a name and never connects. Whoever connects asks it about the very address that the connection is made to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A block of addresses, `10.0.0.0/8` or a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    first: IpAddr,
    bits: u32,
}

impl Block {
    const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32) -> Self {
        Self { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
    }

    const fn v6(high: u16, next: u16, bits: u32) -> Self {
        Self { first: IpAddr::V6(Ipv6Addr::new(high, next, 0, 0, 0, 0, 0, 0)), bits }
    }

    /// Whether an address lies in it.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                u32::from(first) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                u128::from(first) & mask == u128::from(address) & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Block {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address and no block such as 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { first, bits })
    }
}

/// IPv4 addresses that are no public host (IANA special-purpose registry), with why.
const V4: [(Block, &str); 15] = [
    (Block::v4(0, 0, 0, 0, 8), "this network"),
    (Block::v4(10, 0, 0, 0, 8), "private"),
    (Block::v4(100, 64, 0, 0, 10), "shared by a provider"),
    (Block::v4(127, 0, 0, 0, 8), "loopback"),
    (Block::v4(169, 254, 0, 0, 16), "link-local"),
    (Block::v4(172, 16, 0, 0, 12), "private"),
    (Block::v4(192, 0, 0, 0, 24), "reserved"),
    (Block::v4(192, 0, 2, 0, 24), "for documentation"),
    (Block::v4(192, 88, 99, 0, 24), "a relay"),
    (Block::v4(192, 168, 0, 0, 16), "private"),
    (Block::v4(198, 18, 0, 0, 15), "for benchmarks"),
    (Block::v4(198, 51, 100, 0, 24), "for documentation"),
    (Block::v4(203, 0, 113, 0, 24), "for documentation"),
    (Block::v4(224, 0, 0, 0, 4), "multicast"),
    (Block::v4(240, 0, 0, 0, 4), "reserved"),
];

/// Blocks within the global ones of IPv6 that are no public host.
const V6: [(Block, &str); 4] = [
    (Block::v6(0x2001, 0, 23), "reserved"),
    (Block::v6(0x2001, 0x0db8, 32), "for documentation"),
    (Block::v6(0x2002, 0, 16), "a tunnel"),
    (Block::v6(0x3fff, 0, 20), "for documentation"),
];

/// Global unicast of IPv6. Everything else is loopback, link-local, unique local, multicast, or not given out.
const GLOBAL: Block = Block::v6(0x2000, 0, 3);
/// IPv4 addresses behind a translator.
const NAT64: Block = Block::v6(0x0064, 0xff9b, 96);

/// An address that is not connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is not allowed: it is {why}")]
pub(crate) struct Refused {
    /// Which.
    pub(crate) address: IpAddr,
    /// What it is.
    pub(crate) why: &'static str,
}

/// The guard, with what the operator allows beyond public addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Guard {
    allowed: Vec<Block>,
}

impl Guard {
    pub(crate) fn new(allowed: Vec<Block>) -> Self {
        Self { allowed }
    }

    /// Whether an address may be connected to. An IPv6 address that carries an IPv4 one is judged as that.
    ///
    /// # Errors
    /// What the address is instead of a public host.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), Refused> {
        let meant = carried(address).map_or(address, IpAddr::V4);
        if self.allowed.iter().any(|block| block.holds(address) || block.holds(meant)) {
            return Ok(());
        }
        match kind(meant) {
            Some(why) => Err(Refused { address, why }),
            None => Ok(()),
        }
    }
}

/// The IPv4 address within an IPv6 one: mapped (`::ffff:a.b.c.d`) or translated (`64:ff9b::a.b.c.d`).
fn carried(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let last = Ipv4Addr::from((u128::from(address) & u128::from(u32::MAX)) as u32);
    let mapped = address.to_ipv4_mapped();
    mapped.or_else(|| NAT64.holds(IpAddr::V6(address)).then_some(last))
}

/// What an address is, unless it is a public host.
fn kind(address: IpAddr) -> Option<&'static str> {
    let listed = |table: &[(Block, &'static str)]| {
        table.iter().find(|(block, _)| block.holds(address)).map(|(_, w)| *w)
    };
    match address {
        IpAddr::V4(_) => listed(&V4),
        IpAddr::V6(v6) if v6.is_loopback() => Some("loopback"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("link-local"),
        IpAddr::V6(v6) if v6.is_unique_local() => Some("private"),
        IpAddr::V6(v6) if v6.is_multicast() => Some("multicast"),
        IpAddr::V6(_) if !GLOBAL.holds(address) => Some("not global"),
        IpAddr::V6(_) => listed(&V6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(guard: &Guard, address: &str) -> Option<&'static str> {
        guard.check(address.parse().unwrap()).err().map(|refused| refused.why)
    }

    #[test]
    fn only_public_hosts_are_allowed_when_nothing_is_listed() {
        let guard = Guard::default();
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "2a00::1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert_eq!(why(&guard, public), None, "{public}");
        }
        for (inside, word) in [
            ("0.0.0.0", "this network"),
            ("0.1.2.3", "this network"),
            ("10.0.0.1", "private"),
            ("100.64.0.1", "shared by a provider"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.192", "reserved"),
            ("192.0.2.1", "for documentation"),
            ("192.168.1.1", "private"),
            ("198.19.0.1", "for benchmarks"),
            ("198.51.100.7", "for documentation"),
            ("203.0.113.7", "for documentation"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("::", "not global"),
            ("::1", "loopback"),
            ("::7f00:1", "not global"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:10.1.2.3", "private"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("64:ff9b:1::1", "not global"),
            ("100::1", "not global"),
            ("2001::1", "reserved"),
            ("2001:db8::1", "for documentation"),
            ("2002:7f00:1::", "a tunnel"),
            ("3fff::1", "for documentation"),
            ("fc00::1", "private"),
            ("fd00:ec2::254", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "not global"),
            ("ff02::1", "multicast"),
            ("5f00::1", "not global"),
        ] {
            assert_eq!(why(&guard, inside), Some(word), "{inside}");
        }
    }

    #[test]
    fn the_operator_may_list_blocks_and_nothing_beside_them_is_allowed() {
        let blocks = ["127.0.0.1", "10.1.0.0/16", "fd00::/8"].map(|text| text.parse().unwrap());
        let guard = Guard::new(blocks.to_vec());
        for listed in ["127.0.0.1", "10.1.255.255", "fd12::1", "::ffff:127.0.0.1", "8.8.8.8"] {
            assert_eq!(why(&guard, listed), None, "{listed}");
        }
        for (other, word) in [("127.0.0.2", "loopback"), ("10.2.0.0", "private"), ("fc00::1", "private")] {
            assert_eq!(why(&guard, other), Some(word));
        }
        let everything: [Block; 2] = ["0.0.0.0/0", "::/0"].map(|text| text.parse().unwrap());
        let guard = Guard::new(everything.to_vec());
        assert_eq!((why(&guard, "169.254.169.254"), why(&guard, "::1")), (None, None));
    }

    #[test]
    fn what_is_no_block_is_refused_with_its_text() {
        for text in ["", "localhost", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/x"] {
            assert!(text.parse::<Block>().unwrap_err().contains(text), "{text}");
        }
    }
}
