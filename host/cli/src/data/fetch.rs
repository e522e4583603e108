//! `eciton data fetch`: published data sets by name, into the user's cache.

use std::path::PathBuf;

use eciton_fetch::cache::{Cache, Outcome};
use eciton_fetch::catalogue::{self, Set};
use eciton_fetch::download::{self, Limits, Origin};
use eciton_fetch::local;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{self, counted};

/// `eciton data fetch`
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sets' names
    #[arg(value_name = "NAME", required_unless_present = "list")]
    names: Vec<String>,
    /// List the sets that are known, and which of them are here
    #[arg(long, conflicts_with_all = ["names", "from", "mirror"])]
    list: bool,
    /// Take the files from a folder, where there is no network; they are checked all the same
    #[arg(long, value_name = "FOLDER", conflicts_with = "mirror")]
    from: Option<PathBuf>,
    /// Ask a server of a cache's folder in place of the publishers' [default: ECITON_MIRROR, if it is set]
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Print one JSON object a set
    #[arg(long)]
    json: bool,
}

/// Data set of the catalogue, as `--list --json` prints it.
#[derive(Serialize)]
struct Listed<'a> {
    event: &'static str,
    name: &'a str,
    description: &'a str,
    layout: &'a str,
    files: usize,
    bytes: u64,
    present: bool,
    licence: &'a str,
    citation: &'a str,
}

/// Data set that is in the cache now, as `--json` prints it.
#[derive(Serialize)]
struct Fetched<'a> {
    event: &'static str,
    name: &'a str,
    /// Path that `eciton_graph` opens. `member` is the name of the data set in it.
    path: String,
    member: Option<&'a str>,
    files: usize,
    bytes: u64,
    /// Number of files that were not in the cache before.
    brought: usize,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let cache = Cache::of_user()?;
    if arguments.list {
        list(&cache, arguments.json, output);
        return Ok(());
    }
    // A misspelt name is reported before anything is fetched.
    let sets: Vec<&'static Set> = arguments
        .names
        .iter()
        .map(|name| catalogue::find(name))
        .collect::<Result<_, _>>()
        .map_err(|e| Failure::usage(&e))?;
    for set in sets {
        fetch(set, &cache, arguments, output)?;
    }
    Ok(())
}

fn fetch(
    set: &'static Set,
    cache: &Cache,
    arguments: &Arguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut brought = 0;
    let mut told = |_: &catalogue::File, outcome| brought += usize::from(outcome == Outcome::Brought);
    match &arguments.from {
        Some(folder) => local::fetch(set, cache, folder, &mut told)?,
        None => {
            let variable = || std::env::var("ECITON_MIRROR").ok().filter(|url| !url.is_empty());
            let mirror = arguments.mirror.clone().or_else(variable);
            let origin = mirror.map_or(Origin::Published, Origin::Mirror);
            download::fetch(set, cache, &origin, &Limits::default(), &mut told)?;
        }
    }
    let Some(found) = cache.find(set) else {
        let folder = cache.folder().display();
        return Err(Failure::Failed(format!("{folder}: files of {} were taken away meanwhile", set.name)));
    };
    if arguments.json {
        output.json(&Fetched {
            event: "fetched",
            name: set.name,
            path: found.path.display().to_string(),
            member: found.name,
            files: set.files.len(),
            bytes: set.bytes(),
            brought,
        });
        return Ok(());
    }
    let files = counted(set.files.len() as u64, "file");
    let new = if brought == 0 { ", all here before".to_owned() } else { format!(", {brought} new") };
    output.line(format_args!("{:<15} {files}, {}{new}", set.name, text::bytes(set.bytes())));
    output.line(format_args!("{:<15} {}", "lies at", found.path.display()));
    output.line(format_args!("{:<15} {}", "licence", set.licence));
    output.line(format_args!("{:<15} {}", "cite", set.citation));
    Ok(())
}

fn list(cache: &Cache, json: bool, output: &mut Output) {
    for set in catalogue::sets() {
        let present = cache.find(set).is_some();
        if json {
            output.json(&Listed {
                event: "published",
                name: set.name,
                description: set.description,
                layout: set.layout,
                files: set.files.len(),
                bytes: set.bytes(),
                present,
                licence: set.licence,
                citation: set.citation,
            });
        } else {
            let here = if present { "here" } else { "" };
            let size = text::bytes(set.bytes());
            output.line(format_args!("{:<15} {here:<5} {size:>9}  {}", set.name, set.description));
        }
    }
    if !json {
        output.line("");
        output.line(format_args!("`here` is {} (ECITON_DATA is another place).", cache.folder().display()));
    }
}
