//! The command `eciton data generate`, which generates data sets of any size from a random seed.
//! Their labels can be learned by a model.

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

/// Default number of directed edges per vertex of a generated graph.
const EDGES_PER_VERTEX: u64 = 20;
/// Memory that an in-memory build needs for each directed edge that is drawn, in bytes. Duplicate
/// edges count as well.
const BYTES_PER_EDGE: u64 = 12;
/// Memory that an in-memory build needs for each vertex, in bytes. It covers offsets, label and
/// index in the split.
const BYTES_PER_VERTEX: u64 = 24;

/// Subcommands of `eciton data generate`. The comment of a variant is its help text.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Generate a graph with classes and power-law degrees (degree-corrected block model, Karrer
    /// and Newman 2011)
    BlockModel(BlockModelArguments),
    /// Generate a graph with classes and skewed degrees (R-MAT, Chakrabarti, Zhan and Faloutsos
    /// 2004)
    Rmat(RmatArguments),
    /// Generate many small graphs with a class each: random, preferential attachment, small world,
    /// cliques
    Graphs(many::Arguments),
    /// Generate tabular data whose class is a linear function of the features
    Linear(rows::LinearArguments),
    /// Generate tabular data of users, items and numbers, for two-tower recommenders
    Towers(rows::TowerArguments),
    /// Generate programs labelled with their results, for networks that learn to execute programs
    Programs(programs::Arguments),
    /// Generate images of lines, some of which form closed outlines, for convolutions on a graph
    Lines(lines::Arguments),
}

/// Arguments of `eciton data generate block-model`.
#[derive(Debug, clap::Args)]
pub(crate) struct BlockModelArguments {
    /// Exponent of the power law of the degrees
    #[arg(long, value_name = "X", default_value_t = 2.2, allow_negative_numbers = true)]
    exponent: f64,
    /// Ratio of the highest to the lowest expected degree
    #[arg(long, value_name = "X", default_value_t = 60.0, allow_negative_numbers = true)]
    cap: f64,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `eciton data generate rmat`.
#[derive(Debug, clap::Args)]
pub(crate) struct RmatArguments {
    /// Probabilities of the four quadrants, which must add up to 1
    #[arg(long, value_name = "A,B,C,D", default_value = "0.57,0.19,0.19,0.05", value_parser = list::<4>,
        allow_hyphen_values = true)]
    quadrants: [f64; 4],
    #[command(flatten)]
    common: Common,
}

/// Arguments of both graph models, `block-model` and `rmat`.
#[derive(Debug, clap::Args)]
struct Common {
    /// Folder to write, which must not exist
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number of vertices
    #[arg(long, value_name = "N", default_value = "10000", value_parser = count)]
    vertices: u64,
    /// Approximate number of directed edges, without duplicates and self-loops [default: 20 per
    /// vertex]
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "pairs")]
    edges: Option<u64>,
    /// Number of undirected pairs to draw, instead of --edges
    #[arg(long, value_name = "N", value_parser = count)]
    pairs: Option<u64>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Number the vertices by descending expected degree instead of at random
    #[arg(long)]
    no_scramble: bool,

    /// Number of classes
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Task")]
    classes: u32,
    /// Number of binary labels per vertex to predict instead of its class; each holds for half of
    /// the classes
    #[arg(long, value_name = "N", conflicts_with = "numbers", help_heading = "Task")]
    labels: Option<u32>,
    /// Number of numeric targets per vertex to predict instead of its class; each is a constant of
    /// the class plus noise
    #[arg(long, value_name = "N", help_heading = "Task")]
    numbers: Option<u32>,
    /// Standard deviation of the noise of --numbers
    #[arg(
        long,
        value_name = "NOISE",
        default_value_t = 0.1,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    noise: f32,
    /// Share of pairs whose two vertices are drawn from the same class
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.6,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    p_in: f64,
    /// Number of features; with 0, each vertex has a one-hot feature of its own
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Task")]
    features: u32,
    /// Standard deviation of the mean features of classes; the noise has 1
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.1,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    feature_scale: f32,
    /// Share of labels that are replaced by random ones
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    flip: f64,
    /// Shares of training and validation vertices; the remaining vertices are test vertices
    #[arg(long, value_name = "TRAIN,VAL", default_value = "0.6,0.2", value_parser = list::<2>,
        allow_hyphen_values = true, help_heading = "Task")]
    split: [f64; 2],
    /// Numbers of training and validation vertices per class, instead of --split
    #[arg(long, value_name = "TRAIN,VAL", value_parser = list::<2>, conflicts_with = "split",
        help_heading = "Task")]
    per_class: Option<[f64; 2]>,

    /// Write .npy arrays for other tools instead of a store
    #[arg(long, help_heading = "Output")]
    arrays: bool,
    /// Name of the data set [default: last component of OUT]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    name: Option<String>,
    /// Memory limit for building the graph; a larger graph is built on disk, next to OUT
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = size, help_heading = "Output")]
    memory: u64,
    /// Number of threads; does not change the result [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024),
        help_heading = "Output")]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Parses a whole number. Digits may be grouped with underscores.
