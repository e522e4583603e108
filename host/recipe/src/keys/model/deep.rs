//! The keys of layers for images and sequences.

use super::super::key::{Key, Kind, Write, key, names, value};
use crate::document::{Field, Found};
use crate::error::Result;
use crate::model::{Image, LayerSettings, MAX_ENTRIES, MAX_ROW, MAX_WIDTH, PoolBy};

/// Maximum extent of images, convolution kernels, windows and strides, in pixels.
const MAX_PIXELS: u32 = 65_536;

type To = LayerSettings;

pub(in super::super) const LAYER: &[Key<LayerSettings>] = &[
    key(
        "entries",
        "Number of rows of the table, in embedding",
        value!(some integer32(1, MAX_ENTRIES) => deep.entries),
    )
    .also(&["num_embeddings", "vocabulary", "vocab_size"])
    .absent("the number of classes"),
    key(
        "positions",
        "Addition of a trained row for the position in the sequence, in embedding",
        value!(some flag => deep.positions),
    )
    .also(&["positional", "position_embedding"])
    .absent("false"),
    key(
        "causal",
        "Causal mask: a row reads no later rows, in self-attention and transformer",
        value!(some flag => deep.causal),
    )
    .also(&["is_causal", "masked"])
    .absent("false"),
    key(
        "hidden",
        "Number of columns between the last two products, in transformer",
        value!(some integer32(1, MAX_WIDTH) => deep.hidden),
    )
    .also(&["dim_feedforward", "ffn", "mlp_width"])
    .absent("four times the width of the layer"),
    key("image", "Shape of the input, in conv2d and pool2d", IMAGE)
        .also(&["shape", "input_shape", "size"])
        .absent("the image of the layer that it reads"),
    key(
        "channels",
        "Number of output channels, in conv2d",
        value!(some integer32(1, MAX_WIDTH) => deep.channels),
    )
    .also(&["out_channels", "filters"])
    .absent("the model's hidden"),
    key(
        "kernel_size",
        "Height and width of the kernel in pixels, in conv2d",
        value!(some integer32(1, MAX_PIXELS) => deep.kernel_size),
    )
    .also(&["ksize", "filter_size"])
    .absent("3"),
    key(
        "stride",
        "Number of pixels between two positions of the kernel or window, in conv2d and pool2d",
        value!(some integer32(1, MAX_PIXELS) => deep.stride),
    )
    .also(&["strides"])
    .absent("1 in conv2d, the window in pool2d"),
    key(
        "padding",
        "Number of pixels of zeros on each side of the image, in conv2d",
        value!(some integer32(0, MAX_PIXELS) => deep.padding),
    )
    .also(&["pad"])
    .absent("0"),
    key(
        "dilation",
        "Number of pixels between two values of the kernel, in conv2d",
        value!(some integer32(1, MAX_PIXELS) => deep.dilation),
    )
    .also(&["dilations"])
    .absent("1"),
    key(
        "window",
        "Height and width of a window in pixels, in pool2d",
        value!(some integer32(1, MAX_PIXELS) => deep.window),
    )
    .also(&["pool_size"])
    .absent("2"),
    key("pool", "Aggregation of a window, in pool2d", value!(some choice(PoolBy::ALL) => deep.pool))
        .also(&["by", "pooling"])
        .absent("max"),
    key("start", "First column, from 0, in slice", value!(some integer32(0, i32::MAX) => deep.start))
        .also(&["offset"])
        .absent("0"),
    key("count", "Number of columns, in slice", value!(some integer32(1, MAX_ROW) => deep.count))
        .also(&["columns", "length"]),
];

const IMAGE: (Kind, Write<LayerSettings>) = (
    Kind::Other("[height, width, channels], each from 1 to 65536 and together at most 2^24 values"),
    |layer, field, kind| {
        layer.deep.image = Some(image(field, kind)?);
        Ok(())
    },
);

/// Returns the three extents of an image from a list.
fn image(field: &Field, kind: &Kind) -> Result<Image> {
    let refuse = || field.refuse(kind.text(&field.name));
    let extent = |item: &Found| match item {
        Found::Integer(value) => u32::try_from(*value).ok().filter(|v| (1..=MAX_PIXELS).contains(v)),
        _ => None,
    };
    let Found::List(items) = &field.value else { return Err(refuse()) };
    match items[..] {
        [ref height, ref width, ref channels] => {
            let extents = (extent(height), extent(width), extent(channels));
            let (Some(height), Some(width), Some(channels)) = extents else { return Err(refuse()) };
            let image = Image(height, width, channels);
            image.values().map(|_| image).ok_or_else(refuse)
        }
        _ => Err(refuse()),
    }
}
