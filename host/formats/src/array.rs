//! NumPy array as stored in a file, with its element type, byte order, shape and bytes. Values are
//! converted on demand.

use std::borrow::Cow;

use eciton_graph::corrections::{Collector, Corrections, Number};
use eciton_graph::error::{Error, Place, Result};

/// Element type of a NumPy array. All types except `Object` and `Text` can be read as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Boolean, stored as one byte that is 0 or 1.
    Bool,
    /// Signed integer with this size in bytes (1, 2, 4 or 8).
    Int(u8),
    /// Unsigned integer with this size in bytes (1, 2, 4 or 8).
    Uint(u8),
    /// IEEE floating-point number with this size in bytes (4 or 8).
    Float(u8),
    /// Pickled Python objects. The bytes of the array are a pickle or a list, not separate cells.
    Object,
    /// Text cells with this size in bytes. They cannot be read as numbers.
    Text(u32),
}

impl Element {
    /// Parses a NumPy type code without its byte order, for instance `f4`. Returns `None` for
    /// unknown codes.
    pub fn parse(code: &str) -> Option<Self> {
        if matches!(code, "O" | "O4" | "O8") {
            return Some(Self::Object);
        }
        let (kind, size) = (code.get(..1)?, code.get(1..)?);
        let size: u32 = size.parse().ok()?;
        let whole = matches!(size, 1 | 2 | 4 | 8);
        match kind {
            "b" if size == 1 => Some(Self::Bool),
            "i" if whole => Some(Self::Int(size as u8)),
            "u" if whole => Some(Self::Uint(size as u8)),
            "f" if matches!(size, 4 | 8) => Some(Self::Float(size as u8)),
            "U" => size.checked_mul(4).map(Self::Text),
            "S" | "a" => Some(Self::Text(size)),
            _ => None,
        }
    }

    /// Returns the size of a cell in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::Int(n) | Self::Uint(n) | Self::Float(n) => usize::from(n),
            Self::Object => 8,
            Self::Text(n) => n as usize,
        }
    }
}

/// NumPy array of at most two axes, as the stored bytes with their type and shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<'a> {
    /// Element type of the cells.
    pub element: Element,
    /// True if the most significant byte of a cell is first.
    pub big_endian: bool,
    /// True if the cells are in Fortran order, in which the first axis varies fastest.
    pub fortran: bool,
    /// Length of each axis. There are at most two axes.
    pub shape: Vec<usize>,
    /// Bytes of the cells, without header and padding.
    pub data: Cow<'a, [u8]>,
    /// Name of the file (and archive entry) for error messages.
    pub file: String,
}

/// Value of a cell before conversion.
enum Cell {
    Int(i128),
    Float(f64),
}

impl Cell {
    fn number(self) -> Number {
        match self {
            Self::Float(value) => value.into(),
            Self::Int(value) => value.into(),
        }
    }
}

impl<'a> Array<'a> {
    /// Returns the number of cells of an array with this shape, or `None` if it overflows.
    pub fn cells_of(shape: &[usize]) -> Option<usize> {
        shape.iter().try_fold(1usize, |cells, &extent| cells.checked_mul(extent))
    }

    /// Creates an array over the bytes `data`, whose length must match `shape` exactly. `place` is
    /// the location for error messages.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the length of `data` is wrong, or if there are more than two
    /// axes.
    pub fn new(
        element: Element,
        big_endian: bool,
        fortran: bool,
        shape: Vec<usize>,
        data: Cow<'a, [u8]>,
        place: &Place,
    ) -> Result<Self> {
        if shape.len() > 2 {
            return Err(Error::Malformed {
                place: place.clone(),
                expected: "an array of at most two axes".to_owned(),
                found: format!("shape {shape:?}{}", if fortran { " in Fortran order" } else { "" }),
                remedy: "write the array with two axes, for instance array.reshape(len(array), -1)",
            });
        }
        // Rows of no bytes are refused, because a header could claim any number of them.
        if shape.len() == 2 && shape[0] > 0 && shape[1] == 0 {
            return Err(Error::malformed(place.clone(), "at least one column", format!("shape {shape:?}")));
        }
        let expected = Self::cells_of(&shape).and_then(|n| n.checked_mul(element.bytes()));
        if expected != Some(data.len()) {
            return Err(Error::malformed(
                place.clone(),
                match expected {
                    Some(bytes) => format!("{bytes} bytes of cells for shape {shape:?}"),
                    None => "a shape that fits into memory".to_owned(),
                },
                format!("{} bytes and shape {shape:?}", data.len()),
            ));
        }
        Ok(Self { element, big_endian, fortran, shape, data, file: place.file.clone() })
    }