fn count(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    digits.parse().map_err(|_| "expected a whole number (below 2^64)".to_owned())
}

/// Parses a minimum and a maximum as two whole numbers separated by a comma. A single number is
/// used for both.
fn span(text: &str) -> Result<[u64; 2], String> {
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let wrong = |_| "expected a whole number, or two separated by a comma".to_owned();
    let number = |text: &str| count(text.trim()).map_err(wrong);
    Ok([number(least)?, number(most)?])
}

/// Parses exactly `N` numbers separated by commas.
fn list<const N: usize>(text: &str) -> Result<[f64; N], String> {
    let wrong = || format!("expected {N} numbers separated by commas");
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    numbers.map_err(|_| wrong())?.try_into().map_err(|_| wrong())
}

/// Parses a size in bytes, which is a whole number with an optional unit, for instance `8GiB` or
/// `500MB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size such as 8GiB or 500MB".to_owned();
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
    /// Returns the arguments as the shape of the graph to generate.
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

    /// Returns the kind of labels to generate: a class, binary labels or numbers.
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

/// Returns the number of threads from `--threads`, or the number of cores if it is not given.
fn threads(asked: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(all, usize::from)
}

/// Returns the data set's name from `--name`, or the last component of the output path if it is not
/// given.
fn name(asked: Option<&String>, out: &Path) -> String {
    let last = || out.file_name().map_or_else(|| "generated".into(), |name| name.to_string_lossy().into());
    asked.cloned().unwrap_or_else(last)
}

/// Returns the division into training, validation and test rows. `--per-class` takes precedence
/// over `--split`.
///
/// # Errors
/// Returns [`Failure::Usage`] if a count of `--per-class` is not a whole number. Also returns it if
/// a share of `--split`, or their sum, is not in the range 0 to 1.
fn division(split: [f64; 2], per_class: Option<[f64; 2]>) -> Result<Division, Failure> {
    if let Some(numbers) = per_class {
        if numbers.iter().any(|n| n.fract() != 0.0 || !(0.0..=1e12).contains(n)) {
            let text = "--per-class: expected two whole numbers, of training and validation rows";
            return Err(Failure::Usage(text.to_owned()));
        }
        return Ok(Division::PerClass(numbers.map(|n| n as usize)));
    }
    let [train, validation] = split;
    let shares = [train, validation, train + validation];
    if shares.iter().any(|share| !(0.0..=1.0 + 1e-9).contains(share)) {
        let text = format!("--split {train},{validation}: each share and their sum must be from 0 to 1");
        return Err(Failure::Usage(text));
    }
    Ok(Division::Fractions(split))
}

/// Description of the generated graph, which `eciton data generate --json` prints.
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
    /// Upper bound on the accuracy of any model. It is the accuracy of a classifier that knows from
    /// which class each vertex was generated. With several binary labels, it is the share of
    /// correct labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_ceiling: Option<f64>,
    /// Accuracy of the best classifier that reads only the features of the vertex itself, and no
    /// edges.
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_features: Option<f64>,
    /// Lower bound on the root mean squared error of any model. It is the error of a model that
    /// knows from which class each vertex was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    rmse_floor: Option<f64>,
    seed: u64,
    threads: usize,
    built: &'static str,
    graph_seconds: f64,
    seconds: f64,
}

/// Generates a data set, writes it, and prints a description of it.
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

/// Prints the description of the graph as text, with one fact per line.
fn print(line: &Line<'_>, output: &mut Output) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<11} {text}"));
    row("written", format!("{} ({}, {})", line.out.display(), line.model, line.layout));
    row("vertices", grouped(line.vertices));
    let expected = grouped(line.expected_edges as u64);
    row(
        "edges",
        format!(
            "{} directed ({expected} expected from {})",
            grouped(line.edges),
            counted(line.pairs, "pair")
        ),
    );
    row("features", grouped(line.features.into()));
    row("classes", grouped(line.classes.into()));
    let [train, validation, test] = [line.train, line.validation, line.test].map(|size| grouped(size as u64));
    row("split", format!("{train} train, {validation} validation, {test} test"));
    let most = percent(line.accuracy_ceiling);
    match (line.accuracy_features, line.labels, line.numbers) {
        (Some(own), _, _) => {
            let own = percent(Some(own));
            row("accuracy", format!("{own} % without the graph, upper bound {most} %"));
        }
        (None, Some(labels), _) => {
            row("labels", format!("{labels} per vertex; upper bound of the accuracy {most} %"));
        }
        (None, None, numbers) => {
            let (numbers, least) = (numbers.unwrap_or(0), line.rmse_floor.unwrap_or(0.0) as f32);
            row(
                "numbers",
                format!("{numbers} per vertex; lower bound of the root mean squared error {least}"),
            );
        }
    }
    let threads = counted(line.threads as u64, "thread");
    let (graph, all) = (seconds(line.graph_seconds), seconds(line.seconds));
    row("time", format!("{all}, including {graph} for the graph ({}, {threads})", line.built));
}

