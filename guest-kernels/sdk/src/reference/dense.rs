//! Every operation of interface `dense`, as its formula has it.

use super::linalg::{pairwise, two, with_rows};
use super::shape_error;
use super::store::{Dense, Store};
use crate::Matrix;
use crate::handles::{RawIds, RawMatrix, RawOut};
use crate::op::Op;
use crate::types::{Attention, Error, Reduction, Result, RowScale, Smooth, Windows};

/// Windows of an image [height, width, channels].
#[derive(Clone, Copy)]
struct Image {
    extents: [usize; 3],
    by: Windows,
    down: usize,
    across: usize,
}

impl Image {
    fn new(operation: &str, by: Windows, shape: &[u32]) -> Result<Self> {
        let &[_, height, width, channels] = shape else {
            return Err(shape_error(operation, "images", &[0, 0, 0, 0], shape));
        };
        match (by.along(height), by.along(width)) {
            (Some(down), Some(across)) => {
                let extents = [height, width, channels].map(|e| e as usize);
                Ok(Self { extents, by, down: down as usize, across: across as usize })
            }
            _ => Err(Error::Argument(format!("{operation}: no window fits: {by:?} in {height} x {width}"))),
        }
    }

    fn count(&self) -> usize {
        self.down * self.across
    }

    /// Values of a window.
    fn values(&self) -> usize {
        self.by.kernel.pow(2) as usize * self.extents[2]
    }

    /// Places of the values of all windows in the image, in order; none in the padding.
    fn places(&self) -> impl Iterator<Item = Option<usize>> {
        let Self { extents: [height, width, channels], by, down, across } = *self;
        let (kernel, stride) = (by.kernel as usize, by.stride as usize);
        let (padding, dilation) = (by.padding as usize, by.dilation as usize);
        (0..down * across).flat_map(move |window| {
            (0..kernel * kernel * channels).map(move |value| {
                let (line, channel) = (value / channels, value % channels);
                let along = |at: usize, within: usize, extent: usize| {
                    (at * stride + within * dilation).checked_sub(padding).filter(|&at| at < extent)
                };
                let y = along(window / across, line / kernel, height)?;
                let x = along(window % across, line % kernel, width)?;
                Some((y * width + x) * channels + channel)
            })
        })
    }

    /// Rows and columns of windows: one row a window where rows have so many values, else one an image.
    fn laid(&self, width: usize, images: usize) -> [u32; 2] {
        match width == self.values() {
            true => [(images * self.count()) as u32, self.values() as u32],
            false => [images as u32, (self.count() * self.values()) as u32],
        }
    }
}

impl Store {
    /// Does one operation of `dense`; none if it is not one.
    pub(super) fn dense(&mut self, op: &Op<'_>) -> Option<Result<()>> {
        Some(match *op {
            Op::Permute { x, order, into } => self.permute(x, order, into),
            Op::Concat { parts, into } => self.concat(parts, into),
            Op::PlaceColumns { x, at, into } => self.place_columns(x, at, into),
            Op::SoftmaxMasked { x, causal, scale, into } => self.softmax_masked(x, causal, scale, into),
            Op::SoftmaxBackward { y, grad, scale, into } => self.softmax_backward(y, grad, scale, into),
            Op::Normalise { x, by, scale, shift, into } => self.normalise(x, by, [scale, shift], into),
            Op::NormaliseBackward { x, by, scale, grad, into } => {
                self.normalise_backward(x, by, scale, grad, into)
            }
            Op::Attend { x, by, into } => self.attend(x, by, into),
            Op::AttendBackward { x, by, grad, into } => self.attend_backward(x, by, grad, into),
            Op::ScatterSum { x, rows, into } => self.scatter_sum(x, rows, into),
            Op::Patches { x, by, into } => self.patches(x, by, into),
            Op::PatchesSum { x, by, into } => self.patches_sum(x, by, into),
            Op::Pool { x, by, with, into } => self.pool(x, by, with, into),
            Op::PoolBackward { x, by, with, grad, into } => self.pool_backward(x, by, with, grad, into),
            Op::Smoothed { x, by, into } => self.smoothed(x, by, into),
            Op::SmoothedBackward { x, by, grad, into } => self.smoothed_backward(x, by, grad, into),
            _ => return None,
        })
    }

