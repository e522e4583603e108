//! `eciton data generate`: data sets of any size from a seed, with labels that a model can learn.

mod lines;
mod many;
mod programs;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use eciton_graph::adjacency::Options;
use eciton_graph::build;
use eciton_graph::dataset::Labels;
use eciton_graph::edges::EdgeSource;
use eciton_graph::error::Error;
use eciton_graph::features::Features;
use eciton_graph::generate::{
    Arrays, BlockModel, Division, Generated, Planted, Rmat, Shape, Target, write_arrays,
};
use eciton_graph::split::Split;
use eciton_graph::store;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::progress::{self, Bar};
use crate::text::{self, counted, grouped, percent, seconds};

/// Edges per vertex if `--edges` is not given.
const EDGES_PER_VERTEX: u64 = 20;
/// Bytes that an in-memory build takes for each directed edge that is drawn, repeats included.
const BYTES_PER_EDGE: u64 = 12;
/// Bytes that an in-memory build takes per vertex: offsets, label and position in the split.
const BYTES_PER_VERTEX: u64 = 24;

/// `eciton data generate ...`
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Classes and power-law degrees (degree-corrected block model, Karrer and Newman 2011)
    BlockModel(BlockModelArguments),
    /// Skewed degrees by recursive quadrants (R-MAT, Chakrabarti, Zhan and Faloutsos 2004), with
    /// classes
    Rmat(RmatArguments),
    /// Many small graphs, of which each has a class: random, preferential attachment, small world,
    /// cliques
    Graphs(many::Arguments),
    /// Rows without a graph, whose class is linear in them
    Linear(rows::LinearArguments),
    /// Rows of a user, an item and numbers, with a class: for recommenders of two towers
    Towers(rows::TowerArguments),
    /// Programs of up to so many lines, with what they compute: for networks that learn to run
    /// programs
    Programs(programs::Arguments),
    /// Lines in images, of which those of closed outlines are to be found: for convolutions and a
    /// graph
    Lines(lines::Arguments),
}

/// `eciton data generate block-model`
#[derive(Debug, clap::Args)]
pub(crate) struct BlockModelArguments {
    /// Exponent of the degrees' power law
    #[arg(long, value_name = "X", default_value_t = 2.2, allow_negative_numbers = true)]
    exponent: f64,
    /// Highest expected degree in units of the lowest
    #[arg(long, value_name = "X", default_value_t = 60.0, allow_negative_numbers = true)]
    cap: f64,
    #[command(flatten)]
    common: Common,
}

/// `eciton data generate rmat`
#[derive(Debug, clap::Args)]
pub(crate) struct RmatArguments {
    /// Chances of the four quadrants; they add up to 1
    #[arg(long, value_name = "A,B,C,D", default_value = "0.57,0.19,0.19,0.05", value_parser = list::<4>,
        allow_hyphen_values = true)]
    quadrants: [f64; 4],
    #[command(flatten)]
    common: Common,
}

/// Options of both models.
#[derive(Debug, clap::Args)]
struct Common {
    /// The folder to write, which must not exist
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Vertices
    #[arg(long, value_name = "N", default_value = "10000", value_parser = count)]
    vertices: u64,
    /// Directed edges to aim at, without repeats and self loops [default: 20 a vertex]
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "pairs")]
    edges: Option<u64>,
    /// Undirected pairs to draw, in place of --edges
    #[arg(long, value_name = "N", value_parser = count)]
    pairs: Option<u64>,
    /// All random numbers come from it
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Ids by rank: hubs first
    #[arg(long)]
    no_scramble: bool,

    /// Classes
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Task")]
    classes: u32,
    /// Number of binary labels per vertex to predict instead of its class; each holds for half of
    /// the classes
    #[arg(long, value_name = "N", conflicts_with = "numbers", help_heading = "Task")]
    labels: Option<u32>,
    /// Number of numeric targets per vertex to predict instead of its class; each is a number of
    /// the class plus noise
    #[arg(long, value_name = "N", help_heading = "Task")]
    numbers: Option<u32>,
    /// The standard deviation of that noise
    #[arg(
        long,
        value_name = "NOISE",
        default_value_t = 0.1,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    noise: f32,
    /// Share of pairs that are made to join one class
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.6,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    p_in: f64,
    /// Columns of the features; 0 for none, each vertex is its own column then
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Task")]
    features: u32,
    /// Deviation of the classes' mean features; the noise's is 1
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.1,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    feature_scale: f32,
    /// Share of labels that are drawn at random
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    flip: f64,
    /// Shares of vertices that train and validate; the rest tests
    #[arg(long, value_name = "TRAIN,VAL", default_value = "0.6,0.2", value_parser = list::<2>,
        allow_hyphen_values = true, help_heading = "Task")]
    split: [f64; 2],
    /// Vertices of each class that train and validate, in place of --split
    #[arg(long, value_name = "TRAIN,VAL", value_parser = list::<2>, conflicts_with = "split",
        help_heading = "Task")]
    per_class: Option<[f64; 2]>,

    /// Write .npy arrays, which other tools read, in place of a store
    #[arg(long, help_heading = "Output")]
    arrays: bool,
    /// The data set's name [default: OUT's last part]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    name: Option<String>,
    /// Memory to build in; a graph that needs more is built on disk, in OUT's folder
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = size, help_heading = "Output")]
    memory: u64,
    /// Threads; changes no result [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024),
        help_heading = "Output")]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Parses a whole number. Underscores may group its digits.
