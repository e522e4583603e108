//! Parsing of dates as days since 1970-01-01. A time becomes a fraction of a day.
//!
//! The accepted forms are `YYYY-MM-DD`, `YYYY/MM/DD` and `DD.MM.YYYY`. A time `HH:MM`, `HH:MM:SS`
//! or `HH:MM:SS.FFF` may follow after `T` or a space, and then `Z` or an offset `+HH:MM`. Times
//! without an offset are UTC. `MM/DD/YYYY` is not accepted, because the order of day and month is
//! ambiguous.

/// Returns the number of days from 1970-01-01 to a date, or `None` if the field is not a date.
pub(super) fn days(field: &str) -> Option<f64> {
    let (date, time) = match field.find(['T', 't', ' ']) {
        Some(at) => (field.get(..at)?, Some(field.get(at + 1..)?)),
        None => (field, None),
    };
    let (year, month, day) = split(date)?;
    let days = civil(year, month, day)? as f64;
    Some(days + time.map_or(Some(0.0), seconds)? / 86_400.0)
}

/// Parses a date, and returns year, month and day.
fn split(date: &str) -> Option<(u32, u32, u32)> {
    let separator = *date.as_bytes().iter().find(|byte| !byte.is_ascii_digit())?;
    let mut parts = date.split(char::from(separator));
    let (first, second, third) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    match separator {
        b'-' | b'/' if first.len() == 4 => Some((digits(first, 4)?, digits(second, 2)?, digits(third, 2)?)),
        b'.' if third.len() == 4 => Some((digits(third, 4)?, digits(second, 2)?, digits(first, 2)?)),
        _ => None,
    }
}

/// Parses a number with at most `most` digits.
fn digits(text: &str, most: usize) -> Option<u32> {
    let plain = !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Returns the number of days from 1970-01-01 to a date in the proleptic Gregorian calendar
/// (Hinnant 2013, "chrono-compatible low-level date algorithms"). Returns `None` if the date does
/// not exist.
fn civil(year: u32, month: u32, day: u32) -> Option<i64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if day == 0 || day > length {
        return None;
    }
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(era * 146_097 + of_era - 719_468)
}

/// Parses a time, and returns it as seconds since midnight UTC.
fn seconds(time: &str) -> Option<f64> {
    let (time, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0.0),
        None => match time.rfind(['+', '-']) {
            Some(at) => {
                let (time, offset) = time.split_at(at);
                let (hours, minutes) = offset.get(1..)?.split_once(':')?;
                let found = f64::from(below(hours, 24)? * 3600 + below(minutes, 60)? * 60);
                (time, if offset.starts_with('-') { -found } else { found })
            }
            None => (time, 0.0),
        },
    };
    let mut parts = time.trim().split(':');
    let (hours, minutes) = (below(parts.next()?, 24)?, below(parts.next()?, 60)?);
    let seconds = match parts.next() {
        None => 0.0,
        Some(text) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
            let plain = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
            let fraction: f64 = if plain { format!("0.{fraction}").parse().ok()? } else { return None };
            f64::from(below(whole, 61)?) + fraction
        }
    };
    match parts.next() {
        Some(_) => None,
        None => Some(f64::from(hours * 3600 + minutes * 60) + seconds - offset),
    }
}

/// Parses a number with at most two digits that is below `limit`.
fn below(text: &str, limit: u32) -> Option<u32> {
    digits(text, 2).filter(|&number| number < limit)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn dates_are_days() {
        for (field, wanted) in [
            ("1970-01-01", 0.0),
            ("1969-12-31", -1.0),
            ("2000-02-29", 11_016.0),
            ("2024/3/1", 19_783.0),
            ("31.12.1999", 10_956.0),
            ("1970-01-02T12:00", 1.5),
            ("1970-01-01 06:00:00.0", 0.25),
            ("1970-01-01T01:00:00+01:00", 0.0),
            ("1970-01-01T23:00:00-01:00", 1.0),
            ("2010-01-01T00:00:00Z", 14_610.0),
        ] {
            assert_eq!(days(field), Some(wanted), "{field}");
        }
        for field in [
            "2023-02-29",
            "2000-13-01",
            "2000-00-01",
            "1/2/2000",
            "2000-01",
            "10:30",
            "2000-01-01T25:00",
            "",
            "2000-01-01Tnow",
            "2000-1-1-1",
            "12345-01-01",
            "2000-01-01T00:00:00+1",
        ] {
            assert_eq!(days(field), None, "{field}");
        }
    }

    #[test]
    fn days_follow_each_other() {
        let mut expected = -719_528;
        for year in 0..2400u32 {
            for month in 1..=12 {
                let mut day = 1;
                while let Some(found) = civil(year, month, day) {
                    assert_eq!(found, expected);
                    (expected, day) = (expected + 1, day + 1);
                }
            }
        }
    }
}
