//! Matrices of the host, leases on their rows, and native linear algebra.
//!
//! A [`Buffer`] is one allocation of f32 rows that tasks share. Nobody reads or writes it directly:
//! a reader takes a [`ReadRows`] lease, a writer an exclusive [`WriteRows`] lease on a range of rows,
//! and a lease that would overlap a writer's is refused. So intervals of one matrix can be written by
//! several threads at once, in safe code.
//!
//! A [`Slab`] is an immutable slice that is owned or lies in a mapped file; a buffer can be laid over
//! one, and [`SparseRows`] consist of them.
//!
//! A [`Matrix`] is what a kernel gets to see: a cheap, immutable handle on dense rows, on rows that
//! are still arriving ([`stream`]), or on [`SparseRows`]. Which of these it is stays the host's secret.
//!
//! [`ops`] is the one door to arithmetic. Every routine is chosen by the processor's features and by
//! the inner and outer width of a product, never by the number of rows, so a row's result has the
//! same bits however rows are cut into intervals. Sums over rows follow a [`Grid`]: a fixed tree over
//! row atoms that depends on the graph alone.
//!
//! A [`frame`] is matrices as bytes: what functions are called with and answer.
//!
//! [`random`] is the contract's keyed generator. No I/O, no threads and no clock live here, except
//! the bounded wait of [`stream`].

pub mod buffer;
pub mod error;
pub mod frame;
pub mod grid;
pub mod half;
pub mod matrix;
pub mod ops;
pub mod pages;
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
