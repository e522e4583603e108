//! Tables of a proof in Markdown, which are the content of `proof.md`.

use std::fmt::Write as _;

use super::invoice::Charged;
use super::proof::{Assumption, Billed, Proof, Run};

/// Formats a quantity with a number of digits that is suitable for its magnitude.
fn quantity(value: f64) -> String {
    if value == 0.0 || value.fract() == 0.0 && value.abs() < 1e12 {
        return format!("{value:.0}");
    }
    match value.abs() {
        large if large >= 100.0 => format!("{value:.1}"),
        usual if usual >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    }
}

/// Formats a value with `text`, or returns `-` for `None`.
fn optional(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

fn usd(value: f64) -> String {
    format!("{value:.7}")
}

fn ratio(value: f64) -> String {
    format!("{value:.3}")
}

/// Converts a text for a table cell. Line breaks are replaced by spaces, and vertical bars are
/// escaped.
fn cell(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// Returns the Markdown text with all tables of a proof.
pub(super) fn markdown(proof: &Proof) -> String {
    let mut text = String::new();
    let mut line = |own: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{own}");
    };
    line(format_args!("# Predicted against billed: stack {}\n", proof.stack.name));
    line(format_args!("| fact | value |\n| --- | --- |"));
    let sizes: Vec<String> =
        proof.stack.functions.iter().map(|function| format!("{} MB", function.memory_mb)).collect();
    let equal = match proof.digests_equal {
        Some(true) => "identical at all memory sizes".to_owned(),
        Some(false) => {
            "**different** (see proof.json); a training must not depend on the memory size".to_owned()
        }
        None => "not compared: fewer than two memory sizes have run".to_owned(),
    };
    let removed = match (&proof.stack.left, proof.stack.removed) {
        (Some(left), _) => format!("**no**: {left}"),
        (None, true) => format!("yes; {} resources verified to be absent", proof.stack.gone.len()),
        (None, false) => "**not yet**".to_owned(),
    };
    let facts = [
        ("start", proof.begun.clone()),
        ("end", proof.ended.clone().unwrap_or_else(|| "-".to_owned())),
        ("region", proof.region.clone()),
        ("functions", format!("{}, {}", proof.architecture, sizes.join(", "))),
        ("account", format!("{} concurrent functions", proof.stack.account_concurrency)),
        ("host", proof.host.to_string()),
        ("Eciton", proof.eciton.clone()),
        ("cloud file", format!("{}, SHA-256 {}", proof.cloud.path, proof.cloud.sha256)),
        ("prices and times", format!("{}; preset {}", proof.cloud.prices, proof.cloud.preset)),
        (
            "dollars",
            format!(
                "predicted {}, from reports and counts {}, limit {}",
                usd(proof.predicted_usd),
                usd(proof.spent_usd),
                proof.max_usd
            ),
        ),
        ("model digests", equal),
        ("stack removed", removed),
    ];
    for (name, value) in facts {
        line(format_args!("| {name} | {} |", cell(&value)));
    }
    if let Some(error) = &proof.error {
        line(format_args!("\n**The proof ended early**: {}", cell(error)));
    }
    for workload in &proof.workloads {
        line(format_args!(
            "\n## {}: {}\n\nRecipe {}, trainings: {}.",
            workload.name, workload.about, workload.recipe, workload.trainings
        ));
        for run in proof.runs.iter().filter(|run| run.workload == workload.name) {
            line(format_args!("{}", run_tables(run)));
        }
    }
    if !proof.assumptions.is_empty() {
        line(format_args!("{}", assumptions(&proof.assumptions)));
    }
    if let Some(invoice) = &proof.invoice {
        line(format_args!(
            "\n## Cost and Usage Report\n\n{}: {} of {} lines belong to this stack. Costs are in {}.\n",
            cell(&invoice.file),
            invoice.own_items,
            invoice.items,
            invoice.currency
        ));
        line(format_args!(
            "| resource | usage type | predicted | reported or counted | billed | unit | predicted / billed | USD predicted | \
             {} billed | credits |\n| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
            invoice.currency
        ));
        for charged in &invoice.lines {
            line(format_args!("{}", charged_row(charged)));
        }
        for note in &invoice.notes {
            line(format_args!("\n* {}", cell(note)));
        }
    }
    if !proof.notes.is_empty() {
        line(format_args!("\n## Notes\n"));
    }
    for note in &proof.notes {
        line(format_args!("* {}", cell(note)));
    }
    text
}

/// Returns the two tables of one run, which list its invoice lines and its quantities.
fn run_tables(run: &Run) -> String {
    let mut text = format!("\n### {}, {} MB\n\n", run.workload, run.memory_mb);
    let reports = match run.unreported {
        0 => String::new(),
        count => format!("; **no report line: {count} of {} calls**", run.calls),
    };
    let used = run.used_mb.map_or_else(String::new, |mb| format!("; maximum memory used {mb} MB"));
    let _ = writeln!(
        text,
        "{} trained, {} failed, {} calls{reports}{used}. Predicted times are {}.\n",
        run.done, run.failed, run.calls, run.times
    );
    text.push_str(
        "| line | predicted | origin | billed | source | unit | predicted / billed | USD predicted | USD billed |\n\
         | --- | ---: | --- | ---: | --- | --- | ---: | ---: | ---: |\n",
    );
    for Billed {
        usage,
        unit,
        predicted,
        origin,
        billed,
        source,
        ratio: own,
        predicted_usd,
        billed_usd,
        ..
    } in &run.lines
    {
        let _ = writeln!(
            text,
            "| {usage} | {} | {origin} | {} | {source} | {unit} | {} | {} | {} |",
            quantity(*predicted),
            optional(*billed, quantity),
            optional(*own, ratio),
            usd(*predicted_usd),
            optional(*billed_usd, usd)
        );
    }
    text.push_str(
        "\n| quantity | predicted | recorded | error | unit |\n| --- | ---: | ---: | ---: | --- |\n",
    );
    for pair in &run.quantities {
        let error = optional(pair.error, |error| format!("{:+.1} %", error * 100.0));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {error} | {} |",
            pair.name,
            quantity(pair.predicted),
            quantity(pair.counted),
            pair.unit
        );
    }
    for note in &run.notes {
        let _ = writeln!(text, "\n* {}", cell(note));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the table of the assumptions in the cloud file, with their measured values.
fn assumptions(all: &[Assumption]) -> String {
    let mut text =
        "\n## Assumptions of the cloud file\n\nMeasured values are in the unit of the key, so that they can replace the assumed values.\n\n\
                    | key | MB | assumed | measured | minimum | maximum | calls | unit | method |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n"
            .to_owned();
    for Assumption { key, memory_mb, assumed, measured, samples, range, unit, how } in all {
        let _ = writeln!(
            text,
            "| {key} | {memory_mb} | {} | {} | {} | {} | {samples} | {unit} | {} |",
            quantity(*assumed),
            optional(*measured, quantity),
            optional(range.map(|[least, _]| least), quantity),
            optional(range.map(|[_, most]| most), quantity),
            cell(how)
        );
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the table row for a line of the Cost and Usage Report.
fn charged_row(charged: &Charged) -> String {
    let Charged { resource, usage, unit, predicted, counted, billed, predicted_usd, cost, credits, .. } =
        charged;
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        cell(resource),
        cell(usage),
        optional(*predicted, quantity),
        optional(*counted, quantity),
        optional(*billed, quantity),
        cell(unit),
        optional(charged.ratio, ratio),
        optional(*predicted_usd, usd),
        optional(*cost, usd),
        usd(*credits)
    )
}

#[cfg(test)]
mod tests {
    use super::super::proof::tests::proof;
    use super::*;

    #[test]
    fn each_run_has_a_row_per_line_and_missing_reports_are_noted() {
        let mut own = proof();
        let text = markdown(&own);
        assert_eq!(text.matches("| Lambda-GB-Second | 3 | modelled | 2 | reports |").count(), 4, "{text}");
        assert!(text.contains("### W2, 1769 MB") && text.contains("| 1.500 |"), "{text}");
        assert!(text.contains("**not yet**") && !text.contains("no report line"));
        own.runs[0].unreported = 1;
        own.runs[0].lines[0].billed = None;
        own.stack.left = Some("refused | by\nAWS".to_owned());
        own.error = Some("stopped".to_owned());
        let text = markdown(&own);
        assert!(
            text.contains("no report line: 1 of 1 calls") && text.contains("| 3 | modelled | - |"),
            "{text}"
        );
        assert!(text.contains("refused \\| by AWS") && text.contains("ended early**: stopped"), "{text}");
    }

    #[test]
    fn quantities_have_the_digits_that_they_need() {
        let found = [0.0, 3.0, 1234.56, 2.915, 0.000_25].map(quantity);
        assert_eq!(found, ["0", "3", "1234.6", "2.9150", "2.500e-4"]);
    }
}
