//! Built-in data set of handwritten digits (`data/digits.bin.gz`). The images have 8 x 8 grey
//! values, which are divided by 16. Every fifth image is a test image, and all others are training
//! images.

use std::io::Read;

use eciton_graph::dataset::{Dataset, Names, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::Features;
use eciton_graph::labels::Labels;
use eciton_graph::split::Split;

use crate::rows;

static BYTES: &[u8] = include_bytes!("../data/digits.bin.gz");
const FILE: &str = "digits.bin.gz";
/// Number of pixels per image.
const PIXELS: usize = 64;
/// Maximum value of a pixel in the file.
const WHITE: f32 = 16.0;
/// Number of classes, which are the digits 0 to 9.
const DIGITS: u32 = 10;
/// Reciprocal of the share of test images.
const TESTS: u32 = 5;

/// Decompresses and parses the built-in file.
pub(super) fn load() -> Result<Dataset> {
    let mut bytes = Vec::new();
    let unpacked = flate2::read::GzDecoder::new(BYTES).read_to_end(&mut bytes);
    unpacked.map_err(|error| Error::malformed(Place::whole(FILE), "gzip", error.to_string()))?;
    let (images, rest) = bytes.as_chunks::<{ PIXELS + 1 }>();
    if !rest.is_empty() {
        let found = format!("{} bytes", bytes.len());
        return Err(Error::malformed(Place::whole(FILE), "65 bytes per image", found));
    }
    let values: Vec<f32> =
        images.iter().flat_map(|[_, pixels @ ..]| pixels).map(|&pixel| f32::from(pixel) / WHITE).collect();
    let labels = Labels::classes(images.iter().map(|[digit, ..]| u32::from(*digit)).collect(), DIGITS);
    let (test, train) = (0..images.len() as u32).partition(|image| image.is_multiple_of(TESTS));
    let split = Split { train, validation: Vec::new(), test };
    let features = Features::dense(PIXELS as u32, &values)?;
    rows::dataset("digits".to_owned(), features, labels, Some(split), VertexIds::Dense, Names::default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_is_what_is_published() {
        let digits = load().unwrap();
        assert_eq!((digits.vertices(), digits.labels.width(), digits.features.columns()), (1797, 10, 64));
        assert_eq!((digits.split.train.len(), digits.split.test.len()), (1437, 360));
        let classes = digits.labels.as_classes().unwrap();
        let counts: Vec<usize> =
            (0..10).map(|d| classes.iter().filter(|&&class| class == d).count()).collect();
        assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
        let mut row = [0.0; 64];
        digits.features.copy_row(0, &mut row);
        assert_eq!(row[..8], [0.0, 0.0, 5.0, 13.0, 9.0, 1.0, 0.0, 0.0].map(|value| value / 16.0));
    }
}
