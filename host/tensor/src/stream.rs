//! Matrix whose rows are still arriving. One sender writes blocks of rows in order, and readers
//! wait for the rows that they need.
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::buffer::{Buffer, ReadRows, WriteRows};
use crate::error::{Error, Result};

#[derive(Debug, Default)]
struct Progress {
    blocks: Vec<Arc<ReadRows>>,
    /// Number of rows that have arrived so far.
    rows: usize,
    /// One past the last row that any reader has waited for.
    wanted: usize,
    /// True if all readers have been dropped.
    unread: bool,
    failure: Option<String>,
}

#[derive(Debug)]
struct Shared {
    buffer: Buffer,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// Reading end of a stream of rows. A row never changes after it has arrived.
#[derive(Debug, Clone)]
pub struct Arriving(Arc<Readers>);

/// State that all clones of a reading end share. It is dropped with the last of them.
#[derive(Debug)]
struct Readers(Arc<Shared>);

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner).unread = true;
        self.0.changed.notify_all();
    }
}

/// Writing end of a stream of rows. If it is dropped before the last row, readers get an error.
#[derive(Debug)]
pub struct Sender(Arc<Shared>);

/// Creates a stream for a matrix of `rows` rows and `columns` columns. The rows arrive through the
/// returned sender.
pub fn channel(rows: usize, columns: usize) -> Result<(Sender, Arriving)> {
    let buffer = Buffer::zeroed(rows, columns)?;
    let shared = Arc::new(Shared { buffer, progress: Mutex::default(), changed: Condvar::new() });
    Ok((Sender(shared.clone()), Arriving(Arc::new(Readers(shared)))))
}

impl Sender {
    /// Sends whole rows to the readers. The values are stored row by row, without padding.
    pub fn send(&mut self, values: &[f32]) -> Result<()> {
        let columns = self.0.buffer.columns().max(1);
        let start = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner).rows;
        let count = values.len() / columns;
        if count * columns != values.len() || start + count > self.0.buffer.rows() {
            return Err(Error::Argument {
                operation: "send rows",
                reason: format!(
                    "{} values after row {start} do not fit {} rows of {columns}",
                    values.len(),
                    self.0.buffer.rows()
                ),
            });
        }
        let mut lease: WriteRows = self.0.buffer.write(start..start + count)?;
        let mut view = lease.view_mut();
        for (i, row) in values.chunks_exact(columns).enumerate() {
            view.row_mut(i).copy_from_slice(row);
        }
        let block = Arc::new(lease.into_read());
        let mut progress = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.blocks.push(block);
        progress.rows = start + count;
        self.0.changed.notify_all();
        Ok(())
    }

    /// Waits until a reader needs a row that has not arrived. Returns false if all readers have
    /// been dropped. A sender that sends one block per request makes the order of events
    /// independent of thread scheduling.
    pub fn wanted(&self) -> bool {
        let mut progress = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        while !progress.unread && progress.wanted <= progress.rows {
            progress = self.0.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        !progress.unread
    }

    /// Reports to the readers that no more rows will arrive. `why` is the reason for their error.
    pub fn fail(self, why: &str) {
        let mut progress = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.failure = Some(why.to_owned());
        self.0.changed.notify_all();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut progress = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.rows < self.0.buffer.rows() && progress.failure.is_none() {
            progress.failure = Some("its sender has stopped".to_owned());
        }
        self.0.changed.notify_all();
    }
}

impl Arriving {
    /// Returns the number of rows of the whole matrix.
    pub fn rows(&self) -> usize {
        self.shared().buffer.rows()
    }

    /// Returns the number of values per row.
    pub fn columns(&self) -> usize {
        self.shared().buffer.columns()
    }

    fn shared(&self) -> &Shared {
        &self.0.0
    }

    /// Waits until at least `needed` rows have arrived, for at most the time `deadline`. Returns
    /// the number of rows that have arrived.
    pub fn wait(&self, needed: usize, deadline: Option<Duration>) -> Result<usize> {
        let needed = needed.min(self.rows());
        let until = deadline.map(|d| Instant::now() + d);
        let shared = self.shared();
        let mut progress = shared.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.rows < needed && progress.wanted < needed {
            progress.wanted = needed;
            shared.changed.notify_all();
        }
        loop {
            if progress.rows >= needed {
                return Ok(progress.rows);
            }
            if let Some(why) = &progress.failure {
                return Err(Error::NotArrived { row: progress.rows, reason: why.clone(), timed_out: false });
            }
            progress = match until {
                None => shared.changed.wait(progress).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        let reason = format!("the deadline of {:?} has passed", deadline.unwrap_or_default());
                        return Err(Error::NotArrived { row: progress.rows, reason, timed_out: true });
                    }
                    shared.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Takes a read lease on `count` rows from index `start` on, which must have arrived.
    pub(crate) fn lease(&self, start: usize, count: usize) -> Result<ReadRows> {
        self.shared().buffer.read(start..start + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_seen_in_order_and_a_lost_sender_is_an_error() {
        let (mut sender, arriving) = channel(4, 2).unwrap();
        sender.send(&[1., 2., 3., 4.]).unwrap();
        assert_eq!(arriving.wait(1, None).unwrap(), 2);
        assert!(sender.send(&[0.; 6]).is_err(), "more rows than there are");
        let late = arriving.wait(3, Some(Duration::from_millis(5)));
        assert!(matches!(late, Err(Error::NotArrived { row: 2, timed_out: true, .. })));
        drop(sender);
        assert!(matches!(arriving.wait(4, None), Err(Error::NotArrived { timed_out: false, .. })));
        assert_eq!(arriving.lease(0, 2).unwrap().view().row(1), &[3., 4.]);
    }

    #[test]
    fn a_sender_may_wait_for_demand() {
        let (mut sender, arriving) = channel(5, 1).unwrap();
        let sending = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < 5 && sender.wanted() {
                sender.send(&[sent as f32]).unwrap();
                sent += 1;
            }
            sent
        });
        let other = arriving.clone();
        // Each request is answered with one row, and no more.
        assert_eq!(arriving.wait(1, None).unwrap(), 1);
        assert_eq!(other.wait(3, None).unwrap(), 3);
        assert_eq!(other.wait(2, None).unwrap(), 3);
        drop(arriving);
        assert_eq!(other.wait(4, None).unwrap(), 4);
        drop(other);
        assert_eq!(sending.join().unwrap(), 4, "nobody reads the last");
    }
}