    /// Returns the length of the first axis, or 1 for a single cell.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Returns the length of the second axis, or 1 for a list or a single cell.
    pub fn columns(&self) -> usize {
        self.shape.get(1).copied().unwrap_or(1)
    }

    /// Checks that the array has `axes` axes. `what` describes the expected array for the error
    /// message, for instance `offsets [V + 1]`.
    pub fn expect_axes(&self, axes: usize, what: &str) -> Result<()> {
        if self.shape.len() == axes {
            return Ok(());
        }
        Err(Error::Malformed {
            place: Place::whole(&self.file),
            expected: format!(
                "{what}: {}",
                if axes == 1 { "1 axis".to_owned() } else { format!("{axes} axes") }
            ),
            found: format!("shape {:?}, {} axes", self.shape, self.shape.len()),
            remedy: "write the array with these axes, for instance array.ravel() or array.reshape(...)",
        })
    }

    fn read<T>(&self, expected: &'static str, mut each: impl FnMut(Cell) -> Option<T>) -> Result<Vec<T>> {
        self.read_at(expected, |_, cell| each(cell))
    }

    /// Calls `each` with the row-major index and the value of every cell, and returns the results.
    /// A result of `None` is reported as an error.
    fn read_at<T>(
        &self,
        expected: &'static str,
        mut each: impl FnMut(usize, Cell) -> Option<T>,
    ) -> Result<Vec<T>> {
        let width = self.element.bytes();
        let refused = |found: &str, cell: usize| Error::Malformed {
            place: Place::row(&self.file, (cell / self.columns().max(1)) as u64),
            expected: expected.to_owned(),
            found: found.to_owned(),
            remedy: "store numbers of a fixed width (f4, f8, i1 to i8, u1 to u8, b1)",
        };
        if matches!(self.element, Element::Object) {
            return Err(refused("Python objects", 0));
        }
        if matches!(self.element, Element::Text(_)) {
            return Err(refused("text cells (unicode or bytes)", 0));
        }
        super::file::charge(&self.file, (self.data.len() / width * size_of::<T>()) as u64)?.keep();
        let mut out = Vec::with_capacity(self.data.len() / width);
        let (rows, columns) = (self.rows(), self.columns());
        for at in 0..rows * columns {
            let from =
                if self.fortran && self.shape.len() == 2 { (at % columns) * rows + at / columns } else { at };
            let cell = self.data.get(from * width..(from + 1) * width).unwrap_or(&[]);
            let cell = self.cell(cell);
            match each(at, cell) {
                Some(value) => out.push(value),
                None => return Err(refused("a value that does not fit", at)),
            }
        }
        Ok(out)
    }

    fn cell(&self, bytes: &[u8]) -> Cell {
        let mut wide = [0u8; 8];
        for (at, &byte) in bytes.iter().take(8).enumerate() {
            let to = if self.big_endian { bytes.len() - 1 - at } else { at };
            wide[to.min(7)] = byte;
        }
        let bits = u64::from_le_bytes(wide);
        match self.element {
            Element::Float(4) => Cell::Float(f64::from(f32::from_bits(bits as u32))),
            Element::Float(_) => Cell::Float(f64::from_bits(bits)),
            Element::Int(width) => {
                let unused = 64 - 8 * u32::from(width.clamp(1, 8));
                Cell::Int(i128::from((bits << unused) as i64 >> unused))
            }
            _ => Cell::Int(i128::from(bits)),
        }
    }

