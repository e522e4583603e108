//! Texts and token sequences as rows without a graph. Each row is a token. Its feature is the index
//! of the token, and its label is the next token.
//!
//! Tokens are numbered in ascending order of their symbols, which are code points, bytes or token
//! ids. From the start, the file is divided into sequences of equal length. The tokens after the
//! last complete sequence and the final token, which has no successor, are omitted. The first 90 %
//! of the sequences are training sequences. Of the others, the first half are validation sequences
//! and the second half test sequences.

use std::path::Path;

use eciton_graph::adjacency::check_vertices;
use eciton_graph::dataset::{Dataset, Names, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::Features;
use eciton_graph::labels::Labels;
use eciton_graph::split::Split;

use crate::{file, npy, rows};

/// Percentage of the sequences that are used for training. Half of the others are used for
/// validation.
const TRAINS: u64 = 90;
/// Maximum number of distinct tokens, because f32 represents integers exactly up to this limit.
const MAX_TOKENS: u32 = 1 << 24;

/// Unit of a file that forms one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A Unicode code point of a UTF-8 text.
    Characters,
    /// A byte of a text.
    Bytes,
    /// A token id in a `.npy` file.
    Numbers,
}

/// Vocabulary, which has the symbol of each token index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    /// Unit of a file that forms one token.
    pub unit: Unit,
    /// Symbol of each token (code point, byte or token id), in ascending order.
    pub symbols: Vec<u32>,
}

impl Vocabulary {
    /// Returns the token indices of a text. If the symbols are token ids, the text has ids
    /// separated by spaces or commas.
    ///
    /// # Errors
    /// Returns the first token that is not in the vocabulary.
    pub fn encode(&self, text: &str) -> std::result::Result<Vec<u32>, String> {
        let number = |symbol: u32| {
            let found = self.symbols.binary_search(&symbol).ok().map(|number| number as u32);
            found.ok_or_else(|| self.text(symbol))
        };
        match self.unit {
            Unit::Characters => text.chars().map(|symbol| number(symbol.into())).collect(),
            Unit::Bytes => text.bytes().map(|symbol| number(symbol.into())).collect(),
            Unit::Numbers => {
                let words =
                    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
                words.map(|word| number(word.parse().map_err(|_| format!("{word:?}"))?)).collect()
            }
        }
    }

    /// Returns the symbol (code point, byte or token id) of a token index, or `None` if the index
    /// is too high.
    #[must_use]
    pub fn symbol(&self, token: u32) -> Option<u32> {
        self.symbols.get(token as usize).copied()
    }

    /// Returns an error if a file contains symbols that are not in the vocabulary.
    fn check(&self, symbols: &[u32], file: &str) -> Result<()> {
        let unknown = |symbol: &u32| self.symbols.binary_search(symbol).is_err();
        let Some(at) = symbols.iter().position(unknown) else { return Ok(()) };
        let ends = symbols.iter().take(at).filter(|&&symbol| symbol == u32::from(b'\n')).count() as u64;
        let place = match self.unit {
            Unit::Numbers => Place::whole(file),
            Unit::Characters | Unit::Bytes => Place::line(file, 1 + ends),
        };
        let token = symbols.get(at).map_or_else(String::new, |&symbol| self.text(symbol));
        let count = symbols.iter().filter(|symbol| unknown(symbol)).count();
        Err(Error::Malformed {
            place,
            expected: format!(
                "tokens of the data that the model was trained on, {} kinds",
                self.symbols.len()
            ),
            found: format!("{token}, which is one of {count} tokens that the model does not know"),
            remedy: "remove or replace these tokens, or train on data that contains them",
        })
    }

    fn text(&self, symbol: u32) -> String {
        match (self.unit, char::from_u32(symbol)) {
            (Unit::Characters, Some(symbol)) => format!("{symbol:?}"),
            (Unit::Numbers, _) => format!("token id {symbol}"),
            _ => format!("byte {symbol}"),
        }
    }
}

