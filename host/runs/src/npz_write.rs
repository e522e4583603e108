//! Writer of `predictions.npz`, an uncompressed zip archive of NumPy arrays. Each array is written
//! while it is computed, so it is never in memory as a whole.
//!
//! `numpy.load(path)` reads the archive without pickle. An entry is named `NAME.npy` and has
//! NumPy's format 1.0. It consists of a text header, padded to a multiple of 64 bytes, and the
//! row-major, little-endian values.

use std::io::{self, Seek, SeekFrom, Write};

use eciton_graph::dataset::VertexIds;
use zip::write::SimpleFileOptions;

/// Size of the write buffer, in bytes.
const PIECE_BYTES: usize = 1 << 16;

/// Writer of an `.npz` archive, which contains NumPy arrays.
pub struct NpzWriter<W: Write + Seek> {
    archive: zip::ZipWriter<Latch<W>>,
}

impl<W: Write + Seek> NpzWriter<W> {
    /// Creates a writer whose archive goes to `inner`.
    pub fn new(inner: W) -> Self {
        let latch = Latch { inner, position: 0, end: 0, failed: None };
        Self { archive: zip::ZipWriter::new(latch) }
    }

    /// Writes the array `name` of type `<f4` and shape `[rows, columns]` from row-major `values`.
    pub(crate) fn matrix(&mut self, name: &str, columns: usize, values: &[f32]) -> io::Result<()> {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        self.begin(name, "<f4", &format!("({rows}, {columns})"))?;
        self.cells(values.iter().map(|v| v.to_le_bytes()))
    }

    /// Writes the array `name` of type `<f4` and shape `[rows, columns]`. `row` is called for each
    /// row in order and fills a buffer with its values.
    pub(crate) fn made(
        &mut self,
        name: &str,
        (rows, columns): (usize, usize),
        mut row: impl FnMut(usize, &mut Vec<f32>),
    ) -> io::Result<()> {
        self.begin(name, "<f4", &format!("({rows}, {columns})"))?;
        let mut values = Vec::with_capacity(columns);
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        for at in 0..rows {
            row(at, &mut values);
            values.resize(columns, f32::NAN);
            values.iter().for_each(|value| piece.extend(value.to_le_bytes()));
            if piece.len() >= PIECE_BYTES {
                self.archive.write_all(&piece)?;
                piece.clear();
            }
        }
        self.archive.write_all(&piece)
    }

    /// Writes the array `name` of type `<f4` and shape `[values]`.
    pub fn vector(&mut self, name: &str, values: &[f32]) -> io::Result<()> {
        self.begin(name, "<f4", &format!("({},)", values.len()))?;
        self.cells(values.iter().map(|v| v.to_le_bytes()))
    }

    /// Writes the array `name` of type `<i8` and shape `[rows]`. `of` returns the value of a row.
    pub fn whole(&mut self, name: &str, rows: usize, of: impl Fn(usize) -> i64) -> io::Result<()> {
        self.begin(name, "<i8", &format!("({rows},)"))?;
        self.cells((0..rows).map(|row| of(row).to_le_bytes()))
    }

    /// Writes the array `name` of type `|b1` (booleans) and shape `[rows, columns]`. `of` returns
    /// the flag at a row-major index.
    pub(crate) fn flags(
        &mut self,
        name: &str,
        (rows, columns): (usize, usize),
        of: impl Fn(usize) -> bool,
    ) -> io::Result<()> {
        self.begin(name, "|b1", &format!("({rows}, {columns})"))?;
        self.cells((0..rows * columns).map(|at| [u8::from(of(at))]))
    }

