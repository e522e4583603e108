//! The picture `curve.svg` of the training of one seed. It shows the loss on the left and the
//! metrics on the right, by epoch or step.
//!
//! A dashed line marks the epoch that validation chose. The axis of the loss is logarithmic if the
//! values span more than two powers of ten.
//!
//! The picture is plain SVG 1.1 without script, style sheet or embedded font. If a run has more
//! than [`MAX_POINTS`] epochs, every n-th is drawn, always including the last. An epoch without an
//! evaluation has no point of a metric. A loss that is not finite interrupts its line.

pub mod scale;

use std::fmt::Write as _;

use eciton_recipe::{Keep, Loss, Metric};

use self::scale::{Scale, epoch_ticks, label};
use crate::report::{BestEpoch, EpochReport, Metrics, Unit};

/// Maximum number of points that a curve is drawn with. The loss panel is only about 330 units
/// wide.
pub(crate) const MAX_POINTS: usize = 1000;

/// Title and labels of the picture of a training.
#[derive(Debug, Clone, Copy)]
pub struct Caption<'a> {
    /// Name of the data set.
    pub dataset: &'a str,
    /// Description of the model, for instance `gcn 1433-16-7`.
    pub model: &'a str,
    /// Random seed of the drawn training.
    pub seed: u64,
    /// Loss function of the model.
    pub loss: Loss,
    /// Metric by which the run was evaluated.
    pub metric: Metric,
    /// Rule that selects the epoch whose model is written (`run.keep`). A dashed line marks this
    /// epoch.
    pub keep: Keep,
}

impl Caption<'_> {
    /// Returns the title of the loss panel.
    pub(crate) fn loss(&self) -> &'static str {
        match self.loss {
            Loss::CrossEntropy => "loss: mean cross-entropy, nats",
            Loss::BinaryCrossEntropy => "loss: mean binary cross-entropy, nats",
            Loss::SquaredError => "loss: mean squared error",
            Loss::AbsoluteError => "loss: mean absolute error",
        }
    }

    /// Returns the title of the metric panel.
    pub(crate) fn metric(&self) -> &'static str {
        match self.metric {
            Metric::Accuracy => "accuracy without dropout, % of labelled rows",
            Metric::RocAuc => "ROC-AUC without dropout, %",
            Metric::AveragePrecision => "average precision without dropout, %",
            Metric::F1Micro => "micro-averaged F1 without dropout, %",
            Metric::F1Macro => "macro-averaged F1 without dropout, %",
            Metric::BalancedAccuracy => "balanced accuracy without dropout, %",
            Metric::CrossEntropy => "cross-entropy without dropout, nats",
            Metric::MeanAbsoluteError => "mean absolute error without dropout",
            Metric::RootMeanSquaredError => "root mean squared error without dropout",
            Metric::Hits10 => "hits@10 of held-out links, %",
            Metric::Hits20 => "hits@20 of held-out links, %",
            Metric::Hits50 => "hits@50 of held-out links, %",
            Metric::Hits100 => "hits@100 of held-out links, %",
            Metric::MeanReciprocalRank => "mean reciprocal rank of held-out links, %",
        }
    }
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 376.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = HEIGHT - 50.0;
const INK: &str = "#222222";
const GREY: &str = "#666666";
/// Colour of the loss curve. All colours are from the palette of Okabe and Ito, which most people
/// with colour blindness can distinguish.
const LOSS: &str = "#cc3311";

/// A curve of the metric panel: name of the data part, colour, line width, and function that
/// returns the value from the metrics of an epoch.
type Curve = (&'static str, &'static str, f64, fn(&Metrics) -> Option<f64>);
const CURVES: [Curve; 3] = [
    ("train", "#56b4e9", 1.5, |a| a.train),
    ("validation", "#e69f00", 1.5, |a| a.validation),
    ("test", "#006d4f", 2.0, |a| a.test),
];

/// One chart of the picture, with epochs or steps on the horizontal axis and values on the vertical
/// axis.
struct Panel {
    left: f64,
    right: f64,
    /// Unit, and first and last number on the horizontal axis.
    unit: Unit,
    epochs: (f64, f64),
    values: Scale,
}

