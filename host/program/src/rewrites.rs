//! Rewrites: changes of a program that save work in every epoch, and the rules that decide when to
//! apply them.
//!
//! The first layer computes `N X W`, where N is the normalised adjacency matrix, X the features and
//! W the weight. If no dropout precedes the layer, `N X` is the same in every epoch and evaluation,
//! and no gradient passes through it. `N X` can then be gathered once, before the first epoch, and
//! replace the features. An epoch then gathers neither `X W` nor its gradient. However, N X of
//! sparse features is less sparse, so products take longer. If the layer reads X as well, N X also
//! takes additional memory ([`FeatureGather`]).
//!
//! The loss counts labelled vertices only. Rows that the last layer gathers for other vertices are
//! unused, and their gradient is zero ([`loss_gathers`]). If enough vertices are unlabelled, these
//! two gathers omit the edges of unlabelled vertices. The gather of the gradient has its own lists
//! for this.
//!
//! `N (H W) = (N H) W`, so a later layer gathers before its product if its input is much narrower
//! than its output. The saved gathers, forward and backward, must cost more than the additional
//! rows. The result is the same up to rounding.

use crate::error::{Error, Result};
use crate::network::{ACTIVATE, CONCAT, CONV2D, HEAD, LINEAR, NORMALISE, POOL2D, PRODUCT, SLICE, SUM};
use crate::op::gather;
use crate::program::{Operation, Over, Phase, Port, Program, Stage};
use eciton_recipe::Error as Refused;
use eciton_recipe::gather_choice::GatherFeatures;
use eciton_recipe::model::{Aggregator, FeatureGather, LayerKind, Model};
use eciton_types::ids::StageId;

/// Returns the gathers of a training program that may omit edges without a change of the loss or
/// gradients. Either the program does not use the gathered rows of unlabelled vertices, or the
/// gather sums gradients that are zero in these rows. A sum that starts from zero is the same with
/// or without zeros.
///
/// The loss reads labelled rows only. The kernels between the loss and a gather compute each row
/// separately. Their results for other rows are therefore unused too, and a gradient of zero stays
/// zero. The built-in kernels have this property. `replaced` returns true for kernels that the user
/// has replaced.
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

    // Slots whose rows are zero for unlabelled vertices: gradients, in the order in which they
    // are computed.
    let mut zero = vec![false; program.slots.len()];
    for (id, stage) in all().filter(|(_, stage)| by_row(stage)) {
        let from_zero = |port| stage.port(port).all(|slot| zero[slot.index()]);
        let plain = operation(stage).is_some_and(|o| o.kernel == SUM && o.parameters.is_empty());
        let stays = match stage.phase {
            Phase::Loss => program.loss_of(id).is_some(),
            // Kernel `sum` adds the gradients of one value.
            Phase::Forward => plain && from_zero(Port::Input),
            _ => from_zero(Port::Gradient),
        };
        if stays {
            stage.writes().for_each(|slot| zero[slot.index()] = true);
        }
    }

    // For each slot, whether its readers use rows of labelled vertices only. A slot's readers come
    // later in the program, so the last slot is decided first.
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

/// Names of the kernels that compute each row separately and turn a gradient of zero into a
/// gradient of zero.
const BY_ROW: [&str; 10] = [LINEAR, HEAD, SUM, ACTIVATE, NORMALISE, CONV2D, POOL2D, CONCAT, SLICE, PRODUCT];

/// Sizes of a data set on which the choice of rewrites depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Number of vertices in the data set.
    pub rows: u64,
    /// Number of directed edges.
    pub edges: u64,
    /// Number of stored feature values. For dense features, it is the number of rows times the
    /// number of columns.
    pub stored: u64,
    /// Maximum number of stored feature values after the features are gathered, which makes sparse
    /// features denser.
    pub stored_gathered: u64,
}

/// Optimisations of a program that save work in every epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrites {
    /// True if the first layer's gather of the features runs before the first epoch
    /// ([`Model::constant_gather`]).
    pub gathered_features: bool,
    /// Layers that gather before their product, as a bit set. Bit `l` stands for layer `l`. Layers
    /// from 64 on never gather first.
    pub aggregate_first: u64,
}

/// Number of layers that have a bit in `aggregate_first`.
const COUNTED: usize = u64::BITS as usize;

/// Cost of a multiply-add in a gather, relative to one in a product. A gather is limited by memory
/// bandwidth. Measured gathers took 0.2 to 0.9 s for 115 M edges of width 48, which is 6 to 27 G
/// multiply-adds per second. Products reach about 75 G and more. The value is the lower ratio, so
/// that near ties change nothing.
const GATHER_WEIGHT: u64 = 3;

