//! Published models, given by their shapes without weights. Planners are compared on them.
//!
//! A row is a sample: a sequence of tokens, or a record. Values have 2 bytes. A product [n, k] x
//! [k, m] takes 2 n k m operations forward and twice that number backward. The costs of a
//! transformer layer, for a sequence of s tokens, width h and a heads, are:
//!
//! ```text
//! forward  24 s h^2 + 4 s^2 h operations      Narayanan et al. 2021 (Megatron-LM, SC'21), appendix
//! kept     s h (34 + 5 a s / h) bytes         Korthikanti et al. 2022, equation 1
//! weights  12 h^2 values
//! ```
//!
//! An operator starts some kernels in each direction: 20 for a transformer layer, 2 for a product
//! with its activation, and 1 for all others. These numbers are estimates.
//!
//! * `transformer-4x8`, `-8x4`: branches x layers of GraphPipe (Jeon et al. 2025). Its widths were
//!   not available, so width 1,024, 16 heads and 256 tokens are round numbers. `-16x2` is for more
//!   branches.
//! * `dlrm`: 7 + 7 branches of GraphPipe. Its sizes are round numbers: dense branches of 4 layers
//!   of 4,096; tables of 1,000,000 x 64, each with a layer of 4,096; 4 layers after all branches.
//! * `candle-uno`: 7 branches of 4 layers of GraphPipe, and 4 layers after all branches. Width
//!   4,192 and the inputs' features are those of FlexFlow's example `candle_uno`.
//! * `gpt-1.3b`, `gpt-2.2b`: sizes of PipeDream-2BW (Narayanan et al. 2021). They have 24 layers of
//!   2,048 and 48 of 1,920, so that 12 L h^2 + V h is the size; 512 tokens, V = 51,200.
//! * `vgg-16`: VGG-16 (Simonyan and Zisserman 2015) on images of 224 x 224, as in BaPipe (Zhao et al.
//!   2020). A convolution k x k from i to o channels takes 2 k^2 i o operations per output pixel.
//! * `layers-LxW`: L products of W values with their activations, of any L and W.
//! * `gpt-3.9b`: 48 layers of 2,560 with 40 heads, like the BERT of 3.9 B (Shoeybi et al. 2019,
//!   Megatron-LM).

use super::graph::{Graph, MAX_OPERATORS, Operator, Pace};
use crate::error::{Error, Result};
use eciton_recipe::Error as Refused;

/// Size of a value in the published models, in bytes.
const VALUE_BYTES: f64 = 2.0;
/// Vocabulary size of the language models, in tokens, padded.
const WORDS: f64 = 51_200.0;

/// Speed of a lane with pace 1, for published models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Floating-point operations per second.
    pub flops: f64,
    /// Time to start a kernel, in seconds.
    pub start: f64,
}

/// Names of all models that [`published`] accepts, except `layers-LxW`.
pub const NAMES: [&str; 9] = [
    "transformer-4x8",
    "transformer-8x4",
    "transformer-16x2",
    "dlrm",
    "candle-uno",
    "vgg-16",
    "gpt-1.3b",
    "gpt-2.2b",
    "gpt-3.9b",
];

/// Returns the graph of a published model.
///
/// # Errors
/// Returns [`Error::Content`] for a name that is neither in [`NAMES`] nor `layers-LxW`, and for an
/// invalid speed.
pub fn published(name: &str, speed: Speed) -> Result<Graph> {
    let mut made = Making { speed, operators: Vec::new() };
    match name {
        "transformer-4x8" => made.transformer(4, 8),
        "transformer-8x4" => made.transformer(8, 4),
        "transformer-16x2" => made.transformer(16, 2),
        "dlrm" => made.dlrm(),
        "candle-uno" => made.candle(),
        "vgg-16" => made.vgg(),
        "gpt-1.3b" => made.gpt(24, 2048.0, 16.0),
        "gpt-2.2b" => made.gpt(48, 1920.0, 20.0),
        "gpt-3.9b" => made.gpt(48, 2560.0, 40.0),
        other => match layers(other) {
            Some((count, width)) => made.layers(count, width),
            None => {
                let reason = format!("{other:?}: use one of {}, or layers-LxW", NAMES.join(", "));
                return Err(Error::from(Refused::Content { what: "a published model", reason }));
            }
        },
    }
    Graph::new(made.operators)
}

/// Returns the number of layers and the width in a name `layers-LxW`.
fn layers(name: &str) -> Option<(usize, f64)> {
    let (count, width) = name.strip_prefix("layers-")?.split_once('x')?;
    let (count, width): (usize, u32) = (count.parse().ok()?, width.parse().ok()?);
    ((1..=MAX_OPERATORS).contains(&count) && width > 0).then(|| (count, f64::from(width)))
}

struct Making {
    speed: Speed,
    operators: Vec<Operator>,
}

/// Sizes of a transformer layer: width, heads and tokens.
#[derive(Clone, Copy)]
struct Width {
    tokens: f64,
    hidden: f64,
    heads: f64,
}

impl Making {
    /// Adds an operator. The arguments give its numbers of kernels and forward operations per row,
    /// and its numbers of values for weights, stash and output.
    fn add(
        &mut self,
        name: String,
        reads: &[usize],
        (kernels, flops): (f64, f64),
        [weights, kept, output]: [f64; 3],
    ) -> usize {
        let Speed { flops: pace, start } = self.speed;
        let call = kernels * start;
        self.operators.push(Operator {
            name,
            reads: reads.to_vec(),
            forward: Pace { call, row: flops / pace },
            backward: Pace { call, row: 2.0 * flops / pace },
            weights: VALUE_BYTES * weights,
            kept: VALUE_BYTES * kept,
            output: VALUE_BYTES * output,
            data: 0.0,
        });
        self.operators.len() - 1
    }

