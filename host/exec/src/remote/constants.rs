//! Constants, which are the inputs that several tasks read. The pool uploads each constant to the
//! object store once, and frames refer to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use eciton_kernel::Error;
use eciton_transport::{Condition, Key, Store};
use eciton_types::{IntervalId, OperationId, SlotId};
use tokio::sync::OnceCell;

use super::errors::transport;
use super::lock::lock;

/// Minimum size of a constant that is uploaded as its own object, in bytes. Smaller constants are
/// cheaper to send in each request.
pub(super) const OBJECT_BYTES: u64 = 32 << 10;
/// Number of old weight generations that stay in the object store, in addition to those that tasks
/// may be reading.
const MORE_GENERATIONS: u64 = 2;

/// Identity of an input that several tasks read and that is uploaded to the object store once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Constant {
    /// Features of an interval (a range of vertices), or sums gathered from features. All stages
    /// that read this slot (a row buffer) read the same object.
    Features(SlotId, IntervalId),
    /// Parameters of one operation.
    Weights {
        /// The operation whose parameters these are.
        operation: OperationId,
        /// Generation number of the parameter values.
        generation: u64,
    },
}

/// Object of a constant, and the state of its upload to the object store.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) key: Key,
    /// The bytes to upload, or `None` once they are uploaded.
    bytes: Mutex<Option<Bytes>>,
    done: OnceCell<()>,
}

impl Upload {
    /// Waits until the object is stored. The first caller uploads it.
    pub(super) async fn ensure(&self, store: &dyn Store) -> Result<(), eciton_transport::Error> {
        let write = || async {
            let bytes = lock(&self.bytes).clone();
            if let Some(bytes) = bytes {
                store.put(&self.key, bytes, Condition::Always).await?;
                *lock(&self.bytes) = None;
            }
            Ok(())
        };
        self.done.get_or_try_init(write).await.map(|_| ())
    }
}

/// The constants of a run, by identity. The value is `None` if the constant is too small to be
/// uploaded as its own object.
#[derive(Debug)]
pub(super) struct ConstantObjects {
    known: HashMap<Constant, Option<Arc<Upload>>>,
    generations: u64,
}

impl ConstantObjects {
    /// Creates an empty table for tasks that read up to `weight_versions` generations of weights at
    /// the same time.
    pub(super) fn new(weight_versions: u32) -> Self {
        let generations = u64::from(weight_versions) + MORE_GENERATIONS;
        Self { known: HashMap::new(), generations }
    }

    /// Returns the upload of `constant`. If the constant is new, `write` encodes it and `name`
    /// gives its object key. Returns `None` if the constant is too small and is sent in each
    /// request.
    pub(super) fn get(
        &mut self,
        constant: Constant,
        name: impl FnOnce() -> Result<Key, eciton_transport::Error>,
        write: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Option<Arc<Upload>>, Error> {
        if let Some(known) = self.known.get(&constant) {
            return Ok(known.clone());
        }
        let bytes = write()?;
        let upload = if bytes.len() as u64 >= OBJECT_BYTES {
            let key = name().map_err(|e| transport(&e))?;
            Some(Arc::new(Upload { key, bytes: Mutex::new(Some(bytes.into())), done: OnceCell::new() }))
        } else {
            None
        };
        self.known.insert(constant, upload.clone());
        Ok(upload)
    }

    /// Removes the weights that no task will read once generation `newest` exists. Returns their
    /// object keys.
    pub(super) fn forget_before(&mut self, newest: u64) -> Vec<Key> {
        let generations = self.generations;
        let old = |constant: &Constant| match constant {
            Constant::Weights { generation, .. } => generation + generations <= newest,
            Constant::Features(..) => false,
        };
        let gone = self.known.extract_if(|constant, _| old(constant));
        gone.filter_map(|(_, upload)| upload.map(|u| u.key.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_constant_is_written_once_and_forgotten_when_old() {
        let mut objects = ConstantObjects::new(1);
        let name = |n: u64| Key::new(format!("runs/r/weights/{n}"));
        let weights = |generation| Constant::Weights { operation: OperationId(0), generation };
        let large = || Ok(vec![0; OBJECT_BYTES as usize]);
        let first = objects.get(weights(1), || name(1), large).unwrap().unwrap();
        let again = objects.get(weights(1), || name(1), unwritten).unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let features = Constant::Features(SlotId(0), IntervalId(0));
        assert!(objects.get(features, || name(0), || Ok(vec![0; 9])).unwrap().is_none(), "too small");
        assert!(objects.get(features, || name(0), unwritten).unwrap().is_none(), "and known to be");
        assert_eq!(objects.forget_before(3), []);
        assert_eq!(objects.forget_before(4), [name(1).unwrap()]);
    }

    fn unwritten() -> Result<Vec<u8>, Error> {
        Err(Error::Wire { place: "a test".to_owned(), reason: "written twice".to_owned() })
    }
}
