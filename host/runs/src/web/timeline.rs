//! Sections that are made from a trace: a timeline of the tasks in a few epochs, and the total time
//! of each stage.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use super::html::{Section, escaped};
use super::table::Table;
use crate::metrics_format::seconds;
use crate::run_folder::{self, Result};

/// Maximum size in bytes of a trace that can be read.
pub const MAX_TRACE_BYTES: u64 = 512 << 20;
/// Maximum number of spans (tasks with start and duration) in the timeline. Epochs are added,
/// starting in the middle of the run, until this number is exceeded.
const MAX_SPANS: usize = 1500;
/// Maximum number of epochs in the timeline.
const MAX_EPOCHS: u32 = 3;
/// Width and height of the strip of one thread, in SVG units. The page stretches the strip.
const LANE: (f64, f64) = (1500.0, 26.0);
/// Process id that a trace uses for the compute threads of this machine.
const THREADS: u64 = 1;
/// Thread id that a trace uses for steps that ran in other processes.
const ELSEWHERE: u64 = 1000;

/// An event of a trace in Chrome's trace format. Other fields are ignored.
#[derive(Debug, Deserialize)]
struct Event {
    #[serde(default)]
    name: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    ph: String,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Arguments,
}

#[derive(Debug, Default, Deserialize)]
struct Arguments {
    #[serde(default)]
    epoch: Option<u32>,
}

/// Spans of the compute threads in a trace.
#[derive(Debug)]
pub(super) struct Timeline {
    spans: Vec<Event>,
}

