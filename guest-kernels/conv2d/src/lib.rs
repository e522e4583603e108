//! Kernel `conv2d`: y = activation(x * w + b), a convolution of images (LeCun et al. 1998), by windows and one product.
//!
//! A row is an image of height x width x c values, channels last; c follows from the row. With windows of k x k values,
//! `stride` from each other, their values `dilation` apart, and `padding` zeros around the image:
//!
//! ```text
//! oh = (height + 2 padding - dilation (k - 1) - 1) / stride + 1, rounded down; ow likewise
//! y[oy, ox, m] = activation(sum over ky, kx, c of x[oy stride + ky dilation - padding, ox .., c] w[ky, kx, c, m] + b[m])
//! ```
//!
//! x [n, height width c], y [n, oh ow channels], w [k k c, channels], b [channels]. With P [n oh ow, k k c] the windows
//! and d = dy * activation'(y): dw = P^T d, db = column sums of d, dx = the sum of what windows of d w^T have of each
//! value.

use eciton_sdk::linalg::LinearGradients;
use eciton_sdk::prelude::*;

/// Values of windows at once where no sum over all rows is taken: 1 MiB, which stay in a second-level cache.
const TILE_VALUES: u64 = 1 << 18;
const PLAIN: Prologue<'_> = Prologue { bias: None, activation: Activation::Identity, dropout: None };

/// The configured layer.
#[derive(Debug)]
pub struct Conv2d {
    image: [u32; 3],
    windows: Windows,
    /// Windows of an image.
    count: u32,
    /// Values of a window.
    values: u32,
    channels: u32,
    bias: bool,
    activation: Activation,
}

impl Conv2d {
    /// First images and numbers of images.
    fn tiles(&self, rows: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let each = u64::from(self.count) * u64::from(self.values);
        let step = (TILE_VALUES / each.max(1)).clamp(1, u64::from(rows.max(1))) as u32;
        (0..rows.div_ceil(step)).map(move |tile| (tile * step, step.min(rows - tile * step)))
    }

    /// P of some images.
    fn patches(&self, x: &Matrix) -> Result<Matrix> {
        let (rows, [height, width, channels]) = (x.row_count(), self.image);
        let x = x.reshape(&[rows, height, width, channels])?;
        scratch(&[rows * self.count, self.values], |into| dense::patches(&x, self.windows, into))
    }

    fn epilogue<'a>(&self, parameters: &[&'a Matrix]) -> Epilogue<'a> {
        Epilogue { bias: parameters.get(1).copied(), activation: self.activation }
    }
}

/// Values of one extent that is counted by an image's or a window's extents; none above 2^32 - 1.
fn product(extents: &[u32]) -> Option<u32> {
    extents.iter().try_fold(1u32, |n, &e| n.checked_mul(e))
}