/// Reads the symbols of a file. They are code points, bytes, or the token ids in a `.npy` file with
/// one axis.
fn symbols(path: &Path, unit: Unit) -> Result<Vec<u32>> {
    let (bytes, name) = (file::read(path)?, file::name(path));
    if is_array(path) {
        let array = npy::parse(&bytes, &name)?;
        array.expect_axes(1, "tokens [N]")?;
        return array.to_u32();
    }
    match unit {
        Unit::Bytes => Ok(bytes.iter().map(|&byte| byte.into()).collect()),
        Unit::Numbers => Err(Error::malformed(Place::whole(name), "a `.npy` file of token ids", "a text")),
        Unit::Characters => match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.chars().map(u32::from).collect()),
            Err(error) => Err(Error::Malformed {
                place: Place::whole(name),
                expected: "UTF-8".to_owned(),
                found: format!("another byte at {}", error.valid_up_to()),
                remedy: "set data.tokens = \"bytes\", or convert the text to UTF-8",
            }),
        },
    }
}

/// Returns the vocabulary of a file. [`open`] numbers the tokens in the same way.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn vocabulary(path: &Path, unit: Unit) -> Result<Vocabulary> {
    let mut symbols = symbols(path, unit)?;
    symbols.sort_unstable();
    symbols.dedup();
    Ok(Vocabulary { unit: if is_array(path) { Unit::Numbers } else { unit }, symbols })
}

/// Reads a text, or a `.npy` file of token ids, as sequences of `length` tokens. `known` is the
/// vocabulary of a trained model. If it is `None`, the file's own vocabulary is used.
///
/// # Errors
/// Returns [`Error::Malformed`] with the position if a token is not in `known`. Also returns it for
/// characters that are not UTF-8, for fewer than three sequences, and for more than 2^24 distinct
/// tokens. Returns [`Error::Read`] if the file cannot be read, and [`Error::Limit`] if it exceeds
/// the memory budget.
pub fn open(path: &Path, unit: Unit, length: u32, known: Option<&Vocabulary>) -> Result<Dataset> {
    let mut tokens = symbols(path, unit)?;
    let place = || Place::whole(file::name(path));
    let sequences = (tokens.len().saturating_sub(1) as u64) / u64::from(length.max(1));
    if sequences < 3 {
        return Err(Error::Malformed {
            place: place(),
            expected: format!("at least three sequences of {length} tokens, and one further token"),
            found: format!("{} tokens", tokens.len()),
            remedy: "use a longer text, or a smaller data.sequence",
        });
    }
    let count = sequences * u64::from(length);
    check_vertices(count, place)?;
    let kinds = match known {
        Some(known) => {
            known.check(&tokens, &file::name(path))?;
            known.symbols.clone()
        }
        None => {
            let mut kinds = tokens.clone();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        }
    };
    if kinds.len() as u64 > u64::from(MAX_TOKENS) {
        let found = format!("{} kinds of tokens", kinds.len());
        return Err(Error::malformed(place(), format!("at most {MAX_TOKENS} kinds of tokens"), found));
    }
    // Every token is in the list.
    tokens.iter_mut().for_each(|token| *token = kinds.partition_point(|kind| kind < token) as u32);
    let rows = count as usize;
    let values: Vec<f32> = tokens.iter().take(rows).map(|&token| token as f32).collect();
    let labels = Labels::classes(tokens.iter().skip(1).take(rows).copied().collect(), kinds.len() as u32);
    let held = sequences - (sequences * TRAINS / 100).clamp(1, sequences - 2);
    let [train, validation] = [sequences - held, sequences - held.div_ceil(2)];
    let part = |from: u64, to: u64| (from * u64::from(length)..to * u64::from(length)).map(|row| row as u32);
    let split = Split {
        train: part(0, train).collect(),
        validation: part(train, validation).collect(),
        test: part(validation, sequences).collect(),
    };
    // Token ids in an array have no text.
    let names = match is_array(path) {
        true => Vec::new(),
        false => kinds.iter().map(|&symbol| name_of(unit, symbol)).collect(),
    };
    rows::dataset(
        file::stem(path),
        Features::dense(1, &values)?,
        labels,
        Some(split),
        VertexIds::Dense,
        Names { labels: names, ..Names::default() },
    )
}