impl Timeline {
    /// Reads a trace that `eciton train --trace` wrote.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = run_folder::read(path, MAX_TRACE_BYTES)?;
        let events: Vec<Event> = run_folder::parse(&bytes, path)?;
        let is_span = |event: &Event| {
            event.ph == "X" && event.pid == THREADS && event.ts.is_finite() && event.dur.is_finite()
        };
        Ok(Self { spans: events.into_iter().filter(is_span).collect() })
    }

    /// Returns the section with the timeline, and the section with the time of each stage.
    pub(super) fn sections(&self) -> Vec<Section> {
        if self.spans.is_empty() {
            return vec![Section::wide("Timeline", "<p>The trace has no steps.</p>\n".to_owned())];
        }
        vec![Section::wide("Timeline", self.drawing()), Section::new("Time by stage", self.stages())]
    }

    /// Returns the spans of a few epochs in the middle of the run, and a text that names these
    /// epochs.
    fn window(&self) -> (Vec<&Event>, String) {
        let epochs = self.spans.iter().filter_map(|span| span.args.epoch);
        let last = epochs.max().unwrap_or(1);
        let middle = last.div_ceil(2);
        let mut shown = (Vec::new(), String::new());
        for count in 1..=MAX_EPOCHS.min(last) {
            let (first, end) = (middle, middle + count);
            let own = |span: &&Event| span.args.epoch.is_some_and(|epoch| epoch >= first && epoch < end);
            let steps: Vec<&Event> = self.spans.iter().filter(own).collect();
            let (from, to) = bounds(&steps);
            let within = |span: &&Event| span.ts >= from && span.ts + span.dur <= to;
            let all: Vec<&Event> = self.spans.iter().filter(within).collect();
            if !shown.0.is_empty() && all.len() > MAX_SPANS {
                break;
            }
            let what = match count {
                1 => format!("update {first} of {last}"),
                _ => format!("updates {first} to {} of {last}", end - 1),
            };
            shown = (all.into_iter().take(MAX_SPANS).collect(), what);
        }
        shown
    }

    fn drawing(&self) -> String {
        let (spans, what) = self.window();
        let (from, to) = bounds(&spans);
        let length = (to - from).max(1e-3);
        let mut rows: Vec<u64> = spans.iter().map(|span| span.tid).collect();
        rows.sort_unstable();
        rows.dedup();
        let x = |at: f64| LANE.0 * ((at - from) / length).clamp(0.0, 1.0);
        let mut drawn = String::new();
        for thread in rows {
            let name =
                if thread == ELSEWHERE { "other processes".to_owned() } else { format!("thread {thread}") };
            let _ = writeln!(
                drawn,
                "<span>{name}</span><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" \
                 aria-label=\"steps of {name}\">",
                LANE.0, LANE.1
            );
            for span in spans.iter().filter(|span| span.tid == thread) {
                let (left, right) = (x(span.ts), x(span.ts + span.dur));
                let _ = writeln!(
                    drawn,
                    "<rect x=\"{left:.2}\" y=\"2\" width=\"{:.2}\" height=\"{:.1}\" style=\"fill:var(--{})\"><title>{}, \
                     {}</title></rect>",
                    (right - left).max(0.6),
                    LANE.1 - 4.0,
                    colour(span),
                    escaped(&span.name),
                    seconds(span.dur * 1e-6)
                );
            }
            drawn.push_str("</svg>\n");
        }
        let ticks = (0..=2).map(|half| format!("<span>{}</span>", seconds(length * f64::from(half) / 2e6)));
        let _ = writeln!(drawn, "<span></span><div class=\"ticks\">{}</div>", ticks.collect::<String>());
        let keys = ["forward", "backward", "gather", "evaluation", "update"]
            .map(|name| format!(
                "<span class=\"curve\"><span class=\"key\" style=\"background:var(--{name})\"></span>{name}</span> "
            ));
        format!(
            "<p class=\"quiet\">{what}; each rectangle is a step on a thread, whose name and time \
             appear under the pointer<br>{}</p>\n<div class=\"timeline\">\n{drawn}</div>\n",
            keys.concat()
        )
    }

    fn stages(&self) -> String {
        let mut by_name: BTreeMap<(&str, &str), (u64, f64)> = BTreeMap::new();
        let mut all = 0.0;
        for span in &self.spans {
            // Update stages are numbered in the trace. They count as one stage here.
            let name = if span.cat == "update" { "update" } else { &span.name[..] };
            let category = if span.cat == "evaluation" { "evaluation" } else { "training" };
            let found = by_name.entry((category, name)).or_default();
            *found = (found.0 + 1, found.1 + span.dur * 1e-6);
            all += span.dur * 1e-6;
        }
        let mut rows: Vec<_> = by_name.into_iter().collect();
        rows.sort_by(|(_, (_, a)), (_, (_, b))| b.total_cmp(a));
        let mut table = Table::new(&["stage", "phase", "steps", "time", "share", "time of a step"], 1);
        for ((category, name), (count, took)) in rows.into_iter().take(100) {
            table.row(&[
                name.to_owned(),
                category.to_owned(),
                count.to_string(),
                seconds(took),
                format!("{:.1} %", 100.0 * took / f64::max(all, f64::MIN_POSITIVE)),
                seconds(took / count as f64),
            ]);
        }
        format!("<p class=\"quiet\">Times of all threads over the whole trace.</p>\n{}", table.html())
    }
}

/// Returns the start of the earliest span and the end of the latest one, in microseconds.
fn bounds(spans: &[&Event]) -> (f64, f64) {
    let ends = |(from, to): (f64, f64), span: &&Event| (from.min(span.ts), to.max(span.ts + span.dur));
    let (from, to) = spans.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    if from <= to { (from, to) } else { (0.0, 0.0) }
}

/// Returns the name of the CSS colour for the kind of step that a span shows.
fn colour(span: &Event) -> &'static str {
    match &span.cat[..] {
        "evaluation" => "evaluation",
        "update" => "update",
        _ if span.name.contains("gather") || span.name.contains("attend") || span.name.contains("sample") => {
            "gather"
        }
        _ if span.name.contains("backward") => "backward",
        _ => "forward",
    }
}
