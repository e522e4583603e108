//! Numbers that fields of text tables hold, in the forms that all readers accept.

use eciton_graph::corrections::Number;

/// A number in digits. Words that mean numbers (`nan`, `inf`) may be names.
pub(crate) fn number(field: &str) -> Option<f32> {
    if is_digits(field) { field.parse().ok() } else { None }
}

fn is_digits(field: &str) -> bool {
    field.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
}

/// A number in digits, with what f32 cannot hold of it.
pub(crate) fn exact(field: &str) -> Option<Number> {
    if is_digits(field) { Number::parse(field) } else { None }
}

/// A whole number, also one that is written as `1.0`, as pandas does beside a NaN.
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

/// A number that is written in one way only, so that `007` stays a word.
pub(crate) fn canonical(word: &str) -> Option<u64> {
    let plain = word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if plain { word.parse().ok() } else { None }
}
