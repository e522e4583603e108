//! Kernel `pool2d`: each window of an image reduced to one value a channel, its largest or their mean.
//!
//! A row is an image of height x width x c values, channels last; c follows from the row. With windows of `window` x
//! `window` values, `stride` from each other (0: `window`, so that none overlap), without padding:
//! oh = (height - window) / stride + 1, rounded down; ow likewise. x [n, height width c], y [n, oh ow c].
//! The gradient of a mean goes to all of its window in equal shares, that of a maximum to the first that has it.

use eciton_sdk::Reduction;
use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Pool2d {
    image: [u32; 3],
    windows: Windows,
    /// Windows of an image.
    count: u32,
    by: Reduction,
}

impl Pool2d {
    fn images(&self, x: &Matrix) -> Result<Matrix> {
        let [height, width, channels] = self.image;
        x.reshape(&[x.row_count(), height, width, channels])
    }
}

impl Kernel for Pool2d {
    fn attributes() -> Vec<AttributeSpec> {
        vec![
            AttributeSpec::new("height", "rows of the image", None),
            AttributeSpec::new("width", "columns of the image", None),
            AttributeSpec::new("window", "values along a side of a window", None),
            AttributeSpec::new("stride", "distance between windows; 0: as `window`", Some(Value::Integer(0))),
            AttributeSpec::new("by", "max or mean", Some(Value::Text("max".to_owned()))),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("pool2d takes one input, not {}", inputs.len())));
        };
        let (height, width) = (attributes.size("height")?, attributes.size("width")?);
        let channels = match (&input[..], height.checked_mul(width)) {
            (&[all], Some(pixels)) if all > 0 && all % pixels == 0 => all / pixels,
            _ => {
                return Err(Error::Argument(format!(
                    "pool2d: rows of extents {input:?} are no images of {height} x {width}; one extent is needed, a multiple of height * width"
                )));
            }
        };
        let window = attributes.size("window")?;
        let stride = match attributes.count("stride")? {
            0 => window,
            stride => stride,
        };
        let windows = Windows { kernel: window, stride, padding: 0, dilation: 1 };
        let (Some(down), Some(across)) = (windows.along(height), windows.along(width)) else {
            let text = format!("attribute `window` is {window}; no such window fits into {height} x {width}");
            return Err(Error::Argument(text));
        };
        let by = match attributes.text("by")? {
            "max" => Reduction::Max,
            "mean" => Reduction::Mean,
            other => {
                return Err(Error::Argument(format!("attribute `by` is {other}; known are max and mean")));
            }
        };
        // No more windows than values, for the stride is from 1.
        Ok(Self { image: [height, width, channels], windows, count: down * across, by })
    }

    fn signature(&self) -> Signature {
        let [height, width, channels] = self.image;
        let s = Signature::new().input("x", &[height * width * channels]);
        s.output("y", &[self.count * channels]).needing_inputs()
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        dense::pool(&self.images(io.inputs[0])?, self.windows, self.by, io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        let Some(into) = io.input_gradients[0] else { return Ok(()) };
        let x = self.images(io.inputs[0])?;
        dense::pool_backward(&x, self.windows, self.by, io.gradients[0], into)
    }
}

eciton_sdk::export_kernel!(Pool2d);
