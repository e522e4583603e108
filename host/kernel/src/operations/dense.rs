//! Operations of layers over sequences and images, from the interface `dense` of the kernel
//! contract.
//!
//! In the comments, `into` is the output of an operation, and the other names are its operands.

use std::sync::Arc;

use eciton_tensor::ops::masked::{self, Runs};
use eciton_tensor::ops::patches::{self, Windows};
use eciton_tensor::ops::permute;
use eciton_tensor::ops::pool::{self, Pool};
use eciton_tensor::ops::product::{self, Attention, Scratch};
use eciton_tensor::ops::prologue::Prologue;
use eciton_tensor::ops::row_scale::{self, Affine, RowScale};
use eciton_tensor::ops::rows::Reduction;
use eciton_tensor::ops::smooth::{self, Smooth};
use eciton_tensor::ops::sparse;
use eciton_tensor::{SparseRows, View, ViewMut};

use super::{Done, shape_error};
use crate::state::{Failure, State, limit};

/// Window of a convolution or pooling operation, with the values that the kernel passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub kernel: u32,
    pub stride: u32,
    pub padding: u32,
    pub dilation: u32,
}

/// Extents of an attention, with the values that the kernel passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attended {
    pub heads: u32,
    pub group: u32,
    pub causal: bool,
    pub scale: f32,
}

impl Window {
    /// Returns the windows for images of the shape `[n, height, width, channels]`, the number of
    /// windows per image, and the number of values per window.
    fn for_images(self, op: &str, shape: &[u32]) -> Result<(Windows, usize, usize), Failure> {
        let &[_, height, width, channels] = shape else {
            return Err(shape_error(op, "images (four extents)", vec![0, 0, 0, 0], shape.to_vec()));
        };
        let Self { kernel, stride, padding, dilation } = self;
        let windows = Windows {
            height: height as usize,
            width: width as usize,
            channels: channels as usize,
            kernel: kernel as usize,
            stride: stride as usize,
            padding: padding as usize,
            dilation: dilation as usize,
        };
        let count = windows.count().and_then(|(down, across)| down.checked_mul(across));
        match (count, windows.values()) {
            (Some(count), Some(values)) if count.checked_mul(values).is_some() => {
                Ok((windows, count, values))
            }
            _ => Err(Failure::Argument(format!(
                "{op}: a window with kernel {kernel}, stride {stride}, padding {padding} and dilation {dilation} does not fit an image of {height} x {width}; kernel, stride and dilation must be at least 1, and the window must fit into the padded image"
            ))),
        }
    }
}

impl State {
    /// Computes `into` = x with its dimensions permuted by `order`.
    pub(crate) fn permute(&mut self, x: u32, order: &[u32], into: u32) -> Done {
        let op = "permute";
        let shape = self.matrix(x)?.shape();
        let places: Vec<usize> = order.iter().map(|&d| d as usize).collect();
        if !permute::is_order(&places, shape.len()) {
            return Err(Failure::Argument(format!(
                "{op}: the order is {order:?}, but must contain each of the {} dimensions once, with 0 first",
                shape.len()
            )));
        }
        let extents: Vec<usize> = shape.iter().skip(1).map(|&e| e as usize).collect();
        let x = self.dense(op, x)?;
        let view = x.view();
        self.write_values(op, into, (view.rows(), view.columns()), |_, out| {
            permute::permute(view, &extents, &places, out);
            Ok(())
        })
    }

    /// Computes `into` = the column-wise concatenation of all matrices in `parts`.
    pub(crate) fn concat(&mut self, parts: &[u32], into: u32) -> Done {
        let op = "concat";
        let parts = parts.iter().map(|&part| self.dense(op, part)).collect::<Result<Vec<_>, _>>()?;
        let rows = parts.first().map(|part| part.view().rows()).ok_or_else(|| {
            Failure::Argument(format!("{op}: no parts were given, but at least one is required"))
        })?;
        if let Some(other) = parts.iter().map(|part| part.view()).find(|view| view.rows() != rows) {
            let found = vec![other.rows() as u32, other.columns() as u32];
            return Err(shape_error(op, "parts", vec![rows as u32, other.columns() as u32], found));
        }
        let columns = parts.iter().map(|part| part.view().columns()).sum();
        self.write_values(op, into, (rows, columns), |_, out| {
            let mut start = 0;
            for view in parts.iter().map(|part| part.view()) {
                put(view, start, out);
                start += view.columns();
            }
            Ok(())
        })
    }

