//! Properties of a file that determine how it is read or which model suits it. They are detected
//! without reading the file as a data set.

use std::path::Path;

use super::npy::{self, Npy};
use super::npz::Npz;
use super::{Kind, gzip, is_rows, rows};

/// Number of bytes at the start of a file that are examined to recognise prose.
const START_BYTES: u64 = 1 << 16;
/// Maximum number of channels of an image.
const MAX_CHANNELS: usize = 4;

/// Returns height, width and channels of the images in an archive or folder of rows. The feature
/// array must have the shape `[V, height, width]` or `[V, height, width, channels]`. Returns `None`
/// for all other data.
#[must_use]
pub fn image_shape(path: &Path) -> Option<[u32; 3]> {
    let shape = match path.is_dir() {
        true => {
            let [x, _] = rows::files(path, None)?;
            let mut start = Vec::new();
            gzip::Source::open(&x).ok()?.read(&mut start, npy::MAX_START_BYTES as u64).ok()?;
            Npy::parse(&start, "x").ok()?.shape().to_vec()
        }
        false if matches!(Kind::detect(path), Ok(Some(Kind::Bundle))) => {
            let mut npz = Npz::open(path).ok()?;
            let (x, _) = rows::names(&npz.keys(), None)?;
            Npy::parse(&npz.entry(x).ok()?, x).ok()?.shape().to_vec()
        }
        false => return None,
    };
    let [height, width, channels] = match shape[..] {
        [_, height, width] => [height, width, 1],
        [_, height, width, channels] if (1..=MAX_CHANNELS).contains(&channels) => [height, width, channels],
        _ => return None,
    };
    let side = |side: usize| u32::try_from(side).ok().filter(|side| *side > 0);
    Some([side(height)?, side(width)?, side(channels)?])
}

/// Returns whether a file is prose although its name is that of an edge list. A file is prose if
/// fewer than three quarters of its lines have two to four fields.
#[must_use]
pub fn is_prose(path: &Path) -> bool {
    if !path.is_file() || is_rows(path) || !matches!(Kind::detect(path), Ok(Some(Kind::EdgeList))) {
        return false;
    }
    let mut start = Vec::new();
    let read = gzip::Source::open(path).and_then(|mut source| source.read(&mut start, START_BYTES));
    if read.is_err() || start.contains(&0) {
        return false;
    }
    let text = String::from_utf8_lossy(&start);
    let complete = if start.len() as u64 == START_BYTES { text.rfind('\n').unwrap_or(0) } else { text.len() };
    let lines = text.get(..complete).unwrap_or_default().lines().map(str::trim);
    let fields = |line: &str| {
        line.split(|c: char| c.is_whitespace() || c == ',').filter(|field| !field.is_empty()).count()
    };
    let counts: Vec<usize> =
        lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '%'])).map(fields).collect();
    let edges = counts.iter().filter(|count| (2..=4).contains(*count)).count();
    // A damaged edge list is not prose. Its reader reports the line.
    !counts.is_empty() && edges * 4 < counts.len() * 3
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::npz::tests::write;

    #[test]
    fn shapes_of_images_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let found = |shape: &[usize]| {
            let cells: usize = shape.iter().product();
            let x = npy::tests::write_f32(shape, &vec![0.0; cells]);
            let y = npy::tests::write_f32(&[shape[0]], &vec![0.0; shape[0]]);
            std::fs::write(&path, write(&[("x", x), ("y", y)])).unwrap();
            image_shape(&path)
        };
        assert_eq!(found(&[2, 4, 5]), Some([4, 5, 1]));
        assert_eq!(found(&[2, 4, 5, 3]), Some([4, 5, 3]));
        assert_eq!((found(&[2, 20]), found(&[2, 3, 4, 5])), (None, None));
        assert_eq!(image_shape(dir.path()), None);
    }

    #[test]
    fn prose_is_no_list_of_edges() {
        let dir = tempfile::tempdir().unwrap();
        let found = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            is_prose(&path)
        };
        assert!(found("a.txt", "It was a dark and stormy night.\nThe rain fell in torrents, except\n"));
        assert!(!found("a.txt", "# of two\n0 1\n1 2\n2 0 0.5\nx\n"));
        assert!(!found("a.txt", "ann bob\nbob cid\n") && !found("a.txt", "") && !found("a.txt", "a\0b"));
        assert!(!found("a.csv", "It was a dark and stormy night, except\n"));
        assert!(!is_prose(&dir.path().join("none.txt")));
    }
}
