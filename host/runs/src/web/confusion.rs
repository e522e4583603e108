//! The section with the confusion matrix and the scores of each class. The matrix is a table of
//! counts if it fits into a narrow window. Otherwise it is a picture of shares, followed by the
//! most frequent errors.

use std::fmt::Write as _;

use super::html::{Section, escaped};
use super::table::Table;
use crate::metrics_format::{grouped, shortened_apart};
use crate::report::Quality;

/// Maximum number of characters of a class name in front of a row.
const MAX_NAME: usize = 16;
/// Maximum number of characters of a class name above a column.
const MAX_HEAD: usize = 14;
/// Maximum number of entries in the list of the most frequent errors.
const MAX_MISTAKES: usize = 10;
/// Sizes in pixels for a window of 400 pixels: total width of the count columns, width of a digit,
/// and padding of a cell.
const COUNTS: (f64, f64, f64) = (236.0, 6.4, 5.0);

/// Returns the section with the confusion matrix and the scores of each class.
pub(super) fn section(found: &Quality) -> Section {
    let counts_fit = width(found) <= COUNTS.0;
    let cells = match counts_fit {
        true => "a cell has a number of rows",
        false if found.confusion.len() <= MAX_SHARES => "a cell has the share of the true class in per cent",
        false => "a darker cell has a larger share of the true class",
    };
    let mut body = format!(
        "<p class=\"quiet\">{} rows: one line per true class, one column per predicted class; {cells}</p>\n",
        escaped(&found.part)
    );
    body.push_str(&if counts_fit { counts(found) } else { picture(found) });
    if !counts_fit {
        body.push_str(&mistakes(found));
    }
    body.push_str(&figures(found));
    Section::new("Confusion matrix", body)
}

/// Returns the full name of each class, and its short form of at most `most` characters. Both are
/// escaped for HTML.
fn names(found: &Quality, most: usize) -> (Vec<String>, Vec<String>) {
    let wholes: Vec<String> = (0..found.confusion.len()).map(|class| found.class_name(class)).collect();
    let short = shortened_apart(&wholes, most);
    let escape = |names: Vec<String>| names.iter().map(|name| escaped(name)).collect();
    (escape(wholes), escape(short))
}

/// Maximum number of classes for which the picture shows shares as numbers.
const MAX_SHARES: usize = 16;

/// Returns the width of all columns of the count table, in pixels.
fn width(found: &Quality) -> f64 {
    let classes = found.confusion.len();
    let column = |class: usize| {
        let cells = found.confusion.iter().filter_map(|counts| counts.get(class));
        let digits = cells.map(|&rows| grouped(rows).len()).max().unwrap_or(0).max(2);
        digits as f64 * COUNTS.1 + COUNTS.2
    };
    (0..classes).map(column).sum()
}

/// Returns the share of `rows` in the sum of `counts`, which are the counts of one true class.
fn share(counts: &[u64], rows: u64) -> f64 {
    rows as f64 / counts.iter().sum::<u64>().max(1) as f64
}

/// Returns the full description of a cell, which the browser shows as a tooltip.
fn title(found: &Quality, (class, predicted): (usize, usize), counts: &[u64], rows: u64) -> String {
    escaped(&format!(
        "{} predicted as {}: {} of {} rows, {:.1} %",
        found.class_name(class),
        found.class_name(predicted),
        grouped(rows),
        grouped(counts.iter().sum()),
        100.0 * share(counts, rows)
    ))
}

/// Returns the CSS colour of a cell with this share. Correct predictions and errors have different
/// colours.
fn colour(right: bool, share: f64) -> String {
    format!("rgba(var(--{}),{:.2})", if right { "hot" } else { "miss" }, 0.75 * share)
}

