//! The command `eciton generate`, which generates text with a trained language model.

use std::path::PathBuf;

use eciton_train::{Drawing, Options, Writer};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::counted;

/// Arguments of `eciton generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run folder of a language model (`eciton train FILE --sequence T`)
    run: PathBuf,
    /// Beginning of the text. It must consist of tokens of the training data. For a model of a .npy
    /// file: token ids, such as "7 12 7"
    #[arg(long, value_name = "TEXT|IDS")]
    prompt: String,
    /// Number of tokens to generate. Each token takes a forward pass over a whole sequence
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: u32,
    /// Sampling temperature, by which scores are divided: 0 to 100; 0 selects the most likely token
    #[arg(long, value_name = "X", default_value_t = 0.8, value_parser = temperature,
        allow_negative_numbers = true)]
    temperature: f64,
    /// Random seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Parses the value of `--temperature`, a number from 0 to 100.
fn temperature(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|found| (0.0..=100.0).contains(found));
    found.ok_or_else(|| "expected a number from 0 to 100".to_owned())
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    prompt: &'a str,
    text: String,
}

/// Prints the prompt, followed by the text that the model generates.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let Arguments { prompt, tokens, temperature, seed, .. } = arguments;
    let drawing = Drawing { temperature: *temperature, seed: *seed };
    let mut writer = Writer::open(&arguments.run, prompt, drawing, &Options::default())?;
    let mut text = String::new();
    let mut tell = |output: &mut Output, piece: &str| match arguments.json {
        true => text.push_str(piece),
        false => output.text(piece),
    };
    tell(output, prompt);
    for _ in 0..*tokens {
        let piece = writer.next_token()?;
        tell(output, &piece);
    }
    let (rest, replaced) = writer.finish();
    tell(output, &rest);
    if replaced > 0 {
        eciton_input::notes::add(format!(
            "{}: the model generated {} of invalid UTF-8 (data.tokens is \"bytes\"); the text has U+FFFD in their \
             place",
            arguments.run.display(),
            counted(replaced, "byte")
        ));
    }
    match arguments.json {
        true => output.json(&Line { event: "generated", prompt, text }),
        false => output.line(""),
    }
    Ok(())
}
