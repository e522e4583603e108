//! The command `eciton data`, which lists, describes, converts, generates and fetches data sets.

mod convert;
mod fetch;
mod generate;
mod init;
mod partition;
mod report;
mod stat;

use eciton_graph::dataset::Dataset;
use eciton_graph::stat::{FlagStatistics, GraphStatistics, NumberStatistics, Statistics};
use eciton_input::text::cut;
use eciton_recipe::{Data, NormaliseFeatures, SelfLoops, TaskType};
use eciton_train::task;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use generate::size;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{counted, grouped, percent};

/// Maximum number of classes, columns and names that `eciton data stat` prints as text. With
/// `--json`, all are printed.
const MAX_CLASSES: usize = 12;

/// Subcommands of `eciton data`. The comment of a variant is its help text.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the built-in data sets, and the file formats and folder layouts that can be read
    List(ListArguments),
    /// Show size, degrees, features, classes and split of a data set, and notes on how it was read
    Stat(StatArguments),
    /// Write a data.toml with the detected use of each column of tables, for editing
    Init(init::Arguments),
    /// Convert a data set into a store, which runs memory-map; it may be larger than memory
    Convert(convert::Arguments),
    /// Write a store in which the rows of each host are together, for `train --hosts`
    Partition(partition::Arguments),
    /// Generate a synthetic data set of any size from a random seed
    #[command(subcommand)]
    Generate(generate::Command),
    /// Download published data sets by name, verify them, and cache them for later commands
    Fetch(fetch::Arguments),
}

/// Arguments of `eciton data list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Arguments of `eciton data stat`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatArguments {
    /// Name or path of a data set
    #[arg(value_name = "DATASET|PATH")]
    source: String,
    /// Name of the data set within a folder that holds several
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Column of a table with the labels [default: label, target, class or y, else the last column]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Treatment of self-loops: drop or keep [default: drop; for a store, as converted]
    #[arg(long, value_name = "drop|keep", value_parser = self_loops)]
    self_loops: Option<SelfLoops>,
    /// Measure the speed of gathers with each vertex order; takes up to about 20 s
    #[arg(long)]
    orders: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Parses the value of `--self-loops`, which is `drop` or `keep`.
fn self_loops(word: &str) -> Result<SelfLoops, String> {
    let found = SelfLoops::ALL.iter().find(|(name, _)| *name == word);
    found.map(|&(_, decision)| decision).ok_or_else(|| "expected drop or keep".to_owned())
}

const LAYOUTS: &str = "\
Instead of a name, give a path to one of these files or folders.

Files:
  FILE.npz       arrays named as in gnn-benchmark, GraphData or the heterophilous data sets
  FILE.mtx       MatrixMarket
  FILE.graph, FILE.metis
                 METIS
  FILE.gml, FILE.graphml, FILE.json
                 graph of networkx, igraph, Gephi or d3, with node and edge attributes
  FILE.csv       table with a label column; columns of numbers, words, dates or truth values;
                 empty cells are allowed
  FILE.parquet, FILE.feather
                 the same table, in builds with `--features parquet` and in Python wheels
  FILE.txt, .edges, .edgelist, .el, .tsv, .snap
                 edge list in the format of SNAP, with any vertex ids
  Optional .csv files of features, labels and split may be next to a graph file.

Folders with:
  store.json                               store by `data convert` or `data generate`
  raw/edge.csv.gz or raw/data.npz          OGB
  ind.NAME.graph and ind.NAME.*            Planetoid
  NAME_edges.csv, NAME_target.csv, NAME.json
                                           MUSAE
  NAME_A.txt, NAME_graph_indicator.txt, ...
                                           TU (many graphs)
  edges.csv                                tables; optional: nodes.csv or features.csv, labels.csv,
                                           split.csv, graphs.csv (id,graph: many graphs). Numeric
                                           columns of edges.csv are edge features
  a table of edges and a table of nodes    tables under other names
  one of the graph files above             optional: features, labels and split as .csv
  indptr.npy, indices.npy, feat.npy, label.npy
                                           arrays
  several .npz files                       choose one with --name NAME

Text files may be compressed with gzip.";

/// Runs the selected subcommand of `eciton data`.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list(arguments, output),
        Command::Stat(arguments) => stat(arguments, output)?,
        Command::Init(arguments) => init::run(arguments, output)?,
        Command::Convert(arguments) => convert::run(arguments, output)?,
        Command::Partition(arguments) => partition::run(arguments, output)?,
        Command::Generate(command) => generate::run(command, output)?,
        Command::Fetch(arguments) => fetch::run(arguments, output)?,
    }
    Ok(())
}

/// Description of a built-in data set, which `eciton data list --json` prints.
#[derive(Serialize)]
struct Listed {
    event: &'static str,
    name: &'static str,
    description: &'static str,
}

