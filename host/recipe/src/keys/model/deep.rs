//! The keys that only layers of deep networks have.

use super::super::{Key, key};
use crate::document::{Field, Found};
use crate::error::Result;
use crate::model::{Image, LayerSettings, MAX_ENTRIES, MAX_ROW, MAX_WIDTH, PoolBy};

/// Largest extent of an image, a kernel or a window, and longest stride, in pixels.
const MAX_PIXELS: u32 = 65_536;

pub(in super::super) const LAYER: &[Key<LayerSettings>] = &[
    key(
        "entries",
        &["num_embeddings", "vocabulary", "vocab_size"],
        "rows of the table, in embedding: 1 to 2^24; left out: the number of classes",
        |layer, field| {
            layer.deep.entries = Some(field.integer32(1..=MAX_ENTRIES)?);
            Ok(())
        },
    ),
    key(
        "positions",
        &["positional", "position_embedding"],
        "whether a trained row of its place in the sequence is added, in embedding: true or false",
        |layer, field| {
            layer.deep.positions = Some(field.flag()?);
            Ok(())
        },
    ),
    key(
        "causal",
        &["is_causal", "masked"],
        "whether a row sees none after it, in self-attention and transformer: true or false",
        |layer, field| {
            layer.deep.causal = Some(field.flag()?);
            Ok(())
        },
    ),
    key(
        "hidden",
        &["dim_feedforward", "ffn", "mlp_width"],
        "columns between the two last products, in transformer: 1 to 65536; left out: four times its width",
        |layer, field| {
            layer.deep.hidden = Some(field.integer32(1..=MAX_WIDTH)?);
            Ok(())
        },
    ),
    key(
        "image",
        &["shape", "input_shape", "size"],
        "what it reads, in conv2d and pool2d: [height, width, channels]; left out: the image of the layer that it reads",
        |layer, field| {
            layer.deep.image = Some(image(field)?);
            Ok(())
        },
    ),
    key(
        "channels",
        &["out_channels", "filters"],
        "channels of its result, in conv2d: 1 to 65536; left out: the model's `hidden`",
        |layer, field| {
            layer.deep.channels = Some(field.integer32(1..=MAX_WIDTH)?);
            Ok(())
        },
    ),
    key(
        "kernel_size",
        &["ksize", "filter_size"],
        "height and width of the kernel in pixels, in conv2d: 3 where nobody says",
        |layer, field| {
            layer.deep.kernel_size = Some(field.integer32(1..=MAX_PIXELS)?);
            Ok(())
        },
    ),
    key(
        "stride",
        &["strides"],
        "pixels from one place to the next, in conv2d (1) and pool2d (the window)",
        |layer, field| {
            layer.deep.stride = Some(field.integer32(1..=MAX_PIXELS)?);
            Ok(())
        },
    ),
    key("padding", &["pad"], "zeros on each side of the image, in conv2d: 0 and more", |layer, field| {
        layer.deep.padding = Some(field.integer32(0..=MAX_PIXELS)?);
        Ok(())
    }),
    key(
        "dilation",
        &["dilations"],
        "pixels from one value of the kernel to the next, in conv2d: 1 and more",
        |layer, field| {
            layer.deep.dilation = Some(field.integer32(1..=MAX_PIXELS)?);
            Ok(())
        },
    ),
    key(
        "window",
        &["pool_size"],
        "height and width of a window in pixels, in pool2d: 2 where nobody says",
        |layer, field| {
            layer.deep.window = Some(field.integer32(1..=MAX_PIXELS)?);
            Ok(())
        },
    ),
    key("pool", &["by", "pooling"], "what it makes of a window, in pool2d: max, mean", |layer, field| {
        layer.deep.pool = Some(field.choice(&PoolBy::ALL)?);
        Ok(())
    }),
    key("start", &["offset"], "the first column, from 0, in slice", |layer, field| {
        layer.deep.start = Some(field.integer32(0..=i32::MAX as u32)?);
        Ok(())
    }),
    key("count", &["columns", "length"], "how many columns, in slice: 1 and more", |layer, field| {
        layer.deep.count = Some(field.integer32(1..=MAX_ROW)?);
        Ok(())
    }),
];

/// Three extents.
fn image(field: &Field) -> Result<Image> {
    let refuse =
        || field.refuse("[height, width, channels], each from 1 to 65536 and together at most 2^24 values");
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
