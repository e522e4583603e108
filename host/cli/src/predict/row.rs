//! Format of the predictions of `eciton predict`, with a line of CSV or a JSON object per row.
//!
//! NAME is the name of a class, label or target, or its index if it has no name. A column with NAME
//! is repeated for each class, label or target.
//!
//! | task | columns |
//! | --- | --- |
//! | classification | `id`, `predicted`, `label`, `part`, `p(NAME)`, `score(NAME)` |
//! | multi-label | `id`, `part`, `predicted(NAME)`, `label(NAME)`, `p(NAME)`, `score(NAME)` |
//! | regression | `id`, `part`, `predicted(NAME)`, `label(NAME)` |
//! | link prediction | `id`, `embedding(0)`, `embedding(1)`, ... |
//!
//! For labelled edges, `source` and `target` replace `id`.

use std::fmt::Write as _;

use eciton_recipe::TaskType;
use eciton_train::Predictions;
use eciton_train::decisions;
use serde_json::{Map, Value};

use super::{VertexLine, field};

/// A cursor over the rows of predictions, which formats the current row as CSV or JSON.
pub(super) struct Row<'a> {
    found: &'a Predictions,
    /// Name of each score column.
    names: Vec<String>,
    /// Index of the current row.
    row: usize,
    id: String,
    scores: Vec<f32>,
    probabilities: Vec<f32>,
}

impl<'a> Row<'a> {
    pub(super) fn new(found: &'a Predictions) -> Self {
        let names = (0..found.scores.ncols()).map(|at| found.known.name(at)).collect();
        let (scores, probabilities) = (Vec::new(), Vec::new());
        Self { found, names, row: 0, id: String::new(), scores, probabilities }
    }

    /// Returns the header line of the CSV output, which depends on the task.
    pub(super) fn header(&self) -> String {
        let (first, each): (&str, &[&str]) = match self.found.task {
            TaskType::Classification => (",predicted,label,part", &["p", "score"]),
            TaskType::MultiLabel => (",part", &["predicted", "label", "p", "score"]),
            TaskType::Regression => (",part", &["predicted", "label"]),
            TaskType::LinkPrediction => ("", &["embedding"]),
        };
        let id = if self.found.known.ends.is_some() { "source,target" } else { "id" };
        let mut text = format!("{id}{first}");
        for what in each {
            for name in &self.names {
                let _ = write!(text, ",{}", quoted(&format!("{what}({name})")));
            }
        }
        text
    }

    /// Moves the cursor to the row at index `row`.
    pub(super) fn take(&mut self, row: usize) {
        self.row = row;
        self.id = self.found.ids.name(row as u32);
        self.scores.clear();
        self.scores.extend(self.found.scores.row(row));
        decisions::probabilities(self.found.task, &self.scores, &mut self.probabilities);
    }

    /// Returns the known target values of the current row, one per score column. Unknown values are
    /// NaN.
    fn labels(&self) -> Vec<f32> {
        let columns = self.names.len();
        let known = self.found.known.row(self.row, columns);
        if known.is_empty() { vec![f32::NAN; columns] } else { known.to_vec() }
    }

    /// Returns the current row as a line of CSV.
    pub(super) fn csv(&self) -> String {
        let mut text = match &self.found.known.ends {
            None => field(&self.found.ids, &self.id),
            Some(ends) => ends.each_ref().map(|ids| field(ids, &ids.name(self.row as u32))).join(","),
        };
        let class = |class: Option<usize>| {
            class.map_or(String::new(), |class| {
                self.names.get(class).map_or(String::new(), |name| quoted(name))
            })
        };
        let known = |text: &mut String| {
            for value in self.labels() {
                let _ = if value.is_nan() { write!(text, ",") } else { write!(text, ",{value}") };
            }
        };
        let part = self.found.known.part(self.row);
        match self.found.task {
            TaskType::Classification => {
                let (predicted, label) = (decisions::class(&self.scores), self.found.known.class(self.row));
                let _ = write!(text, ",{},{},{part}", class(predicted), class(label));
            }
            TaskType::MultiLabel => {
                let _ = write!(text, ",{part}");
                let flag = |&score: &f32| if decisions::holds(score) { ",1" } else { ",0" };
                self.scores.iter().for_each(|score| text.push_str(flag(score)));
                known(&mut text);
            }
            TaskType::Regression => {
                let _ = write!(text, ",{part}");
                for score in &self.scores {
                    let _ = write!(text, ",{score}");
                }
                known(&mut text);
                return text;
            }
            TaskType::LinkPrediction => {}
        }
        for value in self.probabilities.iter().chain(&self.scores) {
            let _ = write!(text, ",{value}");
        }
        text
    }