fn count(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    digits.parse().map_err(|_| "not a whole number (of at most 64 bits)".to_owned())
}

/// Parses two whole numbers with a comma between them. One number stands for both.
fn span(text: &str) -> Result<[u64; 2], String> {
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let wrong = |_| "not a whole number, or two with a comma between them".to_owned();
    let number = |text: &str| count(text.trim()).map_err(wrong);
    Ok([number(least)?, number(most)?])
}

/// Parses N numbers with commas between them.
fn list<const N: usize>(text: &str) -> Result<[f64; N], String> {
    let wrong = || format!("not {N} numbers with commas between them");
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    numbers.map_err(|_| wrong())?.try_into().map_err(|_| wrong())
}

/// Parses a size in bytes: a whole number and a unit.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || "not a size such as 8GiB or 500MB".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

impl Common {
    fn shape(&self) -> Shape {
        Shape {
            vertices: self.vertices,
            pairs: self.pairs.unwrap_or(0),
            classes: self.classes,
            p_in: self.p_in,
            features: self.features,
            feature_scale: self.feature_scale,
            target: self.target(),
            flip: self.flip,
            scramble: !self.no_scramble,
            seed: self.seed,
        }
    }

    fn target(&self) -> Target {
        match (self.labels, self.numbers) {
            (Some(columns), _) => Target::Flags { columns },
            (None, Some(columns)) => Target::Numbers { columns, noise: self.noise },
            (None, None) => Target::Classes,
        }
    }

    fn threads(&self) -> usize {
        threads(self.threads)
    }

    fn name(&self) -> String {
        name(self.name.as_ref(), &self.out)
    }
}

/// Returns the requested number of threads, or one thread per processor.
fn threads(asked: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(all, usize::from)
}

/// Returns the requested name of the data set, or the last component of its path.
fn name(asked: Option<&String>, out: &Path) -> String {
    let last = || out.file_name().map_or_else(|| "generated".into(), |name| name.to_string_lossy().into());
    asked.cloned().unwrap_or_else(last)
}

/// Returns the division of rows that `--per-class` asks for, or that of `--split` without
/// `--per-class`.
fn division(split: [f64; 2], per_class: Option<[f64; 2]>) -> Result<Division, Failure> {
    if let Some(numbers) = per_class {
        if numbers.iter().any(|n| n.fract() != 0.0 || !(0.0..=1e12).contains(n)) {
            let text = "--per-class takes two whole numbers, those that train and those that validate";
            return Err(Failure::Usage(text.to_owned()));
        }
        return Ok(Division::PerClass(numbers.map(|n| n as usize)));
    }
    let [train, validation] = split;
    let shares = [train, validation, train + validation];
    if shares.iter().any(|share| !(0.0..=1.0 + 1e-9).contains(share)) {
        let text = format!("--split {train},{validation}: each share and their sum must be 0 to 1");
        return Err(Failure::Usage(text));
    }
    Ok(Division::Fractions(split))
}

