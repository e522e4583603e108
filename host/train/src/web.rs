//! The web page of a run, with its estimated memory.

use std::path::Path;

use eciton_recipe::Config;
use eciton_runs::web;
pub use eciton_runs::web::{MAX_TRACE_BYTES, Page, ranking, sweep};

use crate::error::Result;
use crate::options::Options;
use crate::plan::plan;

/// Creates the web page of the run in the folder `path`. If `data` is true, the data set is read to
/// estimate the memory. If it cannot be read, the page shows the reason. `trace` is a file that
/// `eciton train --trace` wrote.
///
/// # Errors
/// Returns an error if the run folder or the trace is missing or damaged.
pub fn page(path: &Path, trace: Option<&Path>, data: bool, options: &Options) -> Result<Page> {
    let memory = |config: &Config| {
        if !data {
            return Err("the data set was not read (--without-data)".to_owned());
        }
        // The memory is planned for this machine, wherever the run was trained.
        let mut here = config.clone();
        here.run_here();
        plan(&here, options).map(|plan| plan.memory).map_err(|error| error.to_string())
    };
    Ok(web::page(path, trace, &memory)?)
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
        assert!(html.contains(
            "the validation accuracy chose the best epoch; the model of the last epoch is written"
        ));
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("width=device-width"));
        let opened = |tag: &str| {
            [">", " "].map(|end| html.matches(&format!("<{tag}{end}")).count()).iter().sum::<usize>()
        };
        for tag in ["section", "table", "tr", "td", "th", "svg", "main", "style", "body"] {
            assert_eq!(opened(tag), html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
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