    /// Computes `into` = x in the columns from `at` on, and zeros in all other columns.
    pub(crate) fn place_columns(&mut self, x: u32, at: u32, into: u32) -> Done {
        let op = "place-columns";
        let shape = self.out_shape(into)?;
        let columns: usize = shape.iter().skip(1).map(|&e| e as usize).product();
        let x = self.dense(op, x)?;
        let (view, at) = (x.view(), at as usize);
        if at.saturating_add(view.columns()) > columns {
            return Err(Failure::Argument(format!(
                "{op}: {} columns from column {at} on exceed the {columns} columns of into",
                view.columns()
            )));
        }
        self.write_values(op, into, (view.rows(), columns), |_, out| {
            for i in 0..view.rows() {
                let to = out.row_mut(i);
                to[..at].fill(0.0);
                to[at + view.columns()..].fill(0.0);
            }
            put(view, at, out);
            Ok(())
        })
    }

    /// Computes `into` = softmax(scale x) over the last extent. If `causal`, entries after the
    /// diagonal are masked.
    pub(crate) fn softmax_masked(&mut self, x: u32, causal: bool, scale: f32, into: u32) -> Done {
        let op = "softmax-masked";
        let shape = self.matrix(x)?.shape();
        let columns = last_extent(op, "x", &shape)?;
        let rows = if shape.len() > 2 { shape[shape.len() - 2] as usize } else { 1 };
        if causal && rows != columns {
            let mut expected = shape.clone();
            expected.truncate(shape.len().saturating_sub(2));
            expected.extend([columns as u32; 2]);
            return Err(shape_error(op, "x (causal)", expected, shape));
        }
        check_scale(op, scale)?;
        let x = self.dense(op, x)?;
        let view = x.view();
        self.write_values(op, into, (view.rows(), view.columns()), |_, out| {
            masked::softmax(view, Runs { rows, columns, causal }, scale, out);
            Ok(())
        })
    }

    /// Computes `into` = the gradient of the operand of `softmax_masked`. `y` is the result of
    /// `softmax_masked`, and `grad` is the gradient of that result.
    pub(crate) fn softmax_backward(&mut self, y: u32, grad: u32, scale: f32, into: u32) -> Done {
        let op = "softmax-backward";
        let columns = last_extent(op, "y", &self.matrix(y)?.shape())?;
        self.same_shape(op, "grad", grad, y)?;
        check_scale(op, scale)?;
        let (y, grad) = (self.dense(op, y)?, self.dense(op, grad)?);
        let (y, grad) = (y.view(), grad.view());
        self.write_values(op, into, (y.rows(), y.columns()), |_, out| {
            masked::softmax_backward(y, grad, columns, scale, out);
            Ok(())
        })
    }

    /// Computes `into` = scale h + shift, where h is each row of x, normalised by `by`.
    pub(crate) fn normalise(
        &mut self,
        x: u32,
        by: RowScale,
        [scale, shift]: [Option<u32>; 2],
        into: u32,
    ) -> Done {
        let op = "normalise";
        check_row_scale(op, by)?;
        let x = self.any_rows(op, x)?;
        let view = x.view();
        let of = |name, column: Option<u32>| {
            column.map(|column| self.vector(op, name, column, view.columns())).transpose()
        };
        let (scale, shift) = (of("scale", scale)?, of("shift", shift)?);
        self.write_values(op, into, (view.rows(), view.columns()), |_, out| {
            row_scale::forward(view, by, Affine { scale: scale.as_deref(), shift: shift.as_deref() }, out);
            Ok(())
        })
    }