    /// Writes the array `name` of fixed-width strings (`<U` and `width`) and shape `[rows]`. `of`
    /// returns the string of a row.
    pub(crate) fn words<'w>(
        &mut self,
        name: &str,
        (rows, width): (usize, usize),
        of: impl Fn(usize) -> &'w str,
    ) -> io::Result<()> {
        self.begin(name, &format!("<U{width}"), &format!("({rows},)"))?;
        let word = |row: usize| of(row).chars().chain(std::iter::repeat('\0')).take(width);
        self.cells((0..rows).flat_map(word).map(|c| u32::from(c).to_le_bytes()))
    }

    /// Writes the array `name` with the id of each vertex. Numbers have type `<i8`, or `<u8` if one
    /// is above 2^63 - 1. Strings have type `<U` and the length of the longest id. `vertices` is
    /// the number of vertices, which dense ids do not contain.
    pub(crate) fn ids(&mut self, name: &str, ids: &VertexIds, vertices: u32) -> io::Result<()> {
        match ids {
            VertexIds::Dense => {
                self.begin(name, "<i8", &format!("({vertices},)"))?;
                self.cells((0..i64::from(vertices)).map(i64::to_le_bytes))
            }
            VertexIds::Numbers(numbers) => {
                let signed = numbers.iter().all(|&n| i64::try_from(n).is_ok());
                self.begin(name, if signed { "<i8" } else { "<u8" }, &format!("({},)", numbers.len()))?;
                self.cells(numbers.iter().map(|n| n.to_le_bytes()))
            }
            VertexIds::Words(words) => {
                let width = word_chars(words);
                self.begin(name, &format!("<U{width}"), &format!("({},)", words.len()))?;
                let padded = |word: &str| {
                    let missing = width - word.chars().count();
                    word.chars().collect::<Vec<_>>().into_iter().chain(std::iter::repeat_n('\0', missing))
                };
                self.cells(words.iter().flat_map(|w| padded(w)).map(|c| u32::from(c).to_le_bytes()))
            }
        }
    }

    /// Writes the central directory of the zip archive and returns the underlying writer.
    ///
    /// # Errors
    /// Returns the first error of any write to the archive.
    pub fn finish(self) -> io::Result<W> {
        let latch = self.archive.finish()?;
        latch.failed.map_or(Ok(latch.inner), Err)
    }

    fn begin(&mut self, name: &str, descr: &str, shape: &str) -> io::Result<()> {
        // Sizes always have 64 bits, as in NumPy. There are no times, so that equal arrays give
        // equal files.
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .last_modified_time(zip::DateTime::default())
            .large_file(true);
        self.archive.start_file(format!("{name}.npy"), options)?;
        self.archive.write_all(&header(descr, shape))
    }

    fn cells<const N: usize>(&mut self, cells: impl Iterator<Item = [u8; N]>) -> io::Result<()> {
        let mut piece = Vec::with_capacity(PIECE_BYTES + N);
        for cell in cells {
            piece.extend_from_slice(&cell);
            if piece.len() >= PIECE_BYTES {
                self.archive.write_all(&piece)?;
                piece.clear();
            }
        }
        self.archive.write_all(&piece)
    }
}

/// Writer that remembers the first error and reports success from then on. Otherwise the crate zip
/// prints to standard error when a failed archive is dropped, which a library must not do.
struct Latch<W> {
    inner: W,
    position: u64,
    end: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Write for Latch<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed.is_none() {
            self.failed = self.inner.write_all(bytes).err();
        }
        self.position = self.position.saturating_add(bytes.len() as u64);
        self.end = self.end.max(self.position);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed.is_none() {
            self.failed = self.inner.flush().err();
        }
        Ok(())
    }
}

impl<W: Seek> Seek for Latch<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = match to {
            SeekFrom::Start(position) => position,
            SeekFrom::Current(by) => self.position.saturating_add_signed(by),
            SeekFrom::End(by) => self.end.saturating_add_signed(by),
        };
        if self.failed.is_none() {
            self.failed = self.inner.seek(SeekFrom::Start(self.position)).err();
        }
        Ok(self.position)
    }
}

/// Returns the number of characters of the longest word, and at least 1.
pub(crate) fn word_chars(words: &[String]) -> usize {
    words.iter().map(|w| w.chars().count()).max().unwrap_or(0).max(1)
}

