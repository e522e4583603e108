//! `eciton predict`: scores of every vertex, or of pairs of them, from a run folder.

mod pairs;

use std::fmt::Write as _;
use std::io::{self, BufWriter, IntoInnerError, Write as _};
use std::path::{Path, PathBuf};

use eciton_graph::dataset::VertexIds;
use eciton_plan::TaskType;
use eciton_train::run_folder::{Run, save_predictions};
use eciton_train::sweep::predict_on_function;
use eciton_train::{Options, Predictions, Split};
use ndarray::Array2;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::evaluate::{AsTask, OtherData};
use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::sweep::told_spent;
use crate::text::{counted, grouped};

/// `eciton predict`
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The run folder
    run: PathBuf,
    #[command(flatten)]
    data: OtherData,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE.npz|FILE.csv")]
    out: Option<PathBuf>,
    /// Also write the rows before the last layer (to an .npz)
    #[arg(long, requires = "out")]
    embeddings: bool,
    /// Score the pairs of vertices in this file, source,target a line, by a run of link prediction
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["embeddings", "as_task"])]
    pairs: Option<PathBuf>,
    /// Cut each image into N strips of rows that threads work on side by side (docs/RECEPTIVE.md); the scores are the same
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64),
        conflicts_with_all = ["pairs", "as_task"])]
    split: Option<u32>,
    #[command(flatten)]
    task: AsTask,
    /// Print one JSON object a vertex or pair; with --out one object in all
    #[arg(long)]
    json: bool,
}

/// What a file's name asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Npz,
    Csv,
}

#[derive(Serialize)]
struct VertexLine<'a> {
    event: &'static str,
    id: &'a str,
    /// Of a classification.
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<usize>,
    /// Of several labels: those that hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<usize>>,
    /// Of all but links.
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<&'a [f32]>,
    /// Of links.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<&'a [f32]>,
}

#[derive(Serialize)]
struct FileLine<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    vertices: Option<usize>,
    /// Where there are many: in place of vertices.
    #[serde(skip_serializing_if = "Option::is_none")]
    graphs: Option<usize>,
    task: &'static str,
    /// Classes, labels or numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<usize>,
    /// Of links: the columns of an embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
    path: &'a str,
}

/// Predicts, and prints or writes.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let format = arguments.out.as_deref().map(format).transpose()?;
    if arguments.embeddings && format == Some(Format::Csv) {
        return Err(Failure::Usage("--embeddings needs an .npz file: name one with --out".to_owned()));
    }
    if let Some(file) = &arguments.pairs {
        return pairs::run(arguments, file, format, output);
    }
    if arguments.embeddings && predicts_links(arguments)? {
        return Err(Failure::Usage(format!(
            "--embeddings: the run {} predicts links, and its embeddings are written in any case; leave it out",
            arguments.run.display()
        )));
    }
    let found = predicted(arguments)?;
    let (vertices, width) = found.scores.dim();
    let links = found.task == TaskType::LinkPrediction;
    if let Some(path) = &arguments.out {
        match format {
            Some(Format::Csv) => write_csv(path, &found)?,
            _ => write_npz(path, &found)?,
        }
        let shown = path.display().to_string();
        if arguments.json {
            let task = found.task.name();
            let (classes, dimensions) = if links { (None, Some(width)) } else { (Some(width), None) };
            let (vertices, graphs) =
                if found.graphs { (None, Some(vertices)) } else { (Some(vertices), None) };
            let event = "predictions";
            output.json(&FileLine { event, vertices, graphs, task, classes, dimensions, path: &shown });
        } else {
            let (vertices, columns) = (grouped(vertices as u64), found.task.columns());
            let (what, link) = if links { ("embeddings", "in") } else { ("scores", "for") };
            let of = if found.graphs { "graphs" } else { "vertices" };
            output.line(format_args!("{shown}: {what} of {vertices} {of} {link} {width} {columns}"));
        }
        return Ok(());
    }
    let (mut row, task) = (Row::new(&found), found.task);
    if !arguments.json {
        output.line(row.header());
    }
    for vertex in 0..vertices {
        if output.closed() {
            break;
        }
        let (id, scores) = row.take(vertex);
        if arguments.json {
            let class = (task == TaskType::Classification).then(|| largest(scores));
            let holding = || (0..scores.len()).filter(|&label| holds(scores[label])).collect();
            let labels = (task == TaskType::MultiLabel).then(holding);
            let (scores, embedding) = if links { (None, Some(scores)) } else { (Some(scores), None) };
            output.json(&VertexLine { event: "prediction", id: &id, class, labels, scores, embedding });
        } else {
            output.line(row.csv(&id));
        }
    }
    Ok(())
}

