//! Savings: work that a program need not do in every epoch, and when leaving it out pays.
//!
//! The first layer computes `N X W`. Where no dropout stands before it, `N X` is the same in every
//! epoch and in every evaluation, and no gradient goes through it: it can be gathered once, before
//! the first epoch, in place of the features. An epoch then gathers neither `X W` nor the gradient
//! of it. What it costs is that N X of sparse features is less sparse, so that products get longer,
//! and where the layer reads X as well, memory ([`FeatureGather`]).
//!
//! The loss counts labelled vertices. What the last layer gathers for others comes to nothing, and
//! the gradient that comes back is zero in their rows ([`loss_gathers`]): where enough are not
//! labelled, these two gathers leave the others' edges out, the second by lists of its own.
//!
//! `N (H W) = (N H) W`: a later layer gathers before its product where its input is so much
//! narrower than its output that the gathers saved, forward and back, are more than the rows that
//! have to be made for them. The same result to rounding.

use crate::error::{Error, Result};
use crate::ids::StageId;
use crate::model::{Aggregator, FeatureGather, LayerKind, Model};
use crate::network::{ACTIVATE, CONCAT, CONV2D, HEAD, LINEAR, NORMALISE, POOL2D, PRODUCT, SLICE, SUM};
use crate::op::gather;
use crate::program::{Operation, Over, Phase, Port, Program, Stage};

/// When the gathers before and after the loss leave out rows that the loss does not reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelledGathers {
    /// Where it pays, see [`LabelledGathers::choose`], and memory allows.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// One in so many edges at least must lead to a vertex that is not labelled: a fifth of both
/// gathers is then left out, for lists that take 4 bytes for each of the others.
const LEFT_OUT: u64 = 5;

impl LabelledGathers {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];

    /// Returns whether to leave rows out, for a graph of so many edges, `labelled` of which lead to
    /// vertices that the loss counts.
    #[must_use]
    pub const fn choose(self, labelled: u64, edges: u64) -> bool {
        match self {
            Self::Auto => labelled <= edges - edges.div_ceil(LEFT_OUT),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// The gathers of a training program whose terms may be left out: those whose rows of vertices
/// without a label come to nothing, and those of gradients that are zero in these rows. A sum from
/// zero on is the same with or without zeros.
///
/// The loss looks at labelled rows alone. Kernels between it and a gather take each row by itself,
/// so that what they make of others is not looked at either, and a gradient of zero stays zero; the
/// built-in ones do. `replaced` says which of these the user has put another in the place of.
#[must_use]
pub fn loss_gathers(program: &Program, replaced: impl Fn(&str) -> bool) -> Vec<StageId> {
    if !program.trains() || program.model.links {
        return Vec::new();
    }
    let operation = |stage: &Stage| program.operations.get(stage.operation.index());
    let by_row = |stage: &Stage| {
        let built_in = |o: &Operation| BY_ROW.contains(&&*o.kernel) && !replaced(&o.kernel);
        operation(stage).is_some_and(|o| o.signature.is_some() && o.along.is_none() && built_in(o))
    };
    let all = || (0u16..).map(StageId).zip(&program.stages);

    // Slots whose rows are zero where there is no label: gradients, in the order in which they are
    // made.
    let mut zero = vec![false; program.slots.len()];
    for (id, stage) in all().filter(|(_, stage)| by_row(stage)) {
        let from_zero = |port| stage.port(port).all(|slot| zero[slot.index()]);
        let plain = operation(stage).is_some_and(|o| o.kernel == SUM && o.parameters.is_empty());
        let stays = match stage.phase {
            Phase::Loss => program.loss_of(id).is_some(),
            // Gradients of one value, added up.
            Phase::Forward => plain && from_zero(Port::Input),
            _ => from_zero(Port::Gradient),
        };
        if stays {
            stage.writes().for_each(|slot| zero[slot.index()] = true);
        }
    }

    // For each slot, whether its readers use rows of labelled vertices only. A slot's readers come
    // later in the program, so the last slot is settled first.
    let mut unread = vec![false; program.slots.len()];
    for slot in (0..program.slots.len()).rev() {
        let mut readers = all().filter(|(_, stage)| stage.reads().any(|(read, _)| read.index() == slot));
        unread[slot] = readers.all(|(id, stage)| {
            by_row(stage)
                && match stage.phase {
                    Phase::Loss => program.loss_of(id).is_some(),
                    Phase::Forward => stage.writes().all(|made| unread[made.index()]),
                    _ => stage.port(Port::Gradient).all(|slot| zero[slot.index()]),
                }
        });
    }

    let reached = |id: StageId, stage: &Stage| {
        let gathers = operation(stage).is_some_and(|o| o.kernel == gather::NAME && o.signature.is_none());
        let relation = program.relation(id).filter(|r| gathers && r.over == Over::Neighbours);
        relation.is_some_and(|relation| match relation.reversed {
            false => stage.writes().all(|slot| unread[slot.index()]),
            true => stage.all().all(|slot| zero[slot.index()]),
        })
    };
    all().filter(|(id, stage)| reached(*id, stage)).map(|(id, _)| id).collect()
}

/// Kernels that take each row by itself and make of a gradient of zero one of zero.
const BY_ROW: [&str; 10] = [LINEAR, HEAD, SUM, ACTIVATE, NORMALISE, CONV2D, POOL2D, CONCAT, SLICE, PRODUCT];

/// What a data set gives to count with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Vertices.
    pub rows: u64,
    /// Directed edges.
    pub edges: u64,
    /// Feature values that are stored: rows times columns where they are dense.
    pub stored: u64,
    /// Feature values that would be stored of what is gathered of them, at most.
    pub stored_gathered: u64,
}

/// When the first layer's gather is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatherFeatures {
    /// As [`Savings::choose`] counts.
    #[default]
    Auto,
    /// Once, before the first epoch.
    Once,
    /// In every epoch, behind the first product.
    EachEpoch,
}