    /// Adds a product of rows with an activation. It stashes its result for backward.
    fn dense(&mut self, name: String, reads: &[usize], from: f64, to: f64) -> usize {
        self.add(name, reads, (2.0, 2.0 * from * to), [from * to, to, to])
    }

    fn layer(&mut self, name: String, reads: &[usize], of: Width) -> usize {
        let Width { tokens, hidden, heads } = of;
        let flops = 24.0 * tokens * hidden * hidden + 4.0 * tokens * tokens * hidden;
        let kept = tokens * hidden * (34.0 + 5.0 * heads * tokens / hidden) / VALUE_BYTES;
        self.add(name, reads, (20.0, flops), [12.0 * hidden * hidden, kept, tokens * hidden])
    }

    /// Adds branches of transformer layers, joined by a product of all their widths.
    fn transformer(&mut self, branches: usize, layers: usize) {
        let of = Width { tokens: 256.0, hidden: 1024.0, heads: 16.0 };
        let ends: Vec<usize> = (0..branches)
            .map(|branch| {
                let mut reads = Vec::new();
                for layer in 0..layers {
                    reads = vec![self.layer(format!("branch {branch} layer {layer}"), &reads, of)];
                }
                reads.first().copied().unwrap_or(0)
            })
            .collect();
        let (from, rows) = (branches as f64 * of.hidden, of.tokens);
        let to = of.hidden;
        self.add("join".to_owned(), &ends, (2.0, 2.0 * rows * from * to), [from * to, rows * to, rows * to]);
    }

    /// Adds layers of one width that read `features` features. Returns the index of the last one.
    fn stack(&mut self, name: &str, reads: &[usize], features: f64, width: f64, layers: usize) -> usize {
        let (mut reads, mut from) = (reads.to_vec(), features);
        for layer in 0..layers {
            reads = vec![self.dense(format!("{name} layer {layer}"), &reads, from, width)];
            from = width;
        }
        reads.first().copied().unwrap_or(0)
    }

    fn dlrm(&mut self) {
        let (width, entries, columns) = (4096.0, 1e6, 64.0);
        let mut ends = Vec::new();
        for branch in 0..7 {
            ends.push(self.stack(&format!("dense {branch}"), &[], width, width, 4));
        }
        for branch in 0..7 {
            let weights = [entries * columns, 0.0, columns];
            let table = self.add(format!("table {branch}"), &[], (1.0, 2.0 * columns), weights);
            ends.push(self.dense(format!("sparse {branch}"), &[table], columns, width));
        }
        self.stack("top", &ends, 14.0 * width, width, 4);
    }

    fn candle(&mut self) {
        let width = 4192.0;
        let inputs = [
            ("dose 1", 1.0),
            ("dose 2", 1.0),
            ("cell rnaseq", 942.0),
            ("drug 1 descriptors", 5270.0),
            ("drug 1 fingerprints", 2048.0),
            ("drug 2 descriptors", 5270.0),
            ("drug 2 fingerprints", 2048.0),
        ];
        let ends = inputs.map(|(name, features)| self.stack(name, &[], features, width, 4));
        self.stack("top", &ends, ends.len() as f64 * width, width, 4);
    }

    fn vgg(&mut self) {
        let (mut last, mut from): (Vec<usize>, f64) = (Vec::new(), 3.0);
        let blocks =
            [(2, 64.0, 224.0), (2, 128.0, 112.0), (3, 256.0, 56.0), (3, 512.0, 28.0), (3, 512.0, 14.0)];
        for (block, (layers, to, side)) in blocks.into_iter().enumerate() {
            for layer in 0..layers {
                let (values, pixels) = (9.0 * from * to, side * side);
                // The last layer of a block is followed by a pooling of 2 x 2.
                let output = to * pixels / if layer + 1 == layers { 4.0 } else { 1.0 };
                let of = [values, to * pixels, output];
                let (name, work) = (format!("block {block} layer {layer}"), (2.0, 2.0 * values * pixels));
                last = vec![self.add(name, &last, work, of)];
                from = to;
            }
        }
        let dense = [(25_088.0, 4096.0), (4096.0, 4096.0), (4096.0, 1000.0)];
        for (layer, (from, to)) in dense.into_iter().enumerate() {
            last = vec![self.dense(format!("dense {layer}"), &last, from, to)];
        }
    }

    fn layers(&mut self, count: usize, width: f64) {
        for layer in 0..count {
            let reads: Vec<usize> = layer.checked_sub(1).into_iter().collect();
            self.dense(format!("layer {layer}"), &reads, width, width);
        }
    }

    fn gpt(&mut self, layers: usize, hidden: f64, heads: f64) {
        let of = Width { tokens: 512.0, hidden, heads };
        let rows = of.tokens * hidden;
        let mut last = self.add("embedding".to_owned(), &[], (1.0, 0.0), [WORDS * hidden, 0.0, rows]);
        for layer in 0..layers {
            last = self.layer(format!("layer {layer}"), &[last], of);
        }
        // The head shares the embedding's weights, and stashes the scores.
        let scores = of.tokens * WORDS;
        self.add("head".to_owned(), &[last], (2.0, 2.0 * rows * WORDS), [WORDS * hidden, scores, 0.0]);
    }
}
