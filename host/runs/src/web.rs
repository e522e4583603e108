//! The report of a run: one web page with all that its folder tells, without script and without
//! anything from a network.
//!
//! Colours follow the reader's light or dark scheme, columns the width of the window. What stands
//! in a run folder is text of others: it is escaped wherever it is shown.

mod chart;
mod confusion;
mod html;
mod part;
mod sweep;
mod table;
mod timeline;

use std::fmt::Write as _;
use std::path::Path;

use eciton_graph::metrics::MAX_MATRIX_CLASSES;
use eciton_recipe::{Config, Keep};

use self::html::{Section, document, escaped};
pub use self::sweep::{ranking, sweep};
use self::table::Table;
pub use self::timeline::MAX_TRACE_BYTES;
use self::timeline::Timeline;
use crate::report::{EpochReport, MemoryPlan, Summary};
use crate::run_folder::{self, Result, Run};

/// Most seeds of which each has a row.
const MAX_SEEDS: usize = 100;
/// Most characters of a recipe that is shown.
const MAX_RECIPE: usize = 100_000;

/// A page, and what it could not show.
#[derive(Debug, Clone)]
pub struct Page {
    /// HTML 5.
    pub html: String,
    /// Sections that are left out, and why, a line each.
    pub left_out: Vec<String>,
}

/// Function that plans the memory of a run from its configuration, or returns the reason why it
/// cannot.
pub type Memory<'a> = &'a dyn Fn(&Config) -> std::result::Result<MemoryPlan, String>;

/// Returns the page of the run in a folder. `memory` plans the memory of the run. If it cannot, the
/// page shows its reason. `trace` is a file that `eciton train --trace` wrote.
///
/// # Errors
/// A run folder, or a trace, that is missing or damaged.
pub fn page(path: &Path, trace: Option<&Path>, memory: Memory<'_>) -> Result<Page> {
    let run = Run::open(path)?;
    run_folder::check_results(path)?;
    let epochs = run_folder::epochs(path)?;
    let recipe = run_folder::recipe(path)?;
    let timeline = trace.map(Timeline::read).transpose()?;
    let mut left_out = Vec::new();
    let memory = match memory(&run.config) {
        Ok(memory) => Some(memory),
        Err(reason) => {
            left_out.push(format!("memory by purpose: {reason}"));
            None
        }
    };
    let mut sections = vec![seeds(&run.summary, run.config.run.keep), curves(&run, &epochs)];
    let quality = run.summary.seeds.first().and_then(|seed| seed.quality.as_ref());
    let shown = quality.filter(|found| (1..=MAX_MATRIX_CLASSES).contains(&found.confusion.len()));
    sections.extend(shown.map(confusion::section));
    sections.push(part::memory(run.summary.peak_memory_bytes, memory.as_ref()));
    sections.extend(part::bill(&run.summary));
    match &timeline {
        Some(timeline) => sections.extend(timeline.sections()),
        None => {
            left_out.push("timeline: no trace was given; `eciton train --trace FILE` writes one".to_owned())
        }
    }
    sections.push(part::recipe(&recipe, MAX_RECIPE));
    sections.push(part::versions(&run.versions));
    let summary = &run.summary;
    let foot = format!("Weights {} · numeric class {} · ", summary.model_digest, summary.numeric_class);
    let title = format!("{}, {}", summary.dataset, summary.model);
    let html = document(&title, &part::facts(summary), &sections, &left_out, &foot);
    Ok(Page { html, left_out })
}

/// The seeds, a row each.
fn seeds(summary: &Summary, keep: Keep) -> Section {
    let metric = summary.metric;
    let shown = |value: Option<f64>| part::measured(metric, value);
    let written = match keep {
        Keep::Last => "the last epoch's model is written (run.keep = \"last\")".to_owned(),
        keep => format!("that epoch's model is written (run.keep = {:?})", keep.name()),
    };
    let chosen = match summary.seeds.iter().any(|seed| seed.best.is_some()) {
        true => format!("the validation {} chose the best epoch; {written}", metric.name()),
        false => format!("no epoch was chosen, because there is no validation {}", metric.name()),
    };
    let mut body = format!("<p class=\"quiet\">Metric: {}; {}</p>\n", metric.name(), escaped(&chosen));
    let mut table = Table::new(
        &[
            "seed",
            "epochs",
            "loss",
            "train",
            "validation",
            "test",
            "best epoch",
            "validation there",
            "test there",
        ],
        1,
    );
    for seed in summary.seeds.iter().take(MAX_SEEDS) {
        let (of, best) = (seed.metrics, seed.best.map(|best| best.metrics));
        table.row(&[
            seed.seed.to_string(),
            seed.epochs.to_string(),
            format!("{:.4}", seed.loss),
            shown(of.train),
            shown(of.validation),
            shown(of.test),
            seed.best.map_or_else(|| "none".to_owned(), |best| best.epoch.to_string()),
            shown(best.and_then(|of| of.validation)),
            shown(best.and_then(|of| of.test)),
        ]);
    }
    body.push_str(&table.html());
    if let Some(more) = summary.seeds.len().checked_sub(MAX_SEEDS).filter(|more| *more > 0) {
        let _ = writeln!(body, "<p class=\"quiet\">and {more} more seeds</p>");
    }
    Section::wide("Results", body)
}

/// Loss and metric over the epochs, side by side where there is room.
fn curves(run: &Run, epochs: &[EpochReport]) -> Section {
    let body = chart::pair(run.config.model.loss, run.summary.metric, epochs, &run.summary.seeds);
    Section::wide("Curves", body)
}
