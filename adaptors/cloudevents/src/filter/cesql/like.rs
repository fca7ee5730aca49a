//! Patterns of LIKE (spec section 3.4.3): `%` any text, `_` one character, `\%` and `\_` the characters themselves.

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Is(char),
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let mut parts = Vec::with_capacity(text.len());
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            parts.push(match character {
                '\\' => Part::Is(characters.next_if(|next| matches!(next, '%' | '_')).unwrap_or('\\')),
                '%' if parts.last() == Some(&Part::Any) => continue,
                '%' => Part::Any,
                '_' => Part::One,
                other => Part::Is(other),
            });
        }
        Self(parts)
    }

    /// Whether all of a text matches. Goes back at most to the last `%`, so it takes at most text times pattern steps.
    pub(super) fn matches(&self, text: &str) -> bool {
        let parts = &self.0;
        let (mut part, mut rest) = (0, text.chars());
        // where the last `%` stood, and the text that it has not swallowed yet
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let before = rest.clone();
            match (parts.get(part), rest.next()) {
                (Some(Part::Any), _) => {
                    part += 1;
                    rest = before;
                    retry = Some((part, rest.clone()));
                    continue;
                }
                (Some(Part::One), Some(_)) => part += 1,
                (Some(Part::Is(wanted)), Some(found)) if *wanted == found => part += 1,
                (None, None) => return true,
                (Some(_), None) => return false,
                _ => {
                    let Some((after, swallowed)) = &mut retry else { return false };
                    if swallowed.next().is_none() {
                        return false;
                    }
                    part = *after;
                    rest = swallowed.clone();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, as it reads.
    fn naive(pattern: &[Part], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((Part::Any, rest)), None) => naive(rest, text),
            (Some((Part::Any, rest)), Some((_, tail))) => naive(rest, text) || naive(pattern, tail),
            (Some((Part::One, rest)), Some((_, tail))) => naive(rest, tail),
            (Some((Part::Is(wanted), rest)), Some((found, tail))) => wanted == found && naive(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_is_the_definition(pattern in "[ab%_\\\\é]{0,8}", text in "[ab%_\\\\é]{0,10}") {
            let compiled = Pattern::new(&pattern);
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(compiled.matches(&text), naive(&compiled.0, &characters), "{} {}", pattern, text);
        }
    }

    #[test]
    fn a_pattern_that_goes_back_often_ends_soon() {
        let (pattern, text) = (Pattern::new(&"%a_b".repeat(200)), "a".repeat(20_000));
        assert!(!pattern.matches(&text));
    }

    #[test]
    fn a_backslash_before_anything_else_is_a_backslash() {
        assert!(Pattern::new("ab\\c").matches("ab\\c"));
        assert!(Pattern::new("100\\%").matches("100%"));
        assert!(!Pattern::new("100\\%").matches("1000"));
        assert!(Pattern::new("a\\").matches("a\\"));
    }
}
