//! Sections of a run's web page: key figures, memory, bill, recipe and versions.

use std::fmt::Write as _;

use eciton_recipe::Metric;

use super::html::{Section, escaped};
use crate::metrics_format::{bytes, grouped, seconds};
use crate::report::{MemoryPlan, Summary};
use crate::run_folder::Versions;

/// Formats the value of a metric with its unit. Returns `-` if there is no value.
pub(super) fn measured(metric: Metric, value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if metric.is_share() => format!("{:.2} %", 100.0 * value),
        Some(value) => format!("{value:.4}"),
    }
}

/// Returns the key figures at the top of the page, as HTML.
pub(super) fn facts(summary: &Summary) -> String {
    let mut facts = vec![
        ("test, last epoch", spread(summary)),
        ("test, at best validation", measured(summary.metric, summary.test_metric_at_best_validation)),
        ("epoch, median", seconds(summary.epoch_seconds_median)),
        ("total time", seconds(summary.total_seconds)),
        ("peak memory", bytes(summary.peak_memory_bytes)),
        ("executor", format!("{}, {} threads", summary.executor, summary.threads)),
    ];
    facts.extend(summary.cost.as_ref().map(|cost| ("cost", format!("{:.6} USD", cost.usd))));
    if summary.stopped {
        facts.push(("state", "stopped before its last epoch".to_owned()));
    }
    list(&facts)
}

/// Returns a list of key figures as HTML. Each figure is a pair of name and value.
pub(super) fn list(facts: &[(&str, String)]) -> String {
    let shown = facts
        .iter()
        .map(|(name, value)| format!("<div><b>{}</b><span>{}</span></div>\n", escaped(value), escaped(name)));
    format!("<div class=\"facts\">\n{}</div>\n", shown.collect::<String>())
}

fn spread(summary: &Summary) -> String {
    let mean = measured(summary.metric, summary.test_metric);
    match (summary.seeds.len(), summary.test_metric_std) {
        (2.., Some(deviation)) if summary.metric.is_share() => {
            format!("{} ± {:.2} %", mean.trim_end_matches(" %"), 100.0 * deviation)
        }
        (2.., Some(deviation)) => format!("{mean} ± {deviation:.4}"),
        _ => mean,
    }
}

/// Returns the section with the measured peak memory and, if there is a plan, the estimated memory
/// by purpose.
pub(super) fn memory(peak: u64, plan: Option<&MemoryPlan>) -> Section {
    let mut body = format!("<p>Peak memory of the process: {}.</p>\n", bytes(peak));
    let Some(plan) = plan else { return Section::new("Memory", body) };
    let _ = writeln!(
        body,
        "<p class=\"quiet\">Maximum planned before the first epoch: {}.</p>\n<div \
         class=\"scroll\"><table>\n<tr><th>purpose</th><th>bytes</th><th \
         class=\"name\">content</th></tr>",
        bytes(plan.total_bytes)
    );
    for item in &plan.items {
        let _ = writeln!(
            body,
            "<tr><td class=\"name\">{}</td><td>{}</td><td class=\"name\">{}</td></tr>",
            escaped(item.purpose),
            bytes(item.bytes),
            escaped(&item.detail)
        );
    }
    body.push_str("</table></div>\n");
    Section::new("Memory", body)
}

/// Returns the section with the bill of the run's functions. Returns `None` if nothing was charged.
pub(super) fn bill(summary: &Summary) -> Option<Section> {
    let (bill, cost) = (summary.bill.as_ref()?, summary.cost.as_ref()?);
    let usd = |value: f64| format!("{value:.6} USD");
    let rows = [
        ("functions", usd(cost.functions_usd)),
        ("object store", usd(cost.store_usd)),
        ("transfer", usd(cost.transfer_usd)),
        ("total", usd(cost.usd)),
        ("invocations", grouped(bill.invocations)),
        ("cold starts", grouped(bill.cold_starts)),
        ("GiB-seconds", format!("{:.3}", bill.gb_seconds)),
        ("to functions", bytes(bill.bytes_to_functions)),
        ("from functions", bytes(bill.bytes_from_functions)),
        ("store requests", grouped(bill.store_writes + bill.store_reads)),
    ];
    let mut body = format!("<p class=\"quiet\">Prices of {}.</p>\n<table>\n", escaped(&cost.prices));
    for (name, value) in rows {
        let _ = writeln!(body, "<tr><td class=\"name\">{name}</td><td>{value}</td></tr>");
    }
    body.push_str("</table>\n");
    Some(Section::new("Bill", body))
}

/// Returns the section with the recipe that repeats the run. The text is cut after `most`
/// characters.
pub(super) fn recipe(text: &str, most: usize) -> Section {
    let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
    let cut = if end < text.len() { "\n..." } else { "" };
    let shown = text.get(..end).unwrap_or_default();
    Section::new("Recipe", format!("<pre>{}{cut}</pre>\n", escaped(shown)))
}

/// Returns the section with the versions of the software that produced the run.
pub(super) fn versions(versions: &Versions) -> Section {
    let mut body = format!(
        "<p>eciton {} · {} · numeric class {}</p>\n<div class=\"scroll\"><table><tr><th>kernel</th><th>SHA-256</th></tr>\n",
        escaped(&versions.eciton),
        escaped(&versions.contract),
        escaped(&versions.numeric_class)
    );
    for (name, digest) in &versions.kernels {
        let short: String = digest.chars().take(16).collect();
        let _ = writeln!(
            body,
            "<tr><td class=\"name\">{}</td><td><code title=\"{}\">{}…</code></td></tr>",
            escaped(name),
            escaped(digest),
            escaped(&short)
        );
    }
    body.push_str("</table></div>\n");
    Section::new("Versions", body)
}