/// Prints the built-in data sets, followed by the supported file formats and folder layouts.
fn list(arguments: &ListArguments, output: &mut Output) {
    for known in eciton_formats::builtins() {
        if arguments.json {
            output.json(&Listed { event: "dataset", name: known.name, description: known.description });
        } else {
            output.line(format_args!("{:<10} {}", known.name, known.description));
        }
    }
    if !arguments.json {
        output.line("");
        output.line(LAYOUTS);
        output.line("");
        output.line("`eciton data fetch --list` lists published data sets that can be downloaded.");
    }
}

/// Statistics of a data set, which `eciton data stat --json` prints.
#[derive(Serialize)]
struct StatLine<'a> {
    event: &'static str,
    dataset: &'a str,
    vertices: u32,
    edges: u64,
    symmetric: bool,
    degree_min: u32,
    degree_median: u32,
    degree_max: u32,
    isolated: u32,
    features: u32,
    sparse: bool,
    density: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    edge_features: Vec<Value>,
    task: &'static str,
    classes: u32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    class_counts: &'a [u64],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    label_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    feature_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    edge_feature_names: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<Value>,
    unlabelled: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    graphs: Option<Value>,
    train: usize,
    validation: usize,
    test: usize,
    homophily: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    survey: Option<stat::Orders>,
    report: Vec<report::Line>,
}

/// Reads a data set. Prints statistics of the data set, and a report about how it was read.
fn stat(arguments: &StatArguments, output: &mut Output) -> Result<(), Failure> {
    let source = arguments.source.clone();
    let data = Data {
        source,
        name: arguments.name.clone(),
        normalise_features: Some(NormaliseFeatures::None),
        self_loops: arguments.self_loops,
        label: arguments.label.clone(),
        ..Data::default()
    };
    let dataset = eciton_train::load(&data)?;
    let report = report::take();
    let statistics = Statistics::from_dataset(&dataset);
    let survey = || stat::survey(&dataset.graph);
    if !arguments.json {
        print(&dataset, &statistics, output);
        report::print(&report, output);
        if arguments.orders {
            output.flush();
            stat::print(&survey()?, statistics.edges, output);
        }
        return Ok(());
    }
    let [train, validation, test] = statistics.split;
    output.json(&StatLine {
        event: "statistics",
        dataset: &dataset.name,
        vertices: statistics.vertices,
        edges: statistics.edges,
        symmetric: statistics.symmetric,
        degree_min: statistics.degree_min,
        degree_median: statistics.degree_median,
        degree_max: statistics.degree_max,
        isolated: statistics.isolated,
        features: statistics.features,
        sparse: statistics.sparse,
        density: statistics.density,
        edge_features: statistics.edge_features.iter().map(number).collect(),
        task: task(&dataset.labels).name(),
        classes: dataset.labels.width(),
        class_counts: &statistics.class_counts,
        label_names: &dataset.names.labels,
        feature_names: &dataset.names.features,
        edge_feature_names: &dataset.names.edge_features,
        labels: columns(&statistics),
        unlabelled: statistics.unlabelled,
        graphs: statistics.graphs.as_ref().map(graphs),
        train,
        validation,
        test,
        homophily: statistics.homophily,
        survey: arguments.orders.then(survey).transpose()?,
        report,
    });
    Ok(())
}

/// Returns statistics of each column of binary labels or numeric targets, as JSON. The result is
/// empty for class labels.
fn columns(statistics: &Statistics) -> Vec<Value> {
    let flags = statistics.flags.iter().map(|flag| json!({"known": flag.known, "holds": flag.holds}));
    flags.chain(statistics.numbers.iter().map(number)).collect()
}

/// Returns the number of graphs in a data set of many graphs, and their sizes, as JSON.
fn graphs(of: &GraphStatistics) -> Value {
    json!({
        "count": of.count, "vertices_min": of.vertices_min, "vertices_median": of.vertices_median,
        "vertices_max": of.vertices_max, "edges_median": of.edges_median,
    })
}

/// Returns the mean, standard deviation and range of a numeric column, as JSON.
fn number(of: &NumberStatistics) -> Value {
    let (least, largest) = (of.least, of.largest);
    json!({"known": of.known, "mean": of.mean, "std": of.deviation, "least": least, "largest": largest})
}

/// Returns the text `figure` for the column at index `at`, preceded by the column's name if it has
/// one.
fn named(names: &[String], at: usize, figure: &str) -> String {
    names.get(at).map_or_else(|| figure.to_owned(), |name| format!("{} {figure}", cut(name, 32)))
}

