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
use eciton_recipe::Keep;

use self::html::{Section, document, escaped};
pub use self::sweep::{ranking, sweep};
use self::table::Table;
pub use self::timeline::MAX_TRACE_BYTES;
use self::timeline::Timeline;
use crate::error::Result;
use crate::options::Options;
use crate::plan;
use crate::report::{EpochReport, Summary};
use crate::run_folder::{self, Run};

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

/// The page of the run in a folder. With `data` the data set is read for the plan of the memory;
/// where that cannot be, the page says so. `trace` is a file that `eciton train --trace` wrote.
///
/// # Errors
/// A run folder, or a trace, that is missing or damaged.
pub fn page(path: &Path, trace: Option<&Path>, data: bool, options: &Options) -> Result<Page> {
    let run = Run::open(path)?;
    run_folder::check_results(path)?;
    let epochs = run_folder::epochs(path)?;
    let recipe = run_folder::recipe(path)?;
    let timeline = trace.map(Timeline::read).transpose()?;
    let mut left_out = Vec::new();
    let mut memory = None;
    if data {
        let mut here = run.config.clone();
        // Looking at a run costs nothing, wherever it was trained.
        here.run_here();
        match plan::plan(&here, options) {
            Ok(plan) => memory = Some(plan.memory),
            Err(error) => left_out.push(format!("memory by purpose: {error}")),
        }
    } else {
        left_out.push("memory by purpose: it needs the data set".to_owned());
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_run_is_one_page_without_script_or_network() {
        let dir = tempfile::tempdir().unwrap();
        let (out, trace) = (dir.path().join("r"), dir.path().join("trace.json"));
        let mut config = eciton_recipe::Config::default();
        config.run.epochs = 4;
        let mut options = Options { out: Some(out.clone()), seeds: 2, ..Options::default() };
        options.recording.trace = Some(trace.clone());
        crate::train(&config, &options, &mut crate::Silent).unwrap();
        let found = page(&out, Some(&trace), true, &Options::default()).unwrap();
        assert_eq!(found.left_out, [""; 0]);
        let html = found.html;
        for title in [
            "Results",
            "Curves",
            "Confusion matrix",
            "Memory",
            "Timeline",
            "Time by stage",
            "Recipe",
            "Versions",
        ] {
            assert!(html.contains(&format!("<h2>{title}")), "{title}");
        }
        for outside in ["<script", "http:", "https:", "@import", "url(", "NaN"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("<th scope=\"row\" title=\"Neural_Networks\">Neural_Networks</th>"), "{html}");
        assert!(
            html.contains("the validation accuracy chose the best epoch; the last epoch's model is written")
        );
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("width=device-width"));
        let opened = |tag: &str| {
            [">", " "].map(|end| html.matches(&format!("<{tag}{end}")).count()).iter().sum::<usize>()
        };
        for tag in ["section", "table", "tr", "td", "th", "svg", "main", "style", "body"] {
            assert_eq!(opened(tag), html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn what_a_run_is_called_is_text() {
        assert_eq!(escaped("<b a=\"1\">&\u{1b}"), "&lt;b a=&quot;1&quot;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn a_run_whose_data_is_gone_has_a_page_that_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let (data, out) = (dir.path().join("data"), dir.path().join("r"));
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("edges.csv"), "0,1\n1,2\n2,3\n3,0\n").unwrap();
        std::fs::write(data.join("labels.csv"), "0,a\n1,b\n2,a\n3,b\n").unwrap();
        std::fs::write(data.join("split.csv"), "0,train\n1,train\n2,val\n3,test\n").unwrap();
        let mut config = eciton_recipe::Config::default();
        config.run.epochs = 2;
        config.data.source = data.to_string_lossy().into_owned();
        let options = Options { out: Some(out.clone()), ..Options::default() };
        crate::train(&config, &options, &mut crate::Silent).unwrap();
        std::fs::remove_dir_all(&data).unwrap();
        let found = page(&out, None, true, &Options::default()).unwrap();
        assert_eq!(found.left_out.len(), 2, "{:?}", found.left_out);
        assert!(found.html.contains("Not shown: memory") && found.html.contains("<h2>Confusion"));
    }
}
