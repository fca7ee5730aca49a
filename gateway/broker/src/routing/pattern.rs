//! One pattern against one key: words split at dots, `*` is exactly one word, `#` is any number of words. The empty
//! text has no words, `a.` has two of which the second is empty (reference/amqp.md 5). For single questions; many
//! patterns against one key are the trie's.

/// The words of a key or pattern.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split('.').filter(move |_| !text.is_empty())
}

/// Whether `key` matches `pattern`. Time is bounded by words times words, memory by nothing that a peer sends:
/// only the last `#` can ever need another try.
pub(crate) fn pattern_matches(pattern: &str, key: &str) -> bool {
    let (mut pattern, mut key) = (words(pattern), words(key));
    // Where to go on when a word does not fit: behind the last `#`, one key word later.
    let mut retry = None;
    loop {
        let before = key.clone();
        match (pattern.next(), key.next()) {
            (Some("#"), _) => {
                key = before;
                retry = Some((pattern.clone(), key.clone()));
            }
            (None, None) => return true,
            (Some(want), Some(word)) if want == "*" || want == word => {}
            _ => {
                let Some((after_hash, mut from)) = retry.take() else { return false };
                if from.next().is_none() {
                    return false;
                }
                pattern = after_hash.clone();
                key = from.clone();
                retry = Some((after_hash, from));
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, read aloud; exponential.
    pub(crate) fn naive(pattern: &[&str], key: &[&str]) -> bool {
        match pattern.split_first() {
            None => key.is_empty(),
            Some((&"#", rest)) => (0..=key.len()).any(|skip| naive(rest, &key[skip..])),
            Some((&want, rest)) => key
                .split_first()
                .is_some_and(|(&word, key)| (want == "*" || want == word) && naive(rest, key)),
        }
    }

    pub(crate) fn naive_text(pattern: &str, key: &str) -> bool {
        naive(&words(pattern).collect::<Vec<_>>(), &words(key).collect::<Vec<_>>())
    }

    /// Few words, so that much matches; empty words too.
    pub(crate) fn text(with_wildcards: bool) -> impl Strategy<Value = String> {
        let alphabet =
            if with_wildcards { vec!["a", "b", "", "*", "#", "#"] } else { vec!["a", "b", "c", ""] };
        proptest::collection::vec(proptest::sample::select(alphabet), 0..7).prop_map(|words| words.join("."))
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in text(true), key in text(false)) {
            prop_assert_eq!(pattern_matches(&pattern, &key), naive_text(&pattern, &key));
        }
    }

    /// Observed on RabbitMQ 3.10 (reference/amqp.md 5).
    pub(crate) const OBSERVED: [(&str, &[&str], &[&str]); 4] = [
        ("", &["#", "#.#"], &["*", "*.#"]),
        ("a.", &["#", "#.#", "*.#", "*.*", "a.*", "a."], &["*", "a"]),
        (".", &["#", "#.#", "*.#", "*.*", "."], &["*", ""]),
        ("a", &["#", "#.#", "*.#", "*"], &["*.*", "a.", ".a"]),
    ];

    #[test]
    fn empty_words_count_as_rabbitmq_counts_them() {
        for (key, matching, others) in OBSERVED {
            for pattern in matching {
                assert!(pattern_matches(pattern, key), "{pattern:?} {key:?}");
            }
            for pattern in others {
                assert!(!pattern_matches(pattern, key), "{pattern:?} {key:?}");
            }
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let pattern = ["#.a"; 64].join(".");
        let key = ["a"; 127].join(".") + ".b";
        assert_eq!((pattern.len(), key.len()), (255, 255));
        assert!(!pattern_matches(&pattern, &key));
        assert!(pattern_matches(&pattern, &key[..253]));
    }
}