    /// Returns all cells as f32 in row-major order. Values that f32 cannot represent are rounded.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        if self.element == Element::Float(4) && !self.big_endian && !self.fortran {
            let cells = self.data.as_chunks::<4>().0;
            super::file::charge(&self.file, self.data.len() as u64)?.keep();
            return Ok(cells.iter().map(|b| f32::from_le_bytes(*b)).collect());
        }
        self.read("numbers", |cell| match cell {
            Cell::Float(value) => Some(value as f32),
            Cell::Int(value) => Some(value as f32),
        })
    }

    /// Returns whether f32 represents all values of the element type exactly.
    fn fits_f32(&self) -> bool {
        match self.element {
            Element::Float(width) => width <= 4,
            Element::Int(width) | Element::Uint(width) => width <= 2,
            Element::Bool | Element::Object | Element::Text(_) => true,
        }
    }

    /// Returns all cells as f32 in row-major order, together with corrections for the values that
    /// were rounded.
    pub fn to_f32_exact(&self) -> Result<(Vec<f32>, Corrections)> {
        if self.fits_f32() {
            return Ok((self.to_f32()?, Corrections::NONE));
        }
        let columns = self.columns().max(1);
        let mut corrections = Collector::dense(&self.file);
        let values = self.read_at("numbers", |at, cell| {
            // Features have at most 2^32 rows and columns. Larger arrays are refused later.
            let (row, column) = ((at / columns) as u32, (at % columns) as u32);
            Some(corrections.push(row, column, cell.number()))
        })?;
        Ok((values, corrections.finish()))
    }

    /// Returns the rounding error of each cell's conversion to f32, in row-major order. Returns
    /// `None` if f32 represents all values of the element type exactly.
    pub fn residuals(&self) -> Result<Option<Vec<f64>>> {
        match self.fits_f32() {
            true => Ok(None),
            false => self.read("numbers", |cell| Some(cell.number().residual)).map(Some),
        }
    }

    /// Returns all cells as integers in row-major order. Floating-point cells must have integral
    /// values.
    pub fn to_i64(&self) -> Result<Vec<i64>> {
        self.read("64-bit whole numbers", |cell| match cell {
            Cell::Int(value) => i64::try_from(value).ok(),
            Cell::Float(value) => (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64),
        })
    }

    /// Returns all cells as 32-bit ids in row-major order.
    pub fn to_u32(&self) -> Result<Vec<u32>> {
        if matches!(self.element, Element::Int(4) | Element::Uint(4)) && !self.big_endian && !self.fortran {
            let most = if self.element == Element::Int(4) { i32::MAX as u32 } else { u32::MAX };
            let cells = self.data.as_chunks::<4>().0;
            let ids: Vec<u32> = cells.iter().map(|b| u32::from_le_bytes(*b)).collect();
            if ids.iter().all(|&id| id <= most) {
                return Ok(ids);
            }
        }
        self.read("ids of 32 bits, not negative", |cell| match cell {
            Cell::Int(value) => u32::try_from(value).ok(),
            Cell::Float(value) => {
                (value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value)).then_some(value as u32)
            }
        })
    }

    /// Returns all cells as offsets in row-major order.
    pub fn to_u64(&self) -> Result<Vec<u64>> {
        self.read("offsets, not negative", |cell| match cell {
            Cell::Int(value) => u64::try_from(value).ok(),
            Cell::Float(_) => None,
        })
    }

    /// Returns all cells as booleans in row-major order. Numeric cells must be 0 or 1.
    pub fn to_bool(&self) -> Result<Vec<bool>> {
        self.read("flags (b1, or 0 and 1)", |cell| match cell {
            Cell::Int(value @ 0..=1) => Some(value == 1),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn array(code: &str, big_endian: bool, shape: &[usize], data: &[u8]) -> Result<Array<'static>> {
        let element = Element::parse(code).unwrap();
        let data = Cow::Owned(data.to_vec());
        Array::new(element, big_endian, false, shape.to_vec(), data, &Place::whole("a"))
    }

    #[test]
    fn widths_signs_and_orders() {
        assert_eq!(array("i2", true, &[2], &[0xff, 0xfe, 1, 0]).unwrap().to_i64().unwrap(), [-2, 256]);
        assert_eq!(array("i1", false, &[1], &[0x80]).unwrap().to_i64().unwrap(), [-128]);
        assert_eq!(array("u8", false, &[1], &[1, 0, 0, 0, 0, 0, 0, 0]).unwrap().to_u64().unwrap(), [1]);
        assert!(array("u8", false, &[], &[0xff; 8]).unwrap().to_i64().is_err());
        assert!(array("i4", false, &[1], &[0xff; 4]).unwrap().to_u32().is_err());
        assert_eq!(array("u4", false, &[1], &[0xff; 4]).unwrap().to_u32().unwrap(), [u32::MAX]);
        assert_eq!(array("f8", true, &[1], &1.5f64.to_be_bytes()).unwrap().to_f32().unwrap(), [1.5]);
        assert!(array("f8", true, &[1], &1.5f64.to_be_bytes()).unwrap().to_i64().is_err());
        assert_eq!(array("b1", false, &[2], &[1, 0]).unwrap().to_bool().unwrap(), [true, false]);
        assert!(array("b1", false, &[1], &[2]).unwrap().to_bool().is_err());
    }

    #[test]
    fn fortran_order_is_turned() {
        let mut a = array("u1", false, &[2, 3], &[1, 4, 2, 5, 3, 6]).unwrap();
        a.fortran = true;
        assert_eq!(a.to_i64().unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(a.to_u32().unwrap(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn lies_about_extents_and_text_are_refused() {
        assert!(array("f4", false, &[3], &[0; 8]).is_err());
        assert!(array("f4", false, &[usize::MAX, 2], &[0; 8]).is_err());
        assert!(array("f4", false, &[1, 1, 2], &[0; 8]).is_err());
        let text = array("U2", false, &[1], &[0; 8]).unwrap().to_f32().unwrap_err().to_string();
        assert!(text.contains("text cells (unicode"), "{text}");
        assert_eq!(Element::parse("f2"), None);
        assert_eq!(Element::parse("é4"), None);
    }
}
