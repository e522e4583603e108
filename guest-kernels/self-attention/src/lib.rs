//! Kernel `self-attention`: each token of a sequence by all tokens that it may see (Vaswani et al. 2017, section 3.2).
//!
//! x [n, 3 d] = [q | k | v], y [n, d]; `group` = T rows that follow each other are a sequence, and a row has `heads`
//! heads of d / heads values. For each sequence and head, with Q, K, V [T, d / heads]:
//!
//! ```text
//! P = softmax(mask(Q K^T / sqrt(d / heads))), Y = P V
//! dV = P^T dY, dS = P * (dY V^T - rowsum(P * dY V^T)) / sqrt(d / heads), dQ = dS K, dK = dS^T Q
//! ```
//!
//! With `causal`, the mask leaves a token those before it and itself. P is not kept but computed again in `backward`: of
//! its products that adds one to four, while keeping it is heads * T values a row that leave the task, a multiple of the d
//! of a row for all but the shortest sequences. Sequences are taken some at a time, so that what is between stays small.

use eciton_sdk::prelude::*;

/// Values of P at once: 512 KiB, which stay in a second-level cache.
const TILE_VALUES: u32 = 1 << 17;

/// The configured layer.
#[derive(Debug)]
pub struct SelfAttention {
    heads: u32,
    causal: bool,
    group: u32,
    /// Values of a head.
    features: u32,
}

/// Some sequences, by heads.
struct Tile {
    /// [sequences, heads, T, features] each.
    q: Matrix,
    k: Matrix,
    v: Matrix,
    /// P [sequences, heads, T, T]
    shares: Matrix,
}

impl SelfAttention {
    fn width(&self) -> u32 {
        self.heads * self.features
    }

    fn scale(&self) -> f32 {
        1.0 / (self.features as f32).sqrt()
    }

    /// First rows and numbers of rows of whole sequences.
    fn tiles(&self, rows: u32) -> Result<impl Iterator<Item = (u32, u32)> + use<>> {
        let group = self.group;
        if rows % group != 0 {
            let text =
                format!("self-attention: {rows} rows are no whole sequences of `group` = {group} rows");
            return Err(Error::Argument(text));
        }
        let shares = u64::from(self.heads) * u64::from(group) * u64::from(group);
        let sequences = (u64::from(TILE_VALUES) / shares).clamp(1, u64::from(rows / group).max(1)) as u32;
        let step = sequences * group;
        Ok((0..rows.div_ceil(step)).map(move |tile| (tile * step, step.min(rows - tile * step))))
    }

    /// Rows [n, parts d] as [sequences, parts heads, T, features].
    fn by_heads(&self, x: &Matrix, parts: u32) -> Result<Matrix> {
        let (sequences, heads) = (x.row_count() / self.group, parts * self.heads);
        let x = x.group_rows(self.group)?.reshape(&[sequences, self.group, heads, self.features])?;
        scratch(&[sequences, heads, self.group, self.features], |into| {
            dense::permute(&x, &[0, 2, 1, 3], into)
        })
    }

    /// The transpose of `by_heads`, into rows.
    fn by_rows(x: &Matrix, into: &Out, group: u32) -> Result<()> {
        dense::permute(x, &[0, 2, 1, 3], &into.group_rows(group)?)
    }

    fn tile(&self, x: &Matrix) -> Result<Tile> {
        let all = self.by_heads(x, 3)?;
        let sequences = all.row_count();
        let width = self.width() * self.group;
        let all = all.reshape(&[sequences, 3 * width])?;
        let part = |at: u32| {
            all.columns(at * width, width)?.reshape(&[sequences, self.heads, self.group, self.features])
        };
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let shape = [sequences, self.heads, self.group, self.group];
        let scores = scratch(&shape, |into| linalg::batched_matmul(&q, false, &k, true, false, into))?;
        let shares = scratch(&shape, |into| dense::softmax_masked(&scores, self.causal, self.scale(), into))?;
        Ok(Tile { q, k, v, shares })
    }

    /// The gradient of a tile's rows, given that of its result.
    fn tile_backward(&self, tile: &Tile, grad: &Matrix, into: &Out) -> Result<()> {
        let Tile { q, k, v, shares } = tile;
        let d = self.by_heads(grad, 1)?;
        let (shape, of_head) = (shares.shape(), q.shape());
        let d_shares = scratch(&shape, |into| linalg::batched_matmul(&d, false, v, true, false, into))?;
        let d_scores =
            scratch(&shape, |into| dense::softmax_backward(shares, &d_shares, self.scale(), into))?;
        let product = |a: &Matrix, transposed: bool, b: &Matrix| {
            scratch(&of_head, |into| linalg::batched_matmul(a, transposed, b, false, false, into))
        };
        let (dq, dk) = (product(&d_scores, false, k)?, product(&d_scores, true, q)?);
        let dv = product(shares, true, &d)?;
        let (sequences, heads) = (of_head[0], 3 * self.heads);
        let all = scratch(&[sequences, heads, self.group, self.features], |into| {
            dense::concat(&[&dq, &dk, &dv], into)
        })?;
        Self::by_rows(&all, into, self.group)
    }
}

impl Kernel for SelfAttention {
    fn attributes() -> Vec<AttributeSpec> {
        vec![
            AttributeSpec::new("heads", "heads, each of an equal share of the values", None),
            AttributeSpec::new(
                "causal",
                "whether a token sees those before it and itself alone",
                Some(Value::Flag(false)),
            ),
            AttributeSpec::new("group", "rows of a sequence", None),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("self-attention takes one input, not {}", inputs.len())));
        };
        let heads = attributes.size("heads")?;
        let features = match input[..] {
            [all] if all > 0 && u64::from(all) % (3 * u64::from(heads)) == 0 => all / 3 / heads,
            _ => {
                return Err(Error::Argument(format!(
                    "self-attention: rows of extents {input:?} are not the queries, keys and values of {heads} heads; one extent is needed, a multiple of 3 heads"
                )));
            }
        };
        let group = attributes.size("group")?;
        if u64::from(group) * u64::from(input[0]) > u64::from(u32::MAX) {
            let text = format!("attribute `group` is {group}; a sequence has at most 2^32 - 1 values");
            return Err(Error::Argument(text));
        }
        Ok(Self { heads, causal: attributes.flag("causal")?, group, features })
    }

    fn signature(&self) -> Signature {
        let d = self.width();
        Signature::new().input("qkv", &[3 * d]).output("y", &[d]).needing_inputs()
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        for (start, count) in self.tiles(task.rows)? {
            let tile = self.tile(&io.inputs[0].rows(start, count)?)?;
            let y = scratch(&tile.q.shape(), |into| {
                linalg::batched_matmul(&tile.shares, false, &tile.v, false, false, into)
            })?;
            Self::by_rows(&y, &io.outputs[0].rows(start, count)?, self.group)?;
        }
        Ok(())
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let Some(into) = io.input_gradients[0] else { return Ok(()) };
        for (start, count) in self.tiles(task.rows)? {
            let tile = self.tile(&io.inputs[0].rows(start, count)?)?;
            self.tile_backward(&tile, &io.gradients[0].rows(start, count)?, &into.rows(start, count)?)?;
        }
        Ok(())
    }
}

eciton_sdk::export_kernel!(SelfAttention);
