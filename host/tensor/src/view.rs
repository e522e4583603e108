//! Borrowed views of rows, which are the operands of the arithmetic. Values are f32 or stored in
//! another format.
//!
//! Methods that return a part of a view panic if rows or columns are out of range. Operations check
//! the shapes that a kernel passes before they call these methods.

/// Read-only view of a matrix, stored row by row. The starts of consecutive rows are `stride`
/// values apart.
#[derive(Debug, Clone, Copy)]
pub struct View<'a, T = f32> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a, T> View<'a, T> {
    /// Creates a view of `data`, which has `rows` rows of `columns` values without padding.
    #[inline]
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        assert!(data.len() >= rows * columns, "a view of {rows} x {columns} over {} values", data.len());
        Self { data, rows, columns, stride: columns }
    }

    #[inline]
    pub(crate) fn padded(data: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        Self { data, rows, columns, stride }
    }

    /// Returns the number of rows of the view.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of values per row, without padding.
    #[inline]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the distance between the starts of consecutive rows, in values.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns all values from the first row on, including padding.
    #[inline]
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// Returns the values of row `i`, without padding.
    #[inline]
    pub fn row(&self, i: usize) -> &'a [T] {
        &self.data[i * self.stride..i * self.stride + self.columns]
    }

    /// Returns true if every row has `lanes` values from column `start` on, including padding. A
    /// view of some columns may end before the padding of its last row.
    #[inline]
    pub(crate) fn reaches(&self, start: usize, lanes: usize) -> bool {
        let end = start + lanes;
        end <= self.stride && (self.rows == 0 || (self.rows - 1) * self.stride + end <= self.data.len())
    }

    /// Returns a view of the same values as `rows` rows of `columns` values. Returns `None` if the
    /// rows are not contiguous or the number of values differs.
    #[inline]
    pub fn relaid(&self, rows: usize, columns: usize) -> Option<Self> {
        let fits = rows.checked_mul(columns) == self.rows.checked_mul(self.columns);
        let beside = self.stride == self.columns || self.rows <= 1;
        (fits && beside).then_some(Self { data: self.data, rows, columns, stride: columns })
    }

    /// Returns a view of `count` rows, starting at row `start`.
    #[inline]
    pub fn slice(&self, start: usize, count: usize) -> Self {
        assert!(start + count <= self.rows);
        let from = (start * self.stride).min(self.data.len());
        Self { data: &self.data[from..], rows: count, columns: self.columns, stride: self.stride }
    }

    /// Returns a view of `count` columns, starting at column `start`.
    #[inline]
    pub fn columns_from(&self, start: usize, count: usize) -> Self {
        assert!(start + count <= self.columns);
        let data = &self.data[start.min(self.data.len())..];
        Self { data, rows: self.rows, columns: count, stride: self.stride }
    }
}

/// Mutable view of a matrix, stored row by row. The starts of consecutive rows are `stride` values
/// apart.
#[derive(Debug)]
pub struct ViewMut<'a, T = f32> {
    data: &'a mut [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a, T> ViewMut<'a, T> {
    /// Creates a mutable view of `data`, which has `rows` rows of `columns` values without padding.
    #[inline]
    pub fn new(data: &'a mut [T], rows: usize, columns: usize) -> Self {
        assert!(data.len() >= rows * columns, "a view of {rows} x {columns} over {} values", data.len());
        Self { data, rows, columns, stride: columns }
    }

    #[inline]
    pub(crate) fn padded(data: &'a mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        Self { data, rows, columns, stride }
    }

    /// Returns the number of rows of the view.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of values per row, without padding.
    #[inline]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the distance between the starts of consecutive rows, in values.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns all values from the first row on, including padding, so that they can be changed.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [T] {
        self.data
    }

    /// Returns the values of row `i`, without padding, so that they can be changed.
    #[inline]
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.stride..i * self.stride + self.columns]
    }

    /// Returns a read-only view of the same rows.
    #[inline]
    pub fn as_view(&self) -> View<'_, T> {
        View::padded(self.data, self.rows, self.columns, self.stride)
    }

    /// Returns a mutable view of `count` rows, starting at row `start`. It borrows this view.
    #[inline]
    pub fn slice(&mut self, start: usize, count: usize) -> ViewMut<'_, T> {
        assert!(start + count <= self.rows);
        let from = (start * self.stride).min(self.data.len());
        ViewMut { data: &mut self.data[from..], rows: count, columns: self.columns, stride: self.stride }
    }

    /// Divides the rows into mutable views of `each` consecutive rows, of which the last may have
    /// fewer.
    pub(crate) fn blocks(&mut self, each: usize) -> impl Iterator<Item = ViewMut<'_, T>> {
        let (rows, columns, stride) = (self.rows, self.columns, self.stride);
        let each = each.max(1);
        let mut data = &mut *self.data;
        (0..rows).step_by(each).map(move |first| {
            let count = each.min(rows - first);
            let end = (count * stride).min(data.len());
            let (now, later) = std::mem::take(&mut data).split_at_mut(end);
            data = later;
            ViewMut { data: now, rows: count, columns, stride }
        })
    }
}
