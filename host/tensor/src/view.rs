//! Borrowed rows: what the arithmetic works on. Values are f32, or what else rows are stored as.
//!
//! Slices panic, as an index does, where there are fewer rows or columns: operations check the
//! shapes that a kernel gives before they slice.

/// Rows to read: [rows, columns] with a stride of at least `columns` values.
#[derive(Debug, Clone, Copy)]
pub struct View<'a, T = f32> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a, T> View<'a, T> {
    /// Unpadded row-major values; `data` must hold `rows * columns`.
    #[inline]
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        assert!(data.len() >= rows * columns, "a view of {rows} x {columns} over {} values", data.len());
        Self { data, rows, columns, stride: columns }
    }

    #[inline]
    pub(crate) fn padded(data: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        Self { data, rows, columns, stride }
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    #[inline]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Distance between rows in values.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Everything from the first row's first value, padding included.
    #[inline]
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// Row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> &'a [T] {
        &self.data[i * self.stride..i * self.stride + self.columns]
    }

    /// Returns whether every row has `lanes` values from column `start` on, padding included: a
    /// view of some columns ends before its last row's padding does.
    #[inline]
    pub(crate) fn reaches(&self, start: usize, lanes: usize) -> bool {
        let end = start + lanes;
        end <= self.stride && (self.rows == 0 || (self.rows - 1) * self.stride + end <= self.data.len())
    }

    /// The same values as other rows, where they lie side by side.
    #[inline]
    pub fn relaid(&self, rows: usize, columns: usize) -> Option<Self> {
        let fits = rows.checked_mul(columns) == self.rows.checked_mul(self.columns);
        let beside = self.stride == self.columns || self.rows <= 1;
        (fits && beside).then_some(Self { data: self.data, rows, columns, stride: columns })
    }

    /// Rows from `start`.
    #[inline]
    pub fn slice(&self, start: usize, count: usize) -> Self {
        assert!(start + count <= self.rows);
        let from = (start * self.stride).min(self.data.len());
        Self { data: &self.data[from..], rows: count, columns: self.columns, stride: self.stride }
    }

    /// Columns from `start`.
    #[inline]
    pub fn columns_from(&self, start: usize, count: usize) -> Self {
        assert!(start + count <= self.columns);
        let data = &self.data[start.min(self.data.len())..];
        Self { data, rows: self.rows, columns: count, stride: self.stride }
    }
}

/// Rows to write.
#[derive(Debug)]
pub struct ViewMut<'a, T = f32> {
    data: &'a mut [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<'a, T> ViewMut<'a, T> {
    /// Unpadded row-major values; `data` must hold `rows * columns`.
    #[inline]
    pub fn new(data: &'a mut [T], rows: usize, columns: usize) -> Self {
        assert!(data.len() >= rows * columns, "a view of {rows} x {columns} over {} values", data.len());
        Self { data, rows, columns, stride: columns }
    }

    #[inline]
    pub(crate) fn padded(data: &'a mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        Self { data, rows, columns, stride }
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    #[inline]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Distance between rows in values.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Everything from the first row's first value, padding included.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [T] {
        self.data
    }

    /// Row `i`.
    #[inline]
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.stride..i * self.stride + self.columns]
    }

    /// The same rows to read.
    #[inline]
    pub fn as_view(&self) -> View<'_, T> {
        View::padded(self.data, self.rows, self.columns, self.stride)
    }

    /// Rows from `start`, reborrowed.
    #[inline]
    pub fn slice(&mut self, start: usize, count: usize) -> ViewMut<'_, T> {
        assert!(start + count <= self.rows);
        let from = (start * self.stride).min(self.data.len());
        ViewMut { data: &mut self.data[from..], rows: count, columns: self.columns, stride: self.stride }
    }
}
