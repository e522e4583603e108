//! Lines of the reading report about labels. They contain counts, and warnings about classes that
//! look like numbers.

use crate::labels::Labels;
use crate::split::NO_LABEL;

/// Minimum number of distinct classes for a warning that the classes look like numbers.
const MIN_DISTINCT: u64 = 10;
/// Minimum number of classes, including empty ones, for a warning that most classes are empty.
const MIN_SPARSE: u64 = 50;

/// Numbers of rows and classes in a data set whose labels are classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassCounts {
    /// Number of rows that have a class.
    pub labelled: u64,
    /// Number of rows that have no class.
    pub unlabelled: u64,
    /// Number of classes, including empty ones.
    pub classes: u64,
    /// Number of classes with at least one row.
    pub distinct: u64,
    /// Number of classes with exactly one row.
    pub single: u64,
    /// Lowest class index with at least one row.
    pub lowest: u64,
}

impl ClassCounts {
    /// Counts the rows and classes of `labels`. Returns `None` if labels are flags or numbers.
    #[must_use]
    pub fn from_labels(labels: &Labels) -> Option<Self> {
        let Labels::Classes { of, count } = labels else { return None };
        let mut rows = vec![0u32; *count as usize];
        let mut found = Self { classes: u64::from(*count), ..Self::default() };
        for &class in of {
            match rows.get_mut(class as usize) {
                Some(slot) if class != NO_LABEL => *slot = slot.saturating_add(1),
                _ => found.unlabelled += 1,
            }
        }
        found.labelled = of.len() as u64 - found.unlabelled;
        found.distinct = rows.iter().filter(|&&rows| rows > 0).count() as u64;
        found.single = rows.iter().filter(|&&rows| rows == 1).count() as u64;
        found.lowest = rows.iter().position(|&rows| rows > 0).unwrap_or_default() as u64;
        Some(found)
    }

    /// Returns the number of classes that have no row.
    #[must_use]
    pub fn empty(&self) -> u64 {
        self.classes - self.distinct
    }
}

/// Adds the numbers of labelled rows and classes to the reading report, as facts.
pub fn report(labels: &Labels) {
    use eciton_input::notes::fact;
    if let Some(counts) = ClassCounts::from_labels(labels) {
        let ClassCounts { labelled, unlabelled, classes, distinct, .. } = counts;
        fact(format!(
            "labels: {labelled} rows with one of {distinct} distinct classes, {unlabelled} rows without a label"
        ));
        if counts.empty() > 0 {
            fact(format!("labels: {} of {classes} classes have no row", counts.empty()));
        }
        return;
    }
    let known = (0..labels.rows()).filter(|&row| labels.known(row)).count();
    fact(format!("labels: {known} rows with a label, {} rows without", labels.rows() - known));
}

/// Adds a warning to the reading report if the classes look like numbers or like ids. `named` is
/// true if the classes have names. `regression` completes the phrase "for regression ...", for
/// instance with a command.
pub fn doubt(labels: &Labels, named: bool, regression: &str) {
    use eciton_input::notes::{add, warn};
    let Some(counts) = ClassCounts::from_labels(labels) else { return };
    let ClassCounts { labelled, classes, distinct, single, lowest, .. } = counts;
    // Few rows per class, and many classes with one row or none.
    let gaps = 3 * single >= distinct || 4 * counts.empty() >= distinct;
    let distinct_like = distinct >= MIN_DISTINCT && labelled < 4 * distinct && gaps;
    if named {
        if distinct >= MIN_DISTINCT && 10 * single >= 9 * distinct {
            warn(format!(
                "labels: {single} of {distinct} classes have a single row: the label column may hold ids or \
                 names rather than classes"
            ));
        }
        return;
    }
    let sparse = classes >= MIN_SPARSE && 2 * counts.empty() >= classes;
    if distinct_like || sparse {
        warn(format!(
            "labels: {distinct} distinct whole numbers, of which {single} occur once, leave {} of {classes} \
             classes without a row: they look like numbers to predict, not like classes; for regression \
             {regression}",
            counts.empty()
        ));
    } else if lowest > 0 && distinct > 1 {
        let empty =
            if lowest == 1 { "class 0 has".to_owned() } else { format!("classes 0 to {} have", lowest - 1) };
        add(format!(
            "labels: {empty} no row: classes are numbered from 0, and the lowest label is {lowest}; subtract \
             {lowest} from the labels, or write them as words; for regression {regression}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eciton_input::notes::{Level, take};

    fn doubted(of: Vec<u32>, named: bool) -> Vec<(Level, String)> {
        drop(take());
        let count = of.iter().filter(|&&class| class != NO_LABEL).max().map_or(0, |most| most + 1);
        doubt(&Labels::classes(of, count), named, "use `eciton train a.csv --task regression`");
        take().into_iter().map(|note| (note.level, note.text)).collect()
    }

    #[test]
    fn classes_that_look_like_numbers_are_reported_with_the_command() {
        let ages: Vec<u32> = (0..60).map(|row| 15 + (row * 7) % 31).collect();
        let prices: Vec<u32> = (0..40).map(|row| 100_000 + row * 4_357).collect();
        let years: Vec<u32> = (0..500).map(|row| 1990 + row % 32).collect();
        for labels in [ages, prices, years] {
            let found = doubted(labels, false);
            assert!(
                matches!(&found[..], [(Level::Warning, text)] if text.contains("a.csv --task regression")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn plain_classes_are_not_doubted() {
        for (labels, named) in [
            ((0..2708).map(|row| row % 7).collect::<Vec<u32>>(), false),
            ((0..1797).map(|row| row % 10).collect(), false),
            (vec![0, 1, 2], false),
            (vec![0, NO_LABEL, 1, NO_LABEL], false),
            ((0..9).collect(), true),
            ((0..400).map(|row| row % 40).collect(), false),
        ] {
            assert_eq!(doubted(labels, named), []);
        }
    }

    #[test]
    fn classes_from_one_and_names_of_rows_are_reported() {
        let from_one = doubted((0..30).map(|row| 1 + row % 3).collect(), false);
        assert!(matches!(&from_one[..], [(Level::Note, text)] if text.contains("class 0 has no row")));
        let names = doubted((0..12).collect(), true);
        assert!(matches!(&names[..], [(Level::Warning, text)] if text.contains("12 of 12 classes")));
    }
}
