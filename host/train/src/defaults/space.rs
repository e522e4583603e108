//! Default search space of `eciton tune`, as a sweep file.

use std::fmt::Write as _;

use super::{DataKind, Statistics};

/// Divisor of the number of epochs in the first rung of successive halving: trials train 1/8 of all
/// epochs before the first selection.
const FIRST_RUNG: u32 = 8;

/// Returns the text of a sweep file that searches settings for this kind of data set. It has
/// `trials` random trials with `seeds` seeds, and uses successive halving up to `epochs` epochs.
#[must_use]
pub fn space(of: &Statistics, source: &str, (trials, seeds, epochs): (u32, u32, u32)) -> String {
    let grid: &[(&str, &str)] = match of.kind {
        DataKind::Table => &[
            ("model.layers", "[2, 3]"),
            ("model.hidden", "[32, 64, 128, 256]"),
            ("model.dropout", "[0.0, 0.2, 0.5]"),
            ("optimiser.lr", "{ low = 0.002, high = 0.03, log = true }"),
            ("optimiser.weight_decay", "[0.0, 5e-4, 5e-3]"),
        ],
        DataKind::Images(_) => &[
            ("model.hidden", "[64, 128, 256]"),
            ("model.dropout", "[0.0, 0.2]"),
            ("optimiser.lr", "{ low = 0.0005, high = 0.005, log = true }"),
            ("optimiser.weight_decay", "[0.0, 1e-4]"),
        ],
        DataKind::Text => &[
            ("model.dropout", "[0.0, 0.1]"),
            ("optimiser.lr", "{ low = 0.0005, high = 0.005, log = true }"),
            ("optimiser.weight_decay", "[0.01, 0.1]"),
        ],
        DataKind::Graph => &[
            ("model.kind", "[\"gcn\", \"sage\", \"gat\", \"appnp\", \"mlp\"]"),
            ("model.hidden", "[32, 64, 128]"),
            ("model.heads", "[4, 8]"),
            ("model.dropout", "[0.2, 0.5, 0.7]"),
            ("optimiser.lr", "{ low = 0.003, high = 0.03, log = true }"),
            ("optimiser.weight_decay", "[0.0, 5e-4, 5e-3]"),
        ],
        DataKind::Graphs | DataKind::Edges => &[
            ("model.kind", "[\"gcn\", \"gin\", \"sage\"]"),
            ("model.hidden", "[32, 64, 128]"),
            ("model.dropout", "[0.0, 0.2, 0.5]"),
            ("optimiser.lr", "{ low = 0.001, high = 0.03, log = true }"),
            ("optimiser.weight_decay", "[0.0, 5e-4]"),
        ],
    };
    let mut text = format!(
        "# Search space of `eciton tune`. Settings that are not in [grid] are chosen from the data.\ndata = \
         {source:?}\nrandom = {trials}\nseeds = {seeds}\n\n[grid]\n"
    );
    for (key, values) in grid {
        let _ = writeln!(text, "\"{key}\" = {values}");
    }
    let first = epochs / FIRST_RUNG;
    if first > 0 && trials > 1 && of.is_validated {
        let _ = write!(text, "\n[halving]\neta = 3\nepochs = {first}\n");
    }
    text
}
