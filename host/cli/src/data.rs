//! `eciton data`: lists the built-in data sets, and describes one.

mod convert;
mod fetch;
mod generate;
mod init;
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

/// Maximum number of classes and columns that are printed. `--json` prints all.
const MAX_CLASSES: usize = 12;

/// `eciton data ...`
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// The data sets that need no file, and the layouts that a path may have
    List(ListArguments),
    /// Size, degrees, features, classes and split of a data set, and the reading report
    Stat(StatArguments),
    /// A data.toml with the use of each column of a folder's tables, to be edited
    Init(init::Arguments),
    /// Any data set as a store: checked once, mapped by later runs, larger than memory if need be
    Convert(convert::Arguments),
    /// A graph of any size from a seed, with something to learn
    #[command(subcommand)]
    Generate(generate::Command),
    /// Published data sets by name, checked, into a cache where `train` and `stat` find them
    Fetch(fetch::Arguments),
}

/// `eciton data list`
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// `eciton data stat`
#[derive(Debug, clap::Args)]
pub(crate) struct StatArguments {
    /// A data set's name, or a path to one
    #[arg(value_name = "DATASET|PATH")]
    source: String,
    /// Name of the data set, if a folder holds several
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Column of a table that holds the labels [default: label, target, class or y, else the last column]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Edges from a vertex to itself: drop or keep [default: drop; of a store, those that it has]
    #[arg(long, value_name = "drop|keep", value_parser = self_loops)]
    self_loops: Option<SelfLoops>,
    /// Measure what each vertex order would gain: up to about 20 s
    #[arg(long)]
    orders: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads the value of `--self-loops`.
fn self_loops(word: &str) -> Result<SelfLoops, String> {
    let found = SelfLoops::ALL.iter().find(|(name, _)| *name == word);
    found.map(|&(_, decision)| decision).ok_or_else(|| "expected drop or keep".to_owned())
}

const LAYOUTS: &str = "\
A path works in place of a name:
  FILE.npz       arrays as gnn-benchmark, GraphData or the heterophilous sets name them
  FILE.mtx       MatrixMarket; FILE.graph, FILE.metis: METIS
  FILE.gml, FILE.graphml, FILE.json
                 documents of networkx, igraph, Gephi and d3, with attributes of nodes and edges
  FILE.csv       a table of rows, with a column for labels; columns may hold numbers, words, dates
                 and truth values, and have gaps
  FILE.parquet, FILE.feather
                 the same, in builds with `--features parquet`, which wheels are
  FILE.txt       an edge list as SNAP has them, with any ids (.edges .edgelist .el .tsv .snap)
                 and beside a graph file, if there are, features, labels and split as .csv
  FOLDER with
    store.json (what `data convert` and `data generate` write)
    raw/edge.csv.gz or raw/data.npz (OGB)
    ind.NAME.graph and ind.NAME.* (Planetoid)
    NAME_edges.csv, NAME_target.csv, NAME.json (MUSAE)
    NAME_A.txt, NAME_graph_indicator.txt, ... (TU: many graphs)
    edges.csv and, if there are, nodes or features, labels and split as .csv; further columns of
                   numbers in edges.csv are features of edges; with graphs.csv (id,graph) many graphs
    a table of edges and one of nodes under other names
    one of the graph files above, and features, labels and split beside it
    indptr.npy, indices.npy, feat.npy, label.npy
    several .npz files
  Texts may be packed with gzip.
  --name NAME chooses where a folder holds several.";

/// Runs the command.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list(arguments, output),
        Command::Stat(arguments) => stat(arguments, output)?,
        Command::Init(arguments) => init::run(arguments, output)?,
        Command::Convert(arguments) => convert::run(arguments, output)?,
        Command::Generate(command) => generate::run(command, output)?,
        Command::Fetch(arguments) => fetch::run(arguments, output)?,
    }
    Ok(())
}

#[derive(Serialize)]
struct Listed {
    event: &'static str,
    name: &'static str,
    description: &'static str,
}

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
        output.line("`eciton data fetch --list` names published sets that it downloads.");
    }
}

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

/// Returns statistics of each column of labels that are not classes, as JSON.
fn columns(statistics: &Statistics) -> Vec<Value> {
    let flags = statistics.flags.iter().map(|flag| json!({"known": flag.known, "holds": flag.holds}));
    flags.chain(statistics.numbers.iter().map(number)).collect()
}

fn graphs(of: &GraphStatistics) -> Value {
    json!({
        "count": of.count, "vertices_min": of.vertices_min, "vertices_median": of.vertices_median,
        "vertices_max": of.vertices_max, "edges_median": of.edges_median,
    })
}

fn number(of: &NumberStatistics) -> Value {
    let (least, largest) = (of.least, of.largest);
    json!({"known": of.known, "mean": of.mean, "std": of.deviation, "least": least, "largest": largest})
}

/// Returns a figure, after its name if it has one.
fn named(names: &[String], at: usize, figure: &str) -> String {
    names.get(at).map_or_else(|| figure.to_owned(), |name| format!("{} {figure}", cut(name, 32)))
}

/// Returns statistics of edge features as text, such as `1 column: km 0.5..3.2, mean 1.1`.
fn edge_features(columns: &[NumberStatistics], names: &[String]) -> String {
    let of = |(at, of): (usize, &NumberStatistics)| {
        named(names, at, &format!("{}..{}, mean {:.4}", of.least, of.largest, of.mean))
    };
    let shown = columns.iter().enumerate().take(MAX_CLASSES).map(of).collect::<Vec<_>>().join("; ");
    let more = if columns.len() > MAX_CLASSES { "; ..." } else { "" };
    format!("{}: {shown}{more}", counted(columns.len() as u64, "column"))
}

/// Returns the row about the labels: its name and its text.
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
            ("labels", format!("{count}, of which hold, in %: {shares}"))
        }
        TaskType::Regression => {
            let of = |of: &NumberStatistics| {
                format!("{:.4} \u{b1} {:.4}, {} to {}", of.mean, of.deviation, of.least, of.largest)
            };
            let all = statistics.numbers.iter().map(of).enumerate().map(named).collect();
            ("numbers", format!("{count}: {}", shown(all, "; ")))
        }
    }
}

fn print(dataset: &Dataset, statistics: &Statistics, output: &mut Output) {
    let count = |value: u32| grouped(u64::from(value));
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<13} {text}"));
    let symmetry = if statistics.symmetric { "each with its reverse" } else { "not all with their reverse" };
    let kept = if statistics.sparse { "kept as sparse rows" } else { "kept dense" };
    let [train, validation, test] = statistics.split.map(|size| grouped(size as u64));
    row("data set", dataset.name.clone());
    let rows = statistics.edges == 0 && dataset.graphs.is_none();
    if rows {
        row("graph", "none: rows without edges, for which `--model mlp` is made".to_owned());
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
        format!("{}, {} % not zero, {kept}", count(statistics.features), percent(Some(statistics.density))),
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
        row("homophily", format!("{alike} of edges join equal labels"));
    }
}
