//! Bounds on frames, and the rule for doubtful names. One value for both ways: what a build refuses, a parse
//! refuses. Never grows at run time.

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Hard ceiling of [`Limits::attributes_max`]: the search for duplicate names works in a table of this size.
pub const ATTRIBUTES_CEILING: usize = 1024;

/// Hard ceiling of every length field: larger ones are negative numbers to implementations that read them signed.
pub(crate) const LENGTH_CEILING: usize = i32::MAX as usize;

/// Which attribute names are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Empty and duplicate names are taken, the last duplicate counts. For bytes that framegate or a peer store
    /// wrote, where a refusal would lose a message that was accepted before.
    Trusted,
    /// Empty and duplicate names are refused. For bytes from clients.
    Public,
}

/// Bounds of a frame, inclusive: a value equal to the bound is legal. Lengths count bytes.
///
/// Two ceilings hold whatever the fields say: 1024 attributes ([`ATTRIBUTES_CEILING`]) and 2,147,483,647 bytes for
/// any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole frame.
    pub frame_bytes_max: usize,
    /// Bytes of the data.
    pub data_bytes_max: usize,
    /// Number of attributes.
    pub attributes_max: usize,
    /// Bytes of one attribute name.
    pub name_bytes_max: usize,
    /// Bytes of one attribute value.
    pub value_bytes_max: usize,
    /// Which names are taken.
    pub names: NameRule,
}

impl Limits {
    /// Upstream EventMesh: frame 16 MiB, data 8 MiB, 64 attributes, name 256 bytes, value 4 KiB. Names are
    /// trusted; use `Limits::EVENTMESH.public()` for what clients send.
    pub const EVENTMESH: Self = Self {
        frame_bytes_max: 16 * MIB,
        data_bytes_max: 8 * MIB,
        attributes_max: 64,
        name_bytes_max: 256,
        value_bytes_max: 4 * KIB,
        names: NameRule::Trusted,
    };

    /// framegate's default: data 64 MiB, 1024 attributes, name 256 bytes, value 1 MiB, frame 80 MiB (so at most
    /// 16 MiB of attributes beside the largest data). Names are trusted.
    pub const GATEWAY: Self = Self::gateway(64 * MIB);

    /// The upper bound of [`Limits::gateway`]'s parameter, 128 MiB.
    pub const GATEWAY_DATA_BYTES_CEILING: usize = 128 * MIB;

    /// [`Limits::GATEWAY`] with another bound on data in bytes; more than 128 MiB counts as 128 MiB.
    pub const fn gateway(data_bytes_max: usize) -> Self {
        let ceiling = Self::GATEWAY_DATA_BYTES_CEILING;
        let data_bytes_max = if data_bytes_max > ceiling { ceiling } else { data_bytes_max };
        Self {
            frame_bytes_max: data_bytes_max + 16 * MIB,
            data_bytes_max,
            attributes_max: ATTRIBUTES_CEILING,
            name_bytes_max: 256,
            value_bytes_max: MIB,
            names: NameRule::Trusted,
        }
    }

    /// The same bounds with [`NameRule::Public`].
    #[must_use]
    pub const fn public(self) -> Self {
        Self { names: NameRule::Public, ..self }
    }

    pub(crate) const fn frame_bytes(&self) -> usize {
        smaller(self.frame_bytes_max, LENGTH_CEILING)
    }

    pub(crate) const fn data_bytes(&self) -> usize {
        smaller(self.data_bytes_max, LENGTH_CEILING)
    }

    pub(crate) const fn attributes(&self) -> usize {
        smaller(self.attributes_max, ATTRIBUTES_CEILING)
    }

    pub(crate) const fn name_bytes(&self) -> usize {
        smaller(self.name_bytes_max, u16::MAX as usize)
    }

    pub(crate) const fn value_bytes(&self) -> usize {
        smaller(self.value_bytes_max, LENGTH_CEILING)
    }
}

const fn smaller(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_hold_whatever_the_fields_say() {
        let wild = Limits {
            frame_bytes_max: usize::MAX,
            data_bytes_max: usize::MAX,
            attributes_max: usize::MAX,
            name_bytes_max: usize::MAX,
            value_bytes_max: usize::MAX,
            names: NameRule::Trusted,
        };
        assert_eq!(wild.frame_bytes(), 0x7FFF_FFFF);
        assert_eq!(wild.data_bytes(), 0x7FFF_FFFF);
        assert_eq!(wild.value_bytes(), 0x7FFF_FFFF);
        assert_eq!(wild.attributes(), 1024);
        assert_eq!(wild.name_bytes(), 0xFFFF);
    }

    #[test]
    fn gateway_data_is_capped_and_the_frame_bound_follows() {
        let most = Limits::gateway(usize::MAX);
        assert_eq!(most.data_bytes_max, 128 * MIB);
        assert_eq!(most.frame_bytes_max, 144 * MIB);
        assert_eq!(Limits::gateway(0).frame_bytes_max, 16 * MIB);
        assert_eq!(Limits::GATEWAY.public().names, NameRule::Public);
    }
}