/// Returns the confusion matrix as an HTML table of counts.
fn counts(found: &Quality) -> String {
    let (wholes, heads) = names(found, MAX_HEAD);
    let (_, starts) = names(found, MAX_NAME);
    let mut body = String::from("<div class=\"scroll\"><table class=\"matrix\">\n<tr><th></th>");
    for (whole, short) in wholes.iter().zip(&heads) {
        let _ = write!(body, "<th scope=\"col\" title=\"{whole}\"><span>{short}</span></th>");
    }
    body.push_str("</tr>\n");
    for ((class, counts), (whole, short)) in
        found.confusion.iter().enumerate().zip(wholes.iter().zip(&starts))
    {
        let _ = write!(body, "<tr><th scope=\"row\" title=\"{whole}\">{short}</th>");
        for (predicted, &rows) in counts.iter().enumerate() {
            let is_right = predicted == class;
            let right = if is_right { " class=\"right\"" } else { "" };
            let _ = write!(
                body,
                "<td{right} title=\"{}\" style=\"background:{}\">{}</td>",
                title(found, (class, predicted), counts, rows),
                colour(is_right, share(counts, rows)),
                grouped(rows)
            );
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n");
    body
}

/// Width of the picture in SVG units. The width of the class names in it follows.
const WIDTH: f64 = 372.0;
const NAMES: f64 = 96.0;
/// Height of the vertical class names above the columns, in SVG units.
const HEADS: f64 = 82.0;
/// Minimum distance between two vertical class names, in SVG units.
const APART: f64 = 7.0;

/// Draws the confusion matrix as a picture of shares.
fn picture(found: &Quality) -> String {
    let classes = found.confusion.len();
    let cell = (WIDTH - NAMES) / classes.max(1) as f64;
    let line = cell.clamp(10.0, 22.0);
    let mut out = format!(
        "<svg class=\"matrix\" viewBox=\"0 0 {WIDTH} {:.1}\" role=\"img\" aria-label=\"confusion matrix\">\n",
        HEADS + line * classes as f64 + 1.0
    );
    let every = (APART / cell).ceil().max(1.0) as usize;
    let (wholes, heads) = names(found, MAX_HEAD);
    let (_, starts) = names(found, MAX_NAME);
    for (class, (whole, short)) in wholes.iter().zip(&heads).enumerate().step_by(every) {
        let (x, y) = (NAMES + cell * (class as f64 + 0.5) + 2.5, HEADS - 4.0);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y}\" transform=\"rotate(-90 {x:.1} {y})\">{short}<title>{whole}</title></text>"
        );
    }
    for ((class, counts), (whole, short)) in
        found.confusion.iter().enumerate().zip(wholes.iter().zip(&starts))
    {
        let top = HEADS + line * class as f64;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{short}<title>{whole}</title></text>\
             <line class=\"grid-line\" x1=\"{NAMES}\" y1=\"{top:.1}\" x2=\"{WIDTH}\" y2=\"{top:.1}\"/>",
            NAMES - 4.0,
            top + line / 2.0 + 3.0
        );
        for (predicted, &rows) in counts.iter().enumerate().filter(|(_, rows)| **rows > 0) {
            let _ = writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{top:.1}\" width=\"{cell:.2}\" height=\"{line:.1}\" style=\"fill:{}\"><title>{}</title></rect>",
                NAMES + cell * predicted as f64,
                colour(predicted == class, (share(counts, rows)).max(0.12)),
                title(found, (class, predicted), counts, rows)
            );
            if classes <= MAX_SHARES {
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" class=\"share\">{:.0}</text>",
                    NAMES + cell * (predicted as f64 + 0.5),
                    top + line / 2.0 + 3.0,
                    100.0 * share(counts, rows)
                );
            }
        }
    }
    let _ = writeln!(
        out,
        "<rect class=\"frame\" x=\"{NAMES}\" y=\"{HEADS}\" width=\"{:.1}\" height=\"{:.1}\"/>\n</svg>",
        WIDTH - NAMES - 0.5,
        line * classes as f64
    );
    out
}

/// Returns a table of the most frequent errors.
fn mistakes(found: &Quality) -> String {
    let mistakes = found.mistakes();
    if mistakes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["true class", "predicted class", "rows", "share of class"], 2);
    for mistake in mistakes.iter().take(MAX_MISTAKES) {
        table.row(&[
            found.class_name(mistake.class),
            found.class_name(mistake.predicted),
            grouped(mistake.rows),
            format!("{:.1} %", 100.0 * mistake.share),
        ]);
    }
    format!("<h3>Most frequent errors</h3>\n{}", table.html())
}

/// Returns the table with precision, recall and F1 score of each class.
fn figures(found: &Quality) -> String {
    let mut table = Table::new(&["class", "rows", "precision", "recall", "F1"], 1);
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    for class in &found.classes {
        let figures = [class.precision, class.recall, class.f1].map(percent);
        let [precision, recall, f1] = figures;
        table.row(&[class.class.clone(), grouped(class.support), precision, recall, f1]);
    }
    format!("<h3>Classes</h3>\n{}", table.html())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report::ClassQuality;

    fn quality(names: impl IntoIterator<Item = String>, rows: u64) -> Quality {
        let class =
            |class: String| ClassQuality { class, precision: 0.5, recall: 1.0, f1: 0.6, support: rows };
        let classes: Vec<ClassQuality> = names.into_iter().map(class).collect();
        let count = classes.len();
        let counts = |class: usize| (0..count).map(|at| if at == class { rows } else { at as u64 }).collect();
        Quality {
            part: "test".to_owned(),
            confusion: (0..count).map(counts).collect(),
            classes,
            ..Quality::default()
        }
    }

    #[test]
    fn lines_and_columns_of_a_few_classes_have_their_names() {
        let long = "a class <with> a very long name".to_owned();
        let body = section(&quality(["ant".to_owned(), "wasp".to_owned(), long], 120)).body;
        for words in [
            "<th scope=\"col\" title=\"ant\"><span>ant</span></th>",
            "<th scope=\"row\" title=\"wasp\">wasp</th>",
            "title=\"a class &lt;with&gt; a very long name\">a class \u{2026}ng name</th>",
            "title=\"wasp predicted as ant: 0 of 122 rows, 0.0 %\"",
            "<td class=\"right\"",
            "<h3>Classes</h3>",
        ] {
            assert!(body.contains(words), "no {words} in {body}");
        }
        assert!(!body.contains("<svg") && !body.contains("Most frequent errors"), "{body}");
    }

    #[test]
    fn many_classes_are_a_picture_with_their_names_and_a_list_of_errors() {
        for count in [13, 40, 64] {
            let body =
                section(&quality((0..count).map(|at| format!("kind of thing number {at}")), 9_000)).body;
            assert!(
                body.contains("<svg class=\"matrix\"") && !body.contains("<table class=\"matrix\""),
                "{count}"
            );
            // Each line starts with the name of its class.
            assert_eq!(body.matches("text-anchor=\"end\">kind of ").count(), count, "{count}");
            assert!(body.contains("<title>kind of thing number 12</title>"), "{count}");
            assert!(body.contains("Most frequent errors"), "{count}");
            // Cells that are large enough show their share as a number.
            assert_eq!(body.contains("class=\"share\">99</text>"), count <= MAX_SHARES, "{count}");
        }
        // Two classes with large counts are still shown as a table.
        assert!(width(&quality(["a".to_owned(), "b".to_owned()], 123_456_789)) <= COUNTS.0);
    }
}
