//! The report of a run as a single web page. It has no scripts and makes no network requests.
//!
//! Colours follow the reader's light or dark scheme, and the columns follow the width of the
//! window. Texts in a run folder may come from other users, so all texts are escaped.

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

/// Maximum number of seeds in the table of seeds.
const MAX_SEEDS: usize = 100;
/// Maximum number of characters of the recipe on the page.
const MAX_RECIPE: usize = 100_000;

/// Web page of a run, and a list of the sections that could not be made.
#[derive(Debug, Clone)]
pub struct Page {
    /// The page as HTML 5.
    pub html: String,
    /// One line for each section that was left out, with the reason.
    pub left_out: Vec<String>,
}

/// Function that estimates the memory of a run from its configuration. It returns an error text if
/// it cannot.
pub type Memory<'a> = &'a dyn Fn(&Config) -> std::result::Result<MemoryPlan, String>;

/// Creates the web page of the run in the folder `path`. `memory` estimates the memory of the run.
/// If it fails, the page shows the reason. `trace` is a file that `eciton train --trace` wrote.
///
/// # Errors
/// Returns an error if the run folder or the trace is missing or damaged.
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

/// Returns the section with a table of all seeds.
fn seeds(summary: &Summary, keep: Keep) -> Section {
    let metric = summary.metric;
    let shown = |value: Option<f64>| part::measured(metric, value);
    let written = match keep {
        Keep::Last => "the model of the last epoch is written (run.keep = \"last\")".to_owned(),
        keep => format!("the model of the best epoch is written (run.keep = {:?})", keep.name()),
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
            "validation at best epoch",
            "test at best epoch",
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

/// Returns the section with the curves of loss and metric over the epochs.
fn curves(run: &Run, epochs: &[EpochReport]) -> Section {
    let body = chart::pair(run.config.model.loss, run.summary.metric, epochs, &run.summary.seeds);
    Section::wide("Curves", body)
}