impl Kernel for Conv2d {
    fn attributes() -> Vec<AttributeSpec> {
        let whole = |v: i64| Some(Value::Integer(v));
        vec![
            AttributeSpec::new("height", "rows of the image", None),
            AttributeSpec::new("width", "columns of the image", None),
            AttributeSpec::new("channels", "channels of the result", None),
            AttributeSpec::new("kernel", "values along a side of a window", None),
            AttributeSpec::new("stride", "distance between windows", whole(1)),
            AttributeSpec::new("padding", "zeros around the image", whole(0)),
            AttributeSpec::new("dilation", "distance between a window's values", whole(1)),
            AttributeSpec::new("bias", "whether b is added", Some(Value::Flag(true))),
            AttributeSpec::new(
                "activation",
                "applied to the result",
                Some(Value::Text("identity".to_owned())),
            ),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("conv2d takes one input, not {}", inputs.len())));
        };
        let (height, width) = (attributes.size("height")?, attributes.size("width")?);
        let channels = match (&input[..], product(&[height, width])) {
            (&[all], Some(pixels)) if all > 0 && all % pixels == 0 => all / pixels,
            _ => {
                return Err(Error::Argument(format!(
                    "conv2d: rows of extents {input:?} are no images of {height} x {width}; one extent is needed, a multiple of height * width"
                )));
            }
        };
        let windows = Windows {
            kernel: attributes.size("kernel")?,
            stride: attributes.size("stride")?,
            padding: attributes.count("padding")?,
            dilation: attributes.size("dilation")?,
        };
        let features = attributes.size("channels")?;
        let (Some(down), Some(across)) = (windows.along(height), windows.along(width)) else {
            let text = "conv2d: no window of `kernel` and `dilation` fits into the image with its `padding`";
            return Err(Error::Argument(text.to_owned()));
        };
        let (count, values) =
            (product(&[down, across]), product(&[windows.kernel, windows.kernel, channels]));
        let fits = |(count, values): (u32, u32)| {
            product(&[count, values]).is_some() && product(&[count, features]).is_some()
        };
        let Some((count, values)) = count.zip(values).filter(|&both| fits(both)) else {
            return Err(Error::Argument(
                "conv2d: an image's windows have more than 2^32 - 1 values".to_owned(),
            ));
        };
        Ok(Self {
            image: [height, width, channels],
            windows,
            count,
            values,
            channels: features,
            bias: attributes.flag("bias")?,
            activation: Activation::parse(attributes.text("activation")?)?,
        })
    }

    fn signature(&self) -> Signature {
        let [height, width, channels] = self.image;
        let s = Signature::new().input("x", &[height * width * channels]).needing_inputs();
        let mut s = s.output("y", &[self.count * self.channels]);
        if self.activation != Activation::Identity {
            s = s.needing_outputs();
        }
        s = s.parameter("weight", &[self.values, self.channels], Initialiser::GlorotUniform);
        if self.bias { s.parameter("bias", &[self.channels], Initialiser::Zeros) } else { s }
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let (w, after) = (io.parameters[0], self.epilogue(io.parameters));
        for (start, count) in self.tiles(task.rows) {
            let windows = self.patches(&io.inputs[0].rows(start, count)?)?;
            let into = io.outputs[0].rows(start, count)?.split_rows(self.count)?;
            linalg::linear(&windows, &PLAIN, w, &after, &into)?;
        }
        Ok(())
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let (w, after) = (io.parameters[0], self.epilogue(io.parameters));
        let y = io.outputs.first();
        let windows = self.patches(io.inputs[0])?;
        let grad = io.gradients[0].split_rows(self.count)?;
        let by_window = y.map(|y| y.split_rows(self.count)).transpose()?;
        let wanted = LinearGradients {
            w: Some(io.parameter_gradients[0]),
            after_bias: io.parameter_gradients.get(1).copied(),
            ..LinearGradients::default()
        };
        linalg::linear_backward(&windows, &PLAIN, w, &after, by_window.as_ref(), &grad, wanted)?;
        let Some(into) = io.input_gradients[0] else { return Ok(()) };
        let [height, width, channels] = self.image;
        for (start, count) in self.tiles(task.rows) {
            let (first, rows) = (start * self.count, count * self.count);
            let (windows, grad) = (windows.rows(first, rows)?, grad.rows(first, rows)?);
            let y = by_window.as_ref().map(|y| y.rows(first, rows)).transpose()?;
            let of_windows = scratch(&[rows, self.values], |into| {
                let wanted = LinearGradients { x: Some(into), ..LinearGradients::default() };
                linalg::linear_backward(&windows, &PLAIN, w, &after, y.as_ref(), &grad, wanted)
            })?;
            let image = scratch(&[count, height, width, channels], |into| {
                dense::patches_sum(&of_windows, self.windows, into)
            })?;
            let image = image.reshape(&[count, height * width * channels])?;
            linalg::axpby(1.0, &image, 0.0, &image, &into.rows(start, count)?)?;
        }
        Ok(())
    }
}

eciton_sdk::export_kernel!(Conv2d);
