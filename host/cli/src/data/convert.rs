//! The command `eciton data convert`, which converts a data set into a store. A store is a folder
//! that runs memory-map.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use eciton_formats::Streamed;
use eciton_graph::adjacency::Options;
use eciton_graph::dataset::EdgeFeatures;
use eciton_graph::edges::EdgeSource;
use eciton_graph::{build, store};
use eciton_recipe::{Data, SelfLoops, TaskType};
use eciton_train::task;
use indicatif::ProgressBar;
use serde::Serialize;

use super::generate::size;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::progress::{self, Bar};
use crate::text::{self, grouped, seconds};

/// Arguments of `eciton data convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or path of a data set
    #[arg(value_name = "DATASET|PATH")]
    source: String,
    /// Folder to write, which must not exist
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Name of the data set within a folder that holds several
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Memory limit for building the graph of an edge list or a MatrixMarket file, which may be
    /// larger than memory. Other formats are read into memory entirely
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = size)]
    memory: u64,
    /// Treatment of self-loops: drop or keep [default: drop; for a store, as converted]
    #[arg(long, value_name = "drop|keep", value_parser = super::self_loops)]
    self_loops: Option<SelfLoops>,
    /// Number of threads [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Description of the written store, which `eciton data convert --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    out: &'a Path,
    dataset: String,
    vertices: u64,
    edges: u64,
    features: u32,
    edge_features: u32,
    task: TaskType,
    classes: u32,
    bytes: u64,
    built: &'static str,
    seconds: f64,
}

/// Converts a data set into a store, and prints a description of it. The graph of an edge file,
/// which may be larger than memory, is built on disk.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if arguments.memory < build::MIN_MEMORY_BYTES {
        let least = text::limit(build::MIN_MEMORY_BYTES);
        return Err(Failure::Usage(format!("--memory: the minimum is {least}")));
    }
    let started = Instant::now();
    let streamed = match Path::new(&arguments.source) {
        path if path.exists() => eciton_formats::stream(path)?,
        _ => None,
    };
    let mut line = match streamed {
        Some(streamed) => stream(streamed, arguments, output)?,
        None => whole(arguments)?,
    };
    for entry in std::fs::read_dir(&arguments.out)? {
        line.bytes += entry?.metadata()?.len();
    }
    line.seconds = started.elapsed().as_secs_f64();
    if arguments.json {
        output.json(&line);
    } else {
        print(&line, output);
    }
    Ok(())
}

/// Reads a data set into memory, and writes it as a store. Returns the store's description.
fn whole(arguments: &Arguments) -> Result<Line<'_>, Failure> {
    let (source, name) = (arguments.source.clone(), arguments.name.clone());
    let self_loops = arguments.self_loops;
    let data = eciton_train::open(&Data { source, name, self_loops, ..Data::default() })?;
    if data.encoded.is_some() {
        eciton_input::notes::add(format!(
            "{}: the store contains encoded columns, fitted to the training rows of the data set's split; a model that \
             is trained on the store cannot predict from the original tables",
            data.name
        ));
    }
    store::write(&arguments.out, &data)?;
    Ok(Line {
        event: "converted",
        out: &arguments.out,
        vertices: data.vertices().into(),
        edges: data.graph.edges(),
        features: data.features.columns(),
        edge_features: data.edge_features.as_ref().map_or(0, EdgeFeatures::columns),
        task: task(&data.labels),
        classes: data.labels.width(),
        dataset: data.name,
        bytes: 0,
        built: "in memory",
        seconds: 0.0,
    })
}

/// Builds a store on disk from a file of edges that may be larger than memory. Returns the store's
/// description.
fn stream<'a>(streamed: Streamed, arguments: &'a Arguments, output: &Output) -> Result<Line<'a>, Failure> {
    let shown = !arguments.json && progress::drawable(output);
    let bar = if shown { Bar::unstarted() } else { ProgressBar::hidden() };
    if let Ok(style) = indicatif::ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    interrupt::remove_at_once(bar.clone(), &arguments.out)?;
    let mut writer = store::Writer::create(&arguments.out)?;
    let threads = match arguments.threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let watched = Watched { edges: &*streamed.edges, bar: &bar, read: AtomicU64::new(0) };
    let keep = arguments.self_loops == Some(SelfLoops::Keep);
    let options = Options { keep_self_loops: keep, ..Options::default() };
    let found = build::external(&watched, options, arguments.memory, threads, &mut writer)?;
    bar.finish_and_clear();
    found.report(&streamed.name, false);
    let known = streamed.attributes()?;
    writer.features(&known.features)?;
    writer.labels(&known.labels)?;
    writer.split(&known.split)?;
    if let Some(graphs) = &known.graphs {
        writer.graphs(graphs)?;
    }
    writer.ids(&known.ids)?;
    writer.names(&known.names);
    let (edges, dataset) = (writer.edges().unwrap_or(0), streamed.name);
    writer.finish(&dataset)?;
    Ok(Line {
        event: "converted",
        out: &arguments.out,
        dataset,
        vertices: streamed.edges.vertices(),
        edges,
        features: known.features.columns(),
        edge_features: streamed.edges.columns(),
        task: task(&known.labels),
        classes: known.labels.width(),
        bytes: 0,
        built: "on disk",
        seconds: 0.0,
    })
}

/// Prints the description of a store as text, with one fact per line.
fn print(line: &Line<'_>, output: &mut Output) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<11} {text}"));
    row("data set", line.dataset.clone());
    row("written", format!("{} ({})", line.out.display(), text::bytes(line.bytes)));
    row("vertices", grouped(line.vertices));
    row("edges", format!("{} directed", grouped(line.edges)));
    row("features", grouped(line.features.into()));
    if line.edge_features > 0 {
        row("edge values", grouped(line.edge_features.into()));
    }
    row(line.task.columns(), grouped(line.classes.into()));
    row("time", format!("{}, built {}", seconds(line.seconds), line.built));
}

/// An edge source that shows the number of edges read so far in a progress line.
struct Watched<'a> {
    edges: &'a dyn EdgeSource,
    bar: &'a ProgressBar,
    read: AtomicU64,
}

impl EdgeSource for Watched<'_> {
    fn vertices(&self) -> u64 {
        self.edges.vertices()
    }

    fn chunks(&self) -> u64 {
        self.edges.chunks()
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> eciton_graph::error::Result<()> {
        let before = edges.len();
        self.edges.read(chunk, edges)?;
        self.show(edges.len() - before);
        Ok(())
    }

    fn columns(&self) -> u32 {
        self.edges.columns()
    }

    fn is_weight(&self) -> bool {
        self.edges.is_weight()
    }

    fn read_with_values(
        &self,
        chunk: u64,
        edges: &mut Vec<(u32, u32)>,
        values: &mut Vec<f32>,
    ) -> eciton_graph::error::Result<()> {
        let before = edges.len();
        self.edges.read_with_values(chunk, edges, values)?;
        self.show(edges.len() - before);
        Ok(())
    }
}

impl Watched<'_> {
    /// Adds `more` to the number of edges read, and shows the sum.
    fn show(&self, more: usize) {
        let read = self.read.fetch_add(more as u64, Ordering::Relaxed) + more as u64;
        self.bar.set_message(format!("{} edges read", grouped(read)));
    }
}
