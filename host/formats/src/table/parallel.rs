//! Parallel reading of a table in blocks of records.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

use eciton_graph::error::Result;

use super::text::Block;
use super::{Records, Table};

/// Maximum number of threads that read blocks.
const MAX_THREADS: usize = 32;
/// Maximum number of blocks per thread that are being read or wait to be taken in order.
const IN_FLIGHT: u64 = 3;

impl Table {
    /// Reads all rows (without the header) block by block. `read` converts a block to a value, on
    /// any thread. `take` receives the values on the calling thread in the order of the file, and
    /// returns whether to continue. The division into blocks depends only on the file.
    ///
    /// # Errors
    /// Returns the error of the first block in the order of the file that has one.
    pub(crate) fn blocks<T: Send>(
        &self,
        fields: usize,
        read: impl Fn(&mut Records<'_>) -> Result<T> + Sync,
        mut take: impl FnMut(T) -> Result<bool>,
    ) -> Result<()> {
        let mut rows = self.rows(fields)?;
        if !rows.peek()? {
            return Ok(());
        }
        if !take(read(&mut rows.records)?)? {
            return Ok(());
        }
        let (mut blocks, first) = (rows.blocks, rows.records);
        let mut comments = first.comments;
        let read = |block| {
            let mut records = first.following(block)?;
            read(&mut records).map(|value| (value, records.comments))
        };
        let mut take = |(value, (count, line)): (T, (u64, u64))| {
            comments = (comments.0 + count, if comments.0 == 0 { line } else { comments.1 });
            take(value)
        };
        let Some(second) = blocks.next()? else {
            self.report_comments(comments);
            return Ok(());
        };
        let mut second = Some(second);
        let mut next = || second.take().map_or_else(|| blocks.next(), |block| Ok(Some(block)));
        std::thread::scope(|scope| {
            let (give, work) = channel();
            let (done, results) = channel();
            let work: Arc<Mutex<Receiver<(u64, Block)>>> = Arc::new(Mutex::new(work));
            let mut threads = 0;
            while threads < eciton_input::threads::processors().min(MAX_THREADS) {
                let (work, done, read) = (work.clone(), done.clone(), &read);
                let work = move || {
                    let next = || work.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    while let Ok((at, block)) = next() {
                        // A panic is passed on, because the reader would otherwise wait for the
                        // block's value.
                        let result = catch_unwind(AssertUnwindSafe(|| read(block)));
                        if done.send((at, result)).is_err() {
                            return;
                        }
                    }
                };
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
                threads += 1;
            }
            drop((work, done));
            if threads == 0 {
                while let Some(block) = next()? {
                    if !take(read(block)?)? {
                        break;
                    }
                }
                return Ok(());
            }
            // The worker threads end when `give` is dropped.
            let (mut give, mut end) = (Some(give), Ok(()));
            let (mut given, mut taken, mut waiting) = (0, 0, BTreeMap::new());
            while give.is_some() || taken < given {
                while let Some(to) = give.as_ref().filter(|_| given - taken < IN_FLIGHT * threads as u64) {
                    let sent = match next() {
                        Ok(Some(block)) => to.send((given, block)).is_ok(),
                        found => {
                            end = found.map(drop);
                            false
                        }
                    };
                    match sent {
                        true => given += 1,
                        false => give = None,
                    }
                }
                let Ok((at, result)) = results.recv() else { break };
                waiting.insert(at, result);
                while let Some(result) = waiting.remove(&taken) {
                    if !take(result.unwrap_or_else(|panic| resume_unwind(panic))?)? {
                        return Ok(());
                    }
                    taken += 1;
                }
            }
            end
        })?;
        self.report_comments(comments);
        Ok(())
    }

    /// Adds a warning to the reading report if there are comments after the first record. `count`
    /// is their number, and `line` is the line of the first one.
    pub(super) fn report_comments(&self, (count, line): (u64, u64)) {
        if count > 0 {
            eciton_input::notes::warn(format!(
                "{}: lines that start with # after the first record were read as comments: {count}, the \
                 first is line {line}; if they are records, write the table as .csv",
                self.file
            ));
        }
    }
}
