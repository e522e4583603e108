//! The option `eciton data stat --orders`, which measures the speed of gathers (sums over the
//! neighbours of each vertex) with different vertex orders.

use eciton_graph::adjacency::Graph;
use eciton_graph::order::{Gain, SURVEY_WIDTHS, Survey};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{counted, grouped, seconds};

/// Measurements of all vertex orders, which `eciton data stat --orders --json` prints.
#[derive(Serialize)]
pub(super) struct Orders {
    /// Number of directed edges from which the orders were computed.
    edges_ordered: u64,
    /// Number of directed edges that each gather (sum over the neighbours of each vertex) read.
    edges_gathered: u64,
    threads: usize,
    /// Numbers of values in the rows that the two kinds of gathers read.
    widths: [usize; 2],
    orders: Vec<OrderLine>,
}

/// Measurements of one vertex order, compared with the natural order of the data set.
#[derive(Serialize)]
struct OrderLine {
    order: &'static str,
    order_seconds: f64,
    mean_distance: f64,
    bits_per_gap: f64,
    /// Median time of a gather in seconds, for each of the two row widths.
    gather_seconds: [f64; 2],
    /// Speed relative to the natural order, for each of the two row widths. It is the median over
    /// rounds of the natural order's time divided by this order's time. A value above 1 means that
    /// this order is faster.
    speedup: [f64; 2],
}

/// Measures the speed of gathers on a graph with each vertex order.
pub(super) fn survey(graph: &Graph) -> Result<Orders, Failure> {
    let survey = Survey::measure(graph)?;
    let line = |gain: &Gain| OrderLine {
        order: gain.order.name(),
        order_seconds: gain.seconds,
        mean_distance: gain.mean_distance,
        bits_per_gap: gain.bits_per_gap,
        gather_seconds: gain.gather_seconds,
        speedup: gain.speedup,
    };
    Ok(Orders {
        edges_ordered: survey.edges_ordered,
        edges_gathered: survey.edges_gathered,
        threads: survey.threads,
        widths: SURVEY_WIDTHS,
        orders: survey.gains.iter().map(line).collect(),
    })
}

/// Prints the measurements as a table. `edges` is the number of directed edges of the graph.
pub(super) fn print(orders: &Orders, edges: u64, output: &mut Output) {
    let [narrow, wide] = orders.widths.map(|width| format!("gather {width}"));
    output.line("");
    output.line(format_args!(
        "{:<11} {:>10} {:>13} {:>9} {narrow:>20} {wide:>20}",
        "order", "computed", "mean distance", "bits/gap"
    ));
    for line in &orders.orders {
        let [narrow, wide] =
            [0, 1].map(|at| format!("{} ({:.2}x)", seconds(line.gather_seconds[at]), line.speedup[at]));
        output.line(format_args!(
            "{:<11} {:>10} {:>13} {:>9.2} {narrow:>20} {wide:>20}",
            line.order,
            seconds(line.order_seconds),
            grouped(line.mean_distance.round() as u64),
            line.bits_per_gap,
        ));
    }
    let mut note = format!(
        "medians of alternating measurements on {}; (x): speed relative to the natural order",
        counted(orders.threads as u64, "thread")
    );
    if orders.edges_gathered < edges {
        note.push_str(&format!("; gathers read {} sampled edges", grouped(orders.edges_gathered)));
    }
    if orders.edges_ordered < edges {
        note.push_str(&format!("; orders computed from {} sampled edges", grouped(orders.edges_ordered)));
    }
    output.line(note);
}