/// Returns whether a file is an array of token ids, judging by its extension.
fn is_array(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

/// Returns the class name of a token. It is the character itself if the character is visible, or
/// otherwise a description.
fn name_of(unit: Unit, symbol: u32) -> String {
    match (unit, char::from_u32(symbol)) {
        (Unit::Characters, Some(c)) if !c.is_control() && !c.is_whitespace() => c.to_string(),
        (Unit::Characters, Some(c)) => format!("{c:?}"),
        _ => format!("byte {symbol}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(text: &[u8], name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn a_text_is_its_tokens_and_those_that_follow() {
        let text = "abcabdabé".repeat(4);
        let (_folder, path) = written(text.as_bytes(), "a.txt");
        let found = open(&path, Unit::Characters, 5, None).unwrap();
        let vocabulary = vocabulary(&path, Unit::Characters).unwrap();
        assert_eq!(vocabulary.symbols, "abcdé".chars().map(u32::from).collect::<Vec<_>>());
        let tokens = vocabulary.encode(&text).unwrap();
        assert_eq!((found.vertices(), found.labels.width()), (35, 5));
        let mut row = [0.0];
        for (at, &token) in (0..35).zip(&tokens) {
            found.features.copy_row(at, &mut row);
            assert_eq!(row[0], token as f32);
        }
        assert_eq!(found.labels.as_classes().unwrap(), &tokens[1..36]);
        let Split { train, validation, test } = &found.split;
        assert_eq!((train.len(), validation.len(), test.len()), (25, 5, 5));
        assert_eq!(vocabulary.encode("abx").unwrap_err(), "'x'");
        let bytes = open(&path, Unit::Bytes, 5, None).unwrap();
        assert_eq!((bytes.vertices(), bytes.labels.width()), (35, 6));
        assert_eq!(found.names.labels, ["a", "b", "c", "d", "é"]);
        assert_eq!(name_of(Unit::Characters, 10), "'\\n'");
        assert_eq!(bytes.names.labels[0], "byte 97");
    }

    #[test]
    fn another_text_gets_the_numbers_of_a_known_vocabulary() {
        let known =
            Vocabulary { unit: Unit::Characters, symbols: "abcdefé".chars().map(u32::from).collect() };
        let (_folder, path) = written("fedfedfedfed".as_bytes(), "other.txt");
        let found = open(&path, Unit::Characters, 2, Some(&known)).unwrap();
        assert_eq!((found.labels.width(), &found.labels.as_classes().unwrap()[..3]), (7, &[4, 3, 5][..]));
        let (_folder, path) = written("fed\nfedxfedfed".as_bytes(), "other.txt");
        let error = open(&path, Unit::Characters, 2, Some(&known)).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("'\\n'") && error.contains("one of 2"), "{error}");
    }

    #[test]
    fn token_ids_are_read_from_words() {
        let vocabulary = Vocabulary { unit: Unit::Numbers, symbols: vec![3, 7, 500] };
        assert_eq!(vocabulary.encode(" 500,3\n7, 3").unwrap(), [2, 0, 1, 0]);
        assert_eq!(vocabulary.symbol(2), Some(500));
        assert_eq!(vocabulary.encode("3 4").unwrap_err(), "token id 4");
        assert_eq!(vocabulary.encode("3 x").unwrap_err(), "\"x\"");
        assert_eq!(vocabulary.encode(" , ").unwrap(), Vec::<u32>::new());
    }

    #[test]
    fn what_is_no_text_or_too_short_is_refused_in_words() {
        let (_folder, path) = written(b"abc\xff\xfeabcabcabc", "a.txt");
        let error = open(&path, Unit::Characters, 2, None).unwrap_err().to_string();
        assert!(error.contains("at 3") && error.contains("bytes"), "{error}");
        assert!(open(&path, Unit::Bytes, 2, None).is_ok());
        let error = open(&path, Unit::Bytes, 7, None).unwrap_err().to_string();
        assert!(error.contains("14 tokens") && error.contains("data.sequence"), "{error}");
    }
}
