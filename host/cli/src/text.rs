//! Formatting of counts, byte sizes, percentages and metrics for printed output.

use eciton_recipe::Metric;
pub(crate) use eciton_train::metrics_format::{bytes, grouped, seconds};

/// Formats a count with its noun, which becomes plural if the count is not 1. Examples are `1
/// epoch` and `2 epochs`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Formats a limit in bytes with a binary unit, for instance `256 MiB`. A limit that is not a
/// multiple of 1 KiB is formatted in bytes.
pub(crate) fn limit(count: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| count >= *size && count.is_multiple_of(*size));
    unit.map_or_else(
        || format!("{} bytes", grouped(count)),
        |(size, name)| format!("{} {name}", count / size),
    )
}

/// Formats a fraction from 0 to 1 as a percentage with two decimals, without the per cent sign.
/// Returns `-` for `None`.
pub(crate) fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(|| "-".to_owned(), |fraction| format!("{:.2}", fraction * 100.0))
}

/// Formats the value of a metric without its unit. Shares, for instance the accuracy, are formatted
/// as percentages, and other metrics with four decimals. Returns `-` for `None`.
pub(crate) fn measured(metric: Metric, found: Option<f64>) -> String {
    match metric.is_share() {
        true => percent(found),
        false => found.map_or_else(|| "-".to_owned(), |found| format!("{found:.4}")),
    }
}

/// Returns the unit that follows the text of [`measured`]. It is ` %` for shares, and empty for
/// other metrics.
pub(crate) fn unit(metric: Metric) -> &'static str {
    if metric.is_share() { " %" } else { "" }
}

/// Returns the name in `known` that is most similar to `name`, for hints such as "did you mean".
/// Returns `None` if the normalised Damerau-Levenshtein similarity does not exceed 0.5.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(&name, known);
    let best = known.into_iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(best) > 0.5).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!([0, 12, 999, 1000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
        assert_eq!((counted(1, "seed"), counted(10_000, "seed")), ("1 seed".into(), "10,000 seeds".into()));
        assert_eq!([999, 31_200_000, 8_000_000_000].map(bytes), ["999 bytes", "31.2 MB", "8.0 GB"]);
        assert_eq!([256 << 20, 1 << 30, 1025].map(limit), ["256 MiB", "1 GiB", "1,025 bytes"]);
        assert_eq!((percent(Some(0.815)), percent(None)), ("81.50".into(), "-".into()));
        let times = [0.000_412_3, 0.131, 2.5, 12.34, 200.0, 7500.0, f64::NAN];
        let texts = ["0.412 ms", "131.0 ms", "2.50 s", "12.3 s", "3 min 20 s", "2 h 05 min", "-"];
        assert_eq!(times.map(seconds), texts);
        assert_eq!(nearest("gnc", ["gcn", "linear"]), Some("gcn"));
        assert_eq!(nearest("zzz", ["gcn", "linear"]), None);
    }
}