/// Number of additional reads and writes of each row if a gather precedes a product. The row must
/// be computed from the previous layer, and its gradient must be passed back.
const PASSES: u64 = 5;

impl Rewrites {
    /// Chooses the rewrites for a model and a data set. It compares the number of multiply-adds of
    /// an epoch with and without each rewrite. `wanted` decides whether the features are gathered
    /// once.
    ///
    /// # Errors
    /// Returns [`Error::Data`] if `wanted` is [`GatherFeatures::Once`] and the model does not allow
    /// it. With dropout before the features, for instance, the result would be another model.
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
                    "only one of the two: a trained epsilon changes the gathered rows in each epoch",
                ),
                (None, kind) => (
                    format!("run.gather_features = \"once\" with a first layer of kind `{}`", kind.name()),
                    "a first layer of kind `gcn`, `sage` with the mean, `gin` or `sgc`, or run.gather_features = \"auto\"",
                ),
                (Some(_), _) if first.dropout == 0.0 => (
                    "run.gather_features = \"once\" with several layers that read the features".to_owned(),
                    "only one layer that reads the features, or run.gather_features = \"auto\"",
                ),
                (Some(_), _) => (
                    format!(
                        "run.gather_features = \"once\" with dropout {} before the first layer",
                        first.dropout
                    ),
                    "only one of the two, because dropout changes the gathered features in each epoch: set the first layer's dropout to 0",
                ),
            };
            return Err(Error::from(Refused::Data { found, allowed }));
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
                // Products of forward and of the weight's gradient. A product of X that the layer
                // computes in both cases is not counted.
                let products = |stored: u64| 2 * u128::from(stored) * u128::from(width);
                let gathers =
                    2 * u128::from(work.edges + work.rows) * u128::from(times * width * GATHER_WEIGHT);
                times > 0 && products(work.stored_gathered) < products(work.stored) + gathers
            }
        };
        Ok(Self { gathered_features, aggregate_first })
    }

    /// Returns true if the program of a model reads the gathered features in addition to the
    /// features. Otherwise gathered features replace the features.
    #[must_use]
    pub fn reads_beside(&self, model: &Model) -> bool {
        let first = model.layers.first().filter(|_| self.gathered_features);
        first.and_then(|first| first.kind.feature_gather()) == Some(FeatureGather::Beside)
    }

    /// Returns true if layer number `layer` gathers before its product.
    #[must_use]
    pub fn aggregates_first(&self, layer: usize) -> bool {
        layer < COUNTED && self.aggregate_first >> layer & 1 == 1
    }
}

/// Returns the layers for which a gather before the product costs less, as a bit set. The cost is
/// the number of multiply-adds of gathers, forward and backward. Each value that is read or written
/// counts as one multiply-add.
fn aggregate_first(model: &Model, work: &Workload) -> u64 {
    let mut layers = 0;
    // The first layer is skipped, because features are wide or sparse.
    for (at, layer) in model.layers.iter().enumerate().take(COUNTED).skip(1) {
        if model.reads_features(at) {
            continue;
        }
        let hops = match &layer.kind {
            LayerKind::Gcn | LayerKind::Sage { aggregator: Aggregator::Mean } | LayerKind::Gin { .. } => 1,
            LayerKind::Sgc { hops } => *hops,
            // A maximum always precedes its product, whatever the widths.
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
    use eciton_recipe::objective::TaskType;

    fn chosen(dropout: f64, work: Workload, wanted: GatherFeatures) -> Result<bool> {
        let model = Model::gcn(2, 16, dropout, 100, 7).unwrap();
        Rewrites::choose(&model, &work, wanted).map(|s| s.gathered_features)
    }

    #[test]
    fn the_gathers_beside_the_loss_are_found() {
        let program = crate::sample_programs::gcn(3, 16, 1433, 7);
        let names = |replaced: &str| -> Vec<String> {
            let found = loss_gathers(&program, |kernel| kernel == replaced);
            found.iter().map(|&id| program.stage_name(id)).collect()
        };
        assert_eq!(names("linear"), ["gather 2", "gather 2 transposed"]);
        assert!(names("head").is_empty());
        assert!(loss_gathers(&program.evaluation(), |_| false).is_empty());
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
            let settings = eciton_recipe::model::ModelSettings::parse(&text, "m.toml").unwrap();
            let model = Model::resolve(&settings, 100, 40, TaskType::Classification).unwrap();
            let work = Workload { rows: 1000, edges, stored: 100_000, stored_gathered: 100_000 };
            Rewrites::choose(&model, &work, GatherFeatures::Auto).unwrap().aggregate_first
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
            let settings = eciton_recipe::model::ModelSettings::parse(&text, "m.toml").unwrap();
            Rewrites::choose(
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
