//! The quality of a model as people read it: what a constant answer reaches, figures by class, the confusion matrix.

use std::fmt::Write as _;

use eciton_train::Quality;

use crate::text::{grouped, percent};

/// Classes that are printed; `--json` has more.
const MAX_CLASSES: usize = 20;
/// Classes whose confusion matrix fits beside their figures.
const MAX_MATRIX: usize = 10;
/// Most characters of a class's name.
const MAX_NAME: usize = 24;

/// A figure of a model.
type Figure = fn(&Quality) -> Option<f64>;

/// Lines of a summary: of one seed, or the means of several. `short` leaves out what the table says as well.
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

/// Figures of each class, with the confusion matrix where it fits; nothing where there are no classes or too many.
pub(crate) fn table(of: &Quality) -> Vec<String> {
    let count = of.classes.len();
    if count == 0 || count > MAX_CLASSES {
        return Vec::new();
    }
    let matrix = of.confusion.len() == count && count <= MAX_MATRIX;
    let names: Vec<String> =
        of.classes.iter().map(|class| eciton_input::text::cut(&class.class, MAX_NAME)).collect();
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
    let most = of.confusion.iter().flatten().max().copied().unwrap_or(0);
    let cell = grouped(most).len().max(count.to_string().len() + 1) + 1;
    let mut head =
        format!("{:<wide$}  {:>9}  {:>6}  {:>6}  {:>7}", "class", "precision", "recall", "F1", "rows");
    if matrix {
        // Columns are numbered as rows are named.
        let _ = write!(head, "   told as:");
    }
    let mut lines = vec![String::new(), head];
    for (at, (class, name)) in of.classes.iter().zip(&names).enumerate() {
        let number = |value: f64| percent(Some(value));
        let mut line = format!(
            "{name:<wide$}  {:>9}  {:>6}  {:>6}  {:>7}",
            number(class.precision),
            number(class.recall),
            number(class.f1),
            grouped(class.support)
        );
        if matrix {
            line.push_str("   ");
            for &rows in of.confusion.get(at).into_iter().flatten() {
                let _ = write!(line, "{:>cell$}", grouped(rows));
            }
        }
        lines.push(line);
    }
    lines
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
    fn a_table_has_what_fits() {
        let lines = table(&quality(3));
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[2], "class-0      50.00  100.00   66.67    1,200    1,200 1,200 1,200");
        assert!(table(&quality(12))[2].ends_with("1,200"));
        assert!(table(&quality(21)).is_empty());
        assert!(lines.iter().all(|line| line.chars().count() <= 100));
    }
}
