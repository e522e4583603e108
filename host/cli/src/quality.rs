//! Quality of a model as text: the score of a constant answer, figures by class, and the confusion
//! matrix.

use std::fmt::Write as _;

use eciton_train::Quality;
use eciton_train::figures::shortened_apart;

use crate::text::{counted, grouped, percent};

/// Maximum number of classes that are printed; `--json` has more.
const MAX_CLASSES: usize = 20;
/// Maximum number of classes whose confusion matrix is printed. Of more classes the most frequent errors are printed.
const MAX_MATRIX: usize = 10;
/// Maximum number of characters of a class's name above a column of the matrix.
const MAX_HEAD: usize = 12;
/// Number of errors that are printed.
const MAX_MISTAKES: usize = 5;
/// Maximum number of characters of a line with a confusion matrix.
const COLUMNS: usize = 100;
/// Maximum number of characters of a class's name.
const MAX_NAME: usize = 24;

/// A figure of a model.
type Figure = fn(&Quality) -> Option<f64>;

/// Returns the lines of a summary: figures of one seed, or means of several. `short` leaves out the
/// note that figures are means.
pub(crate) fn rows(of: &[&Quality], short: bool) -> Vec<(&'static str, String)> {
    let mean = |value: Figure| {
        let found: Vec<f64> = of.iter().filter_map(|quality| value(quality)).collect();
        (!found.is_empty() && found.len() == of.len()).then(|| found.iter().sum::<f64>() / found.len() as f64)
    };
    let mut rows = Vec::new();
    let Some(first) = of.first() else { return rows };
    if let Some(majority) = &first.majority {
        let (share, class) =
            (percent(Some(majority.share)), eciton_input::text::cut(&majority.class, MAX_NAME));
        let part = if first.part == "test" { "" } else { " of the validation rows" };
        rows.push(("baseline", format!("{share} %{part} for always telling the largest class, {class}")));
    }
    let figures: [(&str, Figure); 4] = [
        ("macro F1", |quality| quality.f1_macro),
        ("balanced accuracy", |quality| quality.balanced_accuracy),
        ("PR-AUC", |quality| quality.average_precision),
        ("ROC-AUC", |quality| quality.roc_auc),
    ];
    let told: Vec<String> = figures
        .iter()
        .filter_map(|(name, value)| Some(format!("{name} {} %", percent(Some(mean(*value)?)))))
        .collect();
    if !told.is_empty() {
        let means = if of.len() > 1 && !short { " (means over seeds)" } else { "" };
        rows.push(("besides", format!("{}{means}", told.join(", "))));
    }
    rows
}

/// Returns figures of each class, and the confusion matrix or its largest errors. The result is
/// empty without classes.
pub(crate) fn table(of: &Quality) -> Vec<String> {
    let count = of.classes.len();
    let mut lines = Vec::new();
    if (1..=MAX_CLASSES).contains(&count) {
        lines.extend(figures(of));
    }
    if of.confusion.len() == count && (1..=MAX_MATRIX).contains(&count) {
        lines.extend(matrix(of));
    } else {
        lines.extend(mistakes(of));
    }
    lines
}

/// Returns the names of the classes, at most `most` characters long.
fn short(of: &Quality, most: usize) -> Vec<String> {
    let names: Vec<String> = of.classes.iter().map(|class| class.class.clone()).collect();
    shortened_apart(&names, most)
}

/// Returns the names of the classes, shortened, and the width of their column.
fn names(of: &Quality) -> (Vec<String>, usize) {
    let names = short(of, MAX_NAME);
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    (names, wide.max("true class".len()))
}

fn figures(of: &Quality) -> Vec<String> {
    let (names, wide) = names(of);
    let head = format!("{:<wide$}  {:>9}  {:>6}  {:>6}  {:>7}", "class", "precision", "recall", "F1", "rows");
    let number = |value: f64| percent(Some(value));
    let rows = of.classes.iter().zip(&names).map(|(class, name)| {
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

/// Returns counts by true and predicted class. Names of columns are shortened to the width that a
/// line has for them.
fn matrix(of: &Quality) -> Vec<String> {
    let (names, wide) = names(of);
    let count = names.len();
    let largest = of.confusion.iter().flatten().max().copied().unwrap_or(0);
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let room = COLUMNS.saturating_sub(wide) / count.max(1);
    let cell = longest.min(MAX_HEAD).min(room.saturating_sub(2)).max(grouped(largest).len());
    let line = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let mut line = format!("{name:<wide$}");
        for text in cells {
            let _ = write!(line, "  {text:>cell$}");
        }
        line
    };
    let head = line("true class", &mut short(of, cell).into_iter());
    let rows = of
        .confusion
        .iter()
        .zip(&names)
        .map(|(counts, name)| line(name, &mut counts.iter().map(|&rows| grouped(rows))));
    let title = format!("{:<wide$}  predicted class", "");
    [String::new(), title, head].into_iter().chain(rows).collect()
}

/// Returns the most frequent errors, a line each.
fn mistakes(of: &Quality) -> Vec<String> {
    let mistakes = of.mistakes();
    let names = short(of, MAX_NAME);
    let name = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
    let line = |mistake: &eciton_train::Mistake| {
        format!(
            "{} predicted as {}: {}, {} % of its class",
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
    fn a_constant_answer_stands_beside_the_model() {
        let one = quality(2);
        let found = rows(&[&one], true);
        assert_eq!(found[0].1, "75.00 % for always telling the largest class, class-0");
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
        assert_eq!(lines[2], "class-4 predicted as class-7: 3,600 rows, 9.38 % of its class");
        assert_eq!(table(&quality(12)).len(), 2 + 12 + 2 + MAX_MISTAKES);
        assert!(table(&Quality::default()).is_empty());
    }
}