/// Description of the generated data set, which `--json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    out: &'a Path,
    model: &'static str,
    layout: &'static str,
    vertices: u64,
    pairs: u64,
    expected_edges: f64,
    edges: u64,
    classes: u32,
    features: u32,
    train: usize,
    validation: usize,
    test: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers: Option<u32>,
    /// Accuracy that a classifier with knowledge of every class can reach. With several labels it
    /// is the share of correct labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_ceiling: Option<f64>,
    /// Accuracy of the best classifier that reads no neighbour.
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_features: Option<f64>,
    /// Root mean squared error of a model with knowledge of every class.
    #[serde(skip_serializing_if = "Option::is_none")]
    rmse_floor: Option<f64>,
    seed: u64,
    threads: usize,
    built: &'static str,
    graph_seconds: f64,
    seconds: f64,
}

/// Generates a data set, builds and writes it, and prints a description of it.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<(), Failure> {
    let (model, common, generated) = match command {
        Command::BlockModel(BlockModelArguments { exponent, cap, common }) => {
            let (exponent, cap) = (*exponent, *cap);
            ("block-model", common, BlockModel { shape: common.shape(), exponent, cap }.generate())
        }
        Command::Rmat(RmatArguments { quadrants, common }) => {
            ("rmat", common, Rmat { shape: common.shape(), quadrants: *quadrants }.generate())
        }
        Command::Graphs(arguments) => return many::run(arguments, output),
        Command::Linear(arguments) => return rows::linear(arguments, output),
        Command::Towers(arguments) => return rows::towers(arguments, output),
        Command::Programs(arguments) => return programs::run(arguments, output),
        Command::Lines(arguments) => return lines::run(arguments, output),
    };
    let edges = common.edges.unwrap_or(EDGES_PER_VERTEX.saturating_mul(common.vertices));
    let aimed = |made: Generated| if common.pairs.is_some() { Ok(made) } else { made.aim(edges) };
    let made = generated.and_then(aimed).map_err(|error| Failure::usage(&error))?;
    let division = division(common.split, common.per_class)?;
    if common.memory < build::MIN_MEMORY_BYTES {
        let least = text::limit(build::MIN_MEMORY_BYTES);
        return Err(Failure::Usage(format!("--memory: building takes at least {least}")));
    }
    let work = Work::begin(common, &made, output)?;
    let started = Instant::now();
    let (written, split) = work.write(division)?;
    work.bar.finish_and_clear();
    let target = common.target();
    let line = Line {
        event: "generated",
        out: &common.out,
        model,
        layout: if common.arrays { "arrays" } else { "store" },
        vertices: common.vertices,
        pairs: made.shape().pairs,
        expected_edges: made.expected_edges().round(),
        edges: written.edges,
        classes: common.classes,
        features: common.features,
        train: split.train.len(),
        validation: split.validation.len(),
        test: split.test.len(),
        labels: common.labels,
        numbers: common.numbers,
        accuracy_ceiling: (common.numbers.is_none()).then(|| made.planted().ceiling()),
        accuracy_features: (target == Target::Classes).then(|| made.planted().own_accuracy()),
        rmse_floor: common.numbers.map(|_| made.planted().ceiling()),
        seed: common.seed,
        threads: work.threads,
        built: if work.external { "on disk" } else { "in memory" },
        graph_seconds: written.graph_seconds,
        seconds: started.elapsed().as_secs_f64(),
    };
    if common.json {
        output.json(&line);
    } else {
        print(&line, output);
    }
    Ok(())
}

fn print(line: &Line<'_>, output: &mut Output) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<11} {text}"));
    row("written", format!("{} ({}, {})", line.out.display(), line.model, line.layout));
    row("vertices", grouped(line.vertices));
    let expected = grouped(line.expected_edges as u64);
    row(
        "edges",
        format!("{} directed, {expected} expected of {}", grouped(line.edges), counted(line.pairs, "pair")),
    );
    row("features", grouped(line.features.into()));
    row("classes", grouped(line.classes.into()));
    let [train, validation, test] = [line.train, line.validation, line.test].map(|size| grouped(size as u64));
    row("split", format!("{train} train, {validation} validation, {test} test"));
    let most = percent(line.accuracy_ceiling);
    match (line.accuracy_features, line.labels, line.numbers) {
        (Some(own), _, _) => {
            let own = percent(Some(own));
            row("accuracy", format!("{own} % from a vertex's own features, at most {most} %"));
        }
        (None, Some(labels), _) => {
            row("labels", format!("{labels} a vertex; accuracy at most {most} %"));
        }
        (None, None, numbers) => {
            let (numbers, least) = (numbers.unwrap_or(0), line.rmse_floor.unwrap_or(0.0) as f32);
            row("numbers", format!("{numbers} a vertex; root mean squared error at least {least}"));
        }
    }
    let threads = counted(line.threads as u64, "thread");
    let (graph, all) = (seconds(line.graph_seconds), seconds(line.seconds));
    row("time", format!("{all}, of which the graph took {graph} ({}, {threads})", line.built));
}

