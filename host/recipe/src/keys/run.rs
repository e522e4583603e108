//! The keys of `[run]`.

use super::key::{Bounds, Group, Key, Kind, Write, key, names, value};
use crate::config::{Keep, Run};
use crate::document::Field;
use crate::every::{self, Every};
use crate::executor::RowFormat;
use crate::gather_choice::{GatherFeatures, LabelledGathers};
use crate::objective::Metric;
use crate::until::Part;
use crate::vertex_order::VertexOrder;

/// Maximum number of epochs.
const MAX_EPOCHS: u32 = 1_000_000_000;
/// Maximum number of steps.
const MAX_STEPS: u64 = u32::MAX as u64 - 1;
/// Largest integer that TOML can express.
const MAX_INTEGER: u64 = i64::MAX as u64;

/// Numeric classes of processors, as pairs of name and description.
const NUMERIC_CLASSES: [(&str, &str); 4] = [
    ("portable-1", "portable-1"),
    ("neon-fma-1", "neon-fma-1"),
    ("avx2-fma-1", "avx2-fma-1"),
    ("avx512-fma-2", "avx512-fma-2"),
];

type To = Run;

pub(super) const RUN: &[Key<Run>] = &[
    key("seed", "Random seed", value!(integer(0, MAX_INTEGER) => seed))
        .also(&["random_seed"])
        .flag("seed", "SEED", Group::Training),
    key("epochs", "Number of passes over the training data", value!(integer32(1, MAX_EPOCHS) => epochs))
        .also(&["num_epochs", "max_epochs"])
        .flag("epochs", "N", Group::Training),
    key("steps", "Number of steps (weight updates) after which training ends, in place of epochs", value!(some integer32(1, MAX_STEPS) => steps))
        .also(&["max_steps", "num_steps", "updates", "iterations"])
        .absent("as many as the epochs have")
        .flag("steps", "N", Group::Training),
    key("eval_every", "Time between evaluations. The last step is always evaluated; 0: only the last", EVAL_EVERY)
        .also(&["eval-every", "eval_steps", "val_check_interval"])
        .flag("eval-every", "TIME", Group::Training),
    key("eval_split", "Part of the split on which the metric is computed during training", value!(some choice(Part::NAMES) => eval_split))
        .also(&["eval-split"])
        .absent("all parts"),
    key("eval_rows", "Maximum number of rows of each part on which the metric is computed during training", value!(some integer32(1, u32::MAX as u64) => eval_rows))
        .also(&["eval-rows", "limit_val_batches", "max_eval_samples"])
        .absent("all rows"),
    key("log_every", "Time between reports in metrics.jsonl, in addition to those of epochs and evaluations. It adds the gradient norm", LOG_EVERY)
        .also(&["log-every", "logging_steps", "log_every_n_steps"])
        .absent("one report per epoch or evaluation")
        .flag("log-every", "TIME", Group::Training),
    key("metric", "Metric that models are compared by. Links have roc-auc, average-precision, hits@10, hits@20, hits@50, hits@100 and mean-reciprocal-rank", value!(some choice(Metric::ALL) => metric))
        .also(&["eval_metric", "metrics"])
        .absent("accuracy; roc-auc for several labels or links, mean-absolute-error for numbers")
        .flag("metric", "NAME", Group::Training),
    key("patience", "Number of epochs without a better validation metric after which training stops", value!(some integer32(1, MAX_EPOCHS) => patience))
        .also(&["early_stop", "early_stopping"])
        .absent("never")
        .flag("patience", "N", Group::Training),
    key("until", "Target at which training stops, after the first evaluated epoch that reaches it: test_acc=0.94, val=0.8, val_mae=0.3", UNTIL)
        .also(&["target_metric", "stop_at"])
        .absent("no target")
        .flag("until", "METRIC=VALUE", Group::Training),
    key("min_delta", "Minimum improvement of the metric that patience counts as better", value!(number(Bounds::SHARE_BELOW_1) => min_delta))
        .also(&["tolerance"]),
    key("keep", "Model that a run writes. best: the first with the best validation metric; last-best: the last of equals", value!(choice(Keep::ALL) => keep))
        .also(&["keep_model", "restore_best"]),
    key("init", "Model file (.safetensors) or run folder whose weights the run starts from. Names and shapes must fit", value!(some text("a path to a model file or a run folder") => init))
        .also(&["checkpoint", "weights", "pretrained"])
        .absent("random weights")
        .flag("init", "FILE", Group::Training),
    key("init_fresh", "Layers whose weights are random although init is given", value!(layers => init_fresh))
        .also(&["fresh_layers"])
        .absent("none")
        .flag("init-fresh", "LAYERS", Group::Training),
    key("init_digest", "Expected SHA-256 of the weights of init. Other weights are refused", INIT_DIGEST)
        .absent("any weights are accepted"),
    key("intervals", "Number of intervals (runs of vertices that are scheduled as units), at most 256. It changes no result", value!(some integer32(1, 65_536) => intervals))
        .also(&["chunks", "partitions"])
        .absent("by the size of the graph")
        .flag("intervals", "N", Group::Execution),
    key("threads", "Number of compute threads. It changes no result", value!(some integer32(1, 1024) => threads))
        .also(&["workers", "jobs"])
        .absent("all processors")
        .flag("threads", "N", Group::Execution),
    key("tune_threads", "Choice of the number of working threads by an autotuner, with the local executor", value!(flag => tune_threads))
        .also(&["auto_threads"]).absent("false"),
    key("numeric_class", "Numeric class of the run. Runs of one class have equal results bit for bit", NUMERIC_CLASS)
        .also(&["class", "simd"])
        .absent("the best class of this processor"),
    key("memory_bytes", "Maximum number of bytes that the run may allocate", value!(some integer(1, MAX_INTEGER) => memory_bytes))
        .also(&["max_memory", "memory_limit"])
        .absent("the memory of this machine"),
    key("gather_features", "Time of the first layer's gather. once: before the first epoch, which requires no dropout before it (gcn, sage with the mean, gin, sgc)", value!(choice(GatherFeatures::ALL) => gather_features))
        .also(&["precompute"]),
    key("labelled_gathers", "Omission of rows that the loss does not reach from the gathers before and after the loss. It changes no result", value!(choice(LabelledGathers::ALL) => labelled_gathers)),
    key("order", "Order of vertices in memory. Results are reported in the order of the data", value!(choice(VertexOrder::ALL) => order))
        .also(&["ordering", "reorder", "vertex_order"])
        .flag("order", "ORDER", Group::Execution),
    key("row_storage", "Storage format of activations and gradients between stages. bf16 changes results", value!(choice(RowFormat::STORED) => row_storage))
        .also(&["embedding_storage", "storage"])
        .flag("row-storage", "FORMAT", Group::Execution),
];

