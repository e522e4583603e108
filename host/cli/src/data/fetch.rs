//! The command `eciton data fetch`, which downloads published data sets into the user's cache.

use std::path::PathBuf;

use eciton_fetch::cache::{Cache, Outcome};
use eciton_fetch::catalogue::{self, Set};
use eciton_fetch::download::{self, Limits, Origin};
use eciton_fetch::local;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{self, counted};

/// Arguments of `eciton data fetch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Names of data sets
    #[arg(value_name = "NAME", required_unless_present = "list")]
    names: Vec<String>,
    /// List the available data sets, and those that are in the cache
    #[arg(long, conflicts_with_all = ["names", "from", "mirror"])]
    list: bool,
    /// Copy the files from a folder instead of downloading them; they are verified in the same way
    #[arg(long, value_name = "FOLDER", conflicts_with = "mirror")]
    from: Option<PathBuf>,
    /// Download from a server of a cache folder instead of the publishers [default: ECITON_MIRROR]
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Print one JSON object per data set
    #[arg(long)]
    json: bool,
}

/// Description of a data set that can be fetched, which `eciton data fetch --list --json` prints.
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

/// Description of a fetched data set, which `eciton data fetch --json` prints.
#[derive(Serialize)]
struct Fetched<'a> {
    event: &'static str,
    name: &'a str,
    /// Path to pass to `eciton train`. If the path has several data sets, `member` is the name to
    /// pass to `--name`.
    path: String,
    member: Option<&'a str>,
    files: usize,
    bytes: u64,
    /// Number of files that the cache did not have before.
    brought: usize,
}

/// Fetches the named data sets, or lists those that can be fetched.
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

/// Fetches one data set, and prints its path, licence and citation.
fn fetch(
    set: &'static Set,
    cache: &Cache,
    arguments: &Arguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut brought = 0;
    let mut count = |_: &catalogue::File, outcome| brought += usize::from(outcome == Outcome::Brought);
    match &arguments.from {
        Some(folder) => local::fetch(set, cache, folder, &mut count)?,
        None => {
            let variable = || std::env::var("ECITON_MIRROR").ok().filter(|url| !url.is_empty());
            let mirror = arguments.mirror.clone().or_else(variable);
            let origin = mirror.map_or(Origin::Published, Origin::Mirror);
            download::fetch(set, cache, &origin, &Limits::default(), &mut count)?;
        }
    }
    let Some(found) = cache.find(set) else {
        let folder = cache.folder().display();
        return Err(Failure::Failed(format!(
            "{folder}: files of {} were removed by another process",
            set.name
        )));
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
    let new = if brought == 0 {
        ", all in the cache already".to_owned()
    } else {
        format!(", {brought} downloaded")
    };
    output.line(format_args!("{:<15} {files}, {}{new}", set.name, text::bytes(set.bytes())));
    output.line(format_args!("{:<15} {}", "path", found.path.display()));
    output.line(format_args!("{:<15} {}", "licence", set.licence));
    output.line(format_args!("{:<15} {}", "cite", set.citation));
    Ok(())
}

/// Prints the data sets that can be fetched, and marks those in the cache.
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
            let cached = if present { "cached" } else { "" };
            let size = text::bytes(set.bytes());
            output.line(format_args!("{:<15} {cached:<6} {size:>9}  {}", set.name, set.description));
        }
    }
    if !json {
        output.line("");
        output
            .line(format_args!("Cache folder: {} (set ECITON_DATA to change it)", cache.folder().display()));
    }
}
