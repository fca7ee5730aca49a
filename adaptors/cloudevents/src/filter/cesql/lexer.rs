//! Text to tokens (spec section 2). White space separates and means nothing else.

use super::ParseError;

/// A token; words keep their spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// `( ) , * / % + - = != <> < <= > >=`
    Sign(&'static str),
    /// Letters, digits, underscores; not digits alone.
    Word(&'a str),
    /// Digits.
    Digits(&'a str),
    /// What stands between the quotes, escapes included, and the quote.
    Quoted(&'a str, char),
}

/// Two characters first, so that `<=` is not `<` and `=`.
const SIGNS: [&str; 15] = ["!=", "<>", "<=", ">=", "<", ">", "=", "(", ")", ",", "*", "/", "%", "+", "-"];

/// Tokens with their byte offsets.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, ParseError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        if matches!(character, ' ' | '\t' | '\r' | '\n') {
            at += 1;
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push((at, Token::Sign(sign)));
            at += sign.len();
        } else if matches!(character, '\'' | '"') {
            let inner = &rest[1..];
            let len = quoted_len(inner, character).ok_or_else(|| ParseError {
                at,
                reason: format!("the text that begins with {character} has no end"),
            })?;
            tokens.push((at, Token::Quoted(&inner[..len], character)));
            at += len + 2;
        } else if character.is_ascii_alphanumeric() {
            let len = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
            let word = &rest[..len];
            let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
            tokens.push((at, if is_number { Token::Digits(word) } else { Token::Word(word) }));
            at += len;
        } else {
            return Err(ParseError { at, reason: format!("{character:?} has no meaning here") });
        }
    }
    Ok(tokens)
}

/// Bytes up to the closing quote; a backslash takes the next character with it.
fn quoted_len(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// A string literal's text: an escaped quote is that quote, every other backslash stands for itself.
pub(super) fn unquoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\\' && characters.peek() == Some(&quote) {
            continue;
        }
        out.push(character);
    }
    out
}
