//! The picture of a sweep: a panel a parameter, the metric of each trial over the parameter's value.

use std::fmt::Write as _;

use eciton_plan::Part;

use super::table::Row;
use crate::picture::escape;

const PANEL: (f64, f64) = (300.0, 240.0);
const MARGIN: (f64, f64) = (64.0, 44.0);
/// Most panels.
const MAX_PANELS: usize = 16;
/// Numbers further apart than this are drawn by their logarithm.
const WIDE: f64 = 20.0;
/// Most values of an axis that are written.
const MAX_TICKS: usize = 8;

/// The trials' metric over each parameter, as SVG 1.1: that of the part that ranks choices, or of the other part if no trial
/// has one. Of successive halving, trials that did not come to the last
/// rung are hollow: their metric is of another epoch.
#[must_use]
pub fn picture(rows: &[Row], title: &str, by: Part) -> String {
    let has = |part| rows.iter().any(|row| row.of(part).is_some());
    let by = match by {
        Part::Test if !has(Part::Test) => Part::Validation,
        Part::Train | Part::Validation if !has(Part::Validation) => Part::Test,
        by => by,
    };
    let keys: Vec<&str> = rows
        .first()
        .map(|row| row.choice.iter().map(|(key, _)| key.as_str()))
        .into_iter()
        .flatten()
        .take(MAX_PANELS)
        .collect();
    let metric = rows.iter().find_map(|row| row.metric).map_or("metric", |metric| metric.name());
    let values = rows.iter().filter_map(|row| row.of(by));
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), of| (low.min(of), high.max(of)));
    let (low, high) = if low < high { (low, high) } else { (low.min(0.0), high.max(1.0)) };
    let panels = keys.len().max(1) as f64;
    let (width, height) = (MARGIN.0 + panels * (PANEL.0 + MARGIN.0), PANEL.1 + 3.0 * MARGIN.1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{}\" y=\"24\" \
         font-size=\"14\">{}</text>\n",
        MARGIN.0,
        escaped(&format!("{title}: {} {metric} of each trial", by.name()))
    );
    for (at, key) in keys.iter().enumerate() {
        let left = MARGIN.0 + at as f64 * (PANEL.0 + MARGIN.0);
        panel(&mut svg, (rows, by), key, (left, MARGIN.1), (low, high));
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(
    svg: &mut String,
    (rows, by): (&[Row], Part),
    key: &str,
    (left, top): (f64, f64),
    (low, high): (f64, f64),
) {
    let value = |row: &Row| row.choice.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let mut values: Vec<String> = rows.iter().filter_map(value).collect();
    values.sort();
    values.dedup();
    let numbers: Option<Vec<f64>> =
        values.iter().map(|value| value.parse().ok().filter(|v: &f64| v.is_finite())).collect();
    let axis = Axis::of(numbers, values);
    let (right, bottom) = (left + PANEL.0, top + PANEL.1);
    let y = |value: f64| bottom - (value - low) / (high - low) * PANEL.1;
    let x = |share: f64| left + (0.05 + 0.9 * share) * PANEL.0;
    let _ = writeln!(
        svg,
        "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>\n<text x=\"{}\" y=\"{}\" \
         text-anchor=\"middle\">{}</text>",
        left + PANEL.0 / 2.0,
        bottom + 38.0,
        escaped(key)
    );
    for part in 0..=4 {
        let value = low + f64::from(part) / 4.0 * (high - low);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">{value:.3}</text>\n<path d=\"M{left} {}H{right}\" \
             stroke=\"#eee\"/>",
            left - 6.0,
            y(value) + 4.0,
            y(value)
        );
    }
    for (share, text) in axis.ticks() {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
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
        let (Some(value), Some(found)) = (value(row), row.of(by)) else { continue };
        let Some(share) = axis.share(&value) else { continue };
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" {drawn}><title>{}</title></circle>",
            x(share),
            y(found),
            escaped(&format!("trial {}: {found:.4}, {}", row.trial, row.label()))
        );
    }
}

enum Axis {
    Numbers { low: f64, high: f64, log: bool, values: Vec<f64> },
    Words(Vec<String>),
}

impl Axis {
    fn of(numbers: Option<Vec<f64>>, words: Vec<String>) -> Self {
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
            Self::Numbers { low, high, log: true, .. } => {
                let value: f64 = value.parse().ok()?;
                Some((value / low).ln() / (high / low).ln())
            }
            Self::Numbers { low, high, .. } => Some((value.parse::<f64>().ok()? - low) / (high - low)),
            Self::Words(words) => {
                let at = words.iter().position(|word| word == value)?;
                Some((at as f64 + 0.5) / words.len() as f64)
            }
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let shown = |text: &str| text.trim_matches('"').chars().take(12).collect::<String>();
        match self {
            Self::Numbers { values, low, high, .. } if values.len() > MAX_TICKS => {
                [(0.0, low), (1.0, high)].map(|(share, value)| (share, format!("{value:.3e}"))).to_vec()
            }
            Self::Numbers { values, .. } => {
                let tick = |value: &f64| {
                    let text = value.to_string();
                    Some((self.share(&text)?, shown(&text)))
                };
                values.iter().filter_map(tick).collect()
            }
            Self::Words(words) => {
                words.iter().take(64).filter_map(|word| Some((self.share(word)?, shown(word)))).collect()
            }
        }
    }
}

fn escaped(text: &str) -> String {
    let mut into = String::new();
    escape(&mut into, text);
    into
}
