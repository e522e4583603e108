//! Figures as people read them.

/// 1,234,567
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

/// Shortens a text to at most `most` characters: an ellipsis takes the place of its middle, so that names which differ
/// at their end stay different.
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

/// `31.2 MB`; decimal units.
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

/// Seconds in the unit that suits them: `0.412 ms`, `12.3 s`, `3 min 20 s`, `2 h 05 min`.
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
