//! The command `eciton predict`, which predicts scores of vertices, or of vertex pairs, with the
//! model of a run folder.

mod pairs;
mod row;

use std::io::{self, BufWriter, IntoInnerError, Write as _};
use std::path::{Path, PathBuf};

use eciton_exec::Traffic;
use eciton_graph::dataset::VertexIds;
use eciton_recipe::{TaskType, Workers};
use eciton_train::run_folder::{Arrays, Run, save_predictions};
use eciton_train::sweep::predict_on_function;
use eciton_train::{Options, Predictions, Split, WorkersUsed};
use ndarray::Array2;
use serde::Serialize;
use serde_json::Value;
use tempfile::NamedTempFile;

use self::row::Row;
use crate::evaluate::{AsTask, OtherData};
use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::sweep::spent_text;
use crate::text::{counted, grouped};

/// Arguments of `eciton predict`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run folder
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) data: OtherData,
    /// File to write to, .npz or .csv [default: standard output]
    #[arg(long, value_name = "FILE.npz|FILE.csv")]
    out: Option<PathBuf>,
    /// Also write the last hidden layer (requires an .npz file)
    #[arg(long, requires = "out")]
    pub(crate) embeddings: bool,
    /// Score the vertex pairs of this file (one source,target per line) with a link prediction run
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["embeddings", "as_task"])]
    pairs: Option<PathBuf>,
    /// Divide each image into N strips of rows that threads compute in parallel, with identical
    /// scores (docs/explanation/image-strips.md)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64),
        conflicts_with_all = ["pairs", "as_task"])]
    split: Option<u32>,
    /// Distribute the work to N worker processes on this machine (docs/how-to/train-on-workers.md)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024),
        conflicts_with_all = ["pairs", "as_task"])]
    workers: Option<u32>,
    /// Address at which to wait for workers on other machines, instead of starting processes; with
    /// --tokens
    #[arg(long, value_name = "HOST:PORT", requires_all = ["workers", "tokens"])]
    listen: Option<String>,
    /// Folder to write the tokens of these workers to
    #[arg(long, value_name = "DIR", requires = "listen")]
    tokens: Option<String>,
    #[command(flatten)]
    pub(crate) task: AsTask,
    /// Print one JSON object per vertex or pair; with --out, a single object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Format of the output file, which the extension of its name determines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Npz,
    Csv,
}

/// Prediction for one vertex, row, graph or edge, which `eciton predict --json` prints.
#[derive(Serialize)]
struct VertexLine<'a> {
    event: &'static str,
    /// Id of the vertex, row or graph. `None` for an edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    /// Ids of the ends of the edge. `None` if the row is not an edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Predicted class, labels or numbers. Classes and labels are given by name if the data set has
    /// names.
    #[serde(skip_serializing_if = "Value::is_null")]
    predicted: Value,
    /// Known label in the data set, which is a class, a list of binary labels or a list of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Value>,
    /// Part of the split that contains the row, `train`, `val` or `test`. Empty if no part contains
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    /// Map from the name of each class or label to its probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    probabilities: Option<Value>,
    /// Scores of the model. `None` for link prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<&'a [f32]>,
    /// Embedding of the vertex, for link prediction. `None` for other tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<&'a [f32]>,
}

/// Description of the written file, which `eciton predict --out FILE --json` prints.
#[derive(Serialize)]
struct FileLine<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    vertices: Option<usize>,
    /// Number of graphs in a data set of many graphs. It replaces `vertices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    graphs: Option<usize>,
    /// Number of labelled edges, if their labels are predicted. It replaces `vertices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    edges: Option<usize>,
    task: &'static str,
    /// Number of classes, labels or target values. `None` for link prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<usize>,
    /// Number of columns of an embedding, for link prediction. `None` for other tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
    path: &'a str,
}

