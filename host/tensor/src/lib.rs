//! Matrices of the host, leases on their rows, and native linear algebra.
//!
//! A [`Buffer`] is one allocation of f32 rows, which tasks share. All access is through leases: a
//! reader takes a [`ReadRows`] lease, a writer an exclusive [`WriteRows`] lease on a range of rows.
//! A lease that overlaps a writer's rows is refused. So several threads can write intervals of one
//! matrix at the same time, in safe code.
//!
//! A [`Slab`] is an immutable slice that is owned or lies in a mapped file. A buffer can be created
//! over a slab, and [`SparseRows`] consist of slabs.
//!
//! A [`Matrix`] is the type that kernels see. It is an immutable handle that is cheap to clone. It
//! refers to dense rows, to rows that are still arriving ([`stream`]), or to [`SparseRows`]. A
//! kernel cannot tell these apart.
//!
//! The module [`ops`] has all arithmetic. Each routine is selected by the processor's features and
//! by the inner and outer width of a product, never by the number of rows. So the bits of a row do
//! not depend on the division of rows into intervals. Sums over rows follow a [`Grid`], a fixed
//! tree over runs of rows (atoms) that depends only on the graph.
//!
//! A [`frame`] is the binary format of matrices, in which functions receive and return them.
//!
//! The module [`random`] is the keyed generator of the kernel contract. This crate has no I/O, no
//! threads and no clock, except the bounded wait of [`stream`]. In the module [`parallel`], threads
//! of an executor help each other with large operations.
//!
//! ```
//! use eciton_tensor::Buffer;
//! let buffer = Buffer::from_rows(3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let first = buffer.read(0..1)?;
//! // Rows that are being read cannot be written. Other rows can.
//! assert!(buffer.write(0..2).is_err());
//! assert!(buffer.write(1..3).is_ok());
//! drop(first);
//! assert!(buffer.write(0..2).is_ok());
//! # Ok::<(), eciton_tensor::Error>(())
//! ```

pub mod buffer;
pub mod error;
pub mod frame;
pub mod grid;
pub mod half;
pub mod matrix;
pub mod ops;
pub mod pages;
pub mod parallel;
pub mod random;
pub mod signs;
pub mod simd;
pub mod slab;
pub mod sparse;
pub mod stream;
pub mod view;

pub use buffer::{Buffer, ReadRows, WriteRows, stride_for};
pub use error::{Error, Result};
pub use grid::{Atom, Grid, Part};
pub use matrix::{Dense, Matrix, Sparse};
pub use simd::numeric_class;
pub use slab::{Plain, Slab, SlabOwner, bytes_of, bytes_of_mut};
pub use sparse::SparseRows;
pub use view::{View, ViewMut};
