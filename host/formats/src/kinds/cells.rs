//! Storage for the cells of a column while it is read.

use eciton_graph::corrections::Number;
use eciton_graph::encoding::{Cells, Kind, MISSING};

use super::survey::Survey;
use super::{finite, parse};
use crate::dictionary::Codes;
use crate::missing::is_missing;

/// Placeholder for a missing number.
const UNKNOWN: Number = Number { rounded: f32::NAN, residual: 0.0 };

/// Column with the cells of the rows that have been read so far.
pub(super) struct Column {
    /// Kind that the user or a model has set. If `None`, the content determines the kind.
    kind: Option<Kind>,
    pub(super) survey: Survey,
    cells: Form,
}

/// Cells of a column, in the form that fits all fields so far.
enum Form {
    /// All fields are finite numbers.
    Numbers(Vec<Number>),
    /// Codes of words. No field is a finite number, or the kind of the column requires words.
    Words(Words),
    /// No stored cells, because some fields are finite numbers and others are not. If the column
    /// becomes a feature, it is read again.
    Mixed,
}

impl Column {
    pub(super) fn new(kind: Option<Kind>) -> Self {
        let cells = match kind {
            Some(kind) if !kind.is_numeric() => Form::Words(Words::default()),
            _ => Form::Numbers(Vec::new()),
        };
        Self { kind, survey: Survey::default(), cells }
    }

    /// Appends a field in the given line. Returns false if the field does not fit the kind that was
    /// set.
    pub(super) fn push(&mut self, field: &str, line: u64) -> bool {
        if let Form::Words(words) = &mut self.cells
            && let Some(&code) = words.positions.get(field)
        {
            words.again(code);
            return true;
        }
        if is_missing(field) || self.kind == Some(Kind::Ignored) {
            match &mut self.cells {
                Form::Numbers(numbers) => numbers.push(UNKNOWN),
                Form::Words(words) => words.codes.push(MISSING),
                Form::Mixed => {}
            }
            return true;
        }
        if let Some(kind) = self.kind {
            match (&mut self.cells, parse(kind, field)) {
                (Form::Numbers(numbers), Some(number)) => numbers.push(number),
                (Form::Words(words), _) => words.push(field, line),
                _ => return false,
            }
            return true;
        }
        let number = finite(field);
        match (&mut self.cells, number) {
            (Form::Numbers(numbers), Some(value)) => {
                numbers.push(value);
                self.survey.see(field, line, number, 1);
            }
            (Form::Words(words), None) => words.push(field, line),
            (Form::Numbers(numbers), None) if self.survey.is_empty() => {
                let mut words = Words::missing(numbers.len());
                words.push(field, line);
                self.cells = Form::Words(words);
            }
            _ => {
                self.mix();
                self.survey.see(field, line, number, 1);
            }
        }
        true
    }

    /// Adds the distinct words to the survey, each with its number of occurrences.
    fn see_words(&mut self) {
        if let (None, Form::Words(words)) = (self.kind, &mut self.cells) {
            for (word, (count, line)) in words.words.iter().zip(std::mem::take(&mut words.seen)) {
                self.survey.see(word, line, None, count);
            }
        }
    }

    fn mix(&mut self) {
        self.see_words();
        self.cells = Form::Mixed;
    }

    /// Inserts the cells of a block into this column, as the rows `to`.
    pub(super) fn put(&mut self, to: &[u32], mut block: Self) {
        block.see_words();
        let empty = (self.survey.is_empty(), block.survey.is_empty());
        self.survey.add(block.survey);
        // A column of missing values only has both forms.
        if let (Form::Numbers(numbers), Form::Words(_), true) = (&self.cells, &block.cells, empty.0) {
            self.cells = Form::Words(Words::missing(numbers.len()));
        }
        match (&mut self.cells, block.cells) {
            (Form::Numbers(numbers), Form::Numbers(of)) => scatter(numbers, to, UNKNOWN, of.into_iter()),
            (Form::Words(words), Form::Words(of)) => {
                let codes: Vec<u32> = of.words.iter().map(|word| words.code(word)).collect();
                let code = |own: u32| codes.get(own as usize).copied().unwrap_or(MISSING);
                scatter(&mut words.codes, to, MISSING, of.codes.into_iter().map(code));
            }
            (Form::Words(words), Form::Numbers(of)) if empty.1 => {
                scatter(&mut words.codes, to, MISSING, of.into_iter().map(|_| MISSING));
            }
            _ => self.cells = Form::Mixed,
        }
    }

