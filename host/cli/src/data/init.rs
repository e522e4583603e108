//! The command `eciton data init`, which writes a `data.toml` with the detected use of each table
//! column.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use eciton_formats::Request;
use eciton_formats::folder::describe;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `eciton data init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder with tables, or a single table
    #[arg(value_name = "FOLDER|TABLE")]
    source: PathBuf,
    /// Column with the labels [default: label, target, class or y, else the last column]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Path and content of the written `data.toml`, which `eciton data init --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    path: &'a Path,
    text: &'a str,
}

/// Writes `data.toml`, and prints its content. An existing file is not overwritten.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let request = Request { label: arguments.label.as_deref(), ..Request::default() };
    let (path, text) = describe(&arguments.source, request)?;
    if path.exists() {
        return Err(Failure::Usage(format!(
            "{} already exists; edit it, or remove it to create it again",
            path.display()
        )));
    }
    let written = eciton_input::file::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| eciton_graph::error::Error::Write { path: path.clone(), source })?;
    if arguments.json {
        output.json(&Line { event: "initialised", path: &path, text: &text });
    } else {
        output.line(text.trim_end());
        output.line("");
        output.line(format_args!("written to {}", path.display()));
    }
    Ok(())
}