    /// Computes `into` = the gradient of the operand x of `normalise`. `grad` is the gradient of its
    /// result.
    pub(crate) fn normalise_backward(
        &mut self,
        x: u32,
        by: RowScale,
        scale: Option<u32>,
        grad: u32,
        into: u32,
    ) -> Done {
        let op = "normalise-backward";
        check_row_scale(op, by)?;
        self.same_shape(op, "grad", grad, x)?;
        let (x, grad) = (self.any_rows(op, x)?, self.dense(op, grad)?);
        let (view, grad) = (x.view(), grad.view());
        let scale = scale.map(|scale| self.vector(op, "scale", scale, view.columns())).transpose()?;
        self.write_values(op, into, (view.rows(), view.columns()), |_, out| {
            row_scale::backward(view, by, scale.as_deref(), grad, out);
            Ok(())
        })
    }

    /// Returns the extents of an attention among rows [Q | K | V] of the shape `shape`, and the number of
    /// values of a result row.
    fn attention(op: &str, shape: &[u32], by: Attended) -> Result<(Attention, usize), Failure> {
        let Attended { heads, group, causal, scale } = by;
        check_scale(op, scale)?;
        let wide = shape.iter().skip(1).map(|&e| e as usize).product::<usize>();
        let rows = shape.first().copied().unwrap_or(0);
        let parts = (heads as usize).saturating_mul(3);
        match (wide.checked_rem(parts), rows.checked_rem(group)) {
            (Some(0), Some(0)) if wide > 0 => {
                let (heads, group) = (heads as usize, group as usize);
                Ok((Attention { heads, features: wide / parts, group, causal, scale }, wide / 3))
            }
            _ => Err(Failure::Argument(format!(
                "{op}: x has {rows} rows of {wide} values, but must have whole sequences of {group} rows, and queries, keys and values of {heads} heads in each row"
            ))),
        }
    }

    /// Returns the working memory of products, if that of an attention does not exceed the limit of the
    /// task. It must be put back.
    fn attention_room(&mut self, rows: usize, group: usize) -> Result<Scratch, Failure> {
        // Without rows, no group has memory.
        let values = if rows == 0 { 0 } else { product::attention_values(group) as u64 };
        let asked = self.scratch_bytes.saturating_add(4 * values);
        limit("matrix-bytes", "bytes", self.limits.matrix_bytes, asked)?;
        Ok(std::mem::take(&mut self.scratch))
    }

    /// Computes `into` = the attention of the rows x = [Q | K | V].
    pub(crate) fn attend(&mut self, x: u32, by: Attended, into: u32) -> Done {
        let op = "attend";
        let (by, columns) = Self::attention(op, &self.matrix(x)?.shape(), by)?;
        let x = self.dense(op, x)?;
        let view = x.view();
        self.work([view.rows(), by.group.saturating_mul(2), columns])?;
        let mut scratch = self.attention_room(view.rows(), by.group)?;
        let result = self.write_values(op, into, (view.rows(), columns), |_, out| {
            product::attend(view, by, out, &mut scratch);
            Ok(())
        });
        self.scratch = scratch;
        result
    }

    /// Computes `into` = the gradient of the operand x of `attend`. `grad` is the gradient of its result.
    pub(crate) fn attend_backward(&mut self, x: u32, by: Attended, grad: u32, into: u32) -> Done {
        let op = "attend-backward";
        let (by, columns) = Self::attention(op, &self.matrix(x)?.shape(), by)?;
        let (x, grad_shape) = (self.dense(op, x)?, self.matrix(grad)?.shape());
        let view = x.view();
        if !super::holds(&grad_shape, view.rows(), columns) {
            return Err(shape_error(op, "grad", vec![view.rows() as u32, columns as u32], grad_shape));
        }
        self.work([view.rows(), by.group.saturating_mul(5), columns])?;
        let grad = self.dense(op, grad)?;
        let mut scratch = self.attention_room(view.rows(), by.group)?;
        let result = self.write_values(op, into, (view.rows(), view.columns()), |_, out| {
            product::attend_backward(view, by, grad.view(), out, &mut scratch);
            Ok(())
        });
        self.scratch = scratch;
        result
    }