const EVAL_EVERY: (Kind, Write<Run>) =
    (Kind::Other("a whole number of epochs, or a text such as \"500 steps\""), |run, field, kind| {
        let every = field.every()?;
        if matches!(every, Every::Seconds(_)) {
            // The results of a run do not depend on the speed of the machine.
            return Err(field.refuse(kind.text(&field.name)));
        }
        run.eval_every = every;
        Ok(())
    });

const LOG_EVERY: (Kind, Write<Run>) = (Kind::Other(every::FORM), |run, field, _| {
    run.log_every = Some(field.every()?);
    Ok(())
});

const UNTIL: (Kind, Write<Run>) =
    (Kind::Other("PART[_METRIC]=VALUE with PART train, val or test"), |run, field, _| {
        let text = field.text("a target such as \"test_acc=0.94\"")?;
        run.until = Some(text.parse().map_err(|form: String| field.refuse(form))?);
        Ok(())
    });

const NUMERIC_CLASS: (Kind, Write<Run>) = (Kind::Choice(|| names(&NUMERIC_CLASSES)), |run, field, _| {
    run.numeric_class = Some(field.choice(&NUMERIC_CLASSES)?.to_owned());
    Ok(())
});

const INIT_DIGEST: (Kind, Write<Run>) = (Kind::Other("64 hexadecimal digits"), |run, field, kind| {
    let wanted = kind.text(&field.name);
    let text = field.text(&wanted)?.to_ascii_lowercase();
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    run.init_digest = Some(text).filter(|_| is_digest);
    if is_digest { Ok(()) } else { Err(field.refuse(wanted)) }
});
