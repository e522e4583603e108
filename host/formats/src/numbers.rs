//! Parsing of numbers in text fields, with the rules that all readers share.

use eciton_graph::corrections::Number;

/// Parses a number that is written in digits. Words such as `nan` and `inf` are not accepted,
/// because they may be names.
pub(crate) fn number(field: &str) -> Option<f32> {
    if is_digits(field) { field.parse().ok() } else { None }
}

fn is_digits(field: &str) -> bool {
    field.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
}

/// Parses a number that is written in digits like [`number`]. The result also has the rounding
/// error of the conversion to f32.
pub(crate) fn exact(field: &str) -> Option<Number> {
    if is_digits(field) { Number::parse(field) } else { None }
}

/// Parses an integer. The form `1.0` is also accepted, because pandas writes it if a column
/// contains NaN.
pub(crate) fn whole(field: &str) -> Option<i64> {
    let plain =
        field.split_once('.').filter(|(_, rest)| rest.bytes().all(|b| b == b'0')).map(|(whole, _)| whole);
    plain.unwrap_or(field).parse().ok()
}

/// Returns whether a field is a word for infinity, for instance `-inf`.
pub(crate) fn is_infinite(field: &str) -> bool {
    let word = field.trim_start_matches(['+', '-']);
    word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity")
}

/// Parses an integer in canonical form, without sign and leading zeros. Other spellings such as
/// `007` are treated as words.
pub(crate) fn canonical(word: &str) -> Option<u64> {
    let plain = word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if plain { word.parse().ok() } else { None }
}
