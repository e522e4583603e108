//! Generation of text or token ids with a language model, which is a run that predicts the next
//! token of sequences.
//!
//! Each token takes a forward pass over a whole sequence, because no state is cached between
//! tokens. The context is the last T tokens, where T is the run's `data.sequence`. A shorter
//! context is padded with tokens that a causal model does not read. The token is drawn from
//! softmax(scores / temperature). At temperature 0 it is the first token with the largest score.

use std::path::Path;

use eciton_formats::sequence::{Unit, Vocabulary};
use eciton_graph::adjacency::{Graph, Options as GraphOptions};
use eciton_graph::dataset::{Dataset, Features, Labels, Split};
use eciton_graph::metrics::best;
use eciton_graph::random::SplitMix64;
use eciton_recipe::{Batch, Config};
use eciton_runs::report::Silent;
use eciton_runs::run_folder::Run;
use eciton_tensor::{Buffer, Matrix};

use crate::error::{Error, Result, at};
use crate::evaluation::Asked;
use crate::options::Options;
use crate::predict::set_weights;
use crate::session::Session;

/// Parameters of the random choice of tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawing {
    /// Divisor of the scores before the softmax. Higher temperatures make rare tokens more likely.
    /// At 0, the token with the largest score is always chosen.
    pub temperature: f64,
    /// Seed of the random choice.
    pub seed: u64,
}

/// Text generator that continues a prompt with a language model, one token at a time.
pub struct Writer {
    session: Session,
    config: Config,
    vocabulary: Vocabulary,
    /// Number of tokens per sequence of the model.
    length: usize,
    drawing: Drawing,
    random: SplitMix64,
    /// Tokens of the prompt and all tokens generated so far.
    tokens: Vec<u32>,
    bytes: Bytes,
}

/// Incremental UTF-8 decoder of single bytes.
#[derive(Default)]
struct Bytes {
    /// Bytes that are the start of an incomplete character.
    pending: Vec<u8>,
    /// Number of bytes that were not valid UTF-8.
    replaced: u64,
}

impl Bytes {
    /// Adds a byte, and returns the text that it completes. Invalid bytes are replaced by U+FFFD.
    fn push(&mut self, byte: u8) -> String {
        self.pending.push(byte);
        let mut text = String::new();
        while let Err(error) = std::str::from_utf8(&self.pending) {
            // The character may still be completed.
            let Some(wrong) = error.error_len() else { return text };
            let rest = self.pending.split_off(error.valid_up_to() + wrong);
            text.push_str(&String::from_utf8_lossy(&self.pending));
            self.replaced += wrong as u64;
            self.pending = rest;
        }
        text.push_str(&String::from_utf8_lossy(&std::mem::take(&mut self.pending)));
        text
    }

