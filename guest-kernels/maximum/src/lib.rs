//! Edge kernel `maximum`: pooling over neighbours (Hamilton, Ying and Leskovec 2017, section 3.3, without the
//! perceptron).
//!
//! With a row z [k] of each source u, for each target v, column by column:
//!
//! * y_v = the largest z_u over v's edges (u, v), zero where there are none
//! * dz_u = the sum of g_v / c_v over those of u's edges at which z_u is y_v, with g the gradient of y and c_v the
//!   number of v's edges whose z is y_v: sources that tie share the gradient evenly
//!
//! Rows of targets are not read, and their gradient is zero. A target passes [y | g / c] to its sources; values are
//! copied, never computed with, so that equality finds those that are the largest. Where any of a vertex's sources
//! is NaN, y is NaN, and so are the gradients of all of its sources: none is below it.

use eciton_sdk::Reduction;
use eciton_sdk::prelude::*;

/// Values that are read into the guest at once; a row that is longer comes by itself.
const TILE_VALUES: u32 = 1 << 15;

/// The configured layer.
#[derive(Debug)]
pub struct Maximum {
    /// k.
    columns: u32,
    /// Values of a row of a target.
    target: u32,
}

/// Rows of so many values that are read at once.
fn tile_rows(values: u32) -> u32 {
    (TILE_VALUES / values).max(1)
}

/// Calls `visit(own, other)` for each edge of `count` own rows from `start`, in order: the own row, counted from
/// `start`, and the row of `others` [m, ..] that the edge has.
fn for_each_edge<R: Real>(
    task: &EdgeTask<'_>,
    (start, count): (u32, u32),
    others: &Matrix,
    values: u32,
    mut visit: impl FnMut(usize, &[R]),
) -> Result<()> {
    let bounds = task.offsets.read(start, count + 1)?;
    let (mut edge, end) = (bounds[0], bounds[count as usize]);
    let mut own = 0;
    while edge < end {
        let edges = tile_rows(values).min(end - edge);
        let tile: Vec<R> = others.read_rows(edge, edges)?;
        for row in tile.chunks_exact(values as usize) {
            while bounds[own + 1] <= edge {
                own += 1;
            }
            visit(own, row);
            edge += 1;
        }
    }
    Ok(())
}

impl Maximum {
    /// [y | g / c] of some targets, of rows y and g.
    fn pass<R: Real>(
        &self,
        task: &EdgeTask<'_>,
        (start, count): (u32, u32),
        source: &Matrix,
        (y, g): (&[R], &[R]),
    ) -> Result<Vec<R>> {
        let columns = self.columns as usize;
        let mut counts = vec![R::ZERO; y.len()];
        for_each_edge(task, (start, count), source, self.columns, |own, z: &[R]| {
            let span = own * columns..(own + 1) * columns;
            for ((count, &y), &z) in counts[span.clone()].iter_mut().zip(&y[span]).zip(z) {
                *count += if z < y { R::ZERO } else { R::ONE };
            }
        })?;
        let mut passed = vec![R::ZERO; 2 * y.len()];
        let rows = y.chunks_exact(columns).zip(g.chunks_exact(columns)).zip(counts.chunks_exact(columns));
        for (to, ((y, g), counts)) in passed.chunks_exact_mut(2 * columns).zip(rows) {
            let (largest, share) = to.split_at_mut(columns);
            largest.copy_from_slice(y);
            for (((share, &y), &g), &count) in share.iter_mut().zip(y).zip(g).zip(counts) {
                // A count of zero is that of a vertex without edges: nobody reads it.
                let number = y.partial_cmp(&y).is_some();
                *share = if number { g / count.max(R::ONE) } else { y };
            }
        }
        Ok(passed)
    }
}

impl EdgeKernel for Maximum {
    fn attributes() -> Vec<AttributeSpec> {
        Vec::new()
    }

    fn open(source: &[u32], target: &[u32], _: u32, _: &Attributes) -> Result<Self> {
        let one = |end: &str, found: &[u32]| match *found {
            // 2 k values of a row of `passed`.
            [columns] if (1..=u32::MAX / 2).contains(&columns) => Ok(columns),
            _ => Err(Error::Shape {
                operation: "maximum".to_owned(),
                operand: format!("one row of a {end}"),
                expected: vec![1],
                found: found.to_vec(),
            }),
        };
        Ok(Self { columns: one("source", source)?, target: one("target", target)? })
    }

    fn signature(&self) -> EdgeSignature {
        let row = [self.columns];
        EdgeSignature::new()
            .source("z", &row)
            .target("t", &[self.target])
            .output("y", &row)
            .pass("passed", &[2 * self.columns])
    }

    fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()> {
        linalg::reduce_segments(io.source, task.offsets, Reduction::Max, io.output)
    }

    fn backward_targets<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()> {
        if let Some(into) = io.target_gradient {
            // Rows to which nothing is added.
            linalg::scatter_add_rows(&io.target.rows(0, 0)?, &Ids::create(&[])?, into)?;
        }
        let largest = Out::create(&[task.rows, self.columns])?;
        linalg::reduce_segments(io.source, task.offsets, Reduction::Max, &largest)?;
        let (largest, mut start) = (largest.finish()?, 0);
        while start < task.rows {
            let count = tile_rows(self.columns).min(task.rows - start);
            let y: Vec<R> = largest.read_rows(start, count)?;
            let g: Vec<R> = io.gradient.read_rows(start, count)?;
            let passed = self.pass(task, (start, count), io.source, (&y, &g))?;
            io.passed.write_rows(start, &passed)?;
            start += count;
        }
        Ok(())
    }

    fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()> {
        let columns = self.columns as usize;
        let mut start = 0;
        while start < task.rows {
            let count = tile_rows(self.columns).min(task.rows - start);
            let z: Vec<R> = io.source.read_rows(start, count)?;
            let mut dz = vec![R::ZERO; z.len()];
            for_each_edge(task, (start, count), io.passed, 2 * self.columns, |own, passed: &[R]| {
                let span = own * columns..(own + 1) * columns;
                let (largest, share) = passed.split_at(columns);
                let rows = dz[span.clone()].iter_mut().zip(&z[span]).zip(largest.iter().zip(share));
                for ((dz, &z), (&y, &share)) in rows {
                    *dz += if z < y { R::ZERO } else { share };
                }
            })?;
            io.source_gradient.write_rows(start, &dz)?;
            start += count;
        }
        Ok(())
    }
}

eciton_sdk::export_edge_kernel!(Maximum);
