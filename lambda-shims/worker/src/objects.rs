//! Shared objects, which are the weights of recent versions and features. They are written once
//! under a key and never change, so a worker can cache them.

use std::sync::{Arc, Mutex, PoisonError};

use eciton_tensor::frame::Decoded;
use eciton_transport::Key;
use tokio::task::JoinSet;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::incoming::{Incoming, Stream};
use crate::room::Room;
use crate::timed::Timed;

/// Maximum number of objects that are fetched at the same time.
const AT_ONCE: usize = 8;

/// Decoded tensors of a shared object.
#[derive(Debug)]
pub(crate) struct Object {
    parts: Vec<Decoded>,
    bytes: u64,
}

impl Object {
    /// Decodes all tensors in a frame.
    pub(crate) fn decode(frame: &Incoming) -> Result<Self> {
        let count = u32::try_from(frame.header().parts.len()).unwrap_or(u32::MAX);
        let parts = (0..count).map(|p| frame.part(p)).collect::<Result<Vec<_>>>()?;
        let bytes = parts.iter().map(Decoded::bytes).fold(0, u64::saturating_add);
        Ok(Self { parts, bytes })
    }

    /// Returns the tensor with this number, or `None` if there is none.
    pub(crate) fn part(&self, number: u32) -> Option<Decoded> {
        self.parts.get(number as usize).cloned()
    }
}

/// State of a shared object that a task needs.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The cache contains the object.
    Kept(Arc<Object>),
    /// The object was fetched and is not decoded yet.
    Fetched(Key, Box<Incoming>),
}

impl Wanted {
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

/// Cache of decoded shared objects, by key.
#[derive(Debug)]
pub(crate) struct Objects(Mutex<Cache<Key, Arc<Object>>>);

impl Objects {
    /// Creates an empty cache for objects of at most `bytes` bytes in total.
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Mutex::new(Cache::new(bytes)))
    }

    /// Adds a decoded object to the cache.
    pub(crate) fn keep(&self, key: Key, object: Arc<Object>) {
        let bytes = object.bytes;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, object, bytes);
    }

    /// Returns true if the cache contains the object `key`.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.kept(key).is_some()
    }

    fn kept(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key)
    }

    /// Returns the objects `keys`, from the cache or fetched from the store. `apart` is the index
    /// of an object and the number of a part that is returned as a stream instead. The memory of
    /// fetched objects is reserved in `room`.
    pub(crate) async fn find(
        &self,
        store: &Timed,
        keys: &[Key],
        apart: Option<(usize, u32)>,
        room: &Room,
    ) -> Result<(Vec<Wanted>, Option<Stream>)> {
        let mut found: Vec<Option<Wanted>> = keys.iter().map(|k| self.kept(k).map(Wanted::Kept)).collect();
        let mut missing = (0..keys.len())
            .filter(|&i| found.get(i).is_some_and(Option::is_none))
            .collect::<Vec<_>>()
            .into_iter();
        let (mut under_way, mut stream) = (JoinSet::new(), None);
        loop {
            while under_way.len() < AT_ONCE
                && let Some(at) = missing.next()
            {
                let Some(key) = keys.get(at).cloned() else { continue };
                let (store, room) = (store.clone(), room.clone());
                let part = apart.filter(|a| a.0 == at).map(|a| a.1);
                under_way.spawn(async move {
                    let mut frame = Incoming::open(&store, &key, None, &room).await?;
                    let stream = frame.rest(&store, &key, part).await?;
                    Ok::<_, Error>((at, Wanted::Fetched(key, Box::new(frame)), stream))
                });
            }
            let Some(done) = under_way.join_next().await else { break };
            let (at, wanted, its_stream) =
                done.map_err(|e| Error::Panic { doing: "fetching objects", text: e.to_string() })??;
            stream = stream.or(its_stream);
            if let Some(place) = found.get_mut(at) {
                *place = Some(wanted);
            }
        }
        // All objects have been found, because the loop ends when none is missing.
        Ok((found.into_iter().flatten().collect(), stream))
    }
}
