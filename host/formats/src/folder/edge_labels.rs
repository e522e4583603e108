//! Labels and split of the edges in an edge table, for tasks on edges.
//!
//! The request names the column of the labels, which are read like those of `labels.csv`. A column
//! `split` has `train`, `val`, `test` or nothing. Without it, 60 / 20 / 20 % of the labelled edges
//! are drawn with seed 0. Both columns are no edge features.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::Features;
use eciton_graph::labelled_edges::LabelledEdges;
use eciton_graph::labels::Labels;
use eciton_graph::names::{DRAWN, column};
use eciton_graph::scaling::Scaling;
use eciton_graph::split::Split;
use eciton_input::notes;

use super::attributes::{Attributes, of_labelled, part_number};
use super::ids::Ids;
use super::labels::{self, label_table};
use crate::kinds::names_of_header;
use crate::missing::is_missing;
use crate::request::Request;
use crate::table::Table;

/// Edge table, divided into the edges with their features, and the columns of labels and split.
pub(super) struct Divided {
    pub(super) edges: Table,
    columns: Option<Columns>,
}

/// Columns that describe the labels of edges. All of them are views with one record per edge.
struct Columns {
    /// The label column, twice. `None` if a trained model reads a table without labels.
    labels: Option<Table>,
    split: Option<Table>,
}

impl Divided {
    /// Divides an edge table, if the request is for labels of edges.
    ///
    /// # Errors
    /// Returns an error if the table does not have the label column, unless a trained model reads it.
    pub(super) fn new(edges: Table, request: Request<'_>) -> Result<Self> {
        let Some(name) = request.edge_label else { return Ok(Self { edges, columns: None }) };
        let names = names_of_header(&edges)?;
        let label = match (column(&names, name), request.expected) {
            (Some(at), _) => Some(at as usize),
            (None, Some(_)) => None,
            (None, None) => {
                return Err(Error::Malformed {
                    place: Place::whole(&edges.file),
                    expected: format!("a column {name:.40?} with the labels of edges"),
                    found: format!("the columns {}", eciton_input::text::listed(&names)),
                    remedy: "name one of the columns with --edge-label (data.edge_label)",
                });
            }
        };
        if let Some(at @ 0..=1) = label {
            return Err(Error::Malformed {
                place: Place::whole(&edges.file),
                expected: "labels of edges in a column after source and target".to_owned(),
                found: format!("the column {:.40?}, which has ids of vertices", names[at]),
                remedy: "name another column with --edge-label (data.edge_label)",
            });
        }
        let split = (2..names.len()).find(|&at| Some(at) != label && names[at].eq_ignore_ascii_case("split"));
        if label.is_some() {
            edges.settle(true);
        }
        let rest: Vec<usize> =
            (0..names.len()).filter(|&at| Some(at) != label && Some(at) != split).collect();
        let columns = Columns {
            labels: label.map(|at| edges.view(&[at, at])),
            split: split.map(|at| edges.view(&[at, at])),
        };
        Ok(Self { edges: edges.view(&rest), columns: Some(columns) })
    }

    /// Replaces labels and split of vertices by those of the edges `ends`. `features` has one row per
    /// edge. Does nothing if the request is not for labels of edges.
    ///
    /// # Errors
    /// Returns an error with the line of an invalid label or part of the split.
    pub(super) fn label(
        self,
        known: &mut Attributes,
        (ends, features): (&[(u32, u32)], Option<Features>),
        request: Request<'_>,
    ) -> Result<()> {
        let Some(Columns { labels, split }) = self.columns else { return Ok(()) };
        if (0..known.labels.rows()).any(|row| known.labels.known(row)) {
            notes::add(
                "labels and split of the vertices are not used, because those of the edges are learnt"
                    .to_owned(),
            );
        }
        let ids = Ids::in_order(ends.len() as u64);
        (known.names.labels, known.names.target) = (Vec::new(), Vec::new());
        known.labels = match &labels {
            Some(table) => {
                let labels::Read { labels, names, target } = label_table(table, &ids, request.expected)?;
                (known.names.labels, known.names.target) = (names, target);
                labels
            }
            None => Labels::none(ids.len() as u32),
        };
        (known.split, known.names.split) = match &split {
            Some(table) => (of_labelled(parts(table)?, &known.labels, table, &ids), String::new()),
            None => (Split::random(&known.labels, [0.6, 0.2], 0), DRAWN.to_owned()),
        };
        let (ends, scaling) = (ends.to_vec(), Scaling::None);
        known.labelled_edges = Some(LabelledEdges { ends, features, scaling });
        Ok(())
    }
}

/// Reads the split of edges from a table with one record per edge.
fn parts(table: &Table) -> Result<Split> {
    let (mut parts, mut edge) = ([Vec::new(), Vec::new(), Vec::new()], 0);
    table.each(2, |row| {
        match part_number(row.get(0)).and_then(|part| parts.get_mut(part)) {
            Some(part) => part.push(edge),
            None if is_missing(row.get(0)) => {}
            None => return Err(table.wrong(row.line(), "train, val or test", row.get(0))),
        }
        edge += 1;
        Ok(())
    })?;
    let [train, validation, test] = parts;
    Ok(Split { train, validation, test })
}
