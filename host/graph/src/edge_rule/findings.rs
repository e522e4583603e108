//! Counts of the listed edges that the edge rule changed, and their lines in the reading report.

use eciton_input::notes::{self, Level};

use super::self_loops::{SelfLoops, loops};
use crate::adjacency::{Graph, Options};
use crate::build::Listed;

/// Counts of the edges that the edge rule changed in a list of edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Findings {
    /// True if the listed edges have values.
    pub valued: bool,
    /// Number of entries that repeat an earlier edge. Without values, entries of a symmetric graph
    /// that list the other direction of an edge count as well.
    pub repeats: u64,
    /// Number of directed edges that were dropped because their weight is 0.
    pub zeros: u64,
    /// Number of directed edges that were kept although their weight is 0. Without a weight column,
    /// all values of the edge must be 0.
    pub kept_zeros: u64,
    /// Number of edges that are listed in both directions with different values.
    pub unequal: u64,
    /// Number of entries that are self-loops and were dropped.
    pub loops: u64,
}

impl Findings {
    /// Adds these counts to the reading report. `published` is true for formats of published data
    /// sets, whose known repeats are reported as plain facts.
    pub fn report(&self, file: &str, published: bool) {
        let own = if published { Level::Fact } else { Level::Note };
        let repeats = entries(self.repeats);
        if self.repeats > 0 && self.valued {
            tell(own, format!("{file}: {repeats} an edge; their values were added up"));
        } else if self.repeats > 0 {
            let text = format!("{file}: {repeats} an edge or list its other direction; they were merged");
            tell(Level::Fact, text);
        }
        if self.zeros > 0 {
            let edges = counted(self.zeros, "edge");
            tell(
                own,
                format!(
                    "{file}: {edges} of weight 0 left out, because a weight of 0 means that there is no edge"
                ),
            );
        }
        if self.kept_zeros > 0 {
            let edges = counted(self.kept_zeros, "directed edge");
            tell(Level::Fact, format!("{file}: {edges} of weight 0 kept, with their edge features"));
        }
        if self.unequal > 0 {
            let edges = counted(self.unequal, "edge");
            tell(
                own,
                format!(
                    "{file}: {edges} listed in both directions with different values; the mean of the two is used"
                ),
            );
        }
        if self.loops > 0 {
            report_loops(file, self.loops, SelfLoops::Drop, own);
        }
    }

    /// Returns the counts for a graph of edges without values. `read` has the numbers of listed
    /// edges.
    #[must_use]
    pub fn without_values(graph: &Graph, options: Options, read: Listed) -> Self {
        let kept_loops = if options.keep_self_loops { loops(graph) } else { 0 };
        let edges = match options.symmetric {
            true => (graph.edges() - kept_loops) / 2 + kept_loops,
            false => graph.edges(),
        };
        let dropped = if options.keep_self_loops { 0 } else { read.loops };
        let repeats = read.edges.saturating_sub(dropped).saturating_sub(edges);
        Self { repeats, loops: dropped, ..Self::default() }
    }
}

fn tell(level: Level, text: String) {
    match level {
        Level::Fact => notes::fact(text),
        Level::Note => notes::add(text),
        Level::Warning => notes::warn(text),
    }
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn entries(count: u64) -> String {
    if count == 1 { "1 entry repeats".to_owned() } else { format!("{count} entries repeat") }
}

pub(super) fn report_loops(file: &str, loops: u64, decision: SelfLoops, level: Level) {
    let loops = counted(loops, "self-loop");
    match decision {
        SelfLoops::Drop => {
            tell(level, format!("{file}: {loops} dropped; data.self_loops = \"keep\" keeps them"));
        }
        SelfLoops::Keep => {
            tell(Level::Fact, format!("{file}: {loops} kept; data.self_loops = \"drop\" drops them"))
        }
    }
}