    /// Computes `into[v]` = the sum of the rows i of x with `rows[i] = v`, in the fixed order of
    /// the grid.
    pub(crate) fn scatter_sum(&mut self, x: u32, rows: u32, into: u32) -> Done {
        let op = "scatter-sum";
        let ids: Arc<[u32]> = self.ids(rows)?.clone();
        let shape = self.matrix(x)?.shape();
        let [n, d] = shape[..] else {
            return Err(shape_error(op, "x (two extents)", vec![0, 0], shape));
        };
        if ids.len() != n as usize {
            return Err(shape_error(op, "rows", vec![n], vec![ids.len() as u32]));
        }
        let count = self.out_shape(into)?.first().copied().unwrap_or(0);
        if let Some(at) = ids.iter().position(|&id| id >= count) {
            return Err(Failure::Argument(format!(
                "{op}: rows[{at}] is {}, but into has {count} rows",
                ids[at]
            )));
        }
        self.work([ids.len(), d as usize, 1])?;
        let x = self.dense(op, x)?;
        // The sum is a product of x with a matrix that has a single 1 per row. A multiplication by
        // 1 changes no bit.
        let offsets: Vec<u64> = (0..=ids.len() as u64).collect();
        let ones = SparseRows::new(count, offsets, ids.to_vec(), vec![1.0; ids.len()])?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let extents = (count as usize, d as usize);
        let result = self.sum_to(op, into, extents, ids.len(), |_, grid, parts| {
            let all = 0..ids.len();
            sparse::weight_gradient(&ones, all, &Prologue::NONE, x.view(), grid, parts, &mut scratch);
            Ok(())
        });
        self.scratch = scratch;
        result
    }

    /// Computes `into` = the values of each window of the images x (also called im2col).
    pub(crate) fn patches(&mut self, x: u32, by: Window, into: u32) -> Done {
        let op = "patches";
        let (windows, count, values) = by.for_images(op, &self.matrix(x)?.shape())?;
        let x = self.dense(op, x)?;
        let view = x.view();
        let found = self.out_shape(into)?;
        let width = found.iter().skip(1).map(|&e| e as usize).product();
        let extents = laid_windows(width, view.rows(), count, values);
        self.write_values(op, into, extents, |_, out| {
            patches::patches(view, windows, out);
            Ok(())
        })
    }

    /// Computes `into` = images in which each pixel is the sum of its values in all windows (also
    /// called col2im). This is the adjoint of `patches`.
    pub(crate) fn patches_sum(&mut self, x: u32, by: Window, into: u32) -> Done {
        let op = "patches-sum";
        let shape = self.out_shape(into)?;
        let (windows, count, values) = by.for_images(op, &shape)?;
        let matrix = self.matrix(x)?;
        let images = shape[0] as usize;
        let (rows, columns) = laid_windows(matrix.columns(), images, count, values);
        if (matrix.rows(), matrix.columns()) != (rows, columns) {
            return Err(shape_error(op, "x", vec![rows as u32, columns as u32], matrix.shape()));
        }
        let x = self.dense(op, x)?;
        let expected: Vec<usize> = shape.iter().map(|&e| e as usize).collect();
        self.write_to(op, into, &expected, |_, out| {
            patches::sum_patches(x.view(), windows, out);
            Ok(())
        })
    }

    /// Computes `into` = the maximum or mean of each window of the images x, per channel.
    pub(crate) fn pool(&mut self, x: u32, by: Window, with: Reduction, into: u32) -> Done {
        let op = "pool";
        let with = pooled(op, by, with)?;
        let (windows, count, _) = by.for_images(op, &self.matrix(x)?.shape())?;
        let x = self.dense(op, x)?;
        let view = x.view();
        self.write_values(op, into, (view.rows(), count * windows.channels), |_, out| {
            pool::pool(view, windows, with, out);
            Ok(())
        })
    }

