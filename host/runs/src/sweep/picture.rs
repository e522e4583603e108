//! The picture of a sweep. It has one panel per parameter, which shows the metric of each trial
//! over the value of the parameter.
//!
//! The metric is the one that ranks the choices. It is computed on the validation rows, unless the
//! sweep file has `rank_by = "test"`. If no trial has this metric, the picture shows the reason
//! instead.

use std::fmt::Write as _;

use eciton_recipe::{Metric, Part};

use super::table::{Row, unranked};
use crate::metrics_format::shortened;
use crate::picture::escape;
use crate::picture::scale::{nice_step, ticks};

/// Width and height of the plot area in a panel, in SVG units.
const PANEL: (f64, f64) = (300.0, 240.0);
/// Space to the left of a plot area, for the value axis, and to its right, in SVG units.
const SIDES: (f64, f64) = (74.0, 14.0);
/// Space above a plot area, and below it for the parameter axis, in SVG units.
const ENDS: (f64, f64) = (12.0, 48.0);
/// Height of the title of the picture, in SVG units.
const TITLE: f64 = 34.0;
/// Maximum number of panels in the picture.
const MAX_PANELS: usize = 16;
/// Ratio of the largest parameter value to the smallest one above which an axis is logarithmic.
const WIDE: f64 = 20.0;
/// Maximum number of tick labels on an axis.
const MAX_TICKS: usize = 8;
/// Maximum total number of characters of all words on an axis.
const MAX_WORDS: usize = 44;

/// The panel of one parameter, as SVG elements. [`panel_size`] returns its size.
pub(crate) struct Panel {
    pub(crate) key: String,
    pub(crate) body: String,
}

/// Returns the width and height of a panel with its axes, in SVG units.
pub(crate) const fn panel_size() -> (f64, f64) {
    (SIDES.0 + PANEL.0 + SIDES.1, ENDS.0 + PANEL.1 + ENDS.1)
}

/// Draws the metric of each trial over each parameter, as an SVG picture. `by` is the part of the
/// data whose metric ranks the choices. With successive halving, trials that ended before the last
/// rung are drawn hollow.
#[must_use]
pub fn picture(rows: &[Row], title: &str, by: Part) -> String {
    let panels = panels(rows, by);
    let (width, height) = (panels.len().max(1) as f64 * panel_size().0, TITLE + panel_size().1);
    let metric = metric(rows);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{}\" y=\"24\" \
         font-size=\"14\">{}</text>\n",
        SIDES.0,
        escaped(&format!("{title}: {} {} of each trial", by.name(), metric.name()))
    );
    for (at, panel) in panels.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<g transform=\"translate({} {TITLE})\">\n{}</g>",
            at as f64 * panel_size().0,
            panel.body
        );
    }
    if let Some(reason) = unranked(rows, by) {
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", SIDES.0, TITLE + 40.0, escaped(&reason));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws the panels of a sweep, one for each parameter.
pub(crate) fn panels(rows: &[Row], by: Part) -> Vec<Panel> {
    // In a grid over models, a trial lacks the keys that its model does not have.
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in rows.iter().flat_map(|row| &row.choice) {
        if !keys.contains(&key.as_str()) && keys.len() < MAX_PANELS {
            keys.push(key);
        }
    }
    let values = Values::from_rows(rows, by);
    keys.into_iter().map(|key| Panel { key: key.to_owned(), body: panel((rows, by), key, &values) }).collect()
}

fn metric(rows: &[Row]) -> Metric {
    rows.iter().find_map(|row| row.metric).unwrap_or_default()
}

/// The value axis, which all panels share.
struct Values {
    low: f64,
    high: f64,
    step: f64,
    /// Factor by which values are multiplied before they are drawn. It is 100 for shares, which are
    /// drawn in per cent.
    factor: f64,
    /// Title of the axis, with its unit.
    name: String,
}

impl Values {
    fn from_rows(rows: &[Row], by: Part) -> Self {
        let metric = metric(rows);
        let (factor, unit) = if metric.is_share() { (100.0, " (%)") } else { (1.0, unit_of_metric(metric)) };
        let found = rows.iter().filter_map(|row| row.metric_on(by)).map(|value| factor * value);
        let finite = found.filter(|value| value.is_finite());
        let (low, high) = finite
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = match high - low {
            width if width > 0.0 => (low, high),
            // All trials have one value, or there is no value.
            _ if low.is_finite() => (low - 0.01 * factor, high + 0.01 * factor),
            _ => (0.0, factor),
        };
        let step = nice_step((high - low) / 4.0);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { low, high, step, factor, name: format!("{} {}{unit}", by.name(), metric.name()) }
    }

    /// Returns the vertical position of a value, measured downwards from the top of the plot area.
    fn y(&self, value: f64) -> f64 {
        PANEL.1 * (1.0 - (value - self.low) / (self.high - self.low))
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> + '_ {
        let decimals = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        let count = ((self.high - self.low) / self.step).round() as u32;
        (0..=count.min(20)).map(move |n| {
            let value = self.low + f64::from(n) * self.step;
            (value, format!("{value:.decimals$}"))
        })
    }
}

/// Returns the unit of a metric that is not a share, in parentheses. Regression errors have the
/// unit of the labels.
fn unit_of_metric(metric: Metric) -> &'static str {
    match metric {
        Metric::CrossEntropy => " (nats)",
        Metric::MeanAbsoluteError | Metric::RootMeanSquaredError => " (unit of the labels)",
        _ => "",
    }
}

