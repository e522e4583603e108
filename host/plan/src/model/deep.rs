//! Layers of deep networks: what each row, image or sequence goes through without a graph.
//!
//! Rows stay flat. An image is a row of `height * width * channels` values, channels last; a
//! sequence is a group of consecutive rows, one a token.

use super::{Activation, Norm};
use serde::{Deserialize, Serialize};

/// Widest row that a layer makes whose width follows from its input.
pub const MAX_ROW: u32 = 1 << 24;
/// Most entries of an embedding.
pub const MAX_ENTRIES: u32 = 1 << 24;

/// What a layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The data set's features.
    Features,
    /// The output of an earlier layer, by its place in the list.
    Layer(u32),
}

/// Height, width and channels of an image that is one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image(pub u32, pub u32, pub u32);

impl Image {
    /// Values of its row; `None` past [`MAX_ROW`].
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

/// Places of a window along an extent; `None` where it does not fit once.
pub(crate) fn places(extent: u32, reach: u32, stride: u32, padding: u32) -> Option<u32> {
    let room = extent.checked_add(padding.checked_mul(2)?)?.checked_sub(reach)?;
    Some(room.checked_div(stride)? + 1)
}

/// Rows of a table, by the number that stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embedding {
    /// Rows of the table: numbers are from 0 to one less.
    pub entries: u32,
    /// True if a trained row of each place in the group is added.
    pub positions: bool,
}

/// Attention of the rows of a group to each other (Vaswani et al. 2017, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfAttention {
    /// Heads, a divisor of the width.
    pub heads: u32,
    /// True if a row sees only itself and rows before it.
    pub causal: bool,
}

/// A block of a transformer, norms first (Xiong et al. 2020): `y = x + attention(norm(x))`, then
/// `y + W2 act(W1 norm(y) + b1) + b2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transformer {
    /// Its attention.
    #[serde(flatten)]
    pub attention: SelfAttention,
    /// Columns between its two last products.
    pub hidden: u32,
    /// What brings rows to one scale before each half.
    pub before: Norm,
    /// What stands between its two last products.
    pub between: Activation,
}

/// A convolution of images (LeCun et al. 1989).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conv2d {
    /// What it reads.
    pub image: Image,
    /// Channels of its result.
    pub channels: u32,
    /// Height and width of its kernel.
    pub size: u32,
    /// Pixels from one place of the kernel to the next.
    pub stride: u32,
    /// Zeros around the image, on each side.
    pub padding: u32,
    /// Pixels from one value of the kernel to the next.
    pub dilation: u32,
}

impl Conv2d {
    /// What it makes; `None` where the kernel does not fit into the image.
    #[must_use]
    pub fn output(&self) -> Option<Image> {
        let reach = self.size.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        let along = |extent| places(extent, reach, self.stride, self.padding);
        Some(Image(along(self.image.0)?, along(self.image.1)?, self.channels))
    }
}

/// The largest or mean value of each window of an image, by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool2d {
    /// What it reads.
    pub image: Image,
    /// Height and width of the window.
    pub window: u32,
    /// Pixels from one window to the next.
    pub stride: u32,
    /// What it makes of a window.
    pub by: PoolBy,
}

impl Pool2d {
    /// What it makes; `None` where the window does not fit into the image.
    #[must_use]
    pub fn output(&self) -> Option<Image> {
        let along = |extent| places(extent, self.window, self.stride, 0);
        Some(Image(along(self.image.0)?, along(self.image.1)?, self.image.2))
    }
}

/// What a pooling makes of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolBy {
    /// The largest value.
    #[default]
    Max,
    /// The mean.
    Mean,
}

impl PoolBy {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("max", Self::Max), ("mean", Self::Mean)];

    /// Its name in recipes, and in the kernel's attribute.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Mean => "mean",
        }
    }
}

/// Consecutive columns of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The first, from 0.
    pub start: u32,
    /// How many.
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
