//! Layers of networks without a graph, which compute on rows, images or sequences.
//!
//! All rows are flat. An image is a row of `height * width * channels` values, with the channels
//! last. A sequence is a group of consecutive rows, with one row per token.

use super::{Activation, Norm};
use serde::{Deserialize, Serialize};

/// Maximum number of columns of a layer whose width is computed from its input.
pub const MAX_ROW: u32 = 1 << 24;
/// Maximum number of rows of an embedding table.
pub const MAX_ENTRIES: u32 = 1 << 24;

/// Input of a layer, which is either the features or the output of an earlier layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The data set's features.
    Features,
    /// Output of an earlier layer, given by its index in the list of layers.
    Layer(u32),
}

/// Shape of an image as height, width and number of channels. The image is stored as one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image(pub u32, pub u32, pub u32);

impl Image {
    /// Returns the number of values of the image, or `None` if it exceeds [`MAX_ROW`].
    #[must_use]
    pub fn values(self) -> Option<u32> {
        let Self(height, width, channels) = self;
        let values = height.checked_mul(width)?.checked_mul(channels)?;
        (values <= MAX_ROW).then_some(values)
    }
}

impl std::fmt::Display for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}, {}, {}]", self.0, self.1, self.2)
    }
}

/// Returns the number of positions of a window along one side of an image, or `None` if the window
/// does not fit. `reach` is the length of the window, and all values are in pixels.
pub(crate) fn places(extent: u32, reach: u32, stride: u32, padding: u32) -> Option<u32> {
    let room = extent.checked_add(padding.checked_mul(2)?)?.checked_sub(reach)?;
    Some(room.checked_div(stride)? + 1)
}

/// Lookup in a table of trained rows. The input of the layer has indices into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embedding {
    /// Number of rows of the table. Valid indices are 0 to `entries - 1`.
    pub entries: u32,
    /// True if the layer adds another trained row for the position within the sequence.
    pub positions: bool,
}

/// Attention between the rows of a sequence (Vaswani et al. 2017, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfAttention {
    /// Number of heads, which is a divisor of the layer's width.
    pub heads: u32,
    /// True if each row attends only to itself and to earlier rows of its sequence.
    pub causal: bool,
}

/// Transformer block with normalisation before its attention and its perceptron (Xiong et al.
/// 2020). It computes `y = x + attention(norm(x))`, and then `y + W2 act(W1 norm(y) + b1) + b2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transformer {
    /// Attention of the block's first half.
    #[serde(flatten)]
    pub attention: SelfAttention,
    /// Width of the hidden layer of the perceptron, which is the block's second half.
    pub hidden: u32,
    /// Normalisation that precedes the attention and the perceptron.
    pub before: Norm,
    /// Activation of the hidden layer of the perceptron.
    pub between: Activation,
}

/// Two-dimensional convolution of images (LeCun et al. 1989).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conv2d {
    /// Shape of the input image.
    pub image: Image,
    /// Number of channels of the output image.
    pub channels: u32,
    /// Height and width of the convolution kernel, in pixels.
    pub size: u32,
    /// Distance between neighbouring kernel positions, in pixels.
    pub stride: u32,
    /// Number of zero pixels that are added on each side of the image.
    pub padding: u32,
    /// Distance between the pixels that neighbouring kernel values are applied to, in pixels.
    pub dilation: u32,
}

impl Conv2d {
    /// Returns the shape of the output image, or `None` if the kernel does not fit into the padded
    /// image.
    #[must_use]
    pub fn output(&self) -> Option<Image> {
        let reach = self.size.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        let along = |extent| places(extent, reach, self.stride, self.padding);
        Some(Image(along(self.image.0)?, along(self.image.1)?, self.channels))
    }
}

/// Two-dimensional pooling of images. Each window is reduced to one value per channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool2d {
    /// Shape of the input image.
    pub image: Image,
    /// Height and width of the window, in pixels.
    pub window: u32,
    /// Distance between neighbouring windows, in pixels.
    pub stride: u32,
    /// Function that reduces the values of a window to one value.
    pub by: PoolBy,
}

impl Pool2d {
    /// Returns the shape of the output image, or `None` if the window does not fit into the image.
    #[must_use]
    pub fn output(&self) -> Option<Image> {
        let along = |extent| places(extent, self.window, self.stride, 0);
        Some(Image(along(self.image.0)?, along(self.image.1)?, self.image.2))
    }
}

/// Function that reduces the values of a pooling window to one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolBy {
    /// Maximum of the window.
    #[default]
    Max,
    /// Mean of the window.
    Mean,
}

impl PoolBy {
    /// All reductions of a pooling window, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("max", Self::Max), ("mean", Self::Mean)];

    /// Returns the name of the reduction in recipes and in the kernel's attribute.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Mean => "mean",
        }
    }
}

/// Selection of a range of consecutive columns of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Index of the first column, from 0.
    pub start: u32,
    /// Number of selected columns.
    pub count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_fit_as_in_pytorch() {
        let conv = |size, stride, padding, dilation| Conv2d {
            image: Image(28, 30, 3),
            channels: 8,
            size,
            stride,
            padding,
            dilation,
        };
        assert_eq!(conv(3, 1, 1, 1).output(), Some(Image(28, 30, 8)));
        assert_eq!(conv(3, 2, 0, 2).output(), Some(Image(12, 13, 8)));
        assert_eq!(conv(28, 1, 0, 1).output(), Some(Image(1, 3, 8)));
        assert_eq!(conv(29, 1, 0, 1).output(), None);
        assert_eq!(conv(0, 1, 0, 1).output(), None);
        assert_eq!(conv(3, 0, 0, 1).output(), None);
        assert_eq!(conv(3, 1, u32::MAX, 1).output(), None);
        let pool = |window, stride| Pool2d { image: Image(28, 30, 3), window, stride, by: PoolBy::Max };
        assert_eq!(pool(2, 2).output(), Some(Image(14, 15, 3)));
        assert_eq!(pool(3, 2).output(), Some(Image(13, 14, 3)));
        assert_eq!(pool(29, 1).output(), None);
        assert_eq!(Image(1 << 12, 1 << 12, 1).values(), Some(1 << 24));
        assert_eq!(Image(1 << 12, 1 << 12, 2).values(), None);
        assert_eq!(Image(u32::MAX, u32::MAX, 1).values(), None);
    }
}