/// What the run predicts of all vertices.
fn predicted(arguments: &Arguments) -> Result<Predictions, Failure> {
    let data = arguments.data.chosen();
    if let Some(place) = arguments.task.place()? {
        let wanted = (data.as_ref(), arguments.embeddings);
        let run = std::path::absolute(&arguments.run).unwrap_or_else(|_| arguments.run.clone());
        let (found, spent) = predict_on_function(&run, wanted, (&place, None))?;
        tell(told_spent(&spent));
        return Ok(found);
    }
    let options = Options { embeddings: arguments.embeddings, strips: arguments.split, ..Options::default() };
    let found = eciton_train::predict(&arguments.run, data.as_ref(), &options)?;
    if let Some(split) = &found.split {
        tell(told_split(split));
    }
    Ok(found)
}

/// How images were split, in words.
fn told_split(split: &Split) -> String {
    let block = |layers: &std::ops::Range<usize>| match layers.len() {
        1 => layers.start.to_string(),
        _ => format!("{} to {}", layers.start, layers.end - 1),
    };
    let blocks: Vec<String> = split.blocks.iter().map(block).collect();
    format!(
        "{} of an image; blocks of layers {}; {} bytes of halos an image",
        counted(split.strips.into(), "strip"),
        blocks.join(", "),
        grouped(split.halo_bytes)
    )
}

fn predicts_links(arguments: &Arguments) -> Result<bool, Failure> {
    Ok(Run::open(&arguments.run)?.config.predicts_links())
}

fn format(path: &Path) -> Result<Format, Failure> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("npz") => Ok(Format::Npz),
        Some("csv") => Ok(Format::Csv),
        _ => Err(Failure::Usage(format!("--out {}: the name must end in .npz or .csv", path.display()))),
    }
}

/// The vertices one after the other.
struct Row<'a> {
    found: &'a Predictions,
    scores: Vec<f32>,
}

impl<'a> Row<'a> {
    fn new(found: &'a Predictions) -> Self {
        Self { found, scores: Vec::new() }
    }

    /// `id,class,score_0,...`, `id,label_0,...,score_0,...`, `id,value_0,...` or `id,embedding_0,...`
    fn header(&self) -> String {
        let (first, each): (&str, &[&str]) = match self.found.task {
            TaskType::Classification => ("id,class", &["score"]),
            TaskType::MultiLabel => ("id", &["label", "score"]),
            TaskType::Regression => ("id", &["value"]),
            TaskType::LinkPrediction => ("id", &["embedding"]),
        };
        let mut text = first.to_owned();
        for name in each {
            for column in 0..self.found.scores.ncols() {
                let _ = write!(text, ",{name}_{column}");
            }
        }
        text
    }

    /// A vertex's name and scores.
    fn take(&mut self, vertex: usize) -> (String, &[f32]) {
        self.scores.clear();
        self.scores.extend(self.found.scores.row(vertex));
        (self.found.ids.name(vertex as u32), &self.scores)
    }

