//! Charts of loss and metric over epochs or steps. The curves of the first seed are coloured, and those of
//! further seeds are drawn faintly behind them.

use std::fmt::Write as _;

use eciton_recipe::{Loss, Metric};

use super::html::escaped;
use crate::picture::MAX_POINTS;
use crate::picture::scale::{Scale, epoch_ticks, label};
use crate::report::{EpochReport, Metrics, SeedReport, Unit};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - 40.0;
/// Maximum number of seeds whose curves are drawn.
const MAX_SEEDS: usize = 20;

/// A curve of the metric chart: its name, which is also the name of its colour, and the function
/// that returns its value from an epoch's metrics.
type Curve = (&'static str, fn(&Metrics) -> Option<f64>);
const PARTS: [Curve; 3] = [("train", |m| m.train), ("validation", |m| m.validation), ("test", |m| m.test)];

/// Draws the loss chart and the metric chart, as HTML.
pub(super) fn pair(
    loss: Option<Loss>,
    metric: Metric,
    epochs: &[EpochReport],
    seeds: &[SeedReport],
) -> String {
    let seeds_of: Vec<(u64, Vec<&EpochReport>)> = seeds
        .iter()
        .take(MAX_SEEDS)
        .map(|seed| (seed.seed, thin(epochs.iter().filter(|epoch| epoch.seed == seed.seed).collect())))
        .collect();
    let by = Unit::for_reports(epochs);
    let place = |report: &EpochReport| by.of(report.epoch, report.step);
    let best = seeds.first().and_then(|seed| seed.best).map(|best| by.of(best.epoch, best.step));
    let ends = [epochs.iter().map(place).min(), epochs.iter().map(place).max()];
    let range = (f64::from(ends[0].unwrap_or(1)), f64::from(ends[1].unwrap_or(1)));

    let values = Scale::for_values(epochs.iter().map(|epoch| epoch.loss));
    let axis = Axis { by, range, values };
    let mut drawn = axis.frame("");
    for (at, (_, of_seed)) in seeds_of.iter().enumerate().rev() {
        let points = of_seed.iter().map(|epoch| (place(epoch), Some(epoch.loss)));
        axis.curve(&mut drawn, points, "loss", at > 0);
    }
    axis.mark(&mut drawn, best);
    let kind = loss.map_or("loss", Loss::name);
    let logarithmic = if values.is_logarithmic() { ", logarithmic" } else { "" };
    let title = format!("{kind} of training rows, with dropout{logarithmic}");
    let mut out = String::from("<div class=\"grid\">\n");
    out.push_str(&figure(&title, &[("loss", "train".to_owned())], &drawn));

    let (factor, values, unit) = match metric.is_share() {
        true => (100.0, Scale::PERCENT, " %"),
        false => {
            let all = epochs.iter().filter_map(|epoch| epoch.metrics);
            (1.0, Scale::linear(all.flat_map(|m| [m.train, m.validation, m.test]).flatten()), "")
        }
    };
    let axis = Axis { by, range, values };
    let mut drawn = axis.frame(unit);
    let mut keys = Vec::new();
    for (name, value) in PARTS {
        for (at, (_, of_seed)) in seeds_of.iter().enumerate().rev() {
            // An epoch without an evaluation does not interrupt the line.
            let evaluated = of_seed.iter().filter_map(|epoch| Some((place(epoch), epoch.metrics?)));
            let points = evaluated.map(|(epoch, metrics)| (epoch, value(&metrics).map(|v| factor * v)));
            axis.curve(&mut drawn, points, name, at > 0);
        }
        let last = seeds_of.first().and_then(|(_, of_seed)| {
            of_seed.iter().rev().find_map(|epoch| epoch.metrics.as_ref().and_then(value))
        });
        keys.extend(last.map(|last| (name, format!("{name} {}", super::part::measured(metric, Some(last))))));
    }
    axis.mark(&mut drawn, best);
    out.push_str(&figure(&format!("{} without dropout", metric.name()), &keys, &drawn));
    out.push_str("</div>\n");
    let mut notes = Vec::new();
    notes.extend(best.map(|at| {
        format!("The dashed line is {} {at}, which has the best validation {}.", by.name(), metric.name())
    }));
    if seeds.len() > 1 {
        let shown = seeds.len().min(MAX_SEEDS);
        notes.push(format!("The first of {shown} seeds is in front, and the others are faint."));
    }
    let _ = writeln!(out, "<p class=\"quiet\">{}</p>", notes.join(" "));
    out
}

/// Returns at most [`MAX_POINTS`] epochs: every n-th one, counted backwards from the last.
fn thin(epochs: Vec<&EpochReport>) -> Vec<&EpochReport> {
    let every = epochs.len().div_ceil(MAX_POINTS).max(1);
    let skipped = epochs.len().saturating_sub(1) % every;
    epochs.into_iter().skip(skipped).step_by(every).collect()
}

/// Returns the HTML of a chart. `keys` is the legend (colour and name of each curve), and `drawn`
/// has the SVG elements.
fn figure(title: &str, keys: &[(&str, String)], drawn: &str) -> String {
    let keys = keys.iter().map(|(colour, text)| {
        format!(
            "<span class=\"curve\"><span class=\"key\" style=\"background:var(--{colour})\"></span>{}</span> ",
            escaped(text)
        )
    });
    format!(
        "<figure style=\"margin:0\"><figcaption>{}<br>{}</figcaption>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n{drawn}</svg></figure>\n",
        escaped(title),
        keys.collect::<String>(),
        escaped(title)
    )
}

/// The axes of a chart, with epochs or steps on the horizontal axis and values on the vertical axis.
struct Axis {
    /// Unit, and first and last number on the horizontal axis.
    by: Unit,
    range: (f64, f64),
    values: Scale,
}

impl Axis {
    fn x(&self, epoch: f64) -> f64 {
        let (from, to) = self.range;
        LEFT + (RIGHT - LEFT) * if to > from { (epoch - from) / (to - from) } else { 0.5 }
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * self.values.place(value)
    }

    fn frame(&self, unit: &str) -> String {
        let mut out = String::new();
        for (tick, name) in self.values.ticks() {
            let y = self.y(tick);
            let _ = writeln!(
                out,
                "<line class=\"grid-line\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}{unit}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        for tick in epoch_ticks(self.range) {
            let x = self.x(tick);
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 17.0,
                label(tick, 1.0)
            );
        }
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, RIGHT),
            HEIGHT - 6.0,
            self.by.name()
        );
        out
    }

    /// Draws a curve through the points. A value that is missing or not finite interrupts the
    /// curve.
    fn curve(
        &self,
        into: &mut String,
        points: impl Iterator<Item = (u32, Option<f64>)>,
        colour: &str,
        faint: bool,
    ) {
        let points: Vec<(u32, Option<f64>)> =
            points.map(|(epoch, value)| (epoch, value.filter(|value| value.is_finite()))).collect();
        let class = if faint { " class=\"faint\"" } else { "" };
        for run in points.split(|(_, value)| value.is_none()).filter(|run| !run.is_empty()) {
            let place = |&(epoch, value): &(u32, Option<f64>)| {
                format!("{:.1},{:.1}", self.x(f64::from(epoch)), self.y(value.unwrap_or_default()))
            };
            let places: Vec<String> = run.iter().map(place).collect();
            if let [only] = &places[..] {
                let (x, y) = only.split_once(',').unwrap_or_default();
                let _ =
                    writeln!(into, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" style=\"fill:var(--{colour})\"/>");
                continue;
            }
            let _ = writeln!(
                into,
                "<polyline{class} style=\"stroke:var(--{colour})\" points=\"{}\"/>",
                places.join(" ")
            );
        }
    }

    fn mark(&self, into: &mut String, epoch: Option<u32>) {
        let Some(epoch) = epoch else { return };
        let x = self.x(f64::from(epoch));
        let _ = writeln!(
            into,
            "<line class=\"mark\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{BOTTOM}\"><title>{} {epoch}</title></line>",
            self.by.name()
        );
    }
}