/// Fields of a store's description that are read here.
#[derive(serde::Deserialize)]
struct Description {
    edges: u64,
}

/// Number of edges of the written graph, and the seconds that its build took.
struct Written {
    edges: u64,
    graph_seconds: f64,
}

/// Returns a line that shows progress. It is hidden with `--json` and where it cannot be drawn.
fn bar(json: bool, output: &Output) -> ProgressBar {
    let shown = !json && progress::drawable(output);
    let bar = if shown { Bar::unstarted() } else { ProgressBar::hidden() };
    if let Ok(style) = indicatif::ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// Graph that is being generated and written.
struct Work<'a> {
    common: &'a Common,
    made: &'a Generated,
    threads: usize,
    /// True if the graph is built on disk.
    external: bool,
    bar: ProgressBar,
}

impl<'a> Work<'a> {
    fn begin(common: &'a Common, made: &'a Generated, output: &Output) -> Result<Self, Failure> {
        let bar = bar(common.json, output);
        interrupt::remove_at_once(bar.clone(), &common.out)?;
        let drawn = made.shape().pairs.saturating_mul(2).saturating_mul(BYTES_PER_EDGE);
        let needed = drawn.saturating_add(common.vertices * BYTES_PER_VERTEX);
        let external = needed > common.memory;
        Ok(Self { common, made, threads: common.threads(), external, bar })
    }

    fn write(&self, division: Division) -> Result<(Written, Split), Failure> {
        let planted = self.made.planted();
        let labelled = || {
            let labels = planted.labels();
            let split = planted.split(&labels, division);
            (labels, split)
        };
        if self.common.arrays {
            return self.arrays(labelled);
        }
        let out = &self.common.out;
        let mut writer = store::Writer::create(out)?;
        let started = Instant::now();
        self.graph(&mut writer)?;
        let graph_seconds = started.elapsed().as_secs_f64();
        let (labels, split) = labelled();
        writer.labels(&labels)?;
        writer.split(&split)?;
        self.features(planted, &mut writer)?;
        writer.finish(&self.common.name())?;
        let description: Description = serde_json::from_slice(&std::fs::read(out.join(store::DESCRIPTION))?)?;
        Ok((Written { edges: description.edges, graph_seconds }, split))
    }

    fn watched(&self) -> Watched<'_> {
        Watched::new(self.made, &self.bar)
    }

    /// Builds the graph into a store.
    fn graph(&self, writer: &mut store::Writer) -> Result<(), Failure> {
        let watched = self.watched();
        if self.external {
            build::external(&watched, Options::default(), self.common.memory, self.threads, writer)?;
        } else {
            writer.graph(&build::in_memory(&watched, Options::default(), self.threads)?)?;
        }
        Ok(())
    }

    /// Returns the features of vertices that have none: each vertex has a column of its own.
    fn identity(&self) -> Features {
        Features::identity(self.made.planted().vertices() as u32)
    }

    fn features(&self, planted: &Planted, writer: &mut store::Writer) -> Result<(), Failure> {
        if planted.columns() == 0 {
            return Ok(writer.features(&self.identity())?);
        }
        let mut rows = writer.rows(planted.columns())?;
        let mut wrote = self.wrote();
        planted.feature_pieces(self.threads, &mut |piece| {
            wrote(piece.len() as u64 * 4)?;
            rows.write(piece)
        })?;
        Ok(rows.finish()?)
    }

    fn arrays(&self, labelled: impl FnOnce() -> (Labels, Split)) -> Result<(Written, Split), Failure> {
        let out = &self.common.out;
        let folder = Unnamed::create(out)?;
        let started = Instant::now();
        let (graph, labels, split);
        let graph_seconds;
        if self.external {
            // The graph is mapped from a store, which is removed together with the folder.
            let place = folder.folder.path().join("store");
            let mut writer = store::Writer::create(&place)?;
            self.graph(&mut writer)?;
            graph_seconds = started.elapsed().as_secs_f64();
            (labels, split) = labelled();
            writer.labels(&labels)?;
            writer.split(&split)?;
            writer.features(&self.identity())?;
            writer.finish("generated")?;
            graph = store::open(&place)?.graph;
        } else {
            graph = build::in_memory(&self.watched(), Options::default(), self.threads)?;
            graph_seconds = started.elapsed().as_secs_f64();
            (labels, split) = labelled();
        }
        let name = &self.common.name();
        let arrays = Arrays { name, made: self.made, graph: &graph, labels: &labels, split: &split };
        let place = folder.folder.path().join("arrays");
        std::fs::create_dir(&place)?;
        write_arrays(&place, &arrays, self.threads, &mut self.wrote())?;
        folder.rename(&place, out)?;
        Ok((Written { edges: graph.edges(), graph_seconds }, split))
    }

    /// Returns a function that counts written bytes and shows their number.
    fn wrote(&self) -> impl FnMut(u64) -> eciton_graph::error::Result<()> {
        let (bar, mut bytes) = (self.bar.clone(), 0);
        move |more| {
            bytes += more;
            bar.set_message(format!("{} written", text::bytes(bytes)));
            Ok(())
        }
    }
}