    /// Writes rows to a place that may have other extents of as many values a row.
    fn fill(&self, operation: &str, into: &RawOut, rows: usize, values: &[f64]) -> Result<()> {
        let shape = self.out_shape(into.handle);
        let found: usize = shape.iter().map(|&e| e as usize).product();
        if shape.first().map(|&n| n as usize) != Some(rows) || found != values.len() {
            let expected = [rows as u32, values.len().checked_div(rows).unwrap_or(0) as u32];
            return Err(shape_error(operation, "into", &expected, &shape));
        }
        self.place(operation, "into", into.handle, &shape, None)?.fill(values);
        Ok(())
    }

    fn permute(&self, x: &RawMatrix, order: &[u32], into: &RawOut) -> Result<()> {
        let x = self.matrix("permute", "x", x.handle)?;
        let dimensions = x.shape.len();
        let all = (0..dimensions as u32).all(|d| order.contains(&d));
        if order.len() != dimensions || order.first() != Some(&0) || !all {
            return Err(Error::Argument(format!(
                "permute: the order {order:?} of {dimensions} dimensions; each of them once is needed, 0 first"
            )));
        }
        let extents: Vec<usize> = x.shape.iter().map(|&e| e as usize).collect();
        let strides = |extents: &[usize]| -> Vec<usize> {
            (0..extents.len()).map(|d| extents[d + 1..].iter().product()).collect()
        };
        let from = strides(&extents);
        let turned: Vec<usize> = order.iter().map(|&d| extents[d as usize]).collect();
        let to = strides(&turned);
        let value = |at: usize| {
            let places = order.iter().enumerate();
            let source: usize = places.map(|(i, &d)| at / to[i] % turned[i] * from[d as usize]).sum();
            x.values[source]
        };
        let values: Vec<f64> = (0..x.values.len()).map(value).collect();
        self.fill("permute", into, x.rows(), &values)
    }

    fn concat(&self, parts: &[&Matrix], into: &RawOut) -> Result<()> {
        let parts =
            parts.iter().map(|p| self.matrix("concat", "parts", p.handle)).collect::<Result<Vec<_>>>()?;
        let Some(rows) = parts.first().map(|part| part.rows()) else {
            return Err(Error::Argument("concat: no parts were given; one or more are needed".to_owned()));
        };
        if let Some(other) = parts.iter().find(|part| part.rows() != rows) {
            return Err(shape_error("concat", "parts", &with_rows(other, rows), &other.shape));
        }
        let row = |i: usize| parts.iter().flat_map(move |part| part.row(i).to_vec());
        self.fill("concat", into, rows, &(0..rows).flat_map(row).collect::<Vec<f64>>())
    }

    fn place_columns(&self, x: &RawMatrix, at: u32, into: &RawOut) -> Result<()> {
        let x = self.matrix("place-columns", "x", x.handle)?;
        let columns: usize = self.out_shape(into.handle).iter().skip(1).map(|&e| e as usize).product();
        let span = at as usize..at as usize + x.row_len();
        if span.end > columns {
            return Err(Error::Argument(format!(
                "place-columns: {} columns from {at} of {columns}",
                x.row_len()
            )));
        }
        let mut values = vec![0.0; x.rows() * columns];
        for (i, row) in values.chunks_exact_mut(columns.max(1)).enumerate() {
            row[span.clone()].copy_from_slice(x.row(i));
        }
        self.fill("place-columns", into, x.rows(), &values)
    }

