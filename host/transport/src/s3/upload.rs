//! Upload of an object in a single request or in parts.

use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::{Inner, failure, pause, timeouts};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::MAX_PARTS;
use crate::store::{Condition, Stored};

/// Maximum number of times that a write is started. It restarts if it conflicts with another write
/// of the same key, or if its parts are lost.
const MAX_STARTS: u32 = 5;

/// Outcome of one start of a write.
enum Start {
    Done(Stored),
    /// The write has to be started again, because of this error.
    Again(Error),
}

impl Inner {
    pub(super) async fn put(
        self: &Arc<Self>,
        key: &Key,
        bytes: Bytes,
        condition: Condition,
    ) -> Result<Stored> {
        let mut starts = 0;
        loop {
            let start = if (bytes.len() as u64) < self.settings.multipart_bytes {
                self.put_whole(key, bytes.clone(), condition).await?
            } else {
                self.put_parts(key, &bytes, condition).await?
            };
            starts += 1;
            match start {
                Start::Done(stored) => return Ok(stored),
                Start::Again(error) if starts == MAX_STARTS => return Err(error),
                Start::Again(_) => pause(starts).await,
            }
        }
    }

    async fn put_whole(&self, key: &Key, bytes: Bytes, condition: Condition) -> Result<Start> {
        let limits = timeouts(&self.settings, bytes.len() as u64);
        let request = self.client.put_object().bucket(&self.settings.bucket).key(key.as_str());
        let request = request.body(ByteStream::from(bytes)).set_if_none_match(header(condition));
        let request = request.customize().disable_payload_signing();
        let sent = request.config_override(aws_sdk_s3::Config::builder().timeout_config(limits)).send().await;
        match sent {
            Ok(_) => Ok(Start::Done(Stored::Written)),
            Err(error) => judge(failure::from_sdk("put", key.as_str(), error), condition),
        }
    }

    async fn put_parts(self: &Arc<Self>, key: &Key, bytes: &Bytes, condition: Condition) -> Result<Start> {
        let request = self.client.create_multipart_upload().bucket(&self.settings.bucket).key(key.as_str());
        let opened = request.send().await.map_err(|error| failure::from_sdk("put", key.as_str(), error))?;
        let id = opened.upload_id().unwrap_or_default().to_owned();
        if id.is_empty() {
            return Err(failure::ours("put", key.as_str(), "NoUpload", &"the response has no upload id"));
        }
        let mut upload = Upload { inner: self.clone(), key: key.clone(), id, open: true };
        let parts = match upload.send(bytes).await {
            Ok(parts) => parts,
            Err(error) => {
                upload.abandon().await;
                return judge(error, condition);
            }
        };
        match upload.complete(parts, condition).await {
            Ok(start) => {
                upload.open = false;
                Ok(start)
            }
            Err(error) => {
                let judged = judge(error, condition);
                upload.abandon().await;
                judged
            }
        }
    }
}

/// Multipart upload in progress. It is aborted when dropped, if possible. Otherwise, the life-cycle
/// rule of the bucket deletes the parts.
struct Upload {
    inner: Arc<Inner>,
    key: Key,
    id: String,
    open: bool,
}

impl Upload {
    /// Sends all parts of `bytes`, several at a time. Returns the completed parts in order.
    async fn send(&self, bytes: &Bytes) -> Result<Vec<CompletedPart>> {
        let settings = &self.inner.settings;
        let len = bytes.len() as u64;
        let size = settings.multipart_bytes.max(len.div_ceil(MAX_PARTS)) as usize;
        let mut rest = bytes.clone();
        let mut number = 0;
        let mut under_way = JoinSet::new();
        let mut parts = Vec::new();
        loop {
            while under_way.len() < settings.parts_at_once && !rest.is_empty() {
                number += 1;
                let part = rest.split_to(size.min(rest.len()));
                let (inner, key, id) = (self.inner.clone(), self.key.clone(), self.id.clone());
                under_way.spawn(async move { inner.put_part(&key, id, number, part).await });
            }
            match under_way.join_next().await {
                None => break,
                Some(Ok(part)) => parts.push(part?),
                Some(Err(lost)) => {
                    return Err(failure::ours("put", self.key.as_str(), "Cancelled", &lost));
                }
            }
        }
        parts.sort_by_key(CompletedPart::part_number);
        Ok(parts)
    }

    async fn complete(&self, parts: Vec<CompletedPart>, condition: Condition) -> Result<Start> {
        let Self { inner, key, id, .. } = self;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let request = inner.client.complete_multipart_upload().bucket(&inner.settings.bucket);
        let request = request.key(key.as_str()).upload_id(id).multipart_upload(parts);
        // Assembling a large object takes the service some time.
        let limits = timeouts(&inner.settings, inner.settings.multipart_bytes);
        let limits = aws_sdk_s3::Config::builder().timeout_config(limits);
        let request = request.set_if_none_match(header(condition)).customize().config_override(limits);
        match request.send().await {
            Ok(_) => Ok(Start::Done(Stored::Written)),
            Err(error) => Err(failure::from_sdk("put", key.as_str(), error)),
        }
    }

    /// Aborts the upload, so that the service deletes its parts. Errors are ignored, because there
    /// may be nothing to delete.
    async fn abandon(mut self) {
        self.open = false;
        abandon(&self.inner, &self.key, &self.id).await;
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (inner, key, id) = (self.inner.clone(), self.key.clone(), std::mem::take(&mut self.id));
            runtime.spawn(async move { abandon(&inner, &key, &id).await });
        }
    }
}

async fn abandon(inner: &Inner, key: &Key, id: &str) {
    let request = inner.client.abort_multipart_upload().bucket(&inner.settings.bucket);
    let _ = request.key(key.as_str()).upload_id(id).send().await;
}

impl Inner {
    async fn put_part(&self, key: &Key, id: String, number: i32, part: Bytes) -> Result<CompletedPart> {
        // The parts share one link, so each may take as long as all that are in flight.
        let at_once = part.len() as u64 * self.settings.parts_at_once as u64;
        let limits = timeouts(&self.settings, at_once);
        let request = self.client.upload_part().bucket(&self.settings.bucket).key(key.as_str());
        let request = request.upload_id(id).part_number(number).body(ByteStream::from(part));
        let request = request.customize().disable_payload_signing();
        let sent = request.config_override(aws_sdk_s3::Config::builder().timeout_config(limits)).send().await;
        let answer = sent.map_err(|error| failure::from_sdk("put", key.as_str(), error))?;
        Ok(CompletedPart::builder().part_number(number).set_e_tag(answer.e_tag().map(str::to_owned)).build())
    }
}

fn header(condition: Condition) -> Option<String> {
    (condition == Condition::IfAbsent).then(|| "*".to_owned())
}

/// Returns the outcome of a write that failed with `error`. The write may have to be started again,
/// or the object may exist already.
fn judge(error: Error, condition: Condition) -> Result<Start> {
    match &error {
        Error::Service { code, .. } => match code.as_str() {
            "PreconditionFailed" if condition == Condition::IfAbsent => Ok(Start::Done(Stored::Exists)),
            // Another write or removal of this key was in progress. Or the upload does not exist,
            // because its completion succeeded but the answer was lost.
            "ConditionalRequestConflict" | "NoSuchUpload" => Ok(Start::Again(error)),
            _ => Err(error),
        },
        _ => Err(error),
    }
}
