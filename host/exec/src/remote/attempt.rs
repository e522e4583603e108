//! An attempt at a task on a cloud function: its request, its answer, and its cost.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use eciton_cloud::{Bill, Charge, InvokeError, Invoked, Invoker};
use eciton_kernel::Error;
use eciton_kernel::wire::{Answer, Expected};
use eciton_recipe::Transport;
use eciton_transport::keys::RunKeys;
use eciton_transport::{Carrier, Condition, INLINE_FRAME_BYTES, Invocation, Key, Reply, Store, put_requests};
use eciton_types::TaskKey;

use super::constants::Upload;
use super::errors::{refused, transport};
use super::lock::lock;
use super::settings::RemoteSettings;

/// An attempt at a task, written as a frame and ready to be sent to a function.
pub(super) struct Attempt {
    pub(super) pass: u32,
    pub(super) key: TaskKey,
    pub(super) deadline: Option<Duration>,
    pub(super) frame: Bytes,
    /// Shapes of the matrices and sums that the answer must contain.
    pub(super) expected: Expected,
    pub(super) uploads: Vec<Arc<Upload>>,
}

/// State that all attempts share: the invoker, the object store, and the usage counts.
pub(super) struct Wire<I> {
    pub(super) invoker: I,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) keys: RunKeys,
    pub(super) settings: RemoteSettings,
    pub(super) bill: Mutex<Bill>,
    /// Numeric classes of the functions that have answered.
    pub(super) classes: Mutex<BTreeSet<String>>,
}

