//! Pipelined reads of a long byte range. The range is divided into blocks with one request each,
//! and its bytes are delivered in order as they arrive.
//!
//! The next request is sent when fewer than [`Pipeline::ahead_bytes`] of the requested bytes are
//! outstanding. This hides the latency of requests. More concurrent requests would not make a
//! shared link faster. They would divide its bandwidth, so that the first rows arrived as late as
//! the last.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use eciton_tensor::frame::{PartInfo, RowSink};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::{Sink, Store, check_range, range_error};

/// Division of a byte range into requests for [`read_ranges`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Size of a request in bytes, from 64 KiB to 64 MiB. Each request costs money.
    pub block_bytes: u64,
    /// Number of outstanding bytes below which the next request is sent, up to 64 MiB. At 0, each
    /// request waits for the previous one. From `block_bytes` on, at least two requests are always
    /// in flight.
    pub ahead_bytes: u64,
}

impl Default for Pipeline {
    /// Returns a pipeline with 8 MiB per request. It sends the next request 0.5 MiB before the end,
    /// which hides 20 ms of latency at 200 Mbit/s.
    fn default() -> Self {
        Self { block_bytes: 8 << 20, ahead_bytes: 512 << 10 }
    }
}

impl Pipeline {
    /// Minimum size of a block, in bytes.
    pub const MIN_BLOCK_BYTES: u64 = 64 << 10;

    /// Maximum value of `block_bytes` and of `ahead_bytes`. A fetch buffers at most the sum of
    /// both.
    pub const MAX_BYTES: u64 = 64 << 20;

    fn check(&self) -> Result<()> {
        let refused = |name, found: u64, least: u64| {
            let reason = format!("found {found}, expected {least} to {}", Self::MAX_BYTES);
            Err(Error::Settings { name, reason })
        };
        if !(Self::MIN_BLOCK_BYTES..=Self::MAX_BYTES).contains(&self.block_bytes) {
            return refused("block_bytes", self.block_bytes, Self::MIN_BLOCK_BYTES);
        }
        if self.ahead_bytes > Self::MAX_BYTES {
            return refused("ahead_bytes", self.ahead_bytes, 0);
        }
        Ok(())
    }
}

/// Statistics of a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of bytes that the sink received.
    pub bytes_len: u64,
    /// Number of blocks that were requested.
    pub blocks: u64,
    /// Time from the start to the first byte, in microseconds.
    pub first_us: u64,
    /// Time from the start to the last byte, in microseconds. It includes the time of the sink.
    pub total_us: u64,
}

/// A block whose request is in flight. The request is cancelled when this value is dropped.
struct Block {
    pieces: UnboundedReceiver<Bytes>,
    len: u64,
    task: JoinHandle<Result<u64>>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Block {
    fn ask(store: &Arc<dyn Store>, key: &Key, range: Range<u64>) -> Self {
        let (store, key, len) = (store.clone(), key.clone(), range.end - range.start);
        // The channel needs no bound, because the size and the number of blocks are bounded.
        let (sender, pieces) = unbounded_channel();
        let task = tokio::spawn(async move {
            let mut sink = |piece: Bytes| {
                // The receiver is dropped only together with this task.
                let _ = sender.send(piece);
                Ok(())
            };
            store.read(&key, Some(range), &mut sink).await
        });
        Self { pieces, len, task }
    }
}

/// Reads `range` of an object, and passes the bytes to `sink` in order while later blocks arrive.
/// The pieces may have any size. The object must contain the whole range. If the future is dropped,
/// requests in flight are cancelled.
pub async fn read_ranges(
    store: &Arc<dyn Store>,
    key: &Key,
    range: Range<u64>,
    pipeline: Pipeline,
    sink: &mut Sink<'_>,
) -> Result<Traffic> {
    pipeline.check()?;
    check_range(key, &range)?;
    let started = Instant::now();
    let us = || u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut traffic = Traffic::default();
    let mut asked = range.start;
    let mut came = range.start;
    let mut blocks: VecDeque<Block> = VecDeque::new();
    loop {
        while asked < range.end && (blocks.is_empty() || asked - came < pipeline.ahead_bytes) {
            let block = asked..range.end.min(asked.saturating_add(pipeline.block_bytes));
            asked = block.end;
            traffic.blocks += 1;
            blocks.push_back(Block::ask(store, key, block));
        }
        let Some(block) = blocks.front_mut() else { break };
        if let Some(piece) = block.pieces.recv().await {
            if came == range.start {
                traffic.first_us = us();
            }
            came += piece.len() as u64;
            sink(piece)?;
            continue;
        }
        let len = match (&mut block.task).await {
            Ok(result) => result?,
            Err(error) => {
                return Err(Error::Refused {
                    key: key.to_string(),
                    reason: format!("the download stopped: {error}"),
                });
            }
        };
        if len != block.len {
            let reason = format!("the object has {came} bytes");
            return Err(range_error(key, &range, reason));
        }
        blocks.pop_front();
    }
    traffic.bytes_len = came - range.start;
    traffic.total_us = us();
    Ok(traffic)
}

/// Reads one part of the frame in the object `key`, and appends its rows to `rows`, from which a
/// kernel already reads. If the read fails, the readers of the rows get an error as well.
pub async fn read_streamed(
    store: &Arc<dyn Store>,
    key: &Key,
    part: &PartInfo,
    mut rows: RowSink,
    pipeline: Pipeline,
) -> Result<Traffic> {
    let damaged = |source| Error::Frame { key: key.to_string(), source };
    let range = part.offset..part.offset.saturating_add(part.bytes_len);
    let mut push = |piece: Bytes| rows.push(&piece).map_err(damaged);
    match read_ranges(store, key, range, pipeline, &mut push).await {
        Ok(traffic) => {
            rows.finish().map_err(damaged)?;
            Ok(traffic)
        }
        Err(error) => {
            rows.fail(&error.to_string());
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests;
