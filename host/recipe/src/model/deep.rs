//! Layers of deep networks, which compute rows, images or sequences without a graph.
//!
//! Rows stay flat. An image is a row of `height * width * channels` values, channels last. A
//! sequence is a group of consecutive rows, one for each token.

use super::{Activation, Norm};
use serde::{Deserialize, Serialize};

/// Maximum width of a row in a layer whose width is computed from its input.
pub const MAX_ROW: u32 = 1 << 24;
/// Maximum number of rows of an embedding table.
pub const MAX_ENTRIES: u32 = 1 << 24;

/// Input of a layer: the features, or the output of an earlier layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The data set's features.
    Features,
    /// Output of an earlier layer, given by the layer's index in the list.
    Layer(u32),
}

/// Shape of an image: height, width and channels. An image is stored as one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image(pub u32, pub u32, pub u32);

impl Image {
    /// Returns the number of values of the image's row. If it exceeds [`MAX_ROW`], returns `None`.
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

/// Returns the number of window positions along one extent of an image. Returns `None` if the
/// window does not fit once.
pub(crate) fn places(extent: u32, reach: u32, stride: u32, padding: u32) -> Option<u32> {
    let room = extent.checked_add(padding.checked_mul(2)?)?.checked_sub(reach)?;
    Some(room.checked_div(stride)? + 1)
}

/// Lookup in a table of rows. The input has the indices of table rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embedding {
    /// Number of rows of the table. Valid indices are from 0 to `entries` - 1.
    pub entries: u32,
    /// True if the layer adds a trained row for the position in the sequence.
    pub positions: bool,
}

/// Attention between the rows of a group, which is a sequence (Vaswani et al. 2017, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfAttention {
    /// Number of heads. It divides the width of the layer.
    pub heads: u32,
    /// True if a row attends only to itself and to earlier rows.
    pub causal: bool,
}

/// Transformer block that normalises before attention and perceptron (Xiong et al. 2020): `y = x +
/// attention(norm(x))`, then `y + W2 act(W1 norm(y) + b1) + b2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transformer {
    /// Attention in the first half of the block.
    #[serde(flatten)]
    pub attention: SelfAttention,
    /// Number of columns between the two products of the perceptron, in the second half of the
    /// block.
    pub hidden: u32,
    /// Normalisation of the rows before the attention and before the perceptron.
    pub before: Norm,
    /// Activation between the two products of the perceptron.
    pub between: Activation,
}

/// Convolution of images (LeCun et al. 1989).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conv2d {
    /// Shape of the input image.
    pub image: Image,
    /// Number of channels of the output image.
    pub channels: u32,
    /// Height and width of the convolution kernel.
    pub size: u32,
    /// Distance of neighbouring kernel positions, in pixels.
    pub stride: u32,
    /// Number of zeros that are added on each side of the image.
    pub padding: u32,
    /// Distance of neighbouring kernel values in the image, in pixels.
    pub dilation: u32,
}

impl Conv2d {
    /// Returns the shape of the output image. Returns `None` if the kernel does not fit into the
    /// image.
    #[must_use]
    pub fn output(&self) -> Option<Image> {
        let reach = self.size.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        let along = |extent| places(extent, reach, self.stride, self.padding);
        Some(Image(along(self.image.0)?, along(self.image.1)?, self.channels))
    }
}

/// Pooling of images: the maximum or mean of each window, for each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool2d {
    /// Shape of the input image.
    pub image: Image,
    /// Height and width of the window.
    pub window: u32,
    /// Distance of neighbouring windows, in pixels.
    pub stride: u32,
    /// Function that reduces a window to one value.
    pub by: PoolBy,
}

impl Pool2d {
    /// Returns the shape of the output image. Returns `None` if the window does not fit into the
    /// image.
    #[must_use]
    pub fn output(&self) -> Option<Image> {
        let along = |extent| places(extent, self.window, self.stride, 0);
        Some(Image(along(self.image.0)?, along(self.image.1)?, self.image.2))
    }
}

/// Function that reduces a pooling window to one value.
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
    /// All reductions, with their names in recipes.
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

/// Selection of consecutive columns of the input.
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
