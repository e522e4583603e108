//! Reader for `.npy` files, which contain one array after a short text header (NumPy's format,
//! versions 1 and 2).

use std::borrow::Cow;

use eciton_graph::error::{Error, Place, Result};

use super::array::{Array, Element};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Maximum length of the header, in bytes.
const MAX_HEADER_BYTES: usize = 1 << 16;
/// Maximum number of bytes before the cells in a file.
pub(crate) const MAX_START_BYTES: usize = MAX_HEADER_BYTES + 12;

/// `.npy` file with a parsed header.
#[derive(Debug, Clone, PartialEq)]
pub struct Npy<'a> {
    element: Element,
    big_endian: bool,
    fortran: bool,
    shape: Vec<usize>,
    data: &'a [u8],
    file: String,
}

impl<'a> Npy<'a> {
    /// Parses the header of a `.npy` file. `file` is the name for error messages.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the byte position if the header is invalid.
    pub fn parse(bytes: &'a [u8], file: &str) -> Result<Self> {
        let wrong = |at: usize, expected: &str, found: String| {
            Error::malformed(Place::byte(file, at as u64), expected, found)
        };
        if !bytes.starts_with(MAGIC) {
            let start = &bytes[..bytes.len().min(6)];
            return Err(wrong(0, "a .npy file (\\x93NUMPY)", format!("{start:02x?}")));
        }
        let (version, length_bytes) = match bytes.get(6) {
            Some(1) => (1, 2),
            Some(2) => (2, 4),
            other => {
                return Err(wrong(6, "format version 1 or 2", format!("{other:?}")));
            }
        };
        let length = bytes.get(8..8 + length_bytes).unwrap_or(&[]);
        if length.len() != length_bytes {
            return Err(wrong(8, "a header length", "the end of the file".to_owned()));
        }
        let length = length.iter().rev().fold(0usize, |n, &b| n << 8 | usize::from(b));
        let start = 8 + length_bytes;
        if length > MAX_HEADER_BYTES {
            return Err(wrong(8, "a header below 64 KiB", format!("{length} bytes")));
        }
        let Some(header) = bytes.get(start..start + length) else {
            let found = format!("{} bytes (version {version})", bytes.len() - start);
            return Err(wrong(start, "the complete header", found));
        };
        let header =
            Header::parse(header).map_err(|(at, expected, found)| wrong(start + at, expected, found))?;
        let (order, code) = match header.descr.strip_prefix(['<', '>', '|', '=']) {
            Some(code) => (header.descr.as_bytes()[0], code),
            None => (b'|', header.descr.as_str()),
        };
        let Some(element) = Element::parse(code) else {
            let known = "a type of f4, f8, i1 to i8, u1 to u8, b1";
            return Err(wrong(start, known, format!("{:?}", header.descr)));
        };
        Ok(Self {
            element,
            big_endian: order == b'>',
            fortran: header.fortran,
            shape: header.shape,
            data: &bytes[start + length..],
            file: file.to_owned(),
        })
    }

    /// Returns the length of each axis.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the pickle of an array of Python objects, or `None` if the array has another type.
    pub fn pickle(&self) -> Option<&'a [u8]> {
        (self.element == Element::Object).then_some(self.data)
    }

    /// Returns whether the array is a single Python object. NumPy stores Python's `None` in this
    /// form.
    pub(crate) fn is_one_object(&self) -> bool {
        self.element == Element::Object && self.shape.is_empty()
    }

    /// Returns the rows, the columns and the byte position of the first cell of an f32 matrix in
    /// row-major order and native byte order. Returns `None` for other arrays. `bytes` are the
    /// parsed bytes, which may be only the start of the file.
    pub(crate) fn plain_rows(&self, bytes: &[u8]) -> Option<(usize, usize, usize)> {
        let plain = self.element == Element::Float(4) && !self.big_endian && !self.fortran;
        match self.shape[..] {
            [rows, columns] if plain && columns > 0 => Some((rows, columns, bytes.len() - self.data.len())),
            _ => None,
        }
    }

    /// Returns the array of numbers.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the array contains Python objects or has more than two axes.
    /// Also returns it if the length of the file does not match the header.
    pub fn array(self) -> Result<Array<'a>> {
        if self.element == Element::Object {
            return Err(Error::Malformed {
                place: Place::whole(self.file),
                expected: "an array of numbers".to_owned(),
                found: "pickled Python objects (type O)".to_owned(),
                remedy: "store numbers of a fixed width (f4, f8, i1 to i8, u1 to u8, b1)",
            });
        }
        let data = Cow::Borrowed(self.data);
        let place = Place::whole(self.file);
        Array::new(self.element, self.big_endian, self.fortran, self.shape, data, &place)
    }
}

