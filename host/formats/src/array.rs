//! A NumPy array as it lies in a file: element type, byte order, extents and bytes, turned into
//! numbers on demand.

use std::borrow::Cow;

use eciton_graph::corrections::{Collector, Corrections, Number};
use eciton_graph::error::{Error, Place, Result};

/// The element types that are read as numbers, and two that are only carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// One byte, 0 or 1.
    Bool,
    /// Signed, of 1, 2, 4 or 8 bytes.
    Int(u8),
    /// Unsigned, of 1, 2, 4 or 8 bytes.
    Uint(u8),
    /// IEEE, of 4 or 8 bytes.
    Float(u8),
    /// Pickled Python objects; their bytes are a pickle or a list, not cells.
    Object,
    /// Text cells of this many bytes: carried, not read.
    Text(u32),
}

impl Element {
    /// Reads a type code without byte order, for instance `f4`.
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

    /// Bytes of a cell.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::Int(n) | Self::Uint(n) | Self::Float(n) => usize::from(n),
            Self::Object => 8,
            Self::Text(n) => n as usize,
        }
    }
}

/// An array of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<'a> {
    /// The type of a cell.
    pub element: Element,
    /// True if cells have their highest byte first.
    pub big_endian: bool,
    /// True if the first extent runs fastest.
    pub fortran: bool,
    /// None, one or two extents.
    pub shape: Vec<usize>,
    /// Exactly the cells.
    pub data: Cow<'a, [u8]>,
    /// File (and entry), for errors.
    pub file: String,
}

/// A cell as it was written.
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
    /// The number of cells; none where it does not fit.
    pub fn cells_of(shape: &[usize]) -> Option<usize> {
        shape.iter().try_fold(1usize, |cells, &extent| cells.checked_mul(extent))
    }

    /// An array over `data`, which must hold exactly the cells that `shape` asks for.
    ///
    /// # Errors
    /// [`Error::Malformed`] where it does not, or with more than two extents.
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
                found: format!("shape {shape:?}{}", if fortran { " in Fortran's order" } else { "" }),
                remedy: "write the array with two axes, for instance array.reshape(len(array), -1)",
            });
        }
        // Rows that no byte stands for could be claimed in any number.
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

    /// The first extent; 1 for a single cell.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The second extent; 1 for a list or a single cell.
    pub fn columns(&self) -> usize {
        self.shape.get(1).copied().unwrap_or(1)
    }

    /// Fails unless the array has this many axes. `what` names the array and its axes, for instance
    /// `offsets [V + 1]`.
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

    /// Calls `each` with the row-major position of every cell.
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

    /// All cells as f32, row-major; f64 are rounded.
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

    /// Returns whether f32 holds every value that a cell of this type can have.
    fn fits_f32(&self) -> bool {
        match self.element {
            Element::Float(width) => width <= 4,
            Element::Int(width) | Element::Uint(width) => width <= 2,
            Element::Bool | Element::Object | Element::Text(_) => true,
        }
    }

    /// All cells as f32, row-major, with what f32 cannot hold of them.
    pub fn to_f32_exact(&self) -> Result<(Vec<f32>, Corrections)> {
        if self.fits_f32() {
            return Ok((self.to_f32()?, Corrections::NONE));
        }
        let columns = self.columns().max(1);
        let mut corrections = Collector::dense(&self.file);
        let values = self.read_at("numbers", |at, cell| {
            // Rows and columns of features are counted in 32 bits; more are refused later.
            let (row, column) = ((at / columns) as u32, (at % columns) as u32);
            Some(corrections.push(row, column, cell.number()))
        })?;
        Ok((values, corrections.finish()))
    }

    /// Returns the difference between each cell and its f32, row-major. `None` if f32 holds all
    /// values of the type.
    pub fn residuals(&self) -> Result<Option<Vec<f64>>> {
        match self.fits_f32() {
            true => Ok(None),
            false => self.read("numbers", |cell| Some(cell.number().residual)).map(Some),
        }
    }

    /// All cells as whole numbers, row-major; floats only where they are whole.
    pub fn to_i64(&self) -> Result<Vec<i64>> {
        self.read("whole numbers of 64 bits", |cell| match cell {
            Cell::Int(value) => i64::try_from(value).ok(),
            Cell::Float(value) => (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64),
        })
    }

    /// All cells as ids, row-major.
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

    /// All cells as offsets, row-major.
    pub fn to_u64(&self) -> Result<Vec<u64>> {
        self.read("offsets, not negative", |cell| match cell {
            Cell::Int(value) => u64::try_from(value).ok(),
            Cell::Float(_) => None,
        })
    }

    /// All cells as flags, row-major: 0 or 1.
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
