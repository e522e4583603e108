//! Text about the quality of a classifier. It has the majority-class baseline, the metrics of each
//! class, and the confusion matrix.

use std::fmt::Write as _;

use eciton_train::Quality;
use eciton_train::metrics_format::shortened_apart;

use crate::text::{counted, grouped, percent};

/// Maximum number of classes whose metrics are printed as text. The option `--json` has a higher
/// limit.
const MAX_CLASSES: usize = 20;
/// Maximum number of classes for which the confusion matrix is printed. With more classes, the most
/// frequent errors are printed instead.
const MAX_MATRIX: usize = 10;
/// Maximum length of a class name above a column of the confusion matrix, in characters.
const MAX_HEAD: usize = 12;
/// Maximum number of most frequent errors that are printed.
const MAX_MISTAKES: usize = 5;
/// Maximum length of a line of the confusion matrix, in characters.
const COLUMNS: usize = 100;
/// Maximum length of a class name outside the confusion matrix's head, in characters.
const MAX_NAME: usize = 24;

/// A function that returns one metric of a classifier, or `None` if the metric is not defined.
type Figure = fn(&Quality) -> Option<f64>;

/// Returns pairs of label and text for the majority-class baseline and for further metrics. For
/// several seeds, the metrics are means. The text says so unless `short` is set.
pub(crate) fn rows(qualities: &[&Quality], short: bool) -> Vec<(&'static str, String)> {
    let mean = |value: Figure| {
        let found: Vec<f64> = qualities.iter().filter_map(|quality| value(quality)).collect();
        (!found.is_empty() && found.len() == qualities.len())
            .then(|| found.iter().sum::<f64>() / found.len() as f64)
    };
    let mut rows = Vec::new();
    let Some(first) = qualities.first() else { return rows };
    if let Some(majority) = &first.majority {
        let (share, class) =
            (percent(Some(majority.share)), eciton_input::text::cut(&majority.class, MAX_NAME));
        let part = if first.part == "test" { "" } else { " of the validation rows" };
        rows.push(("baseline", format!("{share} %{part} (majority class, {class})")));
    }
    let figures: [(&str, Figure); 4] = [
        ("macro F1", |quality| quality.f1_macro),
        ("balanced accuracy", |quality| quality.balanced_accuracy),
        ("PR-AUC", |quality| quality.average_precision),
        ("ROC-AUC", |quality| quality.roc_auc),
    ];
    let texts: Vec<String> = figures
        .iter()
        .filter_map(|(name, value)| Some(format!("{name} {} %", percent(Some(mean(*value)?)))))
        .collect();
    if !texts.is_empty() {
        let means = if qualities.len() > 1 && !short { " (means over seeds)" } else { "" };
        rows.push(("other metrics", format!("{}{means}", texts.join(", "))));
    }
    rows
}

/// Returns the lines of two tables. The first has the metrics of each class, and the second has the
/// confusion matrix or the most frequent errors. There are no lines if the model has no classes.
pub(crate) fn table(quality: &Quality) -> Vec<String> {
    let count = quality.classes.len();
    let mut lines = Vec::new();
    if (1..=MAX_CLASSES).contains(&count) {
        lines.extend(figures(quality));
    }
    if quality.confusion.len() == count && (1..=MAX_MATRIX).contains(&count) {
        lines.extend(matrix(quality));
    } else {
        lines.extend(mistakes(quality));
    }
    lines
}

/// Returns the names of the classes, shortened to at most `most` characters.
fn short(quality: &Quality, most: usize) -> Vec<String> {
    let names: Vec<String> = quality.classes.iter().map(|class| class.class.clone()).collect();
    shortened_apart(&names, most)
}

/// Returns the names of the classes, shortened to [`MAX_NAME`] characters, and the width of their
/// column.
fn names(quality: &Quality) -> (Vec<String>, usize) {
    let names = short(quality, MAX_NAME);
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    (names, wide.max("true class".len()))
}

/// Returns the lines of the table with the metrics of each class.
fn figures(quality: &Quality) -> Vec<String> {
    let (names, wide) = names(quality);
    let head = format!("{:<wide$}  {:>9}  {:>6}  {:>6}  {:>7}", "class", "precision", "recall", "F1", "rows");
    let number = |value: f64| percent(Some(value));
    let rows = quality.classes.iter().zip(&names).map(|(class, name)| {
        format!(
            "{name:<wide$}  {:>9}  {:>6}  {:>6}  {:>7}",
            number(class.precision),
            number(class.recall),
            number(class.f1),
            grouped(class.support)
        )
    });
    [String::new(), head].into_iter().chain(rows).collect()
}