/// Returns the unit of a parameter, for instance `epochs` for the key `run.patience`. Returns
/// `None` for words, and for numbers without a unit, such as rates.
fn unit(key: &str) -> Option<&'static str> {
    let name = key.rsplit('.').next().unwrap_or(key);
    match name {
        "hidden" => Some("features"),
        "layers" => Some("layers"),
        "heads" => Some("heads"),
        "hops" => Some("hops"),
        "epochs" | "patience" | "warmup" | "step_every" | "eval_every" => Some("epochs"),
        "seconds" => Some("s"),
        _ if name.ends_with("_ms") => Some("ms"),
        _ if name.ends_with("_mb") => Some("MiB"),
        _ if name.ends_with("_bytes") => Some("bytes"),
        _ if key == "batch.size" => Some("rows"),
        _ => None,
    }
}

/// Draws the panel of the parameter `key` as SVG elements.
fn panel((rows, by): (&[Row], Part), key: &str, values: &Values) -> String {
    let value = |row: &Row| row.choice.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let mut texts: Vec<String> = rows.iter().filter_map(value).collect();
    texts.sort();
    texts.dedup();
    let numbers: Option<Vec<f64>> =
        texts.iter().map(|value| value.parse().ok().filter(|v: &f64| v.is_finite())).collect();
    let axis = Axis::from_values(numbers, texts);
    let (left, top) = (SIDES.0, ENDS.0);
    let (right, bottom) = (left + PANEL.0, top + PANEL.1);
    let x = |share: f64| left + (0.05 + 0.9 * share) * PANEL.0;
    let notes: Vec<&str> =
        unit(key).into_iter().chain(axis.is_logarithmic().then_some("logarithmic")).collect();
    let name = if notes.is_empty() { key.to_owned() } else { format!("{key} ({})", notes.join(", ")) };
    let middle = top + PANEL.1 / 2.0;
    let mut svg = format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
         <text x=\"14\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {middle})\">{}</text>\n",
        left + PANEL.0 / 2.0,
        bottom + 38.0,
        escaped(&shortened(&name, 46)),
        escaped(&values.name)
    );
    for (value, text) in values.ticks() {
        let y = top + values.y(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {y:.1}H{right}\" class=\"grid-line\" stroke=\"#e4e4e4\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" \
             class=\"tick\" fill=\"#555\">{text}</text>",
            left - 6.0,
            y + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"axis\" d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>"
    );
    for (share, text) in axis.ticks() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" class=\"tick\" fill=\"#555\">{}</text>",
            x(share),
            bottom + 18.0,
            escaped(&text)
        );
    }
    let last = rows.iter().filter_map(|row| row.rung).max();
    for row in rows {
        let drawn = match row.rung < last {
            true => "fill=\"none\" stroke=\"#2166ac\" stroke-opacity=\"0.6\"",
            false => "fill=\"#2166ac\" fill-opacity=\"0.45\"",
        };
        let (Some(value), Some(found)) = (value(row), row.metric_on(by).filter(|found| found.is_finite()))
        else {
            continue;
        };
        let Some(share) = axis.share(&value) else { continue };
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" {drawn}><title>{}</title></circle>",
            x(share),
            top + values.y(values.factor * found),
            escaped(&format!("trial {}: {found:.4}, {}", row.trial, row.label()))
        );
    }
    svg
}