    /// Ends the input. Returns U+FFFD if the last character is incomplete, and an empty string
    /// otherwise.
    fn finish(&mut self) -> String {
        self.replaced += self.pending.len() as u64;
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

impl Writer {
    /// Opens the first seed's model in the run folder `run`, and starts with `prompt`. If the run
    /// was trained on a `.npy` file, the prompt consists of token ids, separated by spaces or
    /// commas.
    ///
    /// # Errors
    /// Returns [`Error::Generate`] for a run without recorded tokens, an empty prompt, or a token
    /// that is not in the training data. Also returns an error if the run folder is damaged.
    pub fn open(run: &Path, prompt: &str, drawing: Drawing, options: &Options) -> Result<Self> {
        let opened = Run::open(run)?;
        let refuse = |reason: String, remedy| Err(Error::Generate { run: run.to_owned(), reason, remedy });
        let (Some(length), Some(vocabulary)) = (opened.config.data.sequence, opened.vocabulary()?) else {
            return refuse(
                "the run folder records no tokens".to_owned(),
                "give a run of `eciton train FILE --sequence T`, where FILE is a text or a .npy file of \
                 token ids (a run of an earlier version on a .npy file must be trained again)",
            );
        };
        let tokens = match vocabulary.encode(prompt) {
            Ok(tokens) if tokens.is_empty() => {
                return refuse("the prompt is empty".to_owned(), "give at least one token");
            }
            Ok(tokens) => tokens,
            Err(token) => {
                let reason = format!("the prompt contains {token}, which is not in the training data");
                let remedy = match vocabulary.unit {
                    Unit::Numbers => "use token ids of the training data, separated by spaces or commas",
                    Unit::Characters | Unit::Bytes => "use only tokens of the training text",
                };
                return refuse(reason, remedy);
            }
        };
        let mut config = opened.config.clone();
        config.run_here();
        config.batch = Batch::default();
        let prompt = sequence(length, vocabulary.symbols.len())?;
        let session = Session::new(&config, options, Some(prompt), Asked::Scores)?;
        let random = SplitMix64::new(drawing.seed);
        let length = length as usize;
        let bytes = Bytes::default();
        let mut writer = Self { session, config, vocabulary, length, drawing, random, tokens, bytes };
        set_weights(&mut writer.session, &opened.tensors)?;
        Ok(writer)
    }

    /// Generates the next token, and returns the text that it completes. A token id is returned
    /// with a space in front.
    ///
    /// # Errors
    /// Returns the error of a kernel that fails.
    pub fn next_token(&mut self) -> Result<String> {
        let from = self.tokens.len().saturating_sub(self.length);
        let context = self.tokens.get(from..).unwrap_or_default();
        let mut values: Vec<f32> = context.iter().map(|&token| token as f32).collect();
        values.resize(self.length, 0.0);
        let rows = Buffer::from_rows(self.length, 1, &values).map_err(at("a context"))?;
        self.session.inputs.features = Matrix::from(rows.read(0..self.length).map_err(at("a context"))?);
        let last = context.len().saturating_sub(1);
        self.session.evaluate(&mut Silent)?;
        let scores = self.session.predicted(&self.config, false, &mut Silent)?.scores;
        let width = self.vocabulary.symbols.len();
        let row = scores.chunks_exact(width.max(1)).nth(last).unwrap_or_default();
        let token = draw(row, self.drawing.temperature, &mut self.random);
        self.tokens.push(token);
        let symbol = self.vocabulary.symbol(token).unwrap_or_default();
        Ok(match self.vocabulary.unit {
            Unit::Characters => char::from_u32(symbol).map_or_else(String::new, String::from),
            Unit::Bytes => self.bytes.push(u8::try_from(symbol).unwrap_or_default()),
            Unit::Numbers => format!(" {symbol}"),
        })
    }

    /// Ends the generation. Returns the last incomplete character as U+FFFD, and the number of
    /// bytes that were replaced because they are not valid UTF-8.
    pub fn finish(mut self) -> (String, u64) {
        (self.bytes.finish(), self.bytes.replaced)
    }
}

/// Creates a data set that is a single sequence of `length` tokens, which are filled in later.
/// `kinds` is the size of the vocabulary.
fn sequence(length: u32, kinds: usize) -> Result<Dataset> {
    let rows = length as usize;
    let all = (0..length).collect();
    let set = Dataset::new(
        "prompt".to_owned(),
        Graph::from_edges(length.into(), std::iter::empty(), GraphOptions::default())?,
        Features::dense(1, &vec![0.0; rows])?,
        Labels::classes(vec![0; rows], u32::try_from(kinds).unwrap_or(u32::MAX)),
        Split { train: all, ..Split::default() },
    );
    Ok(set.checked()?)
}

/// Draws the index of a token from the scores of all tokens, as the module describes.
fn draw(scores: &[f32], temperature: f64, random: &mut SplitMix64) -> u32 {
    let most = best(scores).unwrap_or(0);
    let largest = scores.get(most).map_or(0.0, |&score| f64::from(score));
    if temperature <= 0.0 {
        return most as u32;
    }
    let shares: Vec<f64> =
        scores.iter().map(|&score| ((f64::from(score) - largest) / temperature).exp()).collect();
    let all: f64 = shares.iter().filter(|share| !share.is_nan()).sum();
    let mut left = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * all;
    for (token, share) in (0..).zip(&shares).filter(|(_, share)| !share.is_nan()) {
        left -= share;
        if left < 0.0 {
            return token;
        }
    }
    most as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text_when_a_character_is_whole() {
        let mut bytes = Bytes::default();
        let mut pieces: Vec<String> =
            b"a\xc3\xa9\xff\xe2\x82b\xe2".iter().map(|byte| bytes.push(*byte)).collect();
        pieces.push(bytes.finish());
        assert_eq!(pieces, ["a", "", "é", "\u{fffd}", "", "", "\u{fffd}b", "", "\u{fffd}"]);
        assert_eq!(bytes.replaced, 4);
    }

    #[test]
    fn tokens_come_as_often_as_their_scores_say() {
        let seed = 5;
        let mut random = SplitMix64::new(seed);
        let scores = [1.0f32.ln(), 3.0f32.ln(), f32::NAN, 6.0f32.ln()];
        let mut counts = [0; 4];
        (0..10_000).for_each(|_| counts[draw(&scores, 1.0, &mut random) as usize] += 1);
        for (count, share) in counts.iter().zip([0.1, 0.3, 0.0, 0.6]) {
            assert!((f64::from(*count) / 10_000.0 - share).abs() < 0.02, "seed {seed}: {counts:?}");
        }
        assert_eq!(draw(&scores, 0.0, &mut random), 3);
        // Halving the temperature squares the odds.
        let mut counts = [0; 4];
        (0..10_000).for_each(|_| counts[draw(&scores, 0.5, &mut random) as usize] += 1);
        assert!((f64::from(counts[1]) / 10_000.0 - 9.0 / 46.0).abs() < 0.02, "seed {seed}: {counts:?}");
    }
}