impl Panel {
    fn x(&self, epoch: f64) -> f64 {
        let (from, to) = self.epochs;
        self.left + (self.right - self.left) * if to > from { (epoch - from) / (to - from) } else { 0.5 }
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * self.values.place(value)
    }

    /// Draws the grid, the tick labels and the axis titles of the panel.
    fn frame(&self, into: &mut String, title: &str, unit: &str) {
        let (left, right) = (self.left, self.right);
        for (tick, name) in self.values.ticks() {
            let y = self.y(tick);
            line(into, (left, y), (right, y), "#e4e4e4");
            write_text(into, (left - 8.0, y + 4.0), "end", 12, GREY, &format!("{name}{unit}"));
        }
        // Epochs are counted from 1. Ticks are at round numbers and at the first epoch.
        for tick in epoch_ticks(self.epochs) {
            let x = self.x(tick);
            line(into, (x, BOTTOM), (x, BOTTOM + 5.0), GREY);
            write_text(into, (x, BOTTOM + 19.0), "middle", 12, GREY, &label(tick, 1.0));
        }
        line(into, (left, TOP), (left, BOTTOM), GREY);
        line(into, (left, BOTTOM), (right, BOTTOM), GREY);
        write_text(into, (left, TOP - 34.0), "start", 13, INK, title);
        write_text(into, (f64::midpoint(left, right), BOTTOM + 38.0), "middle", 12, GREY, self.unit.name());
    }

    /// Draws a dashed vertical line at an epoch, with `text` next to it.
    fn mark(&self, into: &mut String, epoch: u32, text: &str) {
        let x = self.x(f64::from(epoch));
        let _ = writeln!(
            into,
            r#"<line x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{BOTTOM}" stroke="{GREY}" stroke-width="1" stroke-dasharray="4 3"/>"#
        );
        let (at, anchor) =
            if x < f64::midpoint(self.left, self.right) { (x + 5.0, "start") } else { (x - 5.0, "end") };
        if !text.is_empty() {
            write_text(into, (at, BOTTOM - 8.0), anchor, 12, GREY, text);
        }
    }

    /// Draws an entry of the legend above the panel. `slot` is its position, from 0 to 2.
    fn key(&self, into: &mut String, slot: usize, colour: &str, text: &str) {
        let (x, y) = (self.left + [0.0, 94.0, 220.0].get(slot).copied().unwrap_or(0.0), TOP - 16.0);
        let end = x + 14.0;
        let _ = writeln!(
            into,
            r#"<line x1="{x}" y1="{y}" x2="{end}" y2="{y}" stroke="{colour}" stroke-width="3"/>"#
        );
        write_text(into, (end + 4.0, y + 4.0), "start", 12, INK, text);
    }

    /// Draws a curve through the points. A value of `None` interrupts the curve. A point without
    /// adjacent values is drawn as a dot.
    fn curve(&self, into: &mut String, points: &[(f64, Option<f64>)], colour: &str, width: f64) {
        for run in points.split(|(_, value)| value.is_none()).filter(|run| !run.is_empty()) {
            let place = |&(epoch, value): &(f64, Option<f64>)| {
                format!("{:.1},{:.1}", self.x(epoch), self.y(value.unwrap_or_default()))
            };
            if let [(epoch, value)] = run {
                let (x, y) = (self.x(*epoch), self.y(value.unwrap_or_default()));
                let _ = writeln!(into, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#);
                continue;
            }
            let places: Vec<String> = run.iter().map(place).collect();
            let _ = writeln!(
                into,
                r#"<polyline fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round" points="{}"/>"#,
                places.join(" ")
            );
        }
    }
}

/// Draws the epoch reports of one seed, which must be in ascending order, as an SVG picture.
/// Without epochs, the panels are empty.
pub fn svg(caption: &Caption<'_>, epochs: &[EpochReport]) -> String {
    let shown = thin(epochs);
    let axis = Unit::for_reports(epochs);
    let at = |report: &EpochReport| f64::from(axis.of(report.epoch, report.step));
    let range = match (epochs.first(), epochs.last()) {
        (Some(first), Some(last)) => (at(first), at(last)),
        _ => (1.0, 1.0),
    };
    let mut out = String::with_capacity(1 << 15);
    let _ = writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, sans-serif">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>"##
    );
    let Caption { dataset, model, seed, .. } = caption;
    write_text(&mut out, (24.0, 30.0), "start", 17, INK, &format!("{dataset}, {model}, seed {seed}"));

