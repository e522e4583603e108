//! Recognition of ids that differ in spelling but probably mean the same, for instance `1.0` and
//! `1`, or `n1` and `1`.

use std::collections::HashMap;

/// Maximum number of ids that are compared per table.
pub(super) const SAMPLE: usize = 1000;

/// Letters with diacritics, grouped by their base letter.
const MARKED: [(char, &str); 14] = [
    ('a', "àáâãäåāăąǎ"),
    ('c', "çćĉċč"),
    ('d', "ďđ"),
    ('e', "èéêëēĕėęě"),
    ('g', "ĝğġģ"),
    ('i', "ìíîïĩīĭįı"),
    ('l', "ĺļľł"),
    ('n', "ñńņňǹ"),
    ('o', "òóôõöøōŏőǒ"),
    ('r', "ŕŗř"),
    ('s', "śŝşšș"),
    ('t', "ţťț"),
    ('u', "ùúûüũūŭůűų"),
    ('z', "źżž"),
];

/// Returns a word with diacritics removed from its letters.
fn unmarked(word: &str) -> String {
    let plain = |c: char| MARKED.iter().find(|(_, marked)| marked.contains(c)).map_or(c, |(plain, _)| *plain);
    word.chars().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).map(plain).collect()
}

/// Returns a number without a fraction that consists only of zeros, for instance `1` for `1.0`.
fn without_fraction(word: &str) -> &str {
    match word.split_once('.') {
        Some((whole, zeros))
            if !whole.is_empty() && !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') =>
        {
            whole
        }
        _ => word,
    }
}

/// Returns a number without preceding letters and leading zeros, for instance `7` for `n007`.
fn without_prefix(word: &str) -> &str {
    let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
    match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => match digits.trim_start_matches('0') {
            "" => "0",
            number => number,
        },
        false => word,
    }
}

/// Returns a normalised form of an id. Ids that probably mean the same have equal forms.
fn skeleton(word: &str) -> String {
    let lower = unmarked(&word.to_lowercase());
    let closed: String =
        lower.chars().filter(|c| !c.is_whitespace() && *c != '\u{200b}' && *c != '\u{feff}').collect();
    without_prefix(without_fraction(&closed)).to_owned()
}

/// Describes how two ids that probably mean the same differ, with a possible remedy.
fn difference(a: &str, b: &str) -> &'static str {
    if without_fraction(a) == without_fraction(b) {
        "pandas writes whole numbers as 1.0 once the column had a missing value: astype('Int64') keeps them whole"
    } else if a.to_lowercase() == b.to_lowercase() {
        "they differ in upper and lower case"
    } else if unmarked(&a.to_lowercase()) == unmarked(&b.to_lowercase()) {
        "they differ in Unicode composition or marks: unicodedata.normalize('NFC', id) gives both the same form"
    } else if a.split_whitespace().collect::<String>() == b.split_whitespace().collect::<String>() {
        "they differ in blanks"
    } else if without_prefix(a) == without_prefix(b) {
        "they differ in a prefix or in leading zeros"
    } else {
        "they differ in spelling"
    }
}

/// Describes a pair of ids, one from each list, that differ but probably mean the same. Returns
/// `None` if there is no such pair.
pub(super) fn alike(some: &[String], others: &[String]) -> Option<String> {
    let by_form: HashMap<String, &String> =
        others.iter().take(SAMPLE).map(|word| (skeleton(word), word)).collect();
    some.iter().take(SAMPLE).find_map(|word| {
        let other = by_form.get(&skeleton(word)).filter(|other| **other != word)?;
        Some(format!("{word:.40?} and {other:.40?} are different ids ({})", difference(word, other)))
    })
}

/// Describes the id among `known` that the user probably meant by `word`. Returns `None` if there
/// is none.
pub(super) fn similar<'a>(
    word: &str,
    known: impl Iterator<Item = std::borrow::Cow<'a, str>>,
) -> Option<String> {
    let form = skeleton(word);
    let mut known = known;
    let other = known.find(|other| skeleton(other) == form && other != word)?;
    Some(format!("{other:.40?} is one ({})", difference(word, &other)))
}

#[cfg(test)]
mod tests {
    use eciton_graph::random::SplitMix64;

    use super::*;

    #[test]
    fn ids_that_mean_the_same_are_found() {
        for (a, b, why) in [
            ("1.0", "1", "missing value"),
            ("n1", "1", "prefix"),
            ("007", "7", "leading zeros"),
            ("Ann", "ann", "case"),
            ("caf\u{e9}", "cafe\u{301}", "composition"),
            ("new york", "newyork", "blanks"),
        ] {
            for (a, b) in [(a, b), (b, a)] {
                let found = alike(&[a.to_owned()], &[b.to_owned()]).unwrap_or_default();
                assert!(found.contains(why), "{a} {b}: {found}");
            }
        }
        assert_eq!(alike(&["a".to_owned()], &["b".to_owned(), "a".to_owned()]), None);
        assert_eq!(alike(&["1.5".to_owned()], &["1".to_owned()]), None);
    }

    #[test]
    fn spellings_of_random_numbers_are_found() {
        let seed = 44;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for _ in 0..200 {
            let number = random.below(1 << 40);
            let spelled = match random.below(4) {
                0 => format!("{number}.0"),
                1 => format!("node_{number}"),
                2 => format!("00{number}"),
                _ => format!("N{number}"),
            };
            let found = alike(std::slice::from_ref(&spelled), &[number.to_string()]);
            assert!(found.is_some(), "{spelled} {number}");
        }
    }
}