    /// Computes `into` = the gradient of the images x of `pool`, from the gradient `grad` of its
    /// result.
    pub(crate) fn pool_backward(
        &mut self,
        x: u32,
        by: Window,
        with: Reduction,
        grad: u32,
        into: u32,
    ) -> Done {
        let op = "pool-backward";
        let with = pooled(op, by, with)?;
        let (windows, count, _) = by.for_images(op, &self.matrix(x)?.shape())?;
        let (of, matrix) = (self.matrix(x)?, self.matrix(grad)?);
        let columns = count * windows.channels;
        if (matrix.rows(), matrix.columns()) != (of.rows(), columns) {
            return Err(shape_error(op, "grad", vec![of.rows() as u32, columns as u32], matrix.shape()));
        }
        let (x, grad) = (self.dense(op, x)?, self.dense(op, grad)?);
        let view = x.view();
        self.write_values(op, into, (view.rows(), view.columns()), |_, out| {
            pool::pool_backward(view, windows, with, grad.view(), out);
            Ok(())
        })
    }

    /// Computes `into` = f(x), elementwise, where f is the activation `by`.
    pub(crate) fn smoothed(&mut self, x: u32, by: Smooth, into: u32) -> Done {
        let op = "smoothed";
        let x = self.dense(op, x)?;
        let view = x.view();
        self.write_values(op, into, (view.rows(), view.columns()), |_, out| {
            smooth::forward(view, by, out);
            Ok(())
        })
    }

    /// Computes `into` = grad f'(x), elementwise, where f is the activation `by`.
    pub(crate) fn smoothed_backward(&mut self, x: u32, by: Smooth, grad: u32, into: u32) -> Done {
        let op = "smoothed-backward";
        self.same_shape(op, "grad", grad, x)?;
        let (x, grad) = (self.dense(op, x)?, self.dense(op, grad)?);
        let view = x.view();
        self.write_values(op, into, (view.rows(), view.columns()), |_, out| {
            smooth::backward(view, by, grad.view(), out);
            Ok(())
        })
    }
}

/// Copies the rows of `view` to the rows of `out`, into the columns from `start` on.
fn put(view: View<'_>, start: usize, out: &mut ViewMut<'_>) {
    for i in 0..view.rows() {
        out.row_mut(i)[start..start + view.columns()].copy_from_slice(view.row(i));
    }
}

/// Returns the number of rows and columns of a matrix of windows. If a row has `values` values, it
/// is one window, and otherwise it has all `count` windows of an image.
fn laid_windows(width: usize, images: usize, count: usize, values: usize) -> (usize, usize) {
    if width == values { (images.saturating_mul(count), values) } else { (images, count * values) }
}

fn last_extent(op: &str, operand: &str, shape: &[u32]) -> Result<usize, Failure> {
    match shape {
        [_, .., last] => Ok(*last as usize),
        _ => Err(shape_error(op, &format!("{operand} (two to four extents)"), vec![0, 0], shape.to_vec())),
    }
}

fn check_row_scale(op: &str, by: RowScale) -> Done {
    match by {
        RowScale::Layer(least) | RowScale::Rms(least) | RowScale::Length(least)
            if !(least.is_finite() && least >= 0.0) =>
        {
            Err(Failure::Argument(format!(
                "{op}: the least value is {least}, but must be finite and at least 0"
            )))
        }
        _ => Ok(()),
    }
}

fn check_scale(op: &str, scale: f32) -> Done {
    if scale.is_finite() {
        return Ok(());
    }
    Err(Failure::Argument(format!("{op}: the scale is {scale}, but must be finite")))
}

fn pooled(op: &str, by: Window, with: Reduction) -> Result<Pool, Failure> {
    match with {
        _ if by.padding > 0 => Err(Failure::Unsupported(format!(
            "{op}: the padding is {}, but windows of a pooling must lie within the image (padding 0)",
            by.padding
        ))),
        Reduction::Max => Ok(Pool::Max),
        Reduction::Mean => Ok(Pool::Mean),
        Reduction::Sum => {
            Err(Failure::Unsupported(format!("{op}: reduction by sum is not supported; use max or mean")))
        }
    }
}
