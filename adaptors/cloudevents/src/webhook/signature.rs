//! Signatures of deliveries (Standard Webhooks 1.0). The secret is the subscriber's and ours; it is never printed.
//!
//! ```text
//! signed text        <webhook-id>.<webhook-timestamp>.<body bytes>
//! whsec_<base64>     24 to 64 bytes, HMAC-SHA256:       webhook-signature: v1,<base64>
//! whsk_<base64>      32 bytes (seed) or 64, Ed25519:     webhook-signature: v1a,<base64>   verified with whpk_<base64>
//! ```
//! While a secret is replaced there are two entries, separated by a space.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const SYMMETRIC: &str = "whsec_";
const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";
/// Bytes of a symmetric secret (Standard Webhooks: 24 to 64).
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Bytes of a secret that is made here.
const MADE_BYTES: usize = 32;
/// Bytes of an Ed25519 seed; some libraries write the public key behind it.
const SEED_BYTES: usize = 32;

/// A secret that signs.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    /// Shared with the receiver.
    Symmetric(Vec<u8>),
    /// The receiver has the public key.
    Ed25519([u8; SEED_BYTES]),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Secret {
    /// A new symmetric secret. None: the system gives no random bytes.
    pub(crate) fn generate() -> Option<Self> {
        let mut bytes = vec![0; MADE_BYTES];
        rand::fill(&mut bytes).ok()?;
        Some(Self::Symmetric(bytes))
    }

    /// Reads a secret in its usual form.
    ///
    /// # Errors
    /// What is wrong with it; never the text itself.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| "is not base64 behind its prefix");
        if let Some(encoded) = text.strip_prefix(SYMMETRIC) {
            let bytes = decode(encoded)?;
            if !SECRET_BYTES.contains(&bytes.len()) {
                return Err("does not have 24 to 64 bytes");
            }
            return Ok(Self::Symmetric(bytes));
        }
        let Some(encoded) = text.strip_prefix(PRIVATE) else {
            return Err("begins neither with whsec_ nor with whsk_");
        };
        let bytes = decode(encoded)?;
        let seed = bytes.first_chunk().filter(|_| [SEED_BYTES, 2 * SEED_BYTES].contains(&bytes.len()));
        let seed = *seed.ok_or("does not have 32 bytes, or 64 with the public key")?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| "is no Ed25519 key")?;
        match bytes.get(SEED_BYTES..) {
            Some(public) if !public.is_empty() && public != pair.public_key().as_ref() => {
                Err("has a public key behind it that is not its own")
            }
            _ => Ok(Self::Ed25519(seed)),
        }
    }

    /// The form that `parse` reads. To be shown to its owner only.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Symmetric(bytes) => format!("{SYMMETRIC}{}", STANDARD.encode(bytes)),
            Self::Ed25519(seed) => format!("{PRIVATE}{}", STANDARD.encode(seed)),
        }
    }

    /// What a receiver verifies an asymmetric signature with.
    pub(crate) fn public_text(&self) -> Option<String> {
        let Self::Ed25519(seed) = self else { return None };
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        Some(format!("{PUBLIC}{}", STANDARD.encode(pair.public_key())))
    }

    /// One entry of the signature header.
    fn sign(&self, text: &[u8]) -> Option<String> {
        Some(match self {
            Self::Symmetric(key) => {
                let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
                format!("v1,{}", STANDARD.encode(tag))
            }
            Self::Ed25519(seed) => {
                let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
                format!("v1a,{}", STANDARD.encode(pair.sign(text)))
            }
        })
    }
}

/// The header `webhook-signature`. `time_s`: that of this attempt, seconds since the Unix epoch.
pub(crate) fn signatures<'s>(
    secrets: impl IntoIterator<Item = &'s Secret>,
    id: &str,
    time_s: u64,
    body: &[u8],
) -> String {
    let mut text = format!("{id}.{time_s}.").into_bytes();
    text.extend_from_slice(body);
    let entries: Vec<String> = secrets.into_iter().filter_map(|secret| secret.sign(&text)).collect();
    entries.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_published_example_has_its_published_signature() {
        let secret = Secret::parse(SECRET).unwrap();
        let signed =
            signatures([&secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(secret.text(), SECRET);
    }

    #[test]
    fn an_asymmetric_signature_is_verified_with_the_public_key() {
        let secret = Secret::parse(&format!("whsk_{}", STANDARD.encode([7; 32]))).unwrap();
        let signed = signatures([&secret], "m", 1, b"body");
        let signature = STANDARD.decode(signed.strip_prefix("v1a,").unwrap()).unwrap();
        let public = secret.public_text().unwrap();
        let public = STANDARD.decode(public.strip_prefix("whpk_").unwrap()).unwrap();
        let key =
            aws_lc_rs::signature::UnparsedPublicKey::new(&aws_lc_rs::signature::ED25519, public.clone());
        assert!(key.verify(b"m.1.body", &signature).is_ok());
        assert!(key.verify(b"m.2.body", &signature).is_err());
        let both = [&[7; 32][..], &public].concat();
        assert_eq!(Secret::parse(&format!("whsk_{}", STANDARD.encode(both))), Ok(secret));
    }

    #[test]
    fn two_secrets_give_two_entries_and_secrets_are_not_printed() {
        let (old, new) = (Secret::parse(SECRET).unwrap(), Secret::generate().unwrap());
        assert_eq!(signatures([&new, &old], "m", 1, b"x").split(' ').count(), 2);
        assert_ne!(Secret::generate(), Secret::generate());
        assert_eq!(format!("{old:?}"), "(secret)");
        assert_eq!((old.public_text(), new.text().starts_with("whsec_")), (None, true));
    }

    #[test]
    fn unusable_secrets_are_refused_without_being_repeated() {
        let wrong = [7; 64];
        for (text, word) in [
            ("secret".to_owned(), "neither"),
            ("whsec_%%".to_owned(), "base64"),
            (format!("whsec_{}", STANDARD.encode([0; 23])), "24 to 64"),
            (format!("whsec_{}", STANDARD.encode([0; 65])), "24 to 64"),
            (format!("whsk_{}", STANDARD.encode([0; 33])), "32 bytes"),
            (format!("whsk_{}", STANDARD.encode(wrong)), "not its own"),
        ] {
            assert!(Secret::parse(&text).unwrap_err().contains(word), "{word}");
        }
    }
}
