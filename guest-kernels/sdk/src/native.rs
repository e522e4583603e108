//! Kernels outside a component: handles are numbers, and a [`Host`] of this thread answers.

use std::cell::RefCell;

use crate::op::Op;
use crate::types::{Error, Result};

/// What a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A matrix.
    Matrix,
    /// A place to write.
    Out,
    /// A list of numbers.
    Ids,
}

/// Somebody who owns matrices. Functions are those of the contract, over handles.
#[allow(missing_docs, reason = "wit/kernel/kernel.wit documents each")]
pub trait Host {
    fn shape(&mut self, matrix: u32) -> Vec<u32>;
    fn rows(&mut self, matrix: u32, start: u32, count: u32) -> Result<u32>;
    fn columns(&mut self, matrix: u32, start: u32, count: u32) -> Result<u32>;
    fn reshape(&mut self, matrix: u32, shape: &[u32]) -> Result<u32>;
    fn split_rows(&mut self, matrix: u32, t: u32) -> Result<u32>;
    fn group_rows(&mut self, matrix: u32, t: u32) -> Result<u32>;
    fn split_out(&mut self, out: u32, t: u32) -> Result<u32>;
    fn group_out(&mut self, out: u32, t: u32) -> Result<u32>;
    fn arrived(&mut self, matrix: u32, after: u32) -> Result<u32>;
    fn read_f32(&mut self, matrix: u32, start: u32, count: u32) -> Result<Vec<f32>>;
    fn read_f64(&mut self, matrix: u32, start: u32, count: u32) -> Result<Vec<f64>> {
        Ok(self.read_f32(matrix, start, count)?.into_iter().map(f64::from).collect())
    }
    fn out_create(&mut self, shape: &[u32]) -> Result<u32>;
    fn out_shape(&mut self, out: u32) -> Vec<u32>;
    fn out_rows(&mut self, out: u32, start: u32, count: u32) -> Result<u32>;
    fn out_finish(&mut self, out: u32) -> Result<u32>;
    fn write_f32(&mut self, out: u32, start: u32, values: &[f32]) -> Result<()>;
    fn write_f64(&mut self, out: u32, start: u32, values: &[f64]) -> Result<()> {
        let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        self.write_f32(out, start, &values)
    }
    fn ids_create(&mut self, values: &[u32]) -> Result<u32>;
    fn ids_len(&mut self, ids: u32) -> u32;
    fn ids_read(&mut self, ids: u32, start: u32, count: u32) -> Result<Vec<u32>>;
    fn random_key(&mut self, stream: u32) -> u64;
    fn row_ids(&mut self, start: u32, count: u32) -> Result<Vec<u64>>;
    fn row_weights(&mut self) -> Result<Option<u32>>;
    fn call(&mut self, op: Op<'_>) -> Result<()>;
    fn log(&mut self, text: &str);
    fn release(&mut self, kind: Kind, handle: u32);
}

thread_local! {
    static HOST: RefCell<Option<Box<dyn Host>>> = const { RefCell::new(None) };
}

/// Runs `work` with `host` answering on this thread. `host` may be a shared handle on its own state.
pub fn with_host<T>(host: Box<dyn Host>, work: impl FnOnce() -> T) -> T {
    struct Reset(Option<Box<dyn Host>>);
    impl Drop for Reset {
        fn drop(&mut self) {
            HOST.with_borrow_mut(|h| *h = self.0.take());
        }
    }
    let _reset = Reset(HOST.with_borrow_mut(|h| h.replace(host)));
    work()
}

fn with<T>(f: impl FnOnce(&mut dyn Host) -> Result<T>) -> Result<T> {
    HOST.with_borrow_mut(|h| match h {
        Some(h) => f(h.as_mut()),
        None => Err(Error::Unsupported("no host on this thread; call native::with_host".to_owned())),
    })
}

macro_rules! handle {
    ($(#[$m:meta])* $name:ident) => {
        $(#[$m])*
        #[derive(Debug)]
        pub struct $name {
            /// The host's number for it.
            pub handle: u32,
            /// Whether dropping it releases it.
            owned: bool,
        }

        impl $name {
            /// A handle that stays the host's.
            pub fn borrowed(handle: u32) -> Self {
                Self { handle, owned: false }
            }

            #[allow(dead_code)]
            fn owned(handle: u32) -> Self {
                Self { handle, owned: true }
            }
        }
    };
}
handle!(
    /// A matrix.
    RawMatrix
);
handle!(
    /// A place to write.
    RawOut
);
handle!(
    /// A list of numbers.
    RawIds
);

macro_rules! release {
    ($($name:ident $kind:ident)*) => { $(
        impl Drop for $name {
            fn drop(&mut self) {
                if self.owned {
                    // A host that is gone has released everything.
                    let _ = with(|h| { h.release(Kind::$kind, self.handle); Ok(()) });
                }
            }
        }
    )* };
}
release!(RawMatrix Matrix RawOut Out RawIds Ids);

impl crate::Matrix {
    /// A handle on a matrix of the thread's host.
    pub fn borrowed(handle: u32) -> Self {
        Self::new(RawMatrix::borrowed(handle))
    }
}

impl crate::Out {
    /// A handle on a place to write of the thread's host.
    pub fn borrowed(handle: u32) -> Self {
        Self::new(RawOut::borrowed(handle))
    }
}

impl crate::Ids {
    /// A handle on a list of the thread's host.
    pub fn borrowed(handle: u32) -> Self {
        Self::new(RawIds::borrowed(handle))
    }
}

macro_rules! deref {
    ($($handle:ident $raw:ident)*) => { $(
        impl core::ops::Deref for crate::$handle {
            type Target = $raw;

            fn deref(&self) -> &$raw {
                self.raw()
            }
        }
    )* };
}
deref!(Matrix RawMatrix Out RawOut Ids RawIds);

pub(crate) fn shape(m: &RawMatrix) -> Vec<u32> {
    with(|h| Ok(h.shape(m.handle))).unwrap_or_default()
}

pub(crate) fn rows(m: &RawMatrix, start: u32, count: u32) -> Result<RawMatrix> {
    with(|h| h.rows(m.handle, start, count)).map(RawMatrix::owned)
}

pub(crate) fn columns(m: &RawMatrix, start: u32, count: u32) -> Result<RawMatrix> {
    with(|h| h.columns(m.handle, start, count)).map(RawMatrix::owned)
}

pub(crate) fn reshape(m: &RawMatrix, shape: &[u32]) -> Result<RawMatrix> {
    with(|h| h.reshape(m.handle, shape)).map(RawMatrix::owned)
}

pub(crate) fn split_rows(m: &RawMatrix, t: u32) -> Result<RawMatrix> {
    with(|h| h.split_rows(m.handle, t)).map(RawMatrix::owned)
}

pub(crate) fn group_rows(m: &RawMatrix, t: u32) -> Result<RawMatrix> {
    with(|h| h.group_rows(m.handle, t)).map(RawMatrix::owned)
}

pub(crate) fn split_out(o: &RawOut, t: u32) -> Result<RawOut> {
    with(|h| h.split_out(o.handle, t)).map(RawOut::owned)
}

pub(crate) fn group_out(o: &RawOut, t: u32) -> Result<RawOut> {
    with(|h| h.group_out(o.handle, t)).map(RawOut::owned)
}

pub(crate) fn arrived(m: &RawMatrix, after: u32) -> Result<u32> {
    with(|h| h.arrived(m.handle, after))
}

pub(crate) fn read_f32(m: &RawMatrix, start: u32, count: u32) -> Result<Vec<f32>> {
    with(|h| h.read_f32(m.handle, start, count))
}

pub(crate) fn read_f64(m: &RawMatrix, start: u32, count: u32) -> Result<Vec<f64>> {
    with(|h| h.read_f64(m.handle, start, count))
}

pub(crate) fn out_create(shape: &[u32]) -> Result<RawOut> {
    with(|h| h.out_create(shape)).map(RawOut::owned)
}

pub(crate) fn out_shape(o: &RawOut) -> Vec<u32> {
    with(|h| Ok(h.out_shape(o.handle))).unwrap_or_default()
}

pub(crate) fn out_rows(o: &RawOut, start: u32, count: u32) -> Result<RawOut> {
    with(|h| h.out_rows(o.handle, start, count)).map(RawOut::owned)
}

pub(crate) fn out_finish(mut o: RawOut) -> Result<RawMatrix> {
    o.owned = false;
    with(|h| h.out_finish(o.handle)).map(RawMatrix::owned)
}

pub(crate) fn write_f32(o: &RawOut, start: u32, values: &[f32]) -> Result<()> {
    with(|h| h.write_f32(o.handle, start, values))
}

pub(crate) fn write_f64(o: &RawOut, start: u32, values: &[f64]) -> Result<()> {
    with(|h| h.write_f64(o.handle, start, values))
}

pub(crate) fn ids_create(values: &[u32]) -> Result<RawIds> {
    with(|h| h.ids_create(values)).map(RawIds::owned)
}

pub(crate) fn ids_len(i: &RawIds) -> u32 {
    with(|h| Ok(h.ids_len(i.handle))).unwrap_or_default()
}

pub(crate) fn ids_read(i: &RawIds, start: u32, count: u32) -> Result<Vec<u32>> {
    with(|h| h.ids_read(i.handle, start, count))
}

pub(crate) fn random_key(stream: u32) -> u64 {
    with(|h| Ok(h.random_key(stream))).unwrap_or_default()
}

pub(crate) fn row_ids(start: u32, count: u32) -> Result<Vec<u64>> {
    with(|h| h.row_ids(start, count))
}

pub(crate) fn row_weights() -> Result<Option<RawMatrix>> {
    Ok(with(|h| h.row_weights())?.map(RawMatrix::owned))
}

pub(crate) fn call(op: Op<'_>) -> Result<()> {
    with(|h| h.call(op))
}

pub(crate) fn log(text: &str) {
    let _ = with(|h| {
        h.log(text);
        Ok(())
    });
}
