//! Words that stand for a missing value, for instance `NA`.

/// Words that `pandas.read_csv` treats as missing values.
const WORDS: [&str; 18] = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// Returns whether a field is empty or a word for a missing value.
pub(crate) fn is_missing(field: &str) -> bool {
    field.is_empty() || is_word(field)
}

/// Returns whether a field is a word for a missing value. These are the words of pandas, and `nan`
/// ignoring case.
pub(crate) fn is_word(field: &str) -> bool {
    // Most fields are excluded by their first and last characters, because no number ends like
    // these words.
    let ends = field.bytes().next().zip(field.bytes().last());
    ends.is_some_and(|(first, last)| b"#-1<Nn".contains(&first) && b"ADLNaeln>".contains(&last))
        && (WORDS.contains(&field) || field.eq_ignore_ascii_case("nan"))
}

/// Words for missing values that occur in a label column, with their total number of occurrences.
#[derive(Debug, Default)]
pub(crate) struct MissingWords {
    count: u64,
    words: Vec<String>,
}

impl MissingWords {
    /// Counts a field if it is a word for a missing value.
    pub(crate) fn see(&mut self, field: &str) {
        if is_word(field) {
            self.count += 1;
            if !self.words.iter().any(|word| word == field) {
                self.words.push(field.to_owned());
            }
        }
    }

    /// Adds a note to the reading report if any such word has been counted. `place` is the name of
    /// the column.
    pub(crate) fn report(&self, place: &str) {
        if self.count > 0 {
            let labels = if self.count == 1 { "1 label is a word" } else { "labels are words" };
            let count = if self.count == 1 { String::new() } else { format!("{} ", self.count) };
            eciton_input::notes::add(format!(
                "{place}: {count}{labels} for a missing value ({}), read as no label; rename a class that is \
                 called so",
                self.words.join(", ")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_missing_and_numbers_are_not() {
        assert!(WORDS.iter().chain(&["NAN", "nAn", ""]).all(|word| is_missing(word)));
        assert!(["1", "-1", "N", "1e", "nil", "-", "Anna", "-1.5"].iter().all(|word| !is_missing(word)));
    }
}
