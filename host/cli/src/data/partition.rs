//! The command `eciton data partition`, which divides a data set into parts for several hosts.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use eciton_graph::dataset::Dataset;
use eciton_graph::order::{Order, Permutation};
use eciton_graph::store::{PartSize, Partition};
use eciton_recipe::{Data, MAX_HOSTS};
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::text::{grouped, percent, seconds};

/// Maximum size of a file with the part of each vertex, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 36;

/// Arguments of `eciton data partition`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Name or path of a data set. A store stays in its mapped files
    #[arg(value_name = "DATASET|PATH")]
    source: String,
    /// Store to write, which must not exist
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number of parts, one for each host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(MAX_HOSTS)))]
    hosts: u32,
    /// Order whose ranges are the parts: natural, degree, rcm or rabbit; or a file with the part of
    /// each vertex, as gpmetis writes it
    #[arg(long, value_name = "ORDER|FILE", default_value = "rabbit")]
    by: By,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Memory: 8 bytes a vertex, twice labels, ids and split, and what the order takes
(rabbit: 44 bytes a vertex, and up to 8 bytes an edge for a short time). Lists
and features of a store stay in its files.

The file of --by has a number from 0 to N - 1 in each line, one line a vertex.";

/// Value of `--by`.
#[derive(Debug, Clone)]
enum By {
    Order(Order),
    File(PathBuf),
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Order::ALL.into_iter().find(|order| order.name() == text) {
            Some(order) => Ok(Self::Order(order)),
            None if Path::new(text).is_file() => Ok(Self::File(PathBuf::from(text))),
            None => Err("expected natural, degree, rcm, rabbit, or the path of a file".to_owned()),
        }
    }
}

/// Description of the written store, which `eciton data partition --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    out: &'a Path,
    vertices: u32,
    parts: Vec<Part>,
    seconds: f64,
}

/// Size of a part, and the vertices of others that it reads.
#[derive(Serialize)]
struct Part {
    rows: u32,
    edges: u64,
    ghosts: u32,
}

/// Writes the data set as a store in the order of a partition, and prints the size of each part.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let started = Instant::now();
    let data = eciton_train::open(&Data { source: arguments.source.clone(), ..Data::default() })?;
    let partition = match &arguments.by {
        By::Order(order) => {
            Partition::equal(&data, Permutation::compute(&data.graph, *order), arguments.hosts)?
        }
        By::File(path) => Partition::of_parts(&data, &read(path, &data)?, arguments.hosts)
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?,
    };
    interrupt::remove_at_once(indicatif::ProgressBar::hidden(), &arguments.out)?;
    partition.write(&arguments.out, &data)?;
    let part = |PartSize { rows, edges, ghosts }| Part { rows, edges, ghosts };
    let parts: Vec<Part> = partition.sizes(&data).into_iter().map(part).collect();
    let (vertices, seconds_taken) = (data.vertices(), started.elapsed().as_secs_f64());
    if arguments.json {
        let out = &arguments.out;
        output.json(&Line { event: "partitioned", out, vertices, parts, seconds: seconds_taken });
        return Ok(());
    }
    let mut total = 0;
    for (host, part) in parts.iter().enumerate() {
        output.line(format_args!(
            "host {host:<6} {} rows, {} edges, {} rows of other hosts",
            grouped(part.rows.into()),
            grouped(part.edges),
            grouped(part.ghosts.into())
        ));
        total += u64::from(part.ghosts);
    }
    let share = percent(Some(total as f64 / f64::from(vertices.max(1))));
    output.line(format_args!(
        "ghosts      {} in total, {share} % of {} vertices",
        grouped(total),
        grouped(vertices.into())
    ));
    output.line(format_args!("written     {} in {}", arguments.out.display(), seconds(seconds_taken)));
    Ok(())
}

/// Reads the part of each vertex of `data` from a file.
fn read(path: &Path, data: &Dataset) -> Result<Vec<u32>, Failure> {
    let refused = |text: String| Failure::Failed(format!("{}: {text}", path.display()));
    let bytes = eciton_input::file::read(path, MAX_FILE_BYTES).map_err(|error| refused(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not text".to_owned()))?;
    let part = |(line, word): (usize, &str)| {
        word.trim().parse::<u32>().map_err(|_| {
            refused(format!("line {}: expected the number of a part, found {word:.40?}", line + 1))
        })
    };
    let parts = text.lines().enumerate().map(part).collect::<Result<Vec<u32>, Failure>>()?;
    match parts.len() == data.vertices() as usize {
        true => Ok(parts),
        false => Err(refused(format!(
            "it has {} lines, expected one for each of the {} vertices",
            grouped(parts.len() as u64),
            grouped(data.vertices().into())
        ))),
    }
}