    fn softmax_masked(&self, x: &RawMatrix, causal: bool, scale: f32, into: &RawOut) -> Result<()> {
        let name = "softmax-masked";
        let x = self.matrix(name, "x", x.handle)?;
        let &[_, .., columns] = &x.shape[..] else { return Err(shape_error(name, "x", &[0, 0], &x.shape)) };
        let runs = if x.shape.len() > 2 { x.shape[x.shape.len() - 2] } else { 1 };
        if causal && runs != columns {
            return Err(shape_error(name, "x (causal)", &[columns, columns], &x.shape));
        }
        finite(name, scale)?;
        let mut values = Vec::new();
        for (at, run) in x.values.chunks_exact(columns.max(1) as usize).enumerate() {
            let seen = if causal { at % runs as usize + 1 } else { run.len() };
            let scaled = run[..seen].iter().map(|v| f64::from(scale) * v);
            let largest = scaled.clone().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = scaled.map(|v| (v - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            values.extend(powers.iter().map(|p| p / sum));
            values.resize(values.len() + run.len() - seen, 0.0);
        }
        self.fill(name, into, x.rows(), &values)
    }

    fn softmax_backward(&self, y: &RawMatrix, grad: &RawMatrix, scale: f32, into: &RawOut) -> Result<()> {
        let name = "softmax-backward";
        let y = self.matrix(name, "y", y.handle)?;
        let &[_, .., columns] = &y.shape[..] else { return Err(shape_error(name, "y", &[0, 0], &y.shape)) };
        let grad = self.like(name, "grad", grad, &y.shape)?;
        finite(name, scale)?;
        let columns = columns.max(1) as usize;
        let runs = y.values.chunks_exact(columns).zip(grad.values.chunks_exact(columns));
        let values = runs.flat_map(|(y, g)| {
            let along: f64 = y.iter().zip(g).map(|(y, g)| y * g).sum();
            pairwise(y, g, |y, g| f64::from(scale) * y * (g - along))
        });
        self.fill(name, into, y.rows(), &values.collect::<Vec<f64>>())
    }

    /// How many rows there are, and values of a head.
    fn heads(name: &str, x: &Dense, by: Attention) -> Result<(usize, usize)> {
        let (rows, wide) = (x.rows(), x.row_len());
        finite(name, by.scale)?;
        let parts = 3 * by.heads as usize;
        match (wide.checked_rem(parts), rows.checked_rem(by.group as usize)) {
            (Some(0), Some(0)) if wide > 0 => Ok((rows, wide / parts)),
            _ => Err(Error::Argument(format!(
                "{name}: {rows} rows of {wide} values are no whole sequences of {} rows with queries, keys and values of {} heads",
                by.group, by.heads
            ))),
        }
    }

    fn attend(&self, x: &RawMatrix, by: Attention, into: &RawOut) -> Result<()> {
        let name = "attend";
        let x = self.matrix(name, "x", x.handle)?;
        let (rows, features) = Self::heads(name, &x, by)?;
        let (heads, group) = (by.heads as usize, by.group as usize);
        let mut values = vec![0.0; rows * heads * features];
        for (t, head) in (0..rows).flat_map(|t| (0..heads).map(move |head| (t, head))) {
            for (u, share) in shares(&x, by, (t, head), features).into_iter().enumerate() {
                let v = part(&x, (t - t % group + u, 2 * heads + head), features);
                let to = &mut values[(t * heads + head) * features..][..features];
                to.iter_mut().zip(v).for_each(|(to, v)| *to += share * v);
            }
        }
        self.fill(name, into, rows, &values)
    }

    fn attend_backward(&self, x: &RawMatrix, by: Attention, grad: &RawMatrix, into: &RawOut) -> Result<()> {
        let name = "attend-backward";
        let x = self.matrix(name, "x", x.handle)?;
        let (rows, features) = Self::heads(name, &x, by)?;
        let (heads, group, scale) = (by.heads as usize, by.group as usize, f64::from(by.scale));
        let grad = self.like(name, "grad", grad, &[rows as u32, (heads * features) as u32])?;
        let mut values = vec![0.0; rows * 3 * heads * features];
        let mut add = |(row, of): (usize, usize), factor: f64, from: &[f64]| {
            let to = &mut values[(row * 3 * heads + of) * features..][..features];
            to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
        };
        let along = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for (t, head) in (0..rows).flat_map(|t| (0..heads).map(move |head| (t, head))) {
            let (shares, d) = (shares(&x, by, (t, head), features), part(&grad, (t, head), features));
            let first = t - t % group;
            let of_share = |u: usize| along(d, part(&x, (first + u, 2 * heads + head), features));
            let of_shares: Vec<f64> = (0..shares.len()).map(of_share).collect();
            let middle = along(&shares, &of_shares);
            for (u, share) in shares.iter().enumerate() {
                let slope = scale * share * (of_shares[u] - middle);
                add((t, head), slope, part(&x, (first + u, heads + head), features));
                add((first + u, heads + head), slope, part(&x, (t, head), features));
                add((first + u, 2 * heads + head), *share, d);
            }
        }
        self.fill(name, into, rows, &values)
    }

    /// The values of a vector of `len` values, or `filler` if none is given.
    fn column(
        &self,
        (name, operand): (&str, &str),
        column: Option<&Matrix>,
        (len, filler): (usize, f64),
    ) -> Result<Vec<f64>> {
        let Some(column) = column else { return Ok(vec![filler; len]) };
        let column = self.matrix(name, operand, column.handle)?;
        if column.values.len() != len {
            return Err(shape_error(name, operand, &[len as u32], &column.shape));
        }
        Ok(column.values.to_vec())
    }

    fn normalise(
        &self,
        x: &RawMatrix,
        by: RowScale,
        [scale, shift]: [Option<&Matrix>; 2],
        into: &RawOut,
    ) -> Result<()> {
        let name = "normalise";
        let x = self.matrix(name, "x", x.handle)?;
        let scale = self.column((name, "scale"), scale, (x.row_len(), 1.0))?;
        let shift = self.column((name, "shift"), shift, (x.row_len(), 0.0))?;
        let row = |i: usize| {
            let h = of_one_scale(x.row(i), by).0;
            pairwise(&pairwise(&h, &scale, |h, scale| h * scale), &shift, |y, shift| y + shift)
        };
        self.fill(name, into, x.rows(), &(0..x.rows()).flat_map(row).collect::<Vec<f64>>())
    }

    fn normalise_backward(
        &self,
        x: &RawMatrix,
        by: RowScale,
        scale: Option<&Matrix>,
        grad: &RawMatrix,
        into: &RawOut,
    ) -> Result<()> {
        let name = "normalise-backward";
        let x = self.matrix(name, "x", x.handle)?;
        let grad = self.like(name, "grad", grad, &x.shape)?;
        let scale = self.column((name, "scale"), scale, (x.row_len(), 1.0))?;
        let row = |i: usize| {
            let (h, divisor, varies) = of_one_scale(x.row(i), by);
            let d = pairwise(grad.row(i), &scale, |g, scale| g * scale);
            let count = if let RowScale::Length(_) = by { 1.0 } else { h.len() as f64 };
            let along: f64 = h.iter().zip(&d).map(|(h, d)| h * d).sum();
            let along = if varies { along / count } else { 0.0 };
            let middle = if let RowScale::Layer(_) = by { d.iter().sum::<f64>() / count } else { 0.0 };
            pairwise(&d, &h, |d, h| (d - middle - h * along) / divisor)
        };
        self.fill(name, into, x.rows(), &(0..x.rows()).flat_map(row).collect::<Vec<f64>>())
    }

    fn scatter_sum(&self, x: &RawMatrix, rows: &RawIds, into: &RawOut) -> Result<()> {
        let name = "scatter-sum";
        let x = self.matrix(name, "x", x.handle)?;
        let (n, d) = two(name, "x", &x)?;
        let rows = self.ids(name, "rows", rows.handle)?;
        if rows.len() != n {
            return Err(shape_error(name, "rows", &[n as u32], &[rows.len() as u32]));
        }
        let count = self.out_shape(into.handle).first().copied().unwrap_or(0);
        let to = self.place(name, "into", into.handle, &[count, d as u32], Some(n))?;
        if let Some(at) = rows.iter().position(|&row| row >= count) {
            return Err(Error::Argument(format!(
                "{name}: rows[{at}] is {}, but into has {count} rows",
                rows[at]
            )));
        }
        let mut sums = vec![0.0; count as usize * d];
        for (i, &row) in rows.iter().enumerate() {
            sums[row as usize * d..].iter_mut().zip(x.row(i)).for_each(|(sum, v)| *sum += v);
        }
        to.fill(&sums);
        Ok(())
    }

    fn patches(&self, x: &RawMatrix, by: Windows, into: &RawOut) -> Result<()> {
        let x = self.matrix("patches", "x", x.handle)?;
        let image = Image::new("patches", by, &x.shape)?;
        let width = self.out_shape(into.handle).iter().skip(1).map(|&e| e as usize).product();
        let row = |i: usize| image.places().map(move |at| (i, at));
        let of = |(i, at): (usize, Option<usize>)| at.map_or(0.0, |at| x.row(i)[at]);
        let values: Vec<f64> = (0..x.rows()).flat_map(row).map(of).collect();
        self.fill("patches", into, image.laid(width, x.rows())[0] as usize, &values)
    }

    fn patches_sum(&self, x: &RawMatrix, by: Windows, into: &RawOut) -> Result<()> {
        let name = "patches-sum";
        let shape = self.out_shape(into.handle);
        let image = Image::new(name, by, &shape)?;
        let x = self.matrix(name, "x", x.handle)?;
        let images = shape[0] as usize;
        let expected = image.laid(x.row_len(), images);
        if [x.rows() as u32, x.row_len() as u32] != expected {
            return Err(shape_error(name, "x", &expected, &x.shape));
        }
        let size: usize = image.extents.iter().product();
        let mut sums = vec![0.0; images * size];
        let places = (0..images).flat_map(|i| image.places().map(move |at| at.map(|at| i * size + at)));
        for (at, value) in places.zip(&x.values) {
            if let Some(at) = at {
                sums[at] += value;
            }
        }
        self.place(name, "into", into.handle, &shape, None)?.fill(&sums);
        Ok(())
    }

    /// For each window and channel of each image: where its values lie.
    fn pooled(name: &str, by: Windows, with: Reduction, shape: &[u32]) -> Result<(Image, Vec<Vec<usize>>)> {
        if by.padding > 0 || with == Reduction::Sum {
            let why = "max and mean without padding are offered";
            return Err(Error::Unsupported(format!("{name}: {with:?}, {by:?}; {why}")));
        }
        let image = Image::new(name, by, shape)?;
        let (values, channels) = (image.values(), image.extents[2]);
        let mut windows = vec![Vec::new(); image.count() * channels];
        for (order, at) in image.places().enumerate() {
            windows[order / values * channels + order % channels].extend(at);
        }
        Ok((image, windows))
    }

    fn pool(&mut self, x: &RawMatrix, by: Windows, with: Reduction, into: &RawOut) -> Result<()> {
        let x = self.matrix("pool", "x", x.handle)?;
        let (_, windows) = Self::pooled("pool", by, with, &x.shape)?;
        let mut values = Vec::new();
        for i in 0..x.rows() {
            for window in &windows {
                let of: Vec<f64> = window.iter().map(|&at| x.row(i)[at]).collect();
                values.push(self.reduced(&of, with));
            }
        }
        self.fill("pool", into, x.rows(), &values)
    }

    fn pool_backward(
        &self,
        x: &RawMatrix,
        by: Windows,
        with: Reduction,
        grad: &RawMatrix,
        into: &RawOut,
    ) -> Result<()> {
        let name = "pool-backward";
        let x = self.matrix(name, "x", x.handle)?;
        let (_, windows) = Self::pooled(name, by, with, &x.shape)?;
        let grad = self.matrix(name, "grad", grad.handle)?;
        if (grad.rows(), grad.row_len()) != (x.rows(), windows.len()) {
            return Err(shape_error(name, "grad", &[x.rows() as u32, windows.len() as u32], &grad.shape));
        }
        let mut values = vec![0.0; x.values.len()];
        for i in 0..x.rows() {
            let (row, to) = (x.row(i), &mut values[i * x.row_len()..]);
            for (window, &g) in windows.iter().zip(grad.row(i)) {
                match with {
                    Reduction::Mean => window.iter().for_each(|&at| to[at] += g / window.len() as f64),
                    _ => {
                        let largest =
                            window.iter().copied().reduce(|a, b| if row[b] > row[a] { b } else { a });
                        largest.into_iter().for_each(|at| to[at] += g);
                    }
                }
            }
        }
        self.fill(name, into, x.rows(), &values)
    }

    fn smoothed(&self, x: &RawMatrix, by: Smooth, into: &RawOut) -> Result<()> {
        let x = self.matrix("smoothed", "x", x.handle)?;
        self.fill("smoothed", into, x.rows(), &x.values.iter().map(|&v| of(by, v).0).collect::<Vec<f64>>())
    }

    fn smoothed_backward(&self, x: &RawMatrix, by: Smooth, grad: &RawMatrix, into: &RawOut) -> Result<()> {
        let name = "smoothed-backward";
        let x = self.matrix(name, "x", x.handle)?;
        let grad = self.like(name, "grad", grad, &x.shape)?;
        self.fill(name, into, x.rows(), &pairwise(&x.values, &grad.values, |x, g| g * of(by, x).1))
    }
}

/// Part `of` of `features` values of row `row`.
fn part(x: &Dense, (row, of): (usize, usize), features: usize) -> &[f64] {
    &x.row(row)[of * features..(of + 1) * features]
}

/// The shares of all tokens that a token sees, by one head.
fn shares(x: &Dense, by: Attention, (t, head): (usize, usize), features: usize) -> Vec<f64> {
    let (heads, group) = (by.heads as usize, by.group as usize);
    let seen = if by.causal { t % group + 1 } else { group };
    let q = part(x, (t, head), features);
    let score = |u: usize| {
        let k = part(x, (t - t % group + u, heads + head), features);
        f64::from(by.scale) * q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>()
    };
    let scores: Vec<f64> = (0..seen).map(score).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|p| p / sum).collect()
}

/// h of a row, its divisor, and whether that depends on the row.
fn of_one_scale(u: &[f64], by: RowScale) -> (Vec<f64>, f64, bool) {
    let count = u.len() as f64;
    let mean = if let RowScale::Layer(_) = by { u.iter().sum::<f64>() / count } else { 0.0 };
    let squares: f64 = u.iter().map(|u| (u - mean) * (u - mean)).sum();
    let (divisor, varies) = match by {
        RowScale::Layer(e) | RowScale::Rms(e) => ((squares / count + f64::from(e)).sqrt(), true),
        RowScale::Length(e) => (squares.sqrt().max(f64::from(e)), squares.sqrt() > f64::from(e)),
        RowScale::None => (1.0, false),
    };
    (u.iter().map(|u| (u - mean) / divisor).collect(), divisor, varies)
}

fn finite(name: &str, scale: f32) -> Result<()> {
    if scale.is_finite() {
        return Ok(());
    }
    Err(Error::Argument(format!("{name}: the scale {scale}; a finite number is needed")))
}

/// The standard normal distribution and its density (Abramowitz and Stegun 26.2.11 and 26.2.14).
fn normal(x: f64) -> (f64, f64) {
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() > 6.0 {
        let tail = density / (1..200).rev().fold(x.abs(), |rest, k| x.abs() + f64::from(k) / rest);
        return (if x < 0.0 { tail } else { 1.0 - tail }, density);
    }
    let (mut term, mut sum) = (x, x);
    for k in 1..200 {
        term *= x * x / f64::from(2 * k + 1);
        sum += term;
    }
    (0.5 + density * sum, density)
}

/// f(x) and f'(x).
fn of(by: Smooth, x: f64) -> (f64, f64) {
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    match by {
        Smooth::Gelu => {
            let (value, density) = normal(x);
            (x * value, value + x * density)
        }
        Smooth::GeluTanh => {
            let factor = (2.0 / std::f64::consts::PI).sqrt();
            let t = (factor * (x + 0.044_715 * x.powi(3))).tanh();
            let slope = factor * (1.0 + 3.0 * 0.044_715 * x * x);
            (0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope)
        }
        Smooth::Silu => (x * sigmoid(x), sigmoid(x) * (1.0 + x * sigmoid(-x))),
        Smooth::Softplus => (x.max(0.0) + (-x.abs()).exp().ln_1p(), sigmoid(x)),
    }
}