    let losses: Vec<_> = shown.iter().map(|e| (at(e), finite(e.loss))).collect();
    let values = Scale::for_values(losses.iter().filter_map(|&(_, loss)| loss));
    let best = BestEpoch::find(epochs, caption.keep).map(|best| axis.of(best.epoch, best.step));
    let panel = Panel { left: 70.0, right: 400.0, unit: axis, epochs: range, values };
    let title = match values.is_logarithmic() {
        true => format!("{}, logarithmic", caption.loss()),
        false => caption.loss().to_owned(),
    };
    panel.frame(&mut out, &title, "");
    best.iter().for_each(|&epoch| panel.mark(&mut out, epoch, ""));
    panel.curve(&mut out, &losses, LOSS, 2.0);
    panel.key(&mut out, 0, LOSS, "train, with dropout");

    let share = caption.metric.is_share();
    let found = |e: &&EpochReport| e.metrics.map(|m| [m.train, m.validation, m.test]);
    let (factor, values, unit) = match share {
        true => (100.0, Scale::PERCENT, " %"),
        false => (1.0, Scale::linear(shown.iter().filter_map(found).flatten().flatten()), ""),
    };
    let panel = Panel { left: 500.0, right: 830.0, unit: axis, epochs: range, values };
    panel.frame(&mut out, caption.metric(), unit);
    let name = axis.name();
    best.iter().for_each(|&at| panel.mark(&mut out, at, &format!("best validation: {name} {at}")));
    for (slot, (name, colour, width, value)) in CURVES.into_iter().enumerate() {
        // An epoch without an evaluation does not interrupt the line.
        let evaluated = shown.iter().filter_map(|e| Some((at(e), e.metrics.as_ref()?)));
        let points: Vec<_> =
            evaluated.map(|(epoch, a)| (epoch, value(a).and_then(finite).map(|v| factor * v))).collect();
        panel.curve(&mut out, &points, colour, width);
        let last = points.iter().rev().find_map(|p| p.1);
        let text = last.map_or_else(
            || format!("{name}: none"),
            |v| if share { format!("{name} {v:.1}") } else { format!("{name} {v:.3}") },
        );
        panel.key(&mut out, slot, colour, &text);
    }
    out.push_str("</svg>\n");
    out
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Returns at most [`MAX_POINTS`] reports. Epochs are divided into groups of n, counted from the
/// last one. Each group gives its last evaluated epoch, or else its last epoch.
fn thin(epochs: &[EpochReport]) -> Vec<&EpochReport> {
    let every = epochs.len().div_ceil(MAX_POINTS).max(1);
    let mut shown: Vec<&EpochReport> = epochs
        .rchunks(every)
        .filter_map(|group| group.iter().rev().find(|e| e.metrics.is_some()).or_else(|| group.last()))
        .collect();
    shown.reverse();
    shown
}

fn line(into: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
    let _ = writeln!(
        into,
        r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}" stroke-width="1"/>"#
    );
}

fn write_text(into: &mut String, (x, y): (f64, f64), anchor: &str, size: u32, colour: &str, text: &str) {
    let _ = write!(
        into,
        r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">"#
    );
    escape(into, text);
    into.push_str("</text>\n");
}

