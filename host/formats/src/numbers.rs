//! Parsing of numbers in text fields, in the forms that all readers accept.

use eciton_graph::corrections::Number;

/// Parses a number written in digits. Words for numbers (`nan`, `inf`) are excluded, because they
/// may be names.
pub(crate) fn number(field: &str) -> Option<f32> {
    if is_digits(field) { field.parse().ok() } else { None }
}

fn is_digits(field: &str) -> bool {
    field.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
}

/// Parses a number written in digits, with the difference between the number and its f32.
pub(crate) fn exact(field: &str) -> Option<Number> {
    if is_digits(field) { Number::parse(field) } else { None }
}

/// Parses a whole number, also in the form `1.0`, which pandas writes if a column contains NaN.
pub(crate) fn whole(field: &str) -> Option<i64> {
    let plain =
        field.split_once('.').filter(|(_, rest)| rest.bytes().all(|b| b == b'0')).map(|(whole, _)| whole);
    plain.unwrap_or(field).parse().ok()
}

/// Returns whether a field is a word for infinity.
pub(crate) fn is_infinite(field: &str) -> bool {
    let word = field.trim_start_matches(['+', '-']);
    word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity")
}

/// Parses a whole number in canonical form, so that `007` counts as a word.
pub(crate) fn canonical(word: &str) -> Option<u64> {
    let plain = word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if plain { word.parse().ok() } else { None }
}
