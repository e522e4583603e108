//! Download of an object piece by piece. If a body ends too early, the download continues with
//! another request.

use std::ops::Range;
use std::time::Duration;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::{Inner, failure, pause};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::{Sink, check_range, check_size, range_error};

/// Maximum size of the first memory allocation for an object, in bytes. It limits the effect of a
/// wrong length in a response.
const MAX_RESERVE_BYTES: u64 = 64 << 20;

/// Part of an object that a response contains, according to its headers.
struct Coming {
    /// Offset of the body's first byte in the object.
    start: u64,
    /// Length of the body, in bytes.
    len: u64,
    etag: Option<String>,
}

/// Destination for the bytes of an object.
pub(super) enum Taker<'a, 'b> {
    /// Callback that receives the pieces as they arrive.
    Sink(&'a mut Sink<'b>),
    /// Buffer to which all bytes are appended.
    Memory(&'a mut Vec<u8>),
}

impl Taker<'_, '_> {
    fn expect(&mut self, len: u64) {
        if let Self::Memory(bytes) = self {
            bytes.reserve_exact(len.min(MAX_RESERVE_BYTES) as usize);
        }
    }

    fn take(&mut self, piece: Bytes) -> Result<()> {
        match self {
            Self::Sink(sink) => sink(piece),
            Self::Memory(bytes) => {
                bytes.extend_from_slice(&piece);
                Ok(())
            }
        }
    }
}

/// Reason why a body ended too early.
enum Broken {
    /// Another request for the remaining bytes may succeed.
    Again(Error),
    /// Another request would fail as well.
    End(Error),
}

impl Inner {
    pub(super) async fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Bytes> {
        let mut bytes = Vec::new();
        self.download(key, range, Taker::Memory(&mut bytes)).await?;
        Ok(bytes.into())
    }

    /// Reads an object or a range of it into `taker`, and returns the number of bytes. Sends
    /// further requests if a body ends too early.
    pub(super) async fn download(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        mut taker: Taker<'_, '_>,
    ) -> Result<u64> {
        if let Some(range) = &range
            && check_range(key, range)?.is_none()
        {
            return Ok(0);
        }
        let started = Instant::now();
        let mut tries = 0;
        let mut received = 0;
        let answer = self.ask(key, range.clone(), None).await?;
        let coming = coming(key, range.as_ref(), &answer)?;
        check_size(key, coming.len, self.settings.max_object_bytes)?;
        taker.expect(coming.len);
        let deadline = started + self.settings.operation_timeout + self.settings.time_for(coming.len);
        let mut body = Some(answer);
        loop {
            let rest = coming.start + received..coming.start + coming.len;
            let answer = match body.take() {
                Some(answer) => answer,
                None => {
                    let answer = self.ask(key, Some(rest.clone()), coming.etag.clone()).await?;
                    let again = self::coming(key, Some(&rest), &answer)?;
                    if again.len != rest.end - rest.start {
                        return Err(failure::ours(
                            "get",
                            key.as_str(),
                            "OtherLength",
                            &"the response to a retry does not have the length of the missing bytes",
                        ));
                    }
                    answer
                }
            };
            let Err(broken) = self.body(key, answer, &rest, &mut received, deadline, &mut taker).await else {
                return Ok(received);
            };
            tries += 1;
            match broken {
                Broken::Again(_) if tries < self.settings.max_attempts && Instant::now() < deadline => {
                    self.counter.retry();
                    pause(tries).await;
                }
                Broken::Again(error) | Broken::End(error) => return Err(error),
            }
        }
    }

    async fn ask(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        etag: Option<String>,
    ) -> Result<GetObjectOutput> {
        let asked = range.as_ref().map(|range| {
            // The protocol libraries use signed lengths, and no object is that long.
            match range.end > i64::MAX as u64 {
                true => format!("bytes={}-", range.start),
                false => format!("bytes={}-{}", range.start, range.end - 1),
            }
        });
        let request = self.client.get_object().bucket(&self.settings.bucket).key(key.as_str());
        let sent = request.set_range(asked).set_if_match(etag).send().await;
        sent.map_err(|error| match (failure::from_sdk("get", key.as_str(), error), range) {
            (Error::Service { code, .. }, Some(range)) if code == "InvalidRange" => {
                range_error(key, &range, "the object ends before this range".into())
            }
            (error, _) => error,
        })
    }

    /// Receives the body of one response, which must be the range `rest` of the object. Adds its
    /// bytes to `taker` and their number to `received`.
    async fn body(
        &self,
        key: &Key,
        mut answer: GetObjectOutput,
        rest: &Range<u64>,
        received: &mut u64,
        deadline: Instant,
        taker: &mut Taker<'_, '_>,
    ) -> std::result::Result<(), Broken> {
        let wanted = rest.end - rest.start;
        let mut came = 0;
        let broken = |code: &str, message: String| {
            Broken::Again(Error::Service {
                operation: "get",
                key: key.to_string(),
                code: code.into(),
                message,
                retryable: true,
            })
        };
        loop {
            let until = deadline.min(Instant::now() + self.settings.idle_timeout);
            let next = timeout_at(until, answer.body.next()).await;
            let piece = match next {
                Ok(Some(Ok(piece))) => piece,
                Ok(None) if came == wanted => return Ok(()),
                Ok(None) => return Err(broken("Truncated", format!("received {came} of {wanted} bytes"))),
                Ok(Some(Err(error))) => return Err(broken("Body", failure::chain(&error))),
                Err(_) => {
                    return Err(Broken::Again(Error::Timeout {
                        operation: "get",
                        key: key.to_string(),
                        reason: idle(came, wanted, self.settings.idle_timeout),
                    }));
                }
            };
            self.counter.came(piece.len());
            came += piece.len() as u64;
            if came > wanted {
                let error = format!("received more than the {wanted} bytes that the response announced");
                return Err(Broken::End(failure::ours("get", key.as_str(), "OtherLength", &error)));
            }
            *received += piece.len() as u64;
            taker.take(piece).map_err(Broken::End)?;
        }
    }
}

fn idle(came: u64, wanted: u64, limit: Duration) -> String {
    format!("the body stopped or was too slow after {came} of {wanted} bytes; the time limit is {limit:?}")
}

/// Returns the part of the object that a response contains. Fails if it is not the requested range.
fn coming(key: &Key, range: Option<&Range<u64>>, answer: &GetObjectOutput) -> Result<Coming> {
    let wrong = |what: String| failure::ours("get", key.as_str(), "OtherRange", &what);
    let claimed = answer.content_length().and_then(|len| u64::try_from(len).ok());
    let len = claimed.ok_or_else(|| wrong("the response has no length".into()))?;
    let etag = answer.e_tag().map(str::to_owned);
    let Some(range) = range else { return Ok(Coming { start: 0, len, etag }) };
    // bytes FIRST-LAST/ALL
    let text = answer.content_range().unwrap_or("nothing");
    let found = text.strip_prefix("bytes ").and_then(|text| text.split_once('/')).and_then(|(part, all)| {
        let (first, last) = part.split_once('-')?;
        Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, all.parse::<u64>().ok()?))
    });
    let right = found.is_some_and(|(first, last, all)| {
        first == range.start && Some(last) == range.end.min(all).checked_sub(1) && len == last - first + 1
    });
    if !right {
        return Err(wrong(format!(
            "requested the bytes {}..{}, but received {text:?} with {len} bytes",
            range.start, range.end
        )));
    }
    Ok(Coming { start: range.start, len, etag })
}