/// Returns the lines of the confusion matrix, which has a line for each true class and a column for
/// each predicted class. Class names above columns are shortened so that a line fits into
/// [`COLUMNS`].
fn matrix(quality: &Quality) -> Vec<String> {
    let (names, wide) = names(quality);
    let count = names.len();
    let largest = quality.confusion.iter().flatten().max().copied().unwrap_or(0);
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let available = COLUMNS.saturating_sub(wide) / count.max(1);
    let cell = longest.min(MAX_HEAD).min(available.saturating_sub(2)).max(grouped(largest).len());
    let line = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let mut line = format!("{name:<wide$}");
        for text in cells {
            let _ = write!(line, "  {text:>cell$}");
        }
        line
    };
    let head = line("true class", &mut short(quality, cell).into_iter());
    let rows = quality
        .confusion
        .iter()
        .zip(&names)
        .map(|(counts, name)| line(name, &mut counts.iter().map(|&rows| grouped(rows))));
    let title = format!("{:<wide$}  predicted class", "");
    [String::new(), title, head].into_iter().chain(rows).collect()
}

/// Returns one line for each of the most frequent errors, with the true class, the predicted class
/// and the number of rows.
fn mistakes(quality: &Quality) -> Vec<String> {
    let mistakes = quality.mistakes();
    let names = short(quality, MAX_NAME);
    let name = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
    let line = |mistake: &eciton_train::Mistake| {
        format!(
            "{} predicted as {}: {}, {} % of the true class",
            name(mistake.class),
            name(mistake.predicted),
            counted(mistake.rows, "row"),
            percent(Some(mistake.share))
        )
    };
    let head = (!mistakes.is_empty()).then(|| [String::new(), "most frequent errors".to_owned()]);
    head.into_iter().flatten().chain(mistakes.iter().take(MAX_MISTAKES).map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use eciton_train::{ClassQuality, Majority};

    fn quality(count: usize) -> Quality {
        let class = |at: usize| ClassQuality {
            class: format!("class-{at}"),
            precision: 0.5,
            recall: 1.0,
            f1: 2.0 / 3.0,
            support: 1200,
        };
        Quality {
            part: "test".to_owned(),
            known: 1200 * count as u64,
            majority: Some(Majority { class: "class-0".to_owned(), share: 0.75 }),
            f1_macro: Some(0.5),
            balanced_accuracy: Some(0.25),
            classes: (0..count).map(class).collect(),
            confusion: vec![vec![1200; count]; count],
            ..Quality::default()
        }
    }

    #[test]
    fn the_baseline_precedes_the_metrics() {
        let one = quality(2);
        let found = rows(&[&one], true);
        assert_eq!(found[0].1, "75.00 % (majority class, class-0)");
        assert_eq!(found[1].1, "macro F1 50.00 %, balanced accuracy 25.00 %");
        let two = Quality { f1_macro: Some(0.7), part: "validation".to_owned(), ..one.clone() };
        let found = rows(&[&one, &two], false);
        assert!(
            found[1].1.starts_with("macro F1 60.00 %") && found[1].1.ends_with("over seeds)"),
            "{found:?}"
        );
        assert!(rows(&[&two], true)[0].1.contains("of the validation rows"));
        assert!(rows(&[], true).is_empty());
    }

    #[test]
    fn the_matrix_has_the_names_of_the_classes_in_rows_and_columns() {
        let lines = table(&quality(3));
        assert_eq!(
            lines,
            [
                "",
                "class       precision  recall      F1     rows",
                "class-0         50.00  100.00   66.67    1,200",
                "class-1         50.00  100.00   66.67    1,200",
                "class-2         50.00  100.00   66.67    1,200",
                "",
                "            predicted class",
                "true class  class-0  class-1  class-2",
                "class-0       1,200    1,200    1,200",
                "class-1       1,200    1,200    1,200",
                "class-2       1,200    1,200    1,200",
            ]
        );
        let mut long = quality(10);
        for (at, class) in long.classes.iter_mut().enumerate() {
            class.class = format!("The class of all rows of kind {at}");
        }
        let lines = table(&long);
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:#?}");
        assert!(
            lines[14].contains("  Th\u{2026} 0  Th\u{2026} 1") && lines[15].starts_with("The class of"),
            "{lines:#?}"
        );
    }

    #[test]
    fn of_many_classes_the_most_frequent_errors_are_printed() {
        let mut many = quality(30);
        many.confusion[4][7] = 3600;
        let lines = table(&many);
        assert_eq!(lines.len(), 2 + MAX_MISTAKES, "{lines:#?}");
        assert_eq!(lines[2], "class-4 predicted as class-7: 3,600 rows, 9.38 % of the true class");
        assert_eq!(table(&quality(12)).len(), 2 + 12 + 2 + MAX_MISTAKES);
        assert!(table(&Quality::default()).is_empty());
    }
}