/// Fields of a store's description file that the printed description needs.
#[derive(serde::Deserialize)]
struct Description {
    edges: u64,
}

/// Number of edges of the written graph, and the time that its build took, in seconds.
struct Written {
    edges: u64,
    graph_seconds: f64,
}

/// Returns a progress line. It is hidden with `--json`, or if the output is not a terminal.
fn bar(json: bool, output: &Output) -> ProgressBar {
    let shown = !json && progress::drawable(output);
    let bar = if shown { Bar::unstarted() } else { ProgressBar::hidden() };
    if let Ok(style) = indicatif::ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// State of the generation of one graph.
struct Work<'a> {
    common: &'a Common,
    made: &'a Generated,
    threads: usize,
    /// True if the graph is built on disk, because it exceeds the limit of `--memory`.
    external: bool,
    bar: ProgressBar,
}

impl<'a> Work<'a> {
    /// Starts the progress line and the signal handling, and decides whether the graph is built in
    /// memory or on disk.
    fn begin(common: &'a Common, made: &'a Generated, output: &Output) -> Result<Self, Failure> {
        let bar = bar(common.json, output);
        interrupt::remove_at_once(bar.clone(), &common.out)?;
        let drawn = made.shape().pairs.saturating_mul(2).saturating_mul(BYTES_PER_EDGE);
        let needed = drawn.saturating_add(common.vertices * BYTES_PER_VERTEX);
        let external = needed > common.memory;
        Ok(Self { common, made, threads: common.threads(), external, bar })
    }

    /// Generates the data set, and writes it as a store or as arrays. Returns the size of the graph
    /// and the split.
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

    /// Builds the graph in memory or on disk, and passes it to the writer of a store.
    fn graph(&self, writer: &mut store::Writer) -> Result<(), Failure> {
        let watched = self.watched();
        if self.external {
            build::external(&watched, Options::default(), self.common.memory, self.threads, writer)?;
        } else {
            writer.graph(&build::in_memory(&watched, Options::default(), self.threads)?)?;
        }
        Ok(())
    }

    /// Returns one-hot features with a column for each vertex, which `--features 0` selects.
    fn identity(&self) -> Features {
        Features::identity(self.made.planted().vertices() as u32)
    }

    /// Generates the features in blocks, and passes them to the writer of a store.
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

    /// Generates the data set, and writes it as `.npy` arrays for other tools.
    fn arrays(&self, labelled: impl FnOnce() -> (Labels, Split)) -> Result<(Written, Split), Failure> {
        let out = &self.common.out;
        let folder = Unnamed::create(out)?;
        let started = Instant::now();
        let (graph, labels, split);
        let graph_seconds;
        if self.external {
            // The graph is mapped from a store, which is removed together with the folder.
            let path = folder.folder.path().join("store");
            let mut writer = store::Writer::create(&path)?;
            self.graph(&mut writer)?;
            graph_seconds = started.elapsed().as_secs_f64();
            (labels, split) = labelled();
            writer.labels(&labels)?;
            writer.split(&split)?;
            writer.features(&self.identity())?;
            writer.finish("generated")?;
            graph = store::open(&path)?.graph;
        } else {
            graph = build::in_memory(&self.watched(), Options::default(), self.threads)?;
            graph_seconds = started.elapsed().as_secs_f64();
            (labels, split) = labelled();
        }
        let name = &self.common.name();
        let arrays = Arrays { name, made: self.made, graph: &graph, labels: &labels, split: &split };
        let path = folder.folder.path().join("arrays");
        std::fs::create_dir(&path)?;
        write_arrays(&path, &arrays, self.threads, &mut self.wrote())?;
        folder.rename(&path, out)?;
        Ok((Written { edges: graph.edges(), graph_seconds }, split))
    }

    /// Returns a callback that receives the size of each written block, in bytes. It shows the sum
    /// in the progress line.
    fn wrote(&self) -> impl FnMut(u64) -> eciton_graph::error::Result<()> {
        let (bar, mut bytes) = (self.bar.clone(), 0);
        move |more| {
            bytes += more;
            bar.set_message(format!("{} written", text::bytes(bytes)));
            Ok(())
        }
    }
}

/// Temporary folder next to the output path, for an incomplete result. [`Unnamed::rename`] moves
/// the complete result to the output path. The folder is removed when this value is dropped.
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

    fn rename(self, path: &Path, out: &Path) -> Result<(), Failure> {
        vacant(out)?;
        std::fs::rename(path, out).map_err(|source| Error::Write { path: out.to_owned(), source })?;
        Ok(())
    }
}

/// Returns an error if the output path exists, or is not a valid name of a folder.
fn vacant(out: &Path) -> Result<(), Failure> {
    if out.file_name().is_none() {
        return Err(Failure::Usage(format!("{} is not a valid folder name", out.display())));
    }
    if out.symlink_metadata().is_ok() {
        let problem = "already exists; remove it or choose another name";
        return Err(Error::Exists { path: out.to_owned(), problem }.into());
    }
    Ok(())
}

/// An edge source that shows the number of pairs drawn so far in a progress line.
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
