//! Formatting of numbers and names for tables and reports.

use std::collections::BTreeMap;

/// Formats a number with commas as thousands separators, for instance `1,234,567`.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Shortens a text to at most `most` characters. An ellipsis replaces the middle, so that texts
/// with the same start or the same end remain distinguishable.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let ellipsis = if most == 0 { None } else { Some('\u{2026}') };
    text.chars().take(head).chain(ellipsis).chain(text.chars().skip(count - tail)).collect()
}

/// Shortens names to at most `most` characters so that different names remain different. Names that
/// [`shortened`] would make equal lose their common start instead. If they are still equal, their
/// index is put in front.
#[must_use]
pub fn shortened_apart(names: &[String], most: usize) -> Vec<String> {
    let mut short: Vec<String> = names.iter().map(|name| shortened(name, most)).collect();
    let starts = |name: &str, at: usize| {
        let rest: String = name.chars().skip(at).collect();
        let end = if rest.chars().count() + 1 > most { "\u{2026}" } else { "" };
        let room = most.saturating_sub(1 + end.chars().count());
        format!("\u{2026}{}{end}", rest.chars().take(room).collect::<String>())
    };
    for group in equal(&short, names) {
        let same: Vec<&String> = group.iter().filter_map(|at| names.get(*at)).collect();
        let common = common_start(&same);
        for at in group {
            if let (Some(to), Some(name)) = (short.get_mut(at), names.get(at)) {
                *to = starts(name, common);
            }
        }
    }
    for at in equal(&short, names).into_iter().flatten() {
        if let (Some(to), Some(name)) = (short.get_mut(at), names.get(at)) {
            let index = format!("{at} ");
            *to = format!("{index}{}", shortened(name, most.saturating_sub(index.len())));
        }
    }
    short
}

/// Returns groups of indices of different names that have the same short form.
fn equal(short: &[String], names: &[String]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, form) in short.iter().enumerate() {
        groups.entry(form).or_default().push(at);
    }
    let differ = |group: &Vec<usize>| {
        let first = group.first().and_then(|at| names.get(*at));
        group.iter().any(|at| names.get(*at) != first)
    };
    groups.into_values().filter(differ).collect()
}

/// Returns the length in characters of the prefix that all names share. The prefix ends at the
/// start of a word or number.
fn common_start(names: &[&String]) -> usize {
    let Some(first) = names.first() else { return 0 };
    let mut start = 0;
    for (at, c) in first.chars().enumerate() {
        if names.iter().any(|name| name.chars().nth(at) != Some(c)) {
            break;
        }
        if !c.is_alphanumeric() {
            start = at + 1;
        }
    }
    start
}

/// Formats a number of bytes in decimal units, for instance `31.2 MB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    let (unit, name) = match count {
        0..1_000 => return format!("{count} bytes"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{:.1} {name}", count as f64 / unit)
}

/// Formats a duration in seconds with a suitable unit, for instance `0.412 ms`, `12.3 s`, `3 min 20
/// s` or `2 h 05 min`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    match seconds {
        _ if !seconds.is_finite() => "-".to_owned(),
        ..0.01 => format!("{:.3} ms", seconds * 1e3),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..10.0 => format!("{seconds:.2} s"),
        ..100.0 => format!("{seconds:.1} s"),
        ..6000.0 => format!("{} min {:02} s", seconds as u64 / 60, seconds as u64 % 60),
        _ => format!("{} h {:02} min", seconds as u64 / 3600, seconds as u64 / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_names_stay_different() {
        let apart = |names: &[&str], most| {
            shortened_apart(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), most)
        };
        assert_eq!(apart(&["ant", "Neural_Networks"], 9), ["ant", "Neur\u{2026}orks"]);
        assert_eq!(
            apart(&["the branch, kind 1 of a long name", "the branch, kind 12 of a long name", "wasp"], 12),
            ["\u{2026}1 of a lon\u{2026}", "\u{2026}12 of a lo\u{2026}", "wasp"]
        );
        // These words differ in the middle.
        let found = apart(&["aaaaaaaaaaaaaaaaaaa1aaaaaaaaaa", "aaaaaaaaaaaaaaaaaaa2aaaaaaaaaa"], 8);
        assert_eq!(found, ["0 aaa\u{2026}aa", "1 aaa\u{2026}aa"]);
        assert!(apart(&["same", "same"], 3)[0] == "s\u{2026}e");
    }

    #[test]
    fn shortened_texts_keep_both_ends() {
        let short = |most| shortened("Neural_Networks", most);
        assert_eq!(
            [20, 15, 9, 2, 1, 0].map(short),
            ["Neural_Networks", "Neural_Networks", "Neur\u{2026}orks", "N\u{2026}", "\u{2026}", "",]
        );
        assert_ne!(shortened("class of kind 1", 8), shortened("class of kind 2", 8));
        assert_eq!(shortened("\u{e9}\u{e8}\u{ea}\u{eb}\u{ef}", 3), "\u{e9}\u{2026}\u{ef}");
    }
}
