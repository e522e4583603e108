//! Published table with the time and cost of training to the target accuracy.
//!
//! The costs of runs without functions are number of graph servers x hours x price. Weight servers
//! are excluded from the published and from the simulated costs.

use serde::Serialize;

use crate::error::Error;
use eciton_simulate::{Kind, LayerOrder, Named, Shape};

/// Source of the values of all rows.
pub(crate) const SOURCE: &str = "Thorpe et al. 2021, as recalled";
/// Machine type of the GPU servers. There are as many GPU servers as graph servers.
pub(super) const GPU_MACHINE: &str = "p3.2xlarge";
/// Memory size of a function in the published experiments, in MB.
pub(super) const FUNCTION_MB: u32 = 192;
/// Assumed number of attention heads of the published GAT, because the real number is not known.
const HEADS: u32 = 1;

/// Time and cost of a training run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Run {
    /// Time in seconds. For a whole run, this is the time to the target accuracy.
    pub(crate) seconds: f64,
    /// Cost of graph servers and functions in USD.
    pub(crate) usd: f64,
}

/// Row of the published table, with one model on one graph.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Published {
    /// Kind of the model's layers.
    pub(crate) kind: Kind,
    /// Name of the graph, which is one of [`NAMED`](eciton_simulate::NAMED).
    pub(crate) graph: &'static str,
    /// Number of graph servers, which are the machines that hold the graph.
    pub(crate) hosts: u32,
    /// Machine type of the graph servers.
    pub(crate) machine: &'static str,
    /// Number of weight servers, which are the machines that hold the weights.
    pub(crate) weight_servers: u32,
    /// Machine type of the weight servers, or `None` if it is not known.
    pub(crate) weight_machine: Option<&'static str>,
    /// Number of functions per graph server.
    pub(crate) functions_each: u32,
    /// Time and cost of the run with functions.
    pub(crate) functions: Run,
    /// Time and cost of the run on the graph servers without functions.
    pub(crate) cpu: Run,
    /// Time and cost of the run on the same number of GPU servers (p3.2xlarge).
    pub(crate) gpu: Run,
    /// Publication that reports the values, for instance `Thorpe et al. 2021`.
    pub(crate) source: &'static str,
}

const fn run(seconds: f64, usd: f64) -> Run {
    Run { seconds, usd }
}

const GAT: Kind = Kind::Gat { heads: HEADS };

/// Rows of the published table. The simulation's parameters are fitted to the first row.
pub(crate) const PUBLISHED: [Published; 6] = [
    Published {
        kind: Kind::Gcn,
        graph: "reddit-small",
        hosts: 2,
        machine: "c5.2xlarge",
        weight_servers: 2,
        weight_machine: Some("c5.xlarge"),
        functions_each: 80,
        functions: run(860.6, 0.20),
        cpu: run(1005.4, 0.19),
        gpu: run(162.9, 0.28),
        source: SOURCE,
    },
    Published {
        kind: Kind::Gcn,
        graph: "reddit-large",
        hosts: 12,
        machine: "c5n.2xlarge",
        weight_servers: 4,
        weight_machine: None,
        functions_each: 40,
        functions: run(1020.1, 1.69),
        cpu: run(1290.5, 1.85),
        gpu: run(324.9, 3.31),
        source: SOURCE,
    },
    Published {
        kind: Kind::Gcn,
        graph: "amazon",
        hosts: 8,
        machine: "c5n.2xlarge",
        weight_servers: 4,
        weight_machine: Some("c5.xlarge"),
        functions_each: 90,
        functions: run(512.7, 0.79),
        cpu: run(710.2, 0.68),
        gpu: run(385.3, 2.62),
        source: SOURCE,
    },
    Published {
        kind: Kind::Gcn,
        graph: "friendster",
        hosts: 32,
        machine: "c5n.4xlarge",
        weight_servers: 8,
        weight_machine: Some("c5.2xlarge"),
        functions_each: 50,
        functions: run(1133.3, 13.0),
        cpu: run(1990.8, 15.3),
        gpu: run(1490.4, 40.5),
        source: SOURCE,
    },
    Published {
        kind: GAT,
        graph: "reddit-small",
        hosts: 10,
        machine: "c5.2xlarge",
        weight_servers: 4,
        weight_machine: None,
        functions_each: 40,
        functions: run(496.3, 1.15),
        cpu: run(1270.4, 1.20),
        gpu: run(130.9, 1.11),
        source: SOURCE,
    },
    Published {
        kind: GAT,
        graph: "amazon",
        hosts: 12,
        machine: "c5n.2xlarge",
        weight_servers: 4,
        weight_machine: None,
        functions_each: 100,
        functions: run(853.4, 2.67),
        cpu: run(2092.7, 3.01),
        gpu: run(1039.2, 10.60),
        source: SOURCE,
    },
];

impl Run {
    /// Returns the value V = 1 / (time x cost), with time in seconds and cost in USD.
    #[must_use]
    pub(crate) fn value(&self) -> f64 {
        1.0 / (self.seconds * self.usd)
    }
}

impl Published {
    /// Returns the ratio of the value V with functions to V on CPUs only.
    #[must_use]
    pub(crate) fn value_against_cpu(&self) -> f64 {
        self.functions.value() / self.cpu.value()
    }

    /// Returns the ratio of the value V with functions to V on GPUs only.
    #[must_use]
    pub(crate) fn value_against_gpu(&self) -> f64 {
        self.functions.value() / self.gpu.value()
    }

    /// Returns the total number of functions over all graph servers.
    #[must_use]
    pub(crate) const fn all_functions(&self) -> u32 {
        self.hosts * self.functions_each
    }

    /// Returns the shape of the row's graph and two-layer model. GCN layers gather before they
    /// multiply, and the last product is fused with its gradient into one task.
    pub(super) fn shape(&self) -> Result<Shape, Error> {
        let named = Named::find(self.graph).ok_or_else(|| eciton_simulate::Error::Setting {
            what: "graph of a published result",
            found: self.graph.to_owned(),
            allowed: "the named shapes".to_owned(),
        })?;
        let order = LayerOrder { gather_first: true, fused: true };
        Ok(Shape { kind: self.kind, order, ..named.shape() })
    }
}
