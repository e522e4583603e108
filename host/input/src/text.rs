//! Preparation of users' text for printing. Control characters are escaped, and long text is
//! truncated.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Maximum number of characters that a message shows of one text from a user.
pub const MAX_TEXT: usize = 200;
/// Maximum number of elements that a message shows of one list from a user.
pub const MAX_LIST: usize = 20;
/// Maximum length of a printed message, in characters.
pub const MAX_MESSAGE: usize = 4000;

/// Returns whether a character controls the terminal, changes the direction of text, or is
/// invisible.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns `text` with control characters escaped, for instance as `\u{1b}`. Line breaks and tabs
/// are not changed.
pub fn clean(text: &str) -> Cow<'_, str> {
    let steers = |c: char| steers(c) && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match steers(c) {
            true => cleaned.extend(c.escape_unicode()),
            false => cleaned.push(c),
        }
    }
    Cow::Owned(cleaned)
}

/// Returns a user's text for use in a message. The result is a single line with control characters
/// escaped, truncated after [`MAX_TEXT`] characters.
pub fn shown(text: &str) -> String {
    cut(text, MAX_TEXT)
}

/// Returns a user's text for use in a message, like [`shown`], but truncated after `most`
/// characters.
pub fn cut(text: &str, most: usize) -> String {
    let mut cleaned = String::new();
    let mut characters = text.chars();
    for c in characters.by_ref().take(most) {
        match c {
            '\n' | '\r' | '\t' => cleaned.extend(c.escape_default()),
            c if steers(c) => cleaned.extend(c.escape_unicode()),
            c => cleaned.push(c),
        }
    }
    let rest = characters.count();
    if rest > 0 {
        let _ = write!(cleaned, "... ({rest} more characters)");
    }
    cleaned
}

/// Joins users' texts with commas. At most [`MAX_LIST`] texts are shown, followed by the number of
/// omitted ones.
pub fn listed<S: AsRef<str>>(texts: &[S]) -> String {
    let first: Vec<String> = texts.iter().take(MAX_LIST).map(|text| shown(text.as_ref())).collect();
    match texts.len().saturating_sub(MAX_LIST) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Returns the message of an error followed by the messages of its sources, separated by colons.
/// Messages that are already part of the text are left out.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next.filter(|_| text.len() < MAX_MESSAGE) {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = text + ": " + &said;
        }
        next = cause.source();
    }
    text
}

/// Returns a complete message for printing, with control characters escaped, truncated after
/// [`MAX_MESSAGE`] characters.
pub fn message(text: &str) -> Cow<'_, str> {
    let end = text.char_indices().nth(MAX_MESSAGE).map_or(text.len(), |(end, _)| end);
    let (start, rest) = text.split_at(end);
    let cleaned = clean(start);
    // An escaped character is longer than the original, so the length is checked again.
    let whole = cleaned.chars().count() <= MAX_MESSAGE;
    if whole && rest.is_empty() {
        return cleaned;
    }
    let short: String = cleaned.chars().take(MAX_MESSAGE).collect();
    match whole {
        true => Cow::Owned(format!("{short}... ({} more characters)", rest.chars().count())),
        false => Cow::Owned(format!("{short}... (cut)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_spelled_out() {
        assert_eq!(clean("a\n\tb \u{fc}"), "a\n\tb \u{fc}");
        assert_eq!(
            clean("\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\u{2066}"),
            r"\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\u{2066}"
        );
        assert_eq!(shown("two\r\nlines"), r"two\r\nlines");
    }

    #[test]
    fn texts_and_lists_end() {
        assert_eq!(shown(&"x".repeat(200)), "x".repeat(200));
        assert_eq!(shown(&"\u{fc}".repeat(1200)), "\u{fc}".repeat(200) + "... (1000 more characters)");
        let many: Vec<String> = (0..23).map(|n| n.to_string()).collect();
        assert!(listed(&many).ends_with("18, 19 and 3 more"));
        assert_eq!(listed(&many[..2]), "0, 1");
        assert!(message(&"y".repeat(100_000)).ends_with("yy... (96000 more characters)"));
        let steering = message(&"\u{1b}".repeat(3000)).into_owned();
        assert!(steering.len() < 5000 && steering.ends_with("... (cut)"), "{steering}");
    }
}