/// The horizontal axis of a panel, which shows the values of a parameter as numbers or as words.
enum Axis {
    Numbers { low: f64, high: f64, log: bool, values: Vec<f64> },
    Words(Vec<String>),
}

impl Axis {
    fn from_values(numbers: Option<Vec<f64>>, words: Vec<String>) -> Self {
        let Some(mut values) = numbers else { return Self::Words(words) };
        values.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (values.first(), values.last()) else { return Self::Words(words) };
        if low == high {
            return Self::Words(words);
        }
        Self::Numbers { low, high, log: low > 0.0 && high / low > WIDE, values }
    }

    fn share(&self, value: &str) -> Option<f64> {
        match self {
            Self::Numbers { low, high, log, .. } => {
                let value: f64 = value.parse().ok()?;
                Some(match log {
                    true => (value / low).ln() / (high / low).ln(),
                    false => (value - low) / (high - low),
                })
            }
            Self::Words(words) => {
                let at = words.iter().position(|word| word == value)?;
                Some((at as f64 + 0.5) / words.len() as f64)
            }
        }
    }

    fn is_logarithmic(&self) -> bool {
        matches!(self, Self::Numbers { log: true, .. })
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let shown = |text: &str, most: usize| shortened(text.trim_matches('"'), most);
        match self {
            Self::Numbers { values, low, high, log } => {
                let tick = |text: String| Some((self.share(&text)?, shown(&text, 12)));
                let own: Vec<(f64, String)> =
                    values.iter().filter_map(|value| tick(value.to_string())).collect();
                if own.len() <= MAX_TICKS && fit(&own) {
                    return own;
                }
                // The values of random searches are not round numbers.
                let round = if *log { decades(*low, *high) } else { round(*low, *high) };
                let round: Vec<(f64, String)> = round.into_iter().filter_map(tick).collect();
                match round.len() >= 2 && fit(&round) {
                    true => round,
                    false => [(0.0, low), (1.0, high)]
                        .map(|(share, value)| (share, format!("{value:.3e}")))
                        .to_vec(),
                }
            }
            Self::Words(words) => {
                let most = (MAX_WORDS / words.len().max(1)).clamp(3, 24);
                words
                    .iter()
                    .step_by(words.len().div_ceil(MAX_TICKS).max(1))
                    .filter_map(|word| Some((self.share(word)?, shown(word, most))))
                    .collect()
            }
        }
    }
}

/// Returns true if labels fit next to each other without overlapping. Each label has its position
/// on the axis, from 0 to 1.
fn fit(texts: &[(f64, String)]) -> bool {
    let width = |text: &str| 7.0 * text.chars().count() as f64;
    texts.windows(2).all(|pair| match pair {
        [(left, before), (right, after)] => {
            0.9 * PANEL.0 * (right - left) >= f64::midpoint(width(before), width(after)) + 6.0
        }
        _ => true,
    })
}

/// Returns the powers of ten between two numbers. If there are only a few, it also returns their
/// multiples by 3.
fn decades(low: f64, high: f64) -> Vec<String> {
    let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let factors: &[i32] = if powers.clone().count() > 4 { &[1] } else { &[1, 3] };
    // The number is formatted and parsed, so that no rounding error appears.
    let value = |power: i32, factor: i32| format!("{factor}e{power}").parse::<f64>().ok();
    powers
        .flat_map(|power| factors.iter().filter_map(move |factor| value(power, *factor)))
        .filter(|value| (low..=high).contains(value))
        .map(|value| value.to_string())
        .collect()
}

