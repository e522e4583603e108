//! The command `eciton data generate graphs`, which generates many small graphs, each with a class.

use std::path::{Path, PathBuf};
use std::time::Instant;

use eciton_graph::adjacency::Options;
use eciton_graph::build;
use eciton_graph::generate::ManyGraphs;
use eciton_graph::store;
use serde::Serialize;

use super::{Watched, bar, count, division, list, name, span, threads};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::text::{counted, grouped, percent, seconds};

/// Arguments of `eciton data generate graphs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder to write, which must not exist
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number of graphs
    #[arg(long, value_name = "N", default_value = "600", value_parser = count)]
    graphs: u64,
    /// Minimum and maximum number of vertices per graph, or one number; each vertex draws two links
    #[arg(long, value_name = "LEAST,MOST", default_value = "20,40", value_parser = span)]
    vertices: [u64; 2],
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Number of classes, 2 to 4: random graphs, preferential attachment, small worlds, rings of
    /// cliques
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Task")]
    classes: u32,
    /// Minimum and maximum share of links per graph that are replaced by random ones; a higher
    /// share makes the task harder
    #[arg(long, value_name = "LEAST,MOST", default_value = "0.2,0.6", value_parser = list::<2>,
        allow_hyphen_values = true, help_heading = "Task")]
    rewire: [f64; 2],
    /// Number of vertex kinds, one feature column each; with 0, all vertices have the feature 1
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Task")]
    features: u32,
    /// Share of vertices whose kind is that of the graph's class; the others have a random kind
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    p_own: f64,
    /// Share of labels that are replaced by random ones
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        allow_negative_numbers = true,
        help_heading = "Task"
    )]
    flip: f64,
    /// Shares of training and validation graphs; the remaining graphs are test graphs
    #[arg(long, value_name = "TRAIN,VAL", default_value = "0.6,0.2", value_parser = list::<2>,
        allow_hyphen_values = true, help_heading = "Task")]
    split: [f64; 2],
    /// Numbers of training and validation graphs per class, instead of --split
    #[arg(long, value_name = "TRAIN,VAL", value_parser = list::<2>, conflicts_with = "split",
        help_heading = "Task")]
    per_class: Option<[f64; 2]>,

    /// Name of the data set [default: last component of OUT]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    name: Option<String>,
    /// Number of threads; does not change the result [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024),
        help_heading = "Output")]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Description of the generated data set, which `eciton data generate graphs --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    out: &'a Path,
    model: &'static str,
    layout: &'static str,
    graphs: u32,
    vertices: u32,
    edges: u64,
    classes: u32,
    features: u32,
    train: usize,
    validation: usize,
    test: usize,
    /// Upper bound on the accuracy of any model. It is the accuracy of a classifier that knows from
    /// which class each graph was generated.
    accuracy_ceiling: f64,
    /// Accuracy of the best classifier that reads only vertex features, and no edges.
    accuracy_features: f64,
    seed: u64,
    threads: usize,
    seconds: f64,
}

/// Generates the graphs, writes them as a store, and prints a description of it.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let &Arguments { graphs, vertices, classes, rewire, features, p_own, flip, seed, .. } = arguments;
    let shape = ManyGraphs { graphs, vertices, classes, rewire, features, p_own, flip, seed };
    let made = shape.generate().map_err(|error| Failure::usage(&error))?;
    let division = division(arguments.split, arguments.per_class)?;
    let (out, threads) = (&arguments.out, threads(arguments.threads));
    super::vacant(out)?;
    let bar = bar(arguments.json, output);
    interrupt::remove_at_once(bar.clone(), out)?;
    let started = Instant::now();
    let graph = build::in_memory(&Watched::new(&made, &bar), Options::default(), threads)?;
    let data = made.dataset_with(&name(arguments.name.as_ref(), out), graph, division)?;
    store::write(out, &data)?;
    bar.finish_and_clear();
    let line = Line {
        event: "generated",
        out,
        model: "graphs",
        layout: "store",
        graphs: made.graphs(),
        vertices: data.vertices(),
        edges: data.graph.edges(),
        classes,
        features: data.features.columns(),
        train: data.split.train.len(),
        validation: data.split.validation.len(),
        test: data.split.test.len(),
        accuracy_ceiling: made.ceiling(),
        accuracy_features: made.own_accuracy(),
        seed,
        threads,
        seconds: started.elapsed().as_secs_f64(),
    };
    if arguments.json {
        output.json(&line);
    } else {
        print(&line, output);
    }
    Ok(())
}

/// Prints the description of the data set as text, with one fact per line.
fn print(line: &Line<'_>, output: &mut Output) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<11} {text}"));
    row("written", format!("{} ({}, {})", line.out.display(), line.model, line.layout));
    row("graphs", grouped(line.graphs.into()));
    row("vertices", grouped(line.vertices.into()));
    row("edges", format!("{} directed, all within graphs", grouped(line.edges)));
    row("features", grouped(line.features.into()));
    row("classes", grouped(line.classes.into()));
    let [train, validation, test] = [line.train, line.validation, line.test].map(|size| grouped(size as u64));
    row("split", format!("{train} train, {validation} validation, {test} test"));
    let [own, most] = [line.accuracy_features, line.accuracy_ceiling].map(|share| percent(Some(share)));
    row("accuracy", format!("{own} % from vertex features only, upper bound {most} %"));
    row("time", format!("{} ({})", seconds(line.seconds), counted(line.threads as u64, "thread")));
}