    /// Returns the size of the cells in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match &self.cells {
            Form::Numbers(numbers) => (size_of::<Number>() * numbers.len()) as u64,
            Form::Words(words) => words.bytes + 4 * words.codes.len() as u64,
            Form::Mixed => 0,
        }
    }

    /// Converts the cells of `rows` rows to the given kind. Returns `None` if the cells were not
    /// stored, so that the column must be read again.
    pub(super) fn finish(self, kind: Kind, rows: usize) -> Option<Cells> {
        Some(match self.cells {
            Form::Mixed => return None,
            Form::Numbers(mut numbers) if kind.is_numeric() => {
                numbers.resize(rows, UNKNOWN);
                Cells::Numbers(numbers)
            }
            Form::Numbers(_) => Cells::Words { codes: vec![MISSING; rows], words: Vec::new() },
            Form::Words(Words { mut codes, words, .. }) => {
                codes.resize(rows, MISSING);
                match kind.is_numeric() {
                    false => Cells::Words { codes, words },
                    true => {
                        let of: Vec<Number> =
                            words.iter().map(|word| parse(kind, word).unwrap_or(UNKNOWN)).collect();
                        let number = |&code: &u32| of.get(code as usize).copied().unwrap_or(UNKNOWN);
                        Cells::Numbers(codes.iter().map(number).collect())
                    }
                }
            }
        })
    }
}

/// Writes values to the rows `to`. Rows that are skipped by this receive the value `missing`.
fn scatter<T: Copy>(rows: &mut Vec<T>, to: &[u32], missing: T, of: impl Iterator<Item = T>) {
    let end = to.iter().max().map_or(0, |&last| last as usize + 1);
    if end > rows.len() {
        rows.resize(end, missing);
    }
    for (&to, value) in to.iter().zip(of) {
        if let Some(slot) = rows.get_mut(to as usize) {
            *slot = value;
        }
    }
}

/// Cells of a column as codes of distinct words.
#[derive(Default)]
struct Words {
    codes: Vec<u32>,
    words: Vec<String>,
    positions: Codes<Box<str>>,
    /// Number of occurrences of each word, and the line of the first one.
    seen: Vec<(u64, u64)>,
    /// Estimated size of the distinct words, in bytes.
    bytes: u64,
}

impl Words {
    /// Creates a column of `rows` missing cells.
    fn missing(rows: usize) -> Self {
        Self { codes: vec![MISSING; rows], ..Self::default() }
    }

    /// Returns the code of a word, and adds the word if it is new.
    fn code(&mut self, word: &str) -> u32 {
        match self.positions.get(word) {
            Some(&code) => code,
            None => {
                let code = self.words.len() as u32;
                // A word and a key, each with its text. At worst half of the slots of the map are
                // empty.
                self.bytes += 2 * word.len() as u64 + 112;
                self.words.push(word.to_owned());
                self.positions.insert(word.into(), code);
                code
            }
        }
    }

    /// Appends a word that has not occurred before.
    fn push(&mut self, word: &str, line: u64) {
        let code = self.code(word);
        self.codes.push(code);
        self.seen.push((1, line));
    }

    /// Appends another occurrence of the word with this code.
    fn again(&mut self, code: u32) {
        self.codes.push(code);
        if let Some((count, _)) = self.seen.get_mut(code as usize) {
            *count += 1;
        }
    }
}
