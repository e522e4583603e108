//! Chain of convolutions and poolings, with its costs and the input rows that output rows depend
//! on.

use std::ops::Range;

use crate::error::{Error, Result};
use eciton_recipe::model::{Conv2d, Image, Pool2d, PoolBy};

/// Layer of a chain, which is a convolution or a pooling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Convolution with stride, padding and dilation.
    Conv(Conv2d),
    /// Pooling, without padding.
    Pool(Pool2d),
}

impl Step {
    /// Returns the shape of the layer's input image.
    #[must_use]
    pub fn image(&self) -> Image {
        match self {
            Self::Conv(conv) => conv.image,
            Self::Pool(pool) => pool.image,
        }
    }

    fn output(&self) -> Option<Image> {
        match self {
            Self::Conv(conv) => conv.output(),
            Self::Pool(pool) => pool.output(),
        }
    }

    /// Returns the number of rows that a window spans (dilation included), the stride and the
    /// padding, in rows.
    #[must_use]
    pub fn window(&self) -> (u32, u32, u32) {
        match self {
            Self::Conv(conv) => (
                conv.dilation.saturating_mul(conv.size.saturating_sub(1)).saturating_add(1),
                conv.stride,
                conv.padding,
            ),
            Self::Pool(pool) => (pool.window, pool.stride, 0),
        }
    }

    /// Returns the number of floating-point operations per output value. A convolution takes two
    /// per product, and a pooling one per value of the window.
    fn value_flops(&self) -> f64 {
        match self {
            Self::Conv(conv) => 2.0 * f64::from(conv.size).powi(2) * f64::from(conv.image.2),
            Self::Pool(pool) => f64::from(pool.window).powi(2),
        }
    }

    /// Returns the range of input rows from which the layer computes `rows` of its output, limited
    /// to the image. An empty range needs an empty range.
    #[must_use]
    pub fn needs(&self, rows: &Range<u32>) -> Range<u32> {
        // In 64 bits, the products do not overflow.
        let (reach, stride, padding) = self.window();
        let [reach, stride, padding] = [reach, stride, padding].map(u64::from);
        if rows.is_empty() {
            return 0..0;
        }
        let height = u64::from(self.image().0);
        let from = (u64::from(rows.start) * stride).saturating_sub(padding).min(height);
        let to = ((u64::from(rows.end) - 1) * stride + reach).saturating_sub(padding).min(height);
        // The rows are within the height, which has 32 bits.
        from as u32..to.max(from) as u32
    }
}

/// Chain of layers, each of which reads the output of the layer before.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    steps: Vec<Step>,
    /// Shape of the input image of each layer, followed by the shape of the last layer's output.
    images: Vec<Image>,
}

impl Chain {
    /// Creates a chain of these layers, in order.
    ///
    /// # Errors
    /// Returns [`Error::Chain`] if there are no layers, if a window does not fit into its image, or
    /// if a layer reads another image shape than the layer before writes.
    pub fn new(steps: Vec<Step>) -> Result<Self> {
        let mut images: Vec<Image> = steps.first().map(Step::image).into_iter().collect();
        for (layer, step) in steps.iter().enumerate() {
            let made = images.last().copied();
            if made != Some(step.image()) {
                let found = format!("reads {}", step.image());
                let wanted =
                    made.map_or_else(String::new, |image| format!("{image}, the output of the layer before"));
                return Err(Error::Chain { layer, found, wanted });
            }
            let Some(output) = step.output().filter(|image| image.values().is_some_and(|v| v > 0)) else {
                let (reach, stride, padding) = step.window();
                let found = format!("has windows of {reach} rows, stride {stride} and padding {padding}");
                let wanted = format!("windows that fit into {}", step.image());
                return Err(Error::Chain { layer, found, wanted });
            };
            images.push(output);
        }
        match steps.is_empty() {
            true => Err(Error::Chain {
                layer: 0,
                found: "does not exist".into(),
                wanted: "at least one layer".into(),
            }),
            false => Ok(Self { steps, images }),
        }
    }

    /// Returns the number of layers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns true if the chain has no layers. This is never the case, because [`Self::new`]
    /// refuses such a chain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the layers, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the shape of the input image of layer `at`. For `at` = [`Self::len`], it is the
    /// shape of the last layer's output.
    #[must_use]
    pub fn image(&self, at: usize) -> Image {
        self.images[at]
    }

    /// Returns the number of rows of the input image of layer `at`. For `at` = [`Self::len`], it is
    /// that of the last layer's output.
    #[must_use]
    pub fn rows(&self, at: usize) -> u32 {
        self.images[at].0
    }

    /// Returns the number of bytes of one row of the input image of layer `at`, with f32 values.
    #[must_use]
    pub fn row_bytes(&self, at: usize) -> u64 {
        let Image(_, width, channels) = self.images[at];
        4 * u64::from(width) * u64::from(channels)
    }

    /// Returns the range of the block's input rows from which the block computes `rows` of its
    /// output. A block is a range of layers.
    #[must_use]
    pub fn needs(&self, block: &Range<usize>, rows: Range<u32>) -> Range<u32> {
        self.steps[block.clone()].iter().rev().fold(rows, |rows, step| step.needs(&rows))
    }

    /// Returns the range of rows before each layer of a block that `rows` of the block's output
    /// need. The last entry is `rows` itself.
    #[must_use]
    pub fn trail(&self, block: &Range<usize>, rows: Range<u32>) -> Vec<Range<u32>> {
        let mut trail = vec![rows];
        for step in self.steps[block.clone()].iter().rev() {
            let needed = trail.last().map(|rows| step.needs(rows));
            trail.extend(needed);
        }
        trail.reverse();
        trail
    }

    /// Returns the number of floating-point operations in which a block computes `rows` of its
    /// output. It includes all rows of the block's inner layers that these rows need.
    #[must_use]
    pub fn flops(&self, block: &Range<usize>, rows: Range<u32>) -> f64 {
        let trail = self.trail(block, rows);
        let made = trail.iter().skip(1).zip(block.clone());
        let of = |(rows, at): (&Range<u32>, usize)| {
            let Image(_, width, channels) = self.images[at + 1];
            let values = f64::from(rows.end - rows.start) * f64::from(width) * f64::from(channels);
            values * self.steps[at].value_flops()
        };
        made.map(of).sum()
    }
}

/// Returns the layers of VGG-16 up to its last pooling (Simonyan and Zisserman 2015, table 1, D).
/// They are 13 convolutions and 5 poolings, for images of 224 x 224 pixels.
#[must_use]
pub fn vgg16() -> Chain {
    let (mut steps, mut images) = (Vec::new(), vec![Image(224, 224, 3)]);
    let mut image = Image(224, 224, 3);
    for (channels, layers) in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)] {
        for _ in 0..layers {
            steps.push(Step::Conv(Conv2d { image, channels, size: 3, stride: 1, padding: 1, dilation: 1 }));
            image.2 = channels;
            images.push(image);
        }
        steps.push(Step::Pool(Pool2d { image, window: 2, stride: 2, by: PoolBy::Max }));
        image = Image(image.0 / 2, image.1 / 2, channels);
        images.push(image);
    }
    Chain { steps, images }
}
