//! Variable-length integers as records and snapshots store them.
//!
//! Owns one layout, LEB128: seven bits a byte, least significant group first, the top bit set on every
//! byte but the last; a `u64` takes 1 to 10 bytes. It never reads past its input and never allocates.

/// Bytes of the longest encoding.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends `value` to `out`.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that `put_varint` appends for `value`: 1 to 10.
#[must_use]
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Takes one integer off the front of `input`. `None`, with `input` unchanged, when it ends too early,
/// does not fit 64 bits or is not the shortest form.
pub fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (index, &byte) in input.iter().enumerate().take(VARINT_BYTES_MAX) {
        let group = u64::from(byte & 0x7f);
        if index == VARINT_BYTES_MAX - 1 && group > 1 {
            return None;
        }
        value |= group << (7 * index);
        if byte & 0x80 == 0 {
            if byte == 0 && index > 0 {
                return None;
            }
            *input = &input[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_survives_a_round_trip_and_nothing_follows() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX]);
        for value in edges {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            let mut rest = out.as_slice();
            assert_eq!(take_varint(&mut rest), Some(value));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn truncated_oversized_and_padded_forms_are_refused() {
        for bytes in [&[][..], &[0x80], &[0xff; 9], &[0xff; 11], &[0x80, 0x00]] {
            let mut rest = bytes;
            assert_eq!(take_varint(&mut rest), None, "{bytes:?}");
            assert_eq!(rest, bytes);
        }
        let mut too_big = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..];
        assert_eq!(take_varint(&mut too_big), None);
    }
}
