//! The web page of a sweep. It shows the ranked choices of parameters, and one chart per parameter.

use std::fmt::Write as _;

use eciton_recipe::{Metric, Part};

use super::html::{Section, document, escaped};
use super::part;
use super::table::Table;
use crate::sweep::{Group, Row, groups, panel_size, panels, unranked};

/// Maximum number of choices in the table.
const MAX_CHOICES: usize = 200;

/// Returns the web page of a sweep as HTML. `by` is the part of the data whose metric ranks the
/// choices.
#[must_use]
pub fn sweep(rows: &[Row], title: &str, by: Part) -> String {
    let groups = groups(rows, by);
    let metric = rows.iter().find_map(|row| row.metric).unwrap_or_default();
    let left_out: Vec<String> = groups
        .len()
        .checked_sub(MAX_CHOICES)
        .filter(|more| *more > 0)
        .map(|more| format!("{more} more choices, which are in results.csv"))
        .into_iter()
        .collect();
    let sections = [choices(&groups, &ranking(rows, metric, by)), pictures(rows, by)];
    document(&format!("Sweep {title}"), &facts(rows, &groups, by), &sections, &left_out, "")
}

/// Returns a sentence that explains how the choices are ranked.
#[must_use]
pub fn ranking(rows: &[Row], metric: Metric, by: Part) -> String {
    match unranked(rows, by) {
        Some(reason) => format!("choices are in the order of the sweep: {reason}"),
        None => {
            let asked = if by == Part::Test { ", because of rank_by = \"test\"" } else { "" };
            format!("choices are ranked by the mean {} {} of their trials{asked}", by.name(), metric.name())
        }
    }
}

/// Formats the mean of a metric over `trials` trials and, for more than one trial, the standard
/// deviation.
fn spread(metric: Option<Metric>, found: Option<(f64, f64)>, trials: u32) -> String {
    let metric = metric.unwrap_or_default();
    let mean = part::measured(metric, found.map(|(mean, _)| mean));
    match found.filter(|_| trials > 1) {
        None => mean,
        Some((_, deviation)) => {
            format!("{} ± {}", mean.trim_end_matches(" %"), part::measured(metric, Some(deviation)))
        }
    }
}

fn facts(rows: &[Row], groups: &[Group], by: Part) -> String {
    let count = |state: &str| rows.iter().filter(|row| row.state == state).count();
    let mut facts = vec![
        ("trials done", format!("{} of {}", count("done"), rows.len())),
        ("choices", groups.len().to_string()),
    ];
    if count("failed") > 0 {
        facts.push(("trials failed", count("failed").to_string()));
    }
    if let Some(best) = groups.first().filter(|_| unranked(rows, by).is_none()) {
        facts.push(("validation, first choice", spread(best.metric, best.validation, best.trials)));
        facts.push(("test, first choice", spread(best.metric, best.test, best.trials)));
    }
    part::list(&facts)
}

fn choices(groups: &[Group], ranking: &str) -> Section {
    let halved = groups.iter().any(|group| group.rung.is_some());
    let columns = ["choice", "rung", "epochs", "trials", "validation", "test"];
    let columns: Vec<&'static str> =
        columns.into_iter().filter(|name| halved || !["rung", "epochs"].contains(name)).collect();
    let mut table = Table::new(&columns, 1);
    for group in groups.iter().take(MAX_CHOICES) {
        let number = |found: Option<u32>| found.map_or_else(|| "-".to_owned(), |found| found.to_string());
        let label = if group.label.is_empty() { "recipe" } else { &group.label };
        let mut cells = vec![label.to_owned()];
        cells.extend([group.rung, group.epochs].map(number).into_iter().filter(|_| halved));
        cells.extend([
            group.trials.to_string(),
            spread(group.metric, group.validation, group.trials),
            spread(group.metric, group.test, group.trials),
        ]);
        table.row(&cells);
    }
    Section::wide("Choices", format!("<p class=\"quiet\">{}</p>\n{}", escaped(ranking), table.html()))
}

/// Returns the section with one chart per parameter.
fn pictures(rows: &[Row], by: Part) -> Section {
    let (width, height) = panel_size();
    let mut body = String::from("<div class=\"grid\">\n");
    for panel in panels(rows, by) {
        let _ = writeln!(
            body,
            "<svg class=\"panel\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n{}</svg>",
            escaped(&format!("{} metric over {}", by.name(), panel.key)),
            panel.body
        );
    }
    body.push_str("</div>\n");
    if rows.iter().any(|row| row.rung.is_some()) {
        body.push_str("<p class=\"quiet\">Hollow circles are trials that did not reach the last rung.</p>\n");
    }
    Section::wide("Trials", body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn row(trial: u32, lr: &str, validation: Option<f64>) -> Row {
        Row {
            trial,
            choice: vec![("optimiser.lr".to_owned(), lr.to_owned())],
            repeat: vec![("run.seed".to_owned(), trial.to_string())],
            state: "done",
            metric: Some(Metric::Accuracy),
            validation,
            test: Some(0.9),
            epochs: Some(3),
            rung: None,
            seconds: Some(0.5),
            model_digest: None,
            error: None,
            undefined_metrics: BTreeMap::new(),
        }
    }

    #[test]
    fn the_page_names_the_metric_that_ranks_choices() {
        let rows = [row(0, "0.1", Some(0.5)), row(1, "0.1", Some(0.7)), row(2, "<b>", Some(0.9))];
        let page = sweep(&rows, "tries", Part::Validation);
        for words in [
            "<h1>Sweep tries</h1>",
            "choices are ranked by the mean validation accuracy of their trials<",
            "<b>90.00 %</b><span>validation, first choice</span>",
            "data-column=\"validation\">60.00 ± 14.14 %<",
            ">validation accuracy (%)<",
            "optimiser.lr=&lt;b&gt;",
        ] {
            assert!(page.contains(words), "no {words} in {page}");
        }
        let page = sweep(&rows, "tries", Part::Test);
        assert!(
            page.contains("ranked by the mean test accuracy of their trials, because of rank_by"),
            "{page}"
        );
    }

    #[test]
    fn a_page_without_a_validation_metric_has_the_reason() {
        let page = sweep(&[row(0, "0.1", None)], "tries", Part::Validation);
        assert!(page.contains("in the order of the sweep: no trial has a validation metric"), "{page}");
        assert!(!page.contains("first choice") && !page.contains("<circle"), "{page}");
    }
}