/// Computes predictions, and prints them or writes them to the file of `--out`.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let format = arguments.out.as_deref().map(format).transpose()?;
    if arguments.embeddings && format == Some(Format::Csv) {
        return Err(Failure::Usage("--embeddings requires an .npz file; name one with --out".to_owned()));
    }
    if let Some(file) = &arguments.pairs {
        return pairs::run(arguments, file, format, output);
    }
    if arguments.embeddings && predicts_links(arguments)? {
        return Err(Failure::Usage(format!(
            "--embeddings: the run {} predicts links, so its embeddings are always written; omit the flag",
            arguments.run.display()
        )));
    }
    let found = predicted(arguments)?;
    let (vertices, width) = found.scores.dim();
    let links = found.task == TaskType::LinkPrediction;
    let of_rows = match (&found.known.ends, found.graphs) {
        (Some(_), _) => "edges",
        (None, true) => "graphs",
        (None, false) => "vertices",
    };
    if let Some(path) = &arguments.out {
        match format {
            Some(Format::Csv) => write_csv(path, &found)?,
            _ => write_npz(path, &found)?,
        }
        let shown = path.display().to_string();
        if arguments.json {
            let task = found.task.name();
            let (classes, dimensions) = if links { (None, Some(width)) } else { (Some(width), None) };
            let count = |rows: &str| (rows == of_rows).then_some(vertices);
            let (vertices, edges, graphs) = (count("vertices"), count("edges"), count("graphs"));
            let event = "predictions";
            output.json(&FileLine {
                event,
                vertices,
                graphs,
                edges,
                task,
                classes,
                dimensions,
                path: &shown,
            });
        } else {
            let (vertices, columns) = (grouped(vertices as u64), found.task.columns());
            let (what, link) = if links { ("embeddings", "in") } else { ("scores", "for") };
            output.line(format_args!(
                "wrote {what} of {vertices} {of_rows} {link} {width} {columns} to {shown}"
            ));
        }
        return Ok(());
    }
    let mut row = Row::new(&found);
    if !arguments.json {
        output.line(row.header());
    }
    for vertex in 0..vertices {
        if output.closed() {
            break;
        }
        row.take(vertex);
        if arguments.json {
            output.json(&row.json());
        } else {
            output.line(row.csv());
        }
    }
    Ok(())
}

/// Computes the predictions for all vertices. The work runs on this machine, on workers or on a
/// function, as the arguments select.
fn predicted(arguments: &Arguments) -> Result<Predictions, Failure> {
    let data = arguments.data.chosen();
    if let Some(place) = arguments.task.place()? {
        let wanted = (data.as_ref(), arguments.embeddings);
        let run = std::path::absolute(&arguments.run).unwrap_or_else(|_| arguments.run.clone());
        let (found, spent) = predict_on_function(&run, wanted, (&place, None))?;
        tell(spent_text(&spent));
        return Ok(found);
    }
    let workers = arguments.workers.map(|count| Workers {
        count,
        listen: arguments.listen.clone(),
        tokens: arguments.tokens.clone(),
        ..Workers::default()
    });
    let (embeddings, strips) = (arguments.embeddings, arguments.split);
    let options = Options { embeddings, strips, workers, ..Options::default() };
    let found = eciton_train::predict(&arguments.run, data.as_ref(), &options)?;
    if let Some(split) = &found.split {
        tell(split_text(split));
    }
    if let Some(workers) = &found.workers {
        tell(workers_text(workers));
    }
    Ok(found)
}

/// Returns a text on the division of images into strips that threads compute in parallel. It names
/// the strips, the fused blocks of layers, and the size of the halos. A halo consists of the rows
/// that a strip needs from adjacent strips.
fn split_text(split: &Split) -> String {
    let block = |layers: &std::ops::Range<usize>| match layers.len() {
        1 => layers.start.to_string(),
        _ => format!("{} to {}", layers.start, layers.end - 1),
    };
    let blocks: Vec<String> = split.blocks.iter().map(block).collect();
    format!(
        "{} per image; blocks of layers {}; {} bytes of halos per image",
        counted(split.strips.into(), "strip"),
        blocks.join(", "),
        grouped(split.halo_bytes)
    )
}

/// Returns a text on the number of tasks and the traffic of each worker.
fn workers_text(used: &WorkersUsed) -> String {
    let one = |traffic: &Traffic| {
        let (tasks, sent, received) =
            (counted(traffic.tasks, "task"), grouped(traffic.bytes_out), grouped(traffic.bytes_in));
        format!("worker {}: {tasks}, {sent} bytes sent, {received} bytes received", traffic.place)
    };
    used.places.iter().map(one).collect::<Vec<String>>().join("; ")
}

/// Returns true if the run was trained for link prediction.
fn predicts_links(arguments: &Arguments) -> Result<bool, Failure> {
    Ok(Run::open(&arguments.run)?.config.predicts_links())
}