impl GatherFeatures {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("once", Self::Once), ("each-epoch", Self::EachEpoch)];
}

/// What a program leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// What the first layer gathers of the features is gathered before
    /// ([`Model::constant_gather`]).
    pub gathered_features: bool,
    /// Layers that gather before their product: bit l is layer l. Layers from 64 on never do.
    pub aggregate_first: u64,
}

/// Layers that have a bit.
const COUNTED: usize = u64::BITS as usize;

/// A gather is bound by memory: one of its multiply-adds takes as long as this many of a product.
/// (Measured: 0.2 to 0.9 s for 115 M edges of width 48, so 6 to 27 G multiply-adds a second,
/// against some 75 G and more in products; the lower ratio, so that a near tie changes nothing.)
const GATHER_WEIGHT: u64 = 3;

/// How often the rows that are gathered before a product are read or written because they are: made
/// from the layer before, and their gradient taken back.
const PASSES: u64 = 5;

impl Savings {
    /// Chooses for a model and a data set, by counting an epoch's multiply-adds.
    ///
    /// # Errors
    /// [`Error::Data`] if the features are to be gathered once and dropout stands before them: that
    /// would be another model.
    pub fn choose(model: &Model, work: &Workload, wanted: GatherFeatures) -> Result<Self> {
        let aggregate_first = aggregate_first(model, work);
        let Some(first) = model.layers.first() else {
            return Ok(Self::default());
        };
        let constant = model.constant_gather();
        if wanted == GatherFeatures::Once && constant.is_none() {
            let (found, allowed) = match (first.kind.feature_gather(), &first.kind) {
                (None, LayerKind::Gin { .. }) => (
                    "run.gather_features = \"once\" with `train_epsilon` in the first layer".to_owned(),
                    "either, but not both: what is gathered would be weighed anew in each epoch",
                ),
                (None, kind) => (
                    format!("run.gather_features = \"once\" with a first layer of kind `{}`", kind.name()),
                    "a first layer that is `gcn`, `sage` of the mean, `gin` or `sgc`, or run.gather_features = \"auto\"",
                ),
                (Some(_), _) if first.dropout == 0.0 => (
                    "run.gather_features = \"once\" with several layers that read the features".to_owned(),
                    "a first layer that alone reads them, or run.gather_features = \"auto\"",
                ),
                (Some(_), _) => (
                    format!(
                        "run.gather_features = \"once\" with dropout {} before the first layer",
                        first.dropout
                    ),
                    "either, but not both: with dropout the gathered features differ from epoch to epoch; set the first layer's dropout to 0",
                ),
            };
            return Err(Error::Data { found, allowed });
        }
        let gathered_features = match wanted {
            GatherFeatures::Once => true,
            GatherFeatures::EachEpoch => false,
            GatherFeatures::Auto => {
                let width = u64::from(first.width);
                let times = match constant {
                    None => 0,
                    Some(FeatureGather::Hops(hops)) => u64::from(hops),
                    Some(FeatureGather::WithOwn(_) | FeatureGather::Beside) => 1,
                };
                // Forward, and the weight's gradient; a product of X that is made beside it either
                // way is not counted.
                let products = |stored: u64| 2 * u128::from(stored) * u128::from(width);
                let gathers =
                    2 * u128::from(work.edges + work.rows) * u128::from(times * width * GATHER_WEIGHT);
                times > 0 && products(work.stored_gathered) < products(work.stored) + gathers
            }
        };
        Ok(Self { gathered_features, aggregate_first })
    }

