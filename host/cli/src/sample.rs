//! The command `eciton sample`, which draws the micro-batches of a training without training.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use eciton_train::npz_write::NpzWriter;
use eciton_train::{Options, Sample, Samples};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{counted, seconds};
use crate::{progress, recipe, train};

const AFTER_HELP: &str = "\
Each micro-batch is a file ROUND-MICRO.npz in the folder of --to, with the arrays\n\
\x20 vertices      vertex number of each row, in the order of the data set\n\
\x20 source, target  rows of the two ends of each edge\n\
\x20 targets       rows that count in the loss\n\
\x20 hops          number of rows within h hops of the targets, for each h\n\
\x20 edge_weights  weight of each edge in sums over neighbours, if not 1\n\
\x20 loss_weights  loss weight of each target, if they differ\n\
\x20 graphs        number of the graph of each row, for data sets of many graphs\n\
\x20 pair_source, pair_target  rows of the two ends of each labelled edge, or of each pair in the loss of\n\
\x20               link prediction\n\
\x20 pair_label    1 for links, 0 for pairs without a link\n\
\x20 labelled_edge  number of each labelled edge in the edge table\n\
Without --to, the command prints the sizes of the micro-batches.\n\n\
Examples:\n\
\x20 eciton sample cora --sampler neighbours --batch 64 --fan-out 10,5 --rounds 2\n\
\x20 eciton sample cora --sampler walk --batch 900 --to samples";

/// Arguments of `eciton sample`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    train: train::Arguments,
    /// Number of updates whose micro-batches are drawn [default: one epoch]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1 << 31))]
    rounds: Option<u32>,
    /// Folder to write the micro-batches to. It must not exist
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Sizes of a micro-batch, which `eciton sample --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    round: u32,
    micro: u32,
    rows: usize,
    edges: usize,
    targets: usize,
    hops: &'a [u32],
}

/// Draws the micro-batches, and prints their sizes or writes them.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let config = recipe::configure(&arguments.train.request()?)?;
    let folder = arguments.to.as_deref();
    let failed = |path: &Path, error: io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    if let Some(folder) = folder.filter(|folder| folder.exists()) {
        let text = format!("{} exists already; give --to a folder that does not", folder.display());
        return Err(Failure::Failed(text));
    }
    let begun = std::time::Instant::now();
    let samples = Samples::new(&config, None, &Options::default())?;
    // A folder of a command that fails earlier would be in the way of the next one.
    if let Some(folder) = folder {
        std::fs::create_dir(folder).map_err(|error| failed(folder, error))?;
    }
    let facts = samples.facts();
    let json = arguments.train.json;
    if !json {
        output.line(progress::batches(facts));
        output.line(format_args!(
            "{:>8} {:>6} {:>10} {:>12} {:>8}",
            "round", "micro", "rows", "edges", "targets"
        ));
    }
    let (last, step) = (arguments.rounds.unwrap_or(facts.updates), samples.threads().max(1));
    let drawing = std::time::Instant::now();
    let mut drawn = 0;
    for first in (1..=last).step_by(step as usize) {
        for sample in samples.draw(first..last.saturating_add(1).min(first.saturating_add(step)))? {
            let Sample { round, micro, hops, .. } = &sample;
            let (rows, edges) = (sample.vertices.len(), sample.sources.len());
            let graphs =
                sample.graphs.as_ref().map(|graphs| graphs.iter().max().map_or(0, |&last| last as usize + 1));
            let links = sample.pairs.as_ref().map(|[links, _]| links.len());
            let targets = graphs.or(links).unwrap_or(sample.targets.len());
            drawn += rows;
            match json {
                true => output.json(&Line {
                    event: "sample",
                    round: *round,
                    micro: *micro,
                    rows,
                    edges,
                    targets,
                    hops,
                }),
                false => {
                    output.line(format_args!("{round:>8} {micro:>6} {rows:>10} {edges:>12} {targets:>8}"))
                }
            }
            if let Some(folder) = folder {
                let path = folder.join(format!("{round:06}-{micro:04}.npz"));
                write(&path, &sample).map_err(|error| failed(&path, error))?;
            }
        }
    }
    if !json {
        let (took, all) = (drawing.elapsed().as_secs_f64(), begun.elapsed().as_secs_f64());
        let rate = drawn as f64 / took.max(1e-9);
        let rows = counted(drawn as u64, "row");
        output.line(format_args!(
            "{rows} in {}, {rate:.0} per second; {} from the start",
            seconds(took),
            seconds(all)
        ));
    }
    Ok(())
}

/// Writes a micro-batch as an `.npz` archive.
fn write(path: &Path, sample: &Sample) -> io::Result<()> {
    let mut archive = NpzWriter::new(BufWriter::new(File::create_new(path)?));
    let whole = [
        ("vertices", &sample.vertices),
        ("source", &sample.sources),
        ("target", &sample.ends),
        ("targets", &sample.targets),
        ("hops", &sample.hops),
    ];
    let graphs = sample.graphs.as_ref().map(|graphs| ("graphs", graphs));
    for (name, values) in whole.into_iter().chain(graphs) {
        archive.whole(name, values.len(), |at| values[at].into())?;
    }
    if let Some([links, negatives]) = &sample.pairs {
        let (linked, pairs) = (links.len(), [&links[..], negatives].concat());
        archive.whole("pair_source", pairs.len(), |at| pairs[at].0.into())?;
        archive.whole("pair_target", pairs.len(), |at| pairs[at].1.into())?;
        match &sample.labelled_edges {
            Some(edges) => archive.whole("labelled_edge", edges.len(), |at| edges[at].into())?,
            None => archive.whole("pair_label", pairs.len(), |at| i64::from(at < linked))?,
        }
    }
    let weights = [("edge_weights", &sample.edge_weights), ("loss_weights", &sample.loss_weights)];
    for (name, values) in weights {
        if let Some(values) = values {
            archive.vector(name, values)?;
        }
    }
    archive.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}