/// Returns statistics of the edge features as text, for instance `1 column: km 0.5..3.2, mean 1.1`.
fn edge_features(columns: &[NumberStatistics], names: &[String]) -> String {
    let of = |(at, of): (usize, &NumberStatistics)| {
        named(names, at, &format!("{}..{}, mean {:.4}", of.least, of.largest, of.mean))
    };
    let shown = columns.iter().enumerate().take(MAX_CLASSES).map(of).collect::<Vec<_>>().join("; ");
    let more = if columns.len() > MAX_CLASSES { "; ..." } else { "" };
    format!("{}: {shown}{more}", counted(columns.len() as u64, "column"))
}

/// Returns the name and the text of the output line about the labels. The text has class sizes,
/// shares of positive labels, or statistics of numeric targets.
fn labels(dataset: &Dataset, statistics: &Statistics) -> (&'static str, String) {
    let shown = |all: Vec<String>, separator: &str| {
        let more = if all.len() > MAX_CLASSES { format!("{separator}...") } else { String::new() };
        all[..all.len().min(MAX_CLASSES)].join(separator) + &more
    };
    let (count, names) = (dataset.labels.width(), &dataset.names.labels);
    let named = |(at, figure): (usize, String)| named(names, at, &figure);
    let separator = if names.is_empty() { " " } else { ", " };
    match task(&dataset.labels) {
        TaskType::Classification | TaskType::LinkPrediction => {
            let sizes = statistics.class_counts.iter().map(|&size| grouped(size));
            ("classes", format!("{count}: {}", shown(sizes.enumerate().map(named).collect(), separator)))
        }
        TaskType::MultiLabel => {
            let share = |of: &FlagStatistics| (of.known > 0).then(|| of.holds as f64 / of.known as f64);
            let shares = statistics.flags.iter().map(|of| percent(share(of)));
            let shares = shown(shares.enumerate().map(named).collect(), separator);
            ("labels", format!("{count}; share of positive rows in %: {shares}"))
        }
        TaskType::Regression => {
            let of = |of: &NumberStatistics| {
                format!("{:.4} \u{b1} {:.4}, {} to {}", of.mean, of.deviation, of.least, of.largest)
            };
            let all = statistics.numbers.iter().map(of).enumerate().map(named).collect();
            ("target values", format!("{count}: {}", shown(all, "; ")))
        }
    }
}

/// Prints the statistics of a data set as text, with one fact per line.
fn print(dataset: &Dataset, statistics: &Statistics, output: &mut Output) {
    let count = |value: u32| grouped(u64::from(value));
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<13} {text}"));
    let symmetry = if statistics.symmetric { "symmetric" } else { "not symmetric" };
    let storage = if statistics.sparse { "stored sparse" } else { "stored dense" };
    let [train, validation, test] = statistics.split.map(|size| grouped(size as u64));
    row("data set", dataset.name.clone());
    let rows = statistics.edges == 0 && dataset.graphs.is_none();
    if rows {
        row("graph", "none (tabular data; suits `--model mlp`)".to_owned());
    }
    row(
        "vertices",
        format!("{}, {} without in-edges", count(statistics.vertices), count(statistics.isolated)),
    );
    if !rows {
        row("edges", format!("{} directed, {symmetry}", grouped(statistics.edges)));
    }
    if let Some(of) = &statistics.graphs {
        let (least, largest, median) = (of.vertices_min, of.vertices_max, of.vertices_median);
        let sizes = format!("of {} to {} vertices, median {}", count(least), count(largest), count(median));
        row("graphs", format!("{}, {sizes}", count(of.count)));
    }
    if !rows {
        row(
            "in-degree",
            format!(
                "{} to {}, median {}",
                count(statistics.degree_min),
                count(statistics.degree_max),
                count(statistics.degree_median)
            ),
        );
    }
    row(
        "features",
        format!(
            "{}, {} % non-zero, {storage}",
            count(statistics.features),
            percent(Some(statistics.density))
        ),
    );
    if !dataset.names.features.is_empty() {
        let names = &dataset.names.features;
        let shown: Vec<String> = names.iter().take(MAX_CLASSES).map(|name| cut(name, 32)).collect();
        let more = if names.len() > MAX_CLASSES { ", ..." } else { "" };
        row("", format!("{}{more}", shown.join(", ")));
    }
    if !statistics.edge_features.is_empty() {
        row("edge features", edge_features(&statistics.edge_features, &dataset.names.edge_features));
    }
    let (name, text) = labels(dataset, statistics);
    row(name, text);
    row("unlabelled", grouped(statistics.unlabelled));
    row("split", format!("{train} train, {validation} validation, {test} test"));
    let alike = statistics.homophily.map_or("-".to_owned(), |share| format!("{} %", percent(Some(share))));
    if task(&dataset.labels) == TaskType::Classification && dataset.graphs.is_none() && !rows {
        row("homophily", format!("{alike} of edges connect vertices of equal label"));
    }
}