    /// Returns whether a model's program reads what was gathered of the features beside them, and
    /// not in their place.
    #[must_use]
    pub fn reads_beside(&self, model: &Model) -> bool {
        let first = model.layers.first().filter(|_| self.gathered_features);
        first.and_then(|first| first.kind.feature_gather()) == Some(FeatureGather::Beside)
    }

    /// Returns whether a layer gathers before its product.
    #[must_use]
    pub fn aggregates_first(&self, layer: usize) -> bool {
        layer < COUNTED && self.aggregate_first >> layer & 1 == 1
    }
}

/// The layers for which it takes fewer multiply-adds of gathers, forward and back, and bytes in the
/// same unit: a value that is read or written counts as one.
fn aggregate_first(model: &Model, work: &Workload) -> u64 {
    let mut layers = 0;
    // Features are wide, or sparse.
    for (at, layer) in model.layers.iter().enumerate().take(COUNTED).skip(1) {
        if model.reads_features(at) {
            continue;
        }
        let hops = match &layer.kind {
            LayerKind::Gcn | LayerKind::Sage { aggregator: Aggregator::Mean } | LayerKind::Gin { .. } => 1,
            LayerKind::Sgc { hops } => *hops,
            // A maximum stands before its product whatever the widths.
            _ => continue,
        };
        let gathers =
            |width: u32| 2 * u128::from(work.edges + work.rows) * u128::from(hops) * u128::from(width);
        let before = model.input_width(at);
        let passes = u128::from(PASSES) * u128::from(work.rows) * u128::from(before);
        if gathers(before) + passes < gathers(layer.width) {
            layers |= 1 << at;
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::objective::TaskType;

    fn chosen(dropout: f64, work: Workload, wanted: GatherFeatures) -> Result<bool> {
        let model = Model::gcn(2, 16, dropout, 100, 7).unwrap();
        Savings::choose(&model, &work, wanted).map(|s| s.gathered_features)
    }

    #[test]
    fn the_gathers_beside_the_loss_are_found() {
        let program = crate::program::tests::gcn(3, 16, 1433, 7);
        let names = |replaced: &str| -> Vec<String> {
            let found = loss_gathers(&program, |kernel| kernel == replaced);
            found.iter().map(|&id| program.stage_name(id)).collect()
        };
        assert_eq!(names("linear"), ["gather 2", "gather 2 transposed"]);
        assert!(names("head").is_empty());
        assert!(loss_gathers(&program.evaluation(), |_| false).is_empty());
        let pays = |labelled| LabelledGathers::Auto.choose(labelled, 100);
        assert!(pays(0) && pays(80) && !pays(81));
        assert!(LabelledGathers::Always.choose(100, 100) && !LabelledGathers::Never.choose(0, 100));
    }

    #[test]
    fn dense_features_without_dropout_are_gathered_once() {
        let dense = Workload { rows: 1000, edges: 5000, stored: 100_000, stored_gathered: 100_000 };
        assert!(chosen(0.0, dense, GatherFeatures::Auto).unwrap());
        assert!(!chosen(0.0, dense, GatherFeatures::EachEpoch).unwrap());
        assert!(!chosen(0.5, dense, GatherFeatures::Auto).unwrap(), "another model");
        let refused = chosen(0.5, dense, GatherFeatures::Once).unwrap_err().to_string();
        assert!(refused.contains("dropout 0.5"), "{refused}");
        // Sparse rows that fill up: 5 times the products against 12,000 gathered rows saved.
        let sparse = Workload { rows: 1000, edges: 5000, stored: 20_000, stored_gathered: 100_000 };
        assert!(!chosen(0.0, sparse, GatherFeatures::Auto).unwrap());
        assert!(chosen(0.0, sparse, GatherFeatures::Once).unwrap());
        let barely = Workload { stored_gathered: 37_999, ..sparse };
        assert!(chosen(0.0, barely, GatherFeatures::Auto).unwrap(), "20,000 + 3 x 6,000 = 38,000");
        let tie = Workload { stored_gathered: 38_000, ..sparse };
        assert!(!chosen(0.0, tie, GatherFeatures::Auto).unwrap());
    }

    #[test]
    fn narrow_inputs_are_gathered_before_the_product() {
        let chosen = |kind: &str, hidden: u32, edges: u64| {
            let text = format!("kind = \"{kind}\"\nhidden = {hidden}\nlayers = 3\n");
            let settings = crate::model::ModelSettings::parse(&text, "m.toml").unwrap();
            let model = Model::resolve(&settings, 100, 40, TaskType::Classification).unwrap();
            let work = Workload { rows: 1000, edges, stored: 100_000, stored_gathered: 100_000 };
            Savings::choose(&model, &work, GatherFeatures::Auto).unwrap().aggregate_first
        };
        for kind in ["gcn", "sage", "gin"] {
            assert_eq!(chosen(kind, 16, 9_000), 0b100, "{kind}: 16 to 40, equal widths before");
            assert_eq!(chosen(kind, 40, 9_000), 0, "{kind}");
            assert_eq!(chosen(kind, 64, 9_000), 0, "{kind}");
        }
        // 2 x 2 x 16 + 5 x 16 values a row against 2 x 2 x 40, at one edge each: 144 < 160.
        assert_eq!(chosen("gcn", 16, 1_000), 0b100);
        // 2 x 16 + 80 against 80.
        assert_eq!(chosen("gcn", 16, 0), 0);
        assert_eq!(chosen("mlp", 16, 9_000), 0);
        assert_eq!(chosen("sage\"\naggregator = \"max", 16, 9_000), 0, "there is no choice");
    }

    #[test]
    fn what_the_first_layer_gathers_of_the_features_says_its_kind() {
        let work = Workload { rows: 1000, edges: 5000, stored: 100_000, stored_gathered: 100_000 };
        let chosen = |kind: &str, wanted| {
            let text = format!("kind = \"{kind}\"\ndropout = 0\n");
            let settings = crate::model::ModelSettings::parse(&text, "m.toml").unwrap();
            Savings::choose(
                &Model::resolve(&settings, 100, 7, TaskType::Classification).unwrap(),
                &work,
                wanted,
            )
        };
        for kind in ["gcn", "sgc", "sage", "gin"] {
            assert!(chosen(kind, GatherFeatures::Auto).unwrap().gathered_features, "{kind}");
        }
        let others = [
            ("sage\"\naggregator = \"max", "`sage`"),
            ("gin\"\ntrain_epsilon = true\nactivation = \"relu", "`train_epsilon`"),
            ("appnp", "`linear`"),
        ];
        for (kind, named) in others {
            assert!(!chosen(kind, GatherFeatures::Auto).unwrap().gathered_features, "{kind}");
            let refused = chosen(kind, GatherFeatures::Once).unwrap_err().to_string();
            assert!(refused.contains(named), "{refused}");
        }
    }
}
