//! Checks that several hosts can train a model.

use eciton_graph::dataset::Dataset;
use eciton_program::{Domain, Program};
use eciton_recipe::{Config, VertexOrder};
use eciton_types::SlotId;

use super::connections::Hosts;
use crate::data::Inputs;
use crate::error::{Error, Result};

/// Checks that several hosts can train this program.
///
/// # Errors
/// Returns [`Error::Hosts`] with the stage that prevents it, and what to do instead.
pub(crate) fn check(program: &Program) -> Result<()> {
    let whole = |stage: &&eciton_program::Stage| {
        let is_of_rows = |slot: SlotId| program.domain_of(slot) != Domain::ATOMS;
        stage.via.is_none() && stage.all().any(is_of_rows)
    };
    let Some(stage) = program.stages.iter().find(whole) else { return Ok(()) };
    Err(Error::Hosts(format!(
        "the stage `{}` reads all rows, and several hosts cannot do that yet; train on one host",
        stage.name
    )))
}

/// Checks that several hosts do not move the rows of a store that was divided among them.
///
/// # Errors
/// Returns [`Error::Hosts`] if the run has several hosts, parts and an order.
pub(crate) fn check_order(dataset: &Dataset, hosts: Option<&Hosts>, order: VertexOrder) -> Result<()> {
    if hosts.is_none() || dataset.parts.is_empty() || order == VertexOrder::Natural {
        return Ok(());
    }
    Err(Error::Hosts(format!(
        "the rows of `{}` are in the order of its partition; remove `run.order`, or partition the data set again \
         with another --by",
        dataset.name
    )))
}

/// Checks that several hosts can train on this data with this configuration.
///
/// # Errors
/// Returns [`Error::Hosts`] with the setting that prevents it, and what to do instead.
pub(crate) fn check_data(config: &Config, inputs: &Inputs) -> Result<()> {
    let text = match () {
        () if config.executor.kind.has_workers() => {
            "workers and several hosts exclude each other; remove `executor.kind` or the hosts".to_owned()
        }
        () if config.lanes.lanes.count > 0 => {
            "lanes and several hosts exclude each other; remove `lanes.count` or the hosts".to_owned()
        }
        () if config.batch.is_on() => {
            "several hosts train on all rows in each step; remove the settings of `batch`".to_owned()
        }
        () if config.predicts_links() => {
            "links are drawn over all vertices, and several hosts cannot do that yet; train on one host"
                .to_owned()
        }
        () if inputs.readout.is_some() => {
            "a data set of many graphs, or of labelled edges, cannot be divided among several hosts yet; train on \
             one host"
                .to_owned()
        }
        () => return Ok(()),
    };
    Err(Error::Hosts(text))
}
