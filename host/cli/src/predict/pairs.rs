//! The option `eciton predict --pairs`, which predicts scores of vertex pairs with a link
//! prediction run.

use std::io::Write as _;
use std::path::Path;

use eciton_formats::pairs::PairTable;
use eciton_graph::dataset::VertexIds;
use eciton_graph::links::metrics::pair_scores;
use eciton_tensor::View;
use eciton_train::Predictions;
use serde::Serialize;

use super::{Arguments, Format, field, predicted, predicts_links, write_file};
use crate::failure::Failure;
use crate::output::Output;
use crate::text::counted;

/// Header line of the CSV output with scores of pairs.
const HEADER: &str = "source,target,score,probability";

/// Score of a vertex pair, which `eciton predict --pairs FILE --json` prints.
#[derive(Serialize)]
struct PairLine<'a> {
    event: &'static str,
    source: &'a str,
    target: &'a str,
    score: f32,
    probability: f32,
}

/// Description of the written file, which `eciton predict --pairs FILE --out FILE --json` prints.
#[derive(Serialize)]
struct FileLine<'a> {
    event: &'static str,
    pairs: usize,
    path: &'a str,
}

/// Computes the scores of the vertex pairs in `file`, and prints them or writes them to the file of
/// `--out`.
pub(super) fn run(
    arguments: &Arguments,
    file: &Path,
    format: Option<Format>,
    output: &mut Output,
) -> Result<(), Failure> {
    if let Some(out) = arguments.out.as_deref().filter(|_| format == Some(Format::Npz)) {
        return Err(Failure::Usage(format!(
            "--out {}: scores of pairs are written as CSV; expected a file name that ends in .csv",
            out.display()
        )));
    }
    // The file is read before the model is applied, which takes time.
    let table = PairTable::open(file)?;
    if !predicts_links(arguments)? {
        return Err(Failure::Usage(format!(
            "--pairs {}: the run {} does not predict links; use a run of `eciton train --task link-prediction`, or omit \
             --pairs",
            file.display(),
            arguments.run.display()
        )));
    }
    let found = predicted(arguments)?;
    let scored = Scored::new(&table, &found)?;
    if let Some(path) = &arguments.out {
        scored.write(path)?;
        let shown = path.display().to_string();
        if arguments.json {
            output.json(&FileLine { event: "pair scores", pairs: scored.pairs.len(), path: &shown });
        } else {
            let pairs = counted(scored.pairs.len() as u64, "pair");
            output.line(format_args!("wrote scores of {pairs} to {shown}"));
        }
        return Ok(());
    }
    if !arguments.json {
        output.line(HEADER);
    }
    for at in 0..scored.pairs.len() {
        if output.closed() {
            break;
        }
        if arguments.json {
            let (source, target, score) = scored.get(at);
            let probability = sigmoid(score);
            output.json(&PairLine { event: "pair", source: &source, target: &target, score, probability });
        } else {
            output.line(scored.csv(at));
        }
    }
    Ok(())
}

/// Vertex pairs with their scores.
struct Scored<'a> {
    ids: &'a VertexIds,
    pairs: Vec<(u32, u32)>,
    /// Score of each pair, which is the inner product of the embeddings of its two vertices.
    scores: Vec<f32>,
}

impl<'a> Scored<'a> {
    fn new(table: &PairTable, found: &'a Predictions) -> Result<Self, Failure> {
        let (vertices, columns) = found.scores.dim();
        let pairs = table.find(&found.ids, u32::try_from(vertices)?)?;
        let rows = found.scores.as_standard_layout();
        let rows = View::new(rows.as_slice().unwrap_or_default(), vertices, columns);
        let scores = pair_scores(rows, &pairs);
        Ok(Self { ids: &found.ids, pairs, scores })
    }

    /// Returns the ids of the two vertices of the pair at index `at`, and its score.
    fn get(&self, at: usize) -> (String, String, f32) {
        let (source, target) = self.pairs[at];
        (self.ids.name(source), self.ids.name(target), self.scores[at])
    }

    /// Returns the pair at index `at` as a line of CSV.
    fn csv(&self, at: usize) -> String {
        let (source, target, score) = self.get(at);
        let (source, target) = (field(self.ids, &source), field(self.ids, &target));
        format!("{source},{target},{score},{}", sigmoid(score))
    }

    /// Writes all pairs with their scores to a CSV file.
    fn write(&self, path: &Path) -> Result<(), Failure> {
        write_file(path, |writer| {
            writeln!(writer, "{HEADER}")?;
            (0..self.pairs.len()).try_for_each(|at| writeln!(writer, "{}", self.csv(at)))
        })
    }
}

/// Converts a score to the probability of a link, with the logistic function.
fn sigmoid(score: f32) -> f32 {
    (1.0 / (1.0 + (-f64::from(score)).exp())) as f32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_recipe::TaskType;
    use eciton_train::decisions::Known;
    use ndarray::array;

    #[test]
    fn scores_are_inner_products() {
        let folder = tempfile::tempdir().unwrap();
        let (file, out) = (folder.path().join("pairs.csv"), folder.path().join("out.csv"));
        std::fs::write(&file, "source,target\nb,\"a,x\"\nb,c\nc,c\n").unwrap();
        let found = Predictions {
            ids: VertexIds::Words(["a,x", "b", "c"].map(str::to_owned).to_vec()),
            graphs: false,
            task: TaskType::LinkPrediction,
            scores: array![[1.0, 2.0], [0.5, -0.25], [-4.0, 0.0]],
            embeddings: None,
            known: Known::default(),
            split: None,
            workers: None,
        };
        let scored = Scored::new(&PairTable::open(&file).unwrap(), &found).unwrap();
        assert_eq!(scored.scores, [0.0, -2.0, 16.0]);
        scored.write(&out).unwrap();
        let text = std::fs::read_to_string(&out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], [HEADER, "b,\"a,x\",0,0.5"]);
        assert!(lines[2].starts_with("b,c,-2,0.1192029") && lines.len() == 4, "{text}");
    }

    #[test]
    fn probabilities_stay_between_0_and_1() {
        let found = [f32::NEG_INFINITY, -200.0, 0.0, 200.0, f32::INFINITY].map(sigmoid);
        assert_eq!(found, [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert!(sigmoid(f32::NAN).is_nan());
    }
}