/// Temporary folder next to the result. It is removed when dropped; `rename` moves the result out
/// of it.
struct Unnamed {
    folder: tempfile::TempDir,
}

impl Unnamed {
    fn create(out: &Path) -> Result<Self, Failure> {
        vacant(out)?;
        let parent = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        std::fs::create_dir_all(parent)?;
        let folder = tempfile::Builder::new().prefix(&format!(".{name}.partial-")).tempdir_in(parent)?;
        Ok(Self { folder })
    }

    fn rename(self, place: &Path, out: &Path) -> Result<(), Failure> {
        vacant(out)?;
        std::fs::rename(place, out).map_err(|source| Error::Write { path: out.to_owned(), source })?;
        Ok(())
    }
}

fn vacant(out: &Path) -> Result<(), Failure> {
    if out.file_name().is_none() {
        return Err(Failure::Usage(format!("{} is no name of a folder", out.display())));
    }
    if out.symlink_metadata().is_ok() {
        let problem = "exists already; remove it or choose another name";
        return Err(Error::Exists { path: out.to_owned(), problem }.into());
    }
    Ok(())
}

/// Edge source that shows the number of pairs read.
struct Watched<'a> {
    source: &'a dyn EdgeSource,
    bar: &'a ProgressBar,
    read: AtomicU64,
}

impl<'a> Watched<'a> {
    fn new(source: &'a dyn EdgeSource, bar: &'a ProgressBar) -> Self {
        Self { source, bar, read: AtomicU64::new(0) }
    }
}

impl EdgeSource for Watched<'_> {
    fn vertices(&self) -> u64 {
        self.source.vertices()
    }

    fn chunks(&self) -> u64 {
        self.source.chunks()
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> eciton_graph::error::Result<()> {
        let before = edges.len();
        self.source.read(chunk, edges)?;
        let more = (edges.len() - before) as u64;
        let read = self.read.fetch_add(more, Ordering::Relaxed) + more;
        self.bar.set_message(format!("{} pairs drawn", grouped(read)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes() {
        assert_eq!(
            (count("1_000_000"), count("7").is_ok(), count("x").is_ok()),
            (Ok(1_000_000), true, false)
        );
        assert_eq!((list::<2>("0.6, 0.2"), list::<4>("1,2,3").is_ok()), (Ok([0.6, 0.2]), false));
        assert!(list::<2>("1,x").is_err());
        assert_eq!(["20,40", "1_000", "7, 8"].map(span), [Ok([20, 40]), Ok([1000, 1000]), Ok([7, 8])]);
        assert!(["", "20..40", "1,2,3", "4,", "-1"].iter().all(|text| span(text).is_err()));
        let sizes = ["8GiB", "500MB", "12", "1 KiB"].map(|text| size(text).unwrap_or(0));
        assert_eq!(sizes, [8 << 30, 500_000_000, 12, 1024]);
        assert!(["", "GiB", "8gb", "-1", "99999999999TiB", "1.5GiB"].iter().all(|text| size(text).is_err()));
    }
}