/// Returns round numbers between two numbers, as texts for the ticks of a linear axis.
fn round(low: f64, high: f64) -> Vec<String> {
    let step = nice_step((high - low) / 4.0);
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    ticks((low, high), step).into_iter().map(|value| format!("{value:.decimals$}")).collect()
}

fn escaped(text: &str) -> String {
    let mut into = String::new();
    escape(&mut into, text);
    into
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeMap;

    fn row(trial: u32, choice: &[(&str, &str)], validation: Option<f64>, test: Option<f64>) -> Row {
        Row {
            trial,
            choice: choice.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            repeat: Vec::new(),
            state: "done",
            metric: Some(Metric::Accuracy),
            validation,
            test,
            epochs: Some(3),
            rung: None,
            seconds: Some(0.5),
            model_digest: None,
            error: None,
            undefined_metrics: BTreeMap::new(),
        }
    }

    #[test]
    fn the_validation_metric_is_drawn_with_named_axes() {
        let rows = [
            row(0, &[("optimiser.lr", "0.001"), ("model.hidden", "16")], Some(0.5), Some(0.91)),
            row(1, &[("optimiser.lr", "0.1"), ("model.hidden", "64")], Some(0.75), Some(0.92)),
            row(2, &[("optimiser.lr", "0.1"), ("model.heads", "4")], Some(0.7), None),
        ];
        let svg = picture(&rows, "tries", Part::Validation);
        for words in [
            ">tries: validation accuracy of each trial<",
            ">validation accuracy (%)<",
            ">optimiser.lr (logarithmic)<",
            ">model.hidden (features)<",
            ">model.heads (heads)<",
            "trial 1: 0.7500",
            ">50<",
        ] {
            assert!(svg.contains(words), "no {words} in {svg}");
        }
        assert!(!svg.contains("0.91") && !svg.contains("test"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3 + 2 + 1);
        let svg = picture(&rows, "tries", Part::Test);
        assert!(svg.contains(">test accuracy (%)<") && !svg.contains("validation"), "{svg}");
    }

    #[test]
    fn without_a_validation_metric_no_other_takes_its_place() {
        let rows = [row(0, &[("optimiser.lr", "0.1")], None, Some(0.9))];
        let svg = picture(&rows, "tries", Part::Validation);
        assert_eq!(svg.matches("<circle").count(), 0, "{svg}");
        assert!(svg.contains("no trial has a validation metric"), "{svg}");
    }

    #[test]
    fn values_that_are_drawn_have_round_ticks() {
        let texts = |values: &[&str]| -> Vec<String> {
            let numbers = values.iter().map(|value| value.parse().unwrap()).collect();
            let axis =
                Axis::from_values(Some(numbers), values.iter().map(|value| (*value).to_owned()).collect());
            axis.ticks().into_iter().map(|(_, text)| text).collect()
        };
        let drawn = ["0.004878", "0.006647", "0.008764", "0.01343", "0.04482", "0.05942", "0.1487", "0.2563"];
        assert_eq!(texts(&drawn), ["0.01", "0.03", "0.1"]);
        assert_eq!(texts(&["0.1234", "0.2345", "0.1235", "0.31"]), ["0.15", "0.20", "0.25", "0.30"]);
        assert_eq!(texts(&["16", "32", "64"]), ["16", "32", "64"]);
        let many: Vec<String> = (0..40).map(|power| format!("1e{power}")).collect();
        assert_eq!(texts(&many.iter().map(String::as_str).collect::<Vec<_>>()), ["1.000e0", "1.000e39"]);
    }

    #[test]
    fn axes_hold_any_values() {
        for found in [&[][..], &[0.0], &[0.3, 0.3], &[1e-9, 2e-9], &[-4.0, 1e9], &[f64::INFINITY, 1.0]] {
            let rows: Vec<Row> = (0u32..)
                .zip(found)
                .map(|(at, value)| row(at, &[("a.b", "\"word\"")], Some(*value), None))
                .collect();
            let svg = picture(&rows, "t", Part::Validation);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{found:?}: {svg}");
        }
    }
}