/// Returns the `.npy` header of an array: magic bytes, version 1.0, length, and a Python
/// dictionary. The header is padded so that the values start at a multiple of 64 bytes.
fn header(descr: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.extend(std::iter::repeat_n(' ', length - 1 - text.len()));
    text.push('\n');
    // A header with two extents has about 100 bytes.
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_formats::npy;
    use eciton_formats::npz::Npz;
    use std::io::Cursor;

    fn write(f: impl FnOnce(&mut NpzWriter<Cursor<Vec<u8>>>)) -> Vec<u8> {
        let mut writer = NpzWriter::new(Cursor::new(Vec::new()));
        f(&mut writer);
        writer.finish().unwrap().into_inner()
    }

    fn entry(file: &[u8], key: &str) -> Vec<u8> {
        Npz::new(Cursor::new(file.to_vec()), "p.npz", 1 << 30).unwrap().entry(key).unwrap().to_vec()
    }

    #[test]
    fn headers_are_aligned_and_complete() {
        for shape in ["(3,)", "(4294967295, 65536)"] {
            let bytes = header("<U1000", shape);
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])) + 10, bytes.len());
            assert_eq!(bytes.last(), Some(&b'\n'));
        }
    }

    #[test]
    fn arrays_read_back() {
        let values: Vec<f32> = (0..60_000).map(|n| n as f32 * 0.5 - 3.0).collect();
        let file = write(|w| {
            w.ids("ids", &VertexIds::Numbers(vec![7, 1 << 40]), 2).unwrap();
            w.matrix("scores", 3, &values).unwrap();
            w.matrix("none", 0, &[]).unwrap();
        });
        assert_eq!(npy::parse(&entry(&file, "ids"), "i").unwrap().to_i64().unwrap(), [7, 1 << 40]);
        let scores = entry(&file, "scores");
        let scores = npy::parse(&scores, "s").unwrap();
        assert_eq!(scores.shape, [20_000, 3]);
        let cells: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(scores.data.as_ref(), cells);
        assert!(entry(&file, "none").ends_with(b"\n"));

        let file = write(|w| w.ids("ids", &VertexIds::Dense, 3).unwrap());
        assert_eq!(npy::parse(&entry(&file, "ids"), "i").unwrap().to_i64().unwrap(), [0, 1, 2]);
    }

    #[test]
    fn words_are_as_wide_as_the_longest() {
        let words = ["a", "", "\u{e9}t\u{e9}", "\u{1f41c}"].map(str::to_owned).to_vec();
        let file = write(|w| w.ids("ids", &VertexIds::Words(words), 4).unwrap());
        let bytes = entry(&file, "ids");
        let text = String::from_utf8_lossy(&bytes[..80]).into_owned();
        assert!(text.contains("'<U3'") && text.contains("(4,)"), "{text}");
        let cells: Vec<u32> =
            bytes[bytes.len() - 48..].chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
        assert_eq!(cells, [97, 0, 0, 0, 0, 0, 233, 116, 233, 0x1f41c, 0, 0]);
        assert_eq!(word_chars(&[]), 1);
    }

    #[test]
    fn numbers_above_an_int64_are_unsigned() {
        let file = write(|w| w.ids("ids", &VertexIds::Numbers(vec![u64::MAX, 0]), 2).unwrap());
        let bytes = entry(&file, "ids");
        assert!(String::from_utf8_lossy(&bytes[..80]).contains("'<u8'"));
        assert!(bytes.ends_with(&[[255; 8], [0; 8]].concat()));
    }

    /// Disk with space for this number of bytes, for a test.
    struct Disk(Cursor<Vec<u8>>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = self.1.saturating_sub(self.0.position() as usize);
            if room == 0 {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                self.0.write(&bytes[..room.min(bytes.len())])
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Disk {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn a_full_disk_is_an_error_wherever_it_fills() {
        let write = |room: usize| {
            let mut writer = NpzWriter::new(Disk(Cursor::new(Vec::new()), room));
            writer.ids("ids", &VertexIds::Dense, 3)?;
            writer.matrix("scores", 1, &[1.0, 2.0, 3.0])?;
            writer.finish().map(|disk| disk.0.into_inner())
        };
        let whole = write(usize::MAX).unwrap();
        for room in 0..whole.len() {
            assert_eq!(write(room).unwrap_err().kind(), io::ErrorKind::StorageFull, "{room}");
        }
        assert_eq!(write(whole.len()).unwrap(), whole);
    }

    #[test]
    fn equal_arrays_are_equal_files() {
        let file = || write(|w| w.matrix("scores", 2, &[1.0, f32::NAN]).unwrap());
        assert_eq!(file(), file());
    }
}