    /// Returns the current row as a JSON object.
    pub(super) fn json(&self) -> VertexLine<'_> {
        let (task, known) = (self.found.task, &self.found.known);
        let links = task == TaskType::LinkPrediction;
        let class = |class: Option<usize>| match class {
            None => Value::Null,
            Some(class) if known.names.is_empty() => class.into(),
            Some(class) => known.name(class).into(),
        };
        let numbers = |values: &[f32]| -> Value { values.iter().map(|&value| Value::from(value)).collect() };
        let (predicted, label) = match task {
            TaskType::Classification => (class(decisions::class(&self.scores)), class(known.class(self.row))),
            TaskType::MultiLabel => {
                let holding = (0..self.scores.len())
                    .filter(|&at| self.scores.get(at).is_some_and(|&s| decisions::holds(s)));
                (holding.map(|at| class(Some(at))).collect(), numbers(&self.labels()))
            }
            TaskType::Regression => (numbers(&self.scores), numbers(&self.labels())),
            TaskType::LinkPrediction => (Value::Null, Value::Null),
        };
        let by_name = || -> Map<String, Value> {
            self.names.iter().cloned().zip(self.probabilities.iter().map(|&p| Value::from(p))).collect()
        };
        let has_probabilities = !self.probabilities.is_empty();
        let (scores, embedding) =
            if links { (None, Some(&self.scores[..])) } else { (Some(&self.scores[..]), None) };
        VertexLine {
            event: "prediction",
            id: known.ends.is_none().then_some(&self.id),
            source: known.ends.as_ref().map(|[sources, _]| sources.name(self.row as u32)),
            target: known.ends.as_ref().map(|[_, targets]| targets.name(self.row as u32)),
            predicted,
            label: (!links && !known.labels.is_empty()).then_some(label),
            part: (!links && !known.parts.is_empty()).then(|| known.part(self.row)),
            probabilities: has_probabilities.then(|| Value::Object(by_name())),
            scores,
            embedding,
        }
    }
}

/// Returns a text as a CSV field, with quotes if its characters require them (RFC 4180).
pub(super) fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_graph::dataset::VertexIds;
    use eciton_train::decisions::Known;
    use ndarray::array;

    fn found(task: TaskType, names: &[&str], labels: &[f32]) -> Predictions {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Predictions {
            ids: VertexIds::Words(vec!["x".to_owned(), "y".to_owned()]),
            graphs: false,
            task,
            scores: array![[2.0, 2.0], [-1.0, 0.5]],
            embeddings: None,
            known: Known { names, labels: labels.to_vec(), parts: vec![1, 0], ends: None },
            split: None,
            workers: None,
        }
    }

    fn lines(found: &Predictions) -> Vec<String> {
        let mut row = Row::new(found);
        let mut lines = vec![row.header()];
        for at in 0..2 {
            row.take(at);
            lines.push(row.csv());
            lines.push(serde_json::to_string(&row.json()).unwrap());
        }
        lines
    }

    #[test]
    fn classes_are_written_by_name() {
        let lines = lines(&found(TaskType::Classification, &["ant, red", "wasp"], &[1.0, f32::NAN]));
        assert_eq!(
            lines[0],
            "id,predicted,label,part,\"p(ant, red)\",p(wasp),\"score(ant, red)\",score(wasp)"
        );
        assert_eq!(lines[1], "x,\"ant, red\",wasp,train,0.5,0.5,2,2");
        let object =
            r#"{"event":"prediction","id":"x","predicted":"ant, red","label":"wasp","part":"train","#;
        assert!(lines[2].starts_with(object), "{}", lines[2]);
        assert!(lines[2].contains(r#""probabilities":{"ant, red":0.5,"wasp":0.5},"scores":[2.0,2.0]"#));
        assert!(lines[3].starts_with("y,wasp,,,0.18"), "{}", lines[3]);
        assert!(lines[4].contains(r#""predicted":"wasp","label":null,"part":"""#), "{}", lines[4]);
    }

    #[test]
    fn labels_and_numbers_have_a_column_each() {
        let flags = lines(&found(TaskType::MultiLabel, &[], &[1.0, 0.0, f32::NAN, 1.0]));
        let head = "id,part,predicted(0),predicted(1),label(0),label(1),p(0),p(1),score(0),score(1)";
        assert_eq!(flags[0], head);
        assert!(flags[1].starts_with("x,train,1,1,1,0,0.88"), "{}", flags[1]);
        assert!(flags[4].contains(r#""predicted":[1],"label":[null,1.0],"part":"","#), "{}", flags[4]);
        let numbers = lines(&found(TaskType::Regression, &["km", "kg"], &[]));
        assert_eq!(numbers[0], "id,part,predicted(km),predicted(kg),label(km),label(kg)");
        assert_eq!(numbers[1], "x,train,2,2,,");
        assert!(!numbers[2].contains("label") && !numbers[2].contains("probabilities"), "{}", numbers[2]);
    }

    #[test]
    fn link_prediction_has_embeddings() {
        let lines = lines(&found(TaskType::LinkPrediction, &[], &[]));
        assert_eq!(lines[0], "id,embedding(0),embedding(1)");
        assert_eq!(lines[1], "x,2,2");
        assert_eq!(lines[4], r#"{"event":"prediction","id":"y","embedding":[-1.0,0.5]}"#);
    }
}