/// Returns the format of the output file at `path`.
///
/// # Errors
/// Returns [`Failure::Usage`] if the extension is neither `.npz` nor `.csv`.
fn format(path: &Path) -> Result<Format, Failure> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("npz") => Ok(Format::Npz),
        Some("csv") => Ok(Format::Csv),
        _ => Err(Failure::Usage(format!(
            "--out {}: expected a file name that ends in .npz or .csv",
            path.display()
        ))),
    }
}

/// Returns a vertex id as a CSV field, where text ids have quotes if their characters require them.
fn field(ids: &VertexIds, id: &str) -> String {
    if matches!(ids, VertexIds::Words(_)) { row::quoted(id) } else { id.to_owned() }
}

/// Writes predictions as an `.npz` file. The arrays are the same as in `predictions.npz` of a run
/// folder.
fn write_npz(path: &Path, found: &Predictions) -> Result<(), Failure> {
    let (vertices, _) = found.scores.dim();
    let values = |matrix: &Array2<f32>| matrix.iter().copied().collect::<Vec<f32>>();
    let (scores, embeddings) = match found.task {
        TaskType::LinkPrediction => (None, Some(&found.scores)),
        _ => (Some(values(&found.scores)), found.embeddings.as_ref()),
    };
    let embeddings = embeddings.map(|matrix| (matrix.ncols(), values(matrix)));
    let arrays = Arrays {
        ids: &found.ids,
        vertices: u32::try_from(vertices)?,
        scores: scores.as_deref(),
        embeddings: embeddings.as_ref().map(|(width, values)| (*width, values.as_slice())),
        known: Some((found.task, &found.known)),
    };
    save_predictions(path, &arrays)?;
    Ok(())
}

/// Writes predictions as a `.csv` file.
fn write_csv(path: &Path, found: &Predictions) -> Result<(), Failure> {
    write_file(path, |writer| {
        let mut row = Row::new(found);
        writeln!(writer, "{}", row.header())?;
        for vertex in 0..found.scores.nrows() {
            row.take(vertex);
            writeln!(writer, "{}", row.csv())?;
        }
        Ok(())
    })
}

/// Writes a file atomically, by renaming a temporary file to `path`. `content` writes the content.
/// Missing parent folders are created.
fn write_file(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<NamedTempFile>) -> io::Result<()>,
) -> Result<(), Failure> {
    let write = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // The usual permissions of a new file. A temporary file would be private to its owner.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let mut writer = BufWriter::new(builder.prefix(".eciton-").tempfile_in(folder)?);
        content(&mut writer)?;
        writer.into_inner().map_err(IntoInnerError::into_error)?.persist(path).map_err(|error| error.error)
    };
    let written: io::Result<std::fs::File> = write();
    written
        .map(drop)
        .map_err(|error| Failure::Failed(format!("{}: cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_train::decisions::Known;
    use ndarray::array;

    fn two(ids: VertexIds) -> Predictions {
        Predictions {
            ids,
            graphs: false,
            task: TaskType::Classification,
            scores: array![[0.5, 0.5, -1.0], [0.1, f32::NAN, 2.0]],
            embeddings: None,
            known: Known { names: vec![], labels: vec![2.0, f32::NAN], parts: vec![3, 0], ends: None },
            split: None,
            workers: None,
        }
    }

    #[test]
    fn csv_quotes_words_and_keeps_every_digit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.csv");
        write_csv(&path, &two(VertexIds::Words(vec!["a,\"b\"".to_owned(), "c".to_owned()]))).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "id,predicted,label,part,p(0),p(1),p(2),score(0),score(1),score(2)");
        assert!(lines[1].starts_with("\"a,\"\"b\"\"\",0,2,test,0.4498"), "{text}");
        assert!(lines[1].ends_with(",0.5,0.5,-1"), "{text}");
        assert_eq!(lines[2], "c,2,,,NaN,NaN,NaN,0.1,NaN,2");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        // A missing folder is created. A file in the place of a folder is an error.
        write_csv(&dir.path().join("new/folder/p.csv"), &two(VertexIds::Dense)).unwrap();
        let below = path.join("p.csv");
        assert!(matches!(write_csv(&below, &two(VertexIds::Dense)), Err(Failure::Failed(_))));
    }

    #[test]
    fn only_known_endings_are_written() {
        assert!(format(Path::new("x.NPZ")).is_ok_and(|format| format == Format::Npz));
        assert!(format(Path::new("x.parquet")).is_err() && format(Path::new("csv")).is_err());
    }
}