/// Parses a `.npy` file of images with the shape `[V, height, width]` or
/// `[V, height, width, channels]`. Each image becomes a row of the result. Arrays with fewer axes
/// are returned unchanged.
///
/// # Errors
/// Returns the errors of [`parse`].
pub fn parse_images<'a>(bytes: &'a [u8], file: &str) -> Result<Array<'a>> {
    let mut npy = Npy::parse(bytes, file)?;
    if let &[rows, ref image @ ..] = &npy.shape[..]
        && image.len() > 1
        && !npy.fortran
        && let Some(columns) = Array::cells_of(image)
    {
        npy.shape = vec![rows, columns];
    }
    npy.array()
}

/// Parses a `.npy` file of numbers.
///
/// # Errors
/// Returns the errors of [`Npy::parse`] and [`Npy::array`].
pub fn parse<'a>(bytes: &'a [u8], file: &str) -> Result<Array<'a>> {
    Npy::parse(bytes, file)?.array()
}

#[derive(Debug, Default)]
struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

type Fault = (usize, &'static str, String);

/// Maximum number of axes in a header. An array of images with channels has four.
const MAX_DIMENSIONS: usize = 4;

impl Header {
    /// Parses the Python dictionary in a header.
    fn parse(text: &[u8]) -> std::result::Result<Self, Fault> {
        let mut cursor = Cursor { text, at: 0 };
        let mut header = Self::default();
        let mut seen = [false; 3];
        cursor.expect(b'{')?;
        while cursor.peek() != Some(b'}') {
            let at = cursor.at;
            let key = cursor.word()?;
            cursor.expect(b':')?;
            let slot = match key {
                b"descr" => {
                    if cursor.peek() == Some(b'[') {
                        let found = "a record type".to_owned();
                        return Err((cursor.at, "one number per cell", found));
                    }
                    header.descr = String::from_utf8_lossy(cursor.word()?).into_owned();
                    0
                }
                b"fortran_order" => {
                    header.fortran = cursor.flag()?;
                    1
                }
                b"shape" => {
                    header.shape = cursor.shape()?;
                    2
                }
                other => {
                    let found = String::from_utf8_lossy(other).into_owned();
                    return Err((at, "descr, fortran_order or shape", found));
                }
            };
            if std::mem::replace(&mut seen[slot], true) {
                return Err((at, "each key once", "a repeat".to_owned()));
            }
            if cursor.peek() == Some(b',') {
                cursor.expect(b',')?;
            } else if cursor.peek() != Some(b'}') {
                return Err((cursor.at, "a comma or }", cursor.found()));
            }
        }
        if seen != [true; 3] {
            return Err((cursor.at, "descr, fortran_order and shape", "fewer keys".to_owned()));
        }
        Ok(header)
    }
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn found(&mut self) -> String {
        self.peek().map_or("the end".to_owned(), |b| format!("{:?}", char::from(b)))
    }

    fn expect(&mut self, byte: u8) -> std::result::Result<(), Fault> {
        if self.peek() != Some(byte) {
            return Err((self.at, "a Python dictionary of descr, fortran_order, shape", self.found()));
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self) -> std::result::Result<&'a [u8], Fault> {
        let quote = self.peek();
        if !matches!(quote, Some(b'\'' | b'"')) {
            return Err((self.at, "a quoted word", self.found()));
        }
        let from = self.at + 1;
        let rest = self.text.get(from..).unwrap_or(&[]);
        let Some(length) = rest.iter().position(|&b| Some(b) == quote) else {
            return Err((self.at, "a closing quote", "the end".to_owned()));
        };
        self.at = from + length + 1;
        Ok(&rest[..length])
    }

    fn flag(&mut self) -> std::result::Result<bool, Fault> {
        self.peek();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err((self.at, "True or False", self.found()))
    }

    fn shape(&mut self) -> std::result::Result<Vec<usize>, Fault> {
        let mut shape = Vec::new();
        self.expect(b'(')?;
        while self.peek() != Some(b')') {
            let from = self.at;
            while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
                self.at += 1;
            }
            let digits = String::from_utf8_lossy(&self.text[from..self.at]);
            match digits.parse() {
                Ok(extent) if shape.len() < MAX_DIMENSIONS => shape.push(extent),
                Ok(_) => return Err((from, "at most four axes", "a fifth".to_owned())),
                Err(_) if digits.is_empty() => return Err((from, "an extent", self.found())),
                Err(_) => return Err((from, "an extent of 64 bits", digits.into_owned())),
            }
            // Python 2 wrote 3L for a long integer.
            if self.text.get(self.at) == Some(&b'L') {
                self.at += 1;
            }
            if self.peek() == Some(b',') {
                self.at += 1;
            } else if self.peek() != Some(b')') {
                return Err((self.at, "a comma or )", self.found()));
            }
        }
        self.at += 1;
        Ok(shape)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Writes a version 1 file, for the tests of this crate.
    pub(crate) fn write(descr: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
        let extents: String = shape.iter().map(|e| format!("{e}, ")).collect();
        let fortran = if fortran { "True" } else { "False" };
        let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({extents}), }}\n");
        let mut file = MAGIC.to_vec();
        file.extend([1, 0]);
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(data);
        file
    }

    pub(crate) fn write_i64(shape: &[usize], values: &[i64]) -> Vec<u8> {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        write("<i8", false, shape, &data)
    }

    pub(crate) fn write_f32(shape: &[usize], values: &[f32]) -> Vec<u8> {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        write("<f4", false, shape, &data)
    }

    #[test]
    fn both_versions_and_orders() {
        let file = write(">u2", true, &[2, 2], &[0, 1, 0, 3, 0, 2, 0, 4]);
        assert_eq!(parse(&file, "a").unwrap().to_i64().unwrap(), [1, 2, 3, 4]);
        let mut two = MAGIC.to_vec();
        let header = b"{\"shape\": (2L,), 'fortran_order': False, 'descr': 'u1'}";
        two.extend([2, 0]);
        two.extend((header.len() as u32).to_le_bytes());
        two.extend(header);
        two.extend([7, 8]);
        assert_eq!(parse(&two, "a").unwrap().to_u32().unwrap(), [7, 8]);
        assert_eq!(parse(&write_i64(&[], &[5]), "a").unwrap().to_i64().unwrap(), [5]);
    }

    #[test]
    fn images_are_rows() {
        let values: Vec<f32> = (0..24).map(|v| v as f32).collect();
        let image = write_f32(&[2, 2, 3, 2], &values);
        let array = parse_images(&image, "a").unwrap();
        assert_eq!((array.rows(), array.columns()), (2, 12));
        assert_eq!(array.to_f32().unwrap(), values);
        let refused = parse(&image, "a").unwrap_err().to_string();
        assert!(refused.contains("at most two axes") && refused.contains("[2, 2, 3, 2]"), "{refused}");
    }

    #[test]
    fn truncation_at_every_byte_is_an_error() {
        let file = write_f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        for end in 0..file.len() {
            assert!(parse(&file[..end], "a").is_err(), "{end}");
        }
        let mut longer = file.clone();
        longer.push(0);
        assert!(parse(&longer, "a").is_err());
        assert!(parse(&file, "a").is_ok());
    }

    #[test]
    fn lies_are_named() {
        let text = |file: &[u8]| parse(file, "a.npy").unwrap_err().to_string();
        assert!(text(&write("<U3", false, &[1], &[0; 11])).contains("12 bytes of cells"));
        assert!(text(&write("<c8", false, &[1], &[0; 8])).contains("\"<c8\""));
        assert!(text(&write("<f4", false, &[1; 5], &[0; 4])).contains("four axes"));
        assert!(text(&write("<f4", true, &[1; 3], &[0; 4])).contains("two axes"));
        let images = parse_images(&write("<f4", true, &[1; 3], &[0; 4]), "a.npy").unwrap_err().to_string();
        assert!(images.contains("two axes") && images.contains("reshape"), "{images}");
        let huge = [usize::MAX, usize::MAX];
        assert!(text(&write("<f4", false, &huge, &[])).contains("fits into memory"));
        let unicode = write("<U1", false, &[1], &[0; 4]);
        let text = parse(&unicode, "a").unwrap().to_i64().unwrap_err().to_string();
        assert!(text.contains("unicode"), "{text}");
    }
}