/// Appends a text with XML special characters escaped, cut after 100 characters. Control characters
/// are replaced, because the name of a data set may contain any character of a file name.
pub(crate) fn escape(into: &mut String, text: &str) {
    for c in text.chars().take(100) {
        match c {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            // XML 1.0 cannot represent these characters.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => into.push('\u{fffd}'),
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CAPTION: Caption<'static> = Caption {
        dataset: "cora",
        model: "gcn 3-2",
        seed: 7,
        loss: Loss::CrossEntropy,
        metric: Metric::Accuracy,
        keep: Keep::Best,
    };

    fn epochs(count: u32, evaluated: impl Fn(u32) -> bool, loss: impl Fn(u32) -> f64) -> Vec<EpochReport> {
        let metrics = Metrics { train: Some(0.5), test: Some(0.25), ..Metrics::default() };
        (1..=count)
            .map(|epoch| EpochReport {
                seed: 7,
                epoch,
                step: epoch,
                rows_per_second: None,
                loss: loss(epoch),
                metrics: evaluated(epoch).then_some(metrics),
                bill: None,
                seconds: 0.0,
                lr: 0.01,
                flops: 0,
                gradient_norm: None,
            })
            .collect()
    }

    /// Every number of points in a line, line by line.
    fn lines(svg: &str) -> Vec<usize> {
        let points = svg.lines().filter(|l| l.starts_with("<polyline"));
        points.map(|l| l.split("points=\"").nth(1).unwrap().split(' ').count()).collect()
    }

    #[test]
    fn a_line_has_a_point_an_epoch() {
        let svg = svg(&CAPTION, &epochs(20, |_| true, |e| 1.0 / f64::from(e)));
        assert_eq!(lines(&svg), [20, 20, 20]); // loss, train, test; there is no validation
        assert!(svg.contains("cora, gcn 3-2, seed 7") && svg.contains("validation: none"));
        assert!(svg.contains("train 50.0") && svg.contains("test 25.0"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn what_is_missing_is_left_out() {
        for (count, evaluated) in [(0, 0), (1, 0), (1, 1), (3, 3)] {
            let svg = svg(&CAPTION, &epochs(count, |e| e == evaluated, |_| f64::NAN));
            assert_eq!(lines(&svg), [0usize; 0]);
            assert_eq!(svg.matches("<circle").count(), if evaluated > 0 { 2 } else { 0 });
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        let broken = svg(&CAPTION, &epochs(10, |_| false, |e| if e == 5 { f64::INFINITY } else { 0.1 }));
        assert_eq!(lines(&broken), [4, 5]);
    }

    #[test]
    fn long_runs_are_thinned_and_keep_the_last_epoch() {
        for count in [1000, 1001, 123_457] {
            let all = epochs(count, |e| e % 100 == 0 || e == count, |_| 1.0);
            let shown = thin(&all);
            assert!(shown.len() <= MAX_POINTS && shown.last().unwrap().epoch == count, "{count}");
            assert!(shown.iter().filter(|e| e.metrics.is_some()).count() >= 10);
            assert!(svg(&CAPTION, &all).len() < 100_000);
        }
    }

    #[test]
    fn names_are_escaped() {
        let caption = Caption { dataset: "<a&b>\u{1}", ..CAPTION };
        assert!(svg(&caption, &[]).contains("&lt;a&amp;b&gt;\u{fffd}, gcn"));
    }

    #[test]
    fn the_chosen_epoch_is_marked_in_both_panels() {
        let mut all = epochs(20, |_| true, |e| 1.0 / f64::from(e));
        all.iter_mut().for_each(|e| {
            let validation = Some(if e.epoch == 7 { 0.9 } else { 0.5 });
            e.metrics = e.metrics.map(|metrics| Metrics { validation, ..metrics });
        });
        let svg = svg(&CAPTION, &all);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert!(svg.contains(">best validation: epoch 7<"), "{svg}");
        let unjudged = super::svg(&CAPTION, &epochs(20, |_| true, |_| 1.0));
        assert!(!unjudged.contains("stroke-dasharray"), "{unjudged}");
    }

    #[test]
    fn a_loss_over_more_than_two_powers_of_ten_has_a_logarithmic_axis() {
        let svg = svg(&CAPTION, &epochs(20, |_| true, |e| 218.0 / f64::from(e).powi(3)));
        assert!(svg.contains(", logarithmic<") && svg.contains(">0.01<") && svg.contains(">1000<"), "{svg}");
        let narrow = super::svg(&CAPTION, &epochs(20, |_| true, |_| 1.0));
        assert!(!narrow.contains("logarithmic"), "{narrow}");
    }
}