impl<I: Invoker> Wire<I> {
    /// Sends the attempt to a function and returns the answer. Sets `slowed` to whether the service
    /// throttled any of its requests.
    pub(super) async fn run(&self, attempt: &Attempt, slowed: &AtomicBool) -> Result<Answer, Error> {
        let key = attempt.key;
        let (payload, answer_key) = self.request(attempt).await?;
        {
            let mut bill = lock(&self.bill);
            bill.invocations += 1;
            bill.unreported += 1;
            bill.bytes_to_functions += payload.len() as u64;
        }
        let invoked = match self.invoker.invoke(payload).await {
            Ok(invoked) => invoked,
            Err(error) => return Err(self.failed(key, &error, slowed)),
        };
        let Invoked { payload, charge, requests, throttled } = invoked;
        slowed.store(throttled > 0, Ordering::Relaxed);
        self.count(requests, throttled, charge);
        lock(&self.bill).bytes_from_functions += payload.len() as u64;
        let answer = self.answer(attempt, &payload, answer_key.as_ref()).await?;
        match answer.meta().error() {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    /// Uploads the objects that the task reads. Returns the payload of the request, and the key
    /// under which the function may store its answer.
    async fn request(&self, attempt: &Attempt) -> Result<(Bytes, Option<Key>), Error> {
        let failed = |e| transport(&e);
        let bytes_len = attempt.frame.len() as u64;
        let fits = bytes_len <= INLINE_FRAME_BYTES;
        let by_store = self.settings.transport == Transport::S3;
        let Some(store) = &self.store else {
            if !fits {
                let reason = format!(
                    "it has {bytes_len} bytes, but the limit of a request is {INLINE_FRAME_BYTES} bytes; use more intervals (--intervals), or set executor.transport to \"auto\""
                );
                return Err(refused("the frame of a task", reason));
            }
            return Ok((self.invocation(Carrier::Inline(attempt.frame.clone()), None)?, None));
        };
        for upload in &attempt.uploads {
            upload.ensure(&**store).await.map_err(failed)?;
        }
        let carrier = if fits && !by_store {
            Carrier::Inline(attempt.frame.clone())
        } else {
            let key = self.keys.task(attempt.pass, &attempt.key).map_err(failed)?;
            store.put(&key, attempt.frame.clone(), Condition::Always).await.map_err(failed)?;
            Carrier::Object { key, bytes_len }
        };
        let answer_key = self.keys.answer(attempt.pass, &attempt.key.step()).map_err(failed)?;
        Ok((self.invocation(carrier, Some(answer_key.clone()))?, Some(answer_key)))
    }

    fn invocation(&self, frame: Carrier, answer_key: Option<Key>) -> Result<Bytes, Error> {
        let by_store = self.settings.transport == Transport::S3;
        let max_inline_bytes = if by_store { 0 } else { INLINE_FRAME_BYTES };
        let invocation = Invocation { frame, answer_key, max_inline_bytes, stream: self.settings.stream };
        invocation.to_json().map(Bytes::from).map_err(|e| transport(&e))
    }

    /// Reads the answer from the function's reply, or from the object that the reply names. An
    /// invalid answer is a retryable error.
    async fn answer(&self, attempt: &Attempt, reply: &[u8], asked: Option<&Key>) -> Result<Answer, Error> {
        let wrong = |reason: String| Error::Host {
            place: attempt.key.to_string(),
            reason: format!("the function's answer is wrong: {reason}"),
        };
        let reply = Reply::from_json(reply).map_err(|e| wrong(e.to_string()))?;
        let (mut puts, mut heads, mut bytes_in) = (0, 0, 0);
        let (bytes, object) = match (reply.frame, &self.store) {
            (Carrier::Inline(bytes), _) => (bytes, None),
            (Carrier::Object { key: found, bytes_len }, Some(store)) if Some(&found) == asked => {
                // The counts in the answer cannot include the answer's own upload.
                (puts, heads) = (put_requests(bytes_len), u64::from(reply.existed));
                // A function does not write an answer again that another attempt has written.
                bytes_in = if reply.existed { 0 } else { bytes_len };
                (store.get(&found, None).await.map_err(|e| transport(&e))?, Some((store, found)))
            }
            (Carrier::Object { key: found, .. }, _) => {
                return Err(wrong(format!("it is in the object `{found}`, which the task did not request")));
            }
        };
        let answer = match checked(attempt, bytes.into()) {
            Ok(answer) => answer,
            Err(error) => {
                if let Some((store, key)) = object {
                    // Otherwise the next attempt would find this wrong answer and not write its
                    // own.
                    drop(store.delete(&[key]).await);
                }
                return Err(wrong(error.to_string()));
            }
        };
        let meta = answer.meta();
        let mut bill = lock(&self.bill);
        bill.store_reads += meta.store.gets + heads;
        bill.store_writes += meta.store.puts + puts;
        // Bytes that a function writes are bytes that the store receives.
        bill.store_bytes_in += meta.store.bytes_out + bytes_in;
        bill.store_bytes_out += meta.store.bytes_in;
        drop(bill);
        let mut classes = lock(&self.classes);
        if !classes.contains(&meta.numeric_class) && classes.len() < CLASSES {
            classes.insert(meta.numeric_class.clone());
        }
        drop(classes);
        Ok(answer)
    }

    /// Counts a failed invocation, and converts its error to an error of the task.
    fn failed(&self, key: TaskKey, error: &InvokeError, slowed: &AtomicBool) -> Error {
        let (requests, throttled) = error.requests();
        slowed.store(throttled > 0, Ordering::Relaxed);
        self.count(requests, throttled, error.charge());
        lock(&self.bill).failed += 1;
        let (place, reason) = (key.to_string(), error.to_string());
        if error.is_retryable() { Error::Host { place, reason } } else { Error::Wire { place, reason } }
    }

    /// Adds the requests and the charge of an invocation to the bill. The caller has already
    /// counted one of these requests when it was sent.
    fn count(&self, requests: u64, throttled: u64, charge: Option<Charge>) {
        let mut bill = lock(&self.bill);
        bill.invocations = (bill.invocations + requests).saturating_sub(throttled + 1);
        bill.unreported = (bill.unreported + requests).saturating_sub(throttled + 1);
        bill.throttled += throttled;
        let Some(charge) = charge else { return };
        bill.unreported = bill.unreported.saturating_sub(1);
        bill.billed_ms += charge.billed_ms;
        bill.cold_starts += u64::from(charge.init_ms.is_some());
        bill.init_ms += charge.init_ms.unwrap_or_default();
        bill.gb_seconds += f64::from(charge.memory_mb) / 1024.0 * charge.billed_ms as f64 / 1000.0;
    }
}

/// Parses an answer, and checks that it belongs to the attempt's step and has the expected matrices
/// and sums.
fn checked(attempt: &Attempt, bytes: Vec<u8>) -> Result<Answer, Error> {
    let answer = Answer::parse(bytes)?;
    let (meta, key) = (answer.meta(), attempt.key);
    if meta.key.step() != key.step() {
        return Err(refused(&key.to_string(), format!("the answer belongs to {}", meta.key)));
    }
    if meta.error().is_none() {
        answer.check(&attempt.expected)?;
        answer.verify()?;
    }
    Ok(answer)
}

/// Maximum number of numeric classes that the pool records. Only four exist, so this guards against
/// invalid answers.
const CLASSES: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use eciton_kernel::wire::{AnswerMeta, encode_failure};
    use eciton_kernel::{Call, Finished, Limits, Target};
    use eciton_tensor::Buffer;
    use eciton_tensor::frame::{Encoding, Frame, Writer};
    use eciton_transport::MemoryStore;
    use eciton_types::{IntervalId, Round, StageId};

    use super::*;

    /// Fault of an answer in a test.
    #[derive(Debug, Clone, Copy)]
    enum Fault {
        /// A matrix has one column too many.
        Shape,
        /// The answer has no matrix.
        Count,
        /// A value does not match its checksum.
        Checksum,
        /// The answer belongs to another task.
        Task,
        /// The frame lacks its last byte.
        Short,
        /// The answer is in an object that the request did not name.
        Place,
    }

    const KEY: TaskKey = TaskKey {
        round: Round(1),
        stage: StageId(2),
        interval: IntervalId(3),
        attempt: eciton_types::Attempt(0),
    };

    /// A function whose first answer has a fault.
    struct Faulty {
        store: Option<Arc<dyn Store>>,
        fault: Mutex<Option<Fault>>,
    }

    fn frame(fault: Option<Fault>) -> Vec<u8> {
        let key = match fault {
            Some(Fault::Task) => TaskKey { interval: IntervalId(4), ..KEY },
            _ => KEY,
        };
        let meta = AnswerMeta::new(key, &Ok(Finished::default()));
        let meta = encode_failure(&meta).unwrap();
        let mut writer = Writer::new(Frame::parse(&meta).unwrap().header().meta.to_vec());
        let columns = if matches!(fault, Some(Fault::Shape)) { 4 } else { 3 };
        let rows = Buffer::from_rows(2, columns, &[0.5; 8][..2 * columns]).unwrap();
        if !matches!(fault, Some(Fault::Count)) {
            writer.matrix(&rows.read(0..2).unwrap().into(), Encoding::F32).unwrap();
        }
        let mut bytes = writer.finish().unwrap();
        match fault {
            Some(Fault::Checksum) => {
                let values = Frame::parse(&bytes).unwrap().bytes(0).unwrap().as_ptr() as usize;
                let at = values - bytes.as_ptr() as usize;
                bytes[at] ^= 1;
            }
            Some(Fault::Short) => drop(bytes.pop()),
            _ => {}
        }
        bytes
    }

    impl Invoker for Faulty {
        async fn invoke(&self, payload: Bytes) -> Result<Invoked, InvokeError> {
            let invocation = Invocation::from_json(&payload).unwrap();
            let fault = lock(&self.fault).take();
            let bytes = Bytes::from(frame(fault));
            let frame = match &self.store {
                None => Carrier::Inline(bytes),
                Some(store) => {
                    let mut key = invocation.answer_key.unwrap();
                    if matches!(fault, Some(Fault::Place)) {
                        key = Key::new("runs/other/answer").unwrap();
                    }
                    let bytes_len = bytes.len() as u64;
                    store.put(&key, bytes, Condition::IfAbsent).await.unwrap();
                    Carrier::Object { key, bytes_len }
                }
            };
            let payload = Reply { frame, send_us: 0, existed: false }.to_json().unwrap().into();
            Ok(Invoked { payload, charge: None, requests: 1, throttled: 0 })
        }
    }

    /// Returns the shapes that an answer must contain: one matrix with 2 rows and 3 columns.
    fn expected() -> Expected {
        let rows = Buffer::zeroed(2, 3).and_then(|rows| rows.write(0..2)).unwrap();
        let outs = vec![(0, Target::Rows { rows, extents: vec![3] })];
        let call = Call { outs, ..Call::default() };
        Expected::new(&call)
    }

    #[test]
    fn an_attempt_with_a_wrong_answer_fails_and_the_next_one_succeeds() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let faults = [Fault::Shape, Fault::Count, Fault::Checksum, Fault::Task, Fault::Short, Fault::Place];
        for (fault, by_store) in faults.into_iter().flat_map(|fault| [(fault, false), (fault, true)]) {
            if matches!(fault, Fault::Place) && !by_store {
                continue;
            }
            let store: Option<Arc<dyn Store>> =
                by_store.then(|| Arc::new(MemoryStore::new()) as Arc<dyn Store>);
            let settings = RemoteSettings {
                run: "r".to_owned(),
                transport: if by_store { Transport::S3 } else { Transport::Payload },
                rows: Encoding::F32,
                stream: false,
                most: 1,
                limits: Limits::default(),
                intervals: 1,
                weight_versions: 1,
                architecture: None,
                host: None,
                cut: None,
                audit: 0.0,
            };
            let wire = Wire {
                invoker: Faulty { store: store.clone(), fault: Mutex::new(Some(fault)) },
                store,
                keys: RunKeys::new("r").unwrap(),
                settings,
                bill: Mutex::default(),
                classes: Mutex::default(),
            };
            let attempt = |number| Attempt {
                pass: 1,
                key: TaskKey { attempt: eciton_types::Attempt(number), ..KEY },
                deadline: None,
                frame: Bytes::from_static(b"a task"),
                expected: expected(),
                uploads: Vec::new(),
            };
            let slowed = AtomicBool::new(false);
            let what = format!("{fault:?}, by store: {by_store}");
            let error = runtime.block_on(wire.run(&attempt(0), &slowed)).unwrap_err();
            assert!(error.is_retryable(), "{what}: {error}");
            assert!(error.to_string().contains("the function's answer is wrong: "), "{what}: {error}");
            // The object of the wrong answer is deleted, so that the next attempt does not find it.
            let answer = runtime.block_on(wire.run(&attempt(1), &slowed)).expect(&what);
            assert_eq!(answer.meta().key.step(), KEY.step(), "{what}");
        }
    }
}
