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