    /// The line of the vertex taken last.
    fn csv(&self, id: &str) -> String {
        let mut text = field(&self.found.ids, id);
        match self.found.task {
            TaskType::Classification => {
                let _ = write!(text, ",{}", largest(&self.scores));
            }
            TaskType::MultiLabel => {
                self.scores.iter().for_each(|&s| text.push_str(if holds(s) { ",1" } else { ",0" }));
            }
            TaskType::Regression | TaskType::LinkPrediction => {}
        }
        for score in &self.scores {
            let _ = write!(text, ",{score}");
        }
        text
    }
}

/// Whether a label holds, of which this is the score before the sigmoid: where that is above a half.
fn holds(score: f32) -> bool {
    score > 0.0
}

/// The first class with the largest score, as accuracies count it.
fn largest(scores: &[f32]) -> usize {
    let mut best = 0;
    for (class, score) in scores.iter().enumerate() {
        if scores.get(best).is_none_or(|known| score > known) {
            best = class;
        }
    }
    best
}

/// An id as a CSV field.
fn field(ids: &VertexIds, id: &str) -> String {
    if matches!(ids, VertexIds::Words(_)) && id.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", id.replace('"', "\"\""))
    } else {
        id.to_owned()
    }
}

/// Writes what a run folder's `predictions.npz` is.
fn write_npz(path: &Path, found: &Predictions) -> Result<(), Failure> {
    let (vertices, _) = found.scores.dim();
    let values = |matrix: &Array2<f32>| matrix.iter().copied().collect::<Vec<f32>>();
    let (scores, embeddings) = match found.task {
        TaskType::LinkPrediction => (None, Some(&found.scores)),
        _ => (Some(values(&found.scores)), found.embeddings.as_ref()),
    };
    let embeddings = embeddings.map(|matrix| (matrix.ncols(), values(matrix)));
    save_predictions(
        path,
        &found.ids,
        u32::try_from(vertices)?,
        scores.as_deref(),
        embeddings.as_ref().map(|(width, values)| (*width, values.as_slice())),
    )?;
    Ok(())
}

fn write_csv(path: &Path, found: &Predictions) -> Result<(), Failure> {
    write_file(path, |writer| {
        let mut row = Row::new(found);
        writeln!(writer, "{}", row.header())?;
        for vertex in 0..found.scores.nrows() {
            let id = row.take(vertex).0;
            writeln!(writer, "{}", row.csv(&id))?;
        }
        Ok(())
    })
}

/// Writes all of a file or nothing.
fn write_file(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<NamedTempFile>) -> io::Result<()>,
) -> Result<(), Failure> {
    let write = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // As any new file; a temporary one would be private to its owner.
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
    use ndarray::array;

    fn two(ids: VertexIds) -> Predictions {
        Predictions {
            ids,
            graphs: false,
            task: TaskType::Classification,
            scores: array![[0.5, 0.5, -1.0], [0.1, f32::NAN, 2.0]],
            embeddings: None,
            split: None,
        }
    }

    #[test]
    fn csv_quotes_words_and_keeps_every_digit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.csv");
        write_csv(&path, &two(VertexIds::Words(vec!["a,\"b\"".to_owned(), "c".to_owned()]))).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "id,class,score_0,score_1,score_2\n\"a,\"\"b\"\"\",0,0.5,0.5,-1\nc,2,0.1,NaN,2\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let absent = dir.path().join("no/p.csv");
        assert!(matches!(write_csv(&absent, &two(VertexIds::Dense)), Err(Failure::Failed(_))));
    }

    #[test]
    fn of_links_there_are_embeddings() {
        let found = Predictions { task: TaskType::LinkPrediction, ..two(VertexIds::Dense) };
        let mut row = Row::new(&found);
        assert_eq!(row.header(), "id,embedding_0,embedding_1,embedding_2");
        let id = row.take(0).0;
        assert_eq!(row.csv(&id), "0,0.5,0.5,-1");
    }

    #[test]
    fn only_known_endings_are_written() {
        assert!(format(Path::new("x.NPZ")).is_ok_and(|format| format == Format::Npz));
        assert!(format(Path::new("x.parquet")).is_err() && format(Path::new("csv")).is_err());
    }
}
