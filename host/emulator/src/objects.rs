//! Buckets in memory, with their objects and unfinished uploads. Conditions of writes are evaluated
//! under one lock.

use bytes::Bytes;
use s3s::dto::{Checksum, Metadata};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Maximum size of an object or part in one request, in bytes. The limit of S3 is the same, 5 GiB.
pub(crate) const PUT_BYTES: u64 = 5 << 30;
/// Minimum size of every part but the last, in bytes. The limit of S3 is the same.
pub(crate) const PART_BYTES: usize = 5 << 20;
/// Maximum part number. Part numbers start at 1. The limit of S3 is the same.
pub(crate) const PARTS: i32 = 10_000;
/// Maximum number of keys in one listing and in one DeleteObjects request. The limit of S3 is the
/// same.
pub(crate) const LISTED_KEYS: usize = 1000;
/// Maximum number of multipart uploads that are open at the same time.
pub(crate) const UPLOADS: usize = 10_000;

/// A stored object. Clones share its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) bytes: Bytes,
    /// Entity tag, which changes with every write. It is not an MD5 digest, like the entity tags of
    /// encrypted objects in S3.
    pub(crate) tag: String,
    pub(crate) modified: SystemTime,
    pub(crate) content_type: Option<String>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) checksum: Checksum,
}

/// Condition under which a write succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    None,
    Absent,
    Tag(String),
}

/// Reason why an operation on the buckets is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoSuchBucket,
    NoSuchKey,
    NoSuchUpload,
    /// The condition of the operation is not met.
    Precondition,
    /// A part does not exist or has another entity tag.
    InvalidPart,
    PartOrder,
    PartTooSmall,
    /// The total size of all buckets would exceed its limit.
    Full,
    TooManyUploads,
}

#[derive(Debug)]
struct Part {
    bytes: Bytes,
    tag: String,
}

#[derive(Debug)]
struct Upload {
    bucket: String,
    key: String,
    content_type: Option<String>,
    metadata: Option<Metadata>,
    parts: BTreeMap<i32, Part>,
}

#[derive(Debug)]
struct State {
    buckets: BTreeMap<String, BTreeMap<String, Object>>,
    uploads: HashMap<String, Upload>,
    held: u64,
    writes: u64,
}

/// All buckets, with their objects and open uploads.
#[derive(Debug)]
pub(crate) struct Objects {
    limit: u64,
    state: Mutex<State>,
}

/// One page of a listing of keys.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<(String, Object)>,
    pub(crate) prefixes: Vec<String>,
    /// Last name on this page, or `None` if this is the last page.
    pub(crate) next: Option<String>,
}

impl State {
    fn tag(&mut self, bytes: usize) -> String {
        self.writes += 1;
        format!("{:016x}{bytes:016x}", self.writes)
    }

    fn bucket(&mut self, bucket: &str) -> Result<&mut BTreeMap<String, Object>, Refusal> {
        self.buckets.get_mut(bucket).ok_or(Refusal::NoSuchBucket)
    }

    fn check(&mut self, bucket: &str, key: &str, condition: &Condition) -> Result<(), Refusal> {
        let found = self.bucket(bucket)?.get(key);
        match (condition, found) {
            (Condition::None, _) | (Condition::Absent, None) => Ok(()),
            (Condition::Tag(tag), Some(object)) if object.tag == *tag => Ok(()),
            (Condition::Tag(_), None) => Err(Refusal::NoSuchKey),
            (Condition::Absent | Condition::Tag(_), Some(_)) => Err(Refusal::Precondition),
        }
    }

    fn insert(&mut self, bucket: &str, key: &str, object: Object) -> Result<(), Refusal> {
        let added = object.bytes.len() as u64;
        let removed =
            self.bucket(bucket)?.insert(key.to_owned(), object).map_or(0, |old| old.bytes.len() as u64);
        self.held = self.held + added - removed;
        Ok(())
    }

    fn upload(&mut self, bucket: &str, key: &str, id: &str) -> Result<&mut Upload, Refusal> {
        self.bucket(bucket)?;
        self.uploads
            .get_mut(id)
            .filter(|upload| upload.bucket == bucket && upload.key == key)
            .ok_or(Refusal::NoSuchUpload)
    }

    fn close(&mut self, id: &str) -> Option<Upload> {
        let upload = self.uploads.remove(id)?;
        self.held -= upload.parts.values().map(|part| part.bytes.len() as u64).sum::<u64>();
        Some(upload)
    }
}

impl Objects {
    pub(crate) fn new(buckets: &[String], limit: u64) -> Self {
        let buckets = buckets.iter().map(|name| (name.clone(), BTreeMap::new())).collect();
        Objects { limit, state: Mutex::new(State { buckets, uploads: HashMap::new(), held: 0, writes: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn buckets(&self) -> Vec<String> {
        self.state().buckets.keys().cloned().collect()
    }

    pub(crate) fn exists(&self, bucket: &str) -> Result<(), Refusal> {
        self.state().bucket(bucket).map(drop)
    }

    /// Checks that `bytes` more bytes fit into the total size limit.
    pub(crate) fn room(&self, bytes: u64) -> Result<(), Refusal> {
        if self.state().held.saturating_add(bytes) <= self.limit { Ok(()) } else { Err(Refusal::Full) }
    }

    /// Stores an object if `condition` is met at this moment. Returns the entity tag of the object.
    pub(crate) fn put(
        &self,
        bucket: &str,
        key: &str,
        condition: &Condition,
        mut object: Object,
    ) -> Result<String, Refusal> {
        let mut state = self.state();
        state.check(bucket, key, condition)?;
        if state.held.saturating_add(object.bytes.len() as u64) > self.limit {
            return Err(Refusal::Full);
        }
        object.tag = state.tag(object.bytes.len());
        let tag = object.tag.clone();
        state.insert(bucket, key, object)?;
        Ok(tag)
    }

    pub(crate) fn get(&self, bucket: &str, key: &str) -> Result<Object, Refusal> {
        self.state().bucket(bucket)?.get(key).cloned().ok_or(Refusal::NoSuchKey)
    }

    /// Deletes an object. Succeeds if the object does not exist.
    pub(crate) fn delete(&self, bucket: &str, key: &str) -> Result<(), Refusal> {
        let mut state = self.state();
        let removed = state.bucket(bucket)?.remove(key);
        state.held -= removed.map_or(0, |object| object.bytes.len() as u64);
        Ok(())
    }

    /// Returns one page of at most `most` keys that follow `after` and start with `prefix`, in
    /// order. Keys that contain `delimiter` after the prefix are grouped.
    pub(crate) fn list(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: &str,
        after: &str,
        most: usize,
    ) -> Result<Page, Refusal> {
        let mut state = self.state();
        let mut page = Page::default();
        let bucket = state.bucket(bucket)?;
        if most == 0 {
            return Ok(page);
        }
        let mut last = after.to_owned();
        let start = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        for (key, object) in bucket.range::<str, _>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            let rolled = match delimiter {
                "" => None,
                _ => key
                    .get(prefix.len()..)
                    .and_then(|rest| rest.find(delimiter))
                    .and_then(|at| key.get(..prefix.len() + at + delimiter.len())),
            };
            // A group stands for all keys below it, also across pages.
            if rolled.is_some_and(|rolled| {
                last.starts_with(rolled)
                    && (page.prefixes.last().is_some_and(|seen| seen == rolled) || last == after)
            }) {
                continue;
            }
            if page.objects.len() + page.prefixes.len() == most {
                page.next = Some(last);
                break;
            }
            match rolled {
                Some(rolled) => {
                    page.prefixes.push(rolled.to_owned());
                    last = rolled.to_owned();
                }
                None => {
                    page.objects.push((key.clone(), object.clone()));
                    last = key.clone();
                }
            }
        }
        Ok(page)
    }

    /// Starts a multipart upload, and returns its upload id.
    pub(crate) fn open(
        &self,
        bucket: &str,
        key: &str,
        content_type: Option<String>,
        metadata: Option<Metadata>,
    ) -> Result<String, Refusal> {
        let mut state = self.state();
        state.bucket(bucket)?;
        if state.uploads.len() >= UPLOADS {
            return Err(Refusal::TooManyUploads);
        }
        let id = state.tag(0);
        state.uploads.insert(
            id.clone(),
            Upload {
                bucket: bucket.to_owned(),
                key: key.to_owned(),
                content_type,
                metadata,
                parts: BTreeMap::new(),
            },
        );
        Ok(id)
    }

    pub(crate) fn has_upload(&self, bucket: &str, key: &str, id: &str) -> Result<(), Refusal> {
        self.state().upload(bucket, key, id).map(drop)
    }

    /// Stores a part, and replaces an earlier part with the same number. Returns the entity tag of
    /// the part.
    pub(crate) fn part(
        &self,
        bucket: &str,
        key: &str,
        id: &str,
        number: i32,
        bytes: Bytes,
    ) -> Result<String, Refusal> {
        let mut state = self.state();
        state.upload(bucket, key, id)?;
        let added = bytes.len() as u64;
        if state.held.saturating_add(added) > self.limit {
            return Err(Refusal::Full);
        }
        let tag = state.tag(bytes.len());
        let removed = state.upload(bucket, key, id)?.parts.insert(number, Part { bytes, tag: tag.clone() });
        state.held = state.held + added - removed.map_or(0, |part| part.bytes.len() as u64);
        Ok(tag)
    }

    /// Returns the number, the size in bytes and the entity tag of each part of an upload.
    pub(crate) fn parts(
        &self,
        bucket: &str,
        key: &str,
        id: &str,
    ) -> Result<Vec<(i32, u64, String)>, Refusal> {
        let mut state = self.state();
        Ok(state
            .upload(bucket, key, id)?
            .parts
            .iter()
            .map(|(number, part)| (*number, part.bytes.len() as u64, part.tag.clone()))
            .collect())
    }

    /// Combines the parts `named` (numbers and entity tags) to an object if `condition` is met at
    /// this moment. Otherwise the upload stays open. Returns the entity tag of the object.
    pub(crate) fn complete(
        &self,
        bucket: &str,
        key: &str,
        id: &str,
        named: &[(i32, String)],
        condition: &Condition,
    ) -> Result<String, Refusal> {
        // The long copy is made without the lock, because parts do not change.
        let chosen = {
            let mut state = self.state();
            state.check(bucket, key, condition)?;
            let upload = state.upload(bucket, key, id)?;
            choose(upload, named)?
        };
        let mut whole = Vec::with_capacity(chosen.iter().map(Bytes::len).sum());
        for part in &chosen {
            whole.extend_from_slice(part);
        }
        drop(chosen);
        let mut state = self.state();
        state.check(bucket, key, condition)?;
        state.upload(bucket, key, id)?;
        let tag = format!("{}-{}", state.tag(whole.len()), named.len());
        let Some(upload) = state.close(id) else { return Err(Refusal::NoSuchUpload) };
        let object = Object {
            bytes: whole.into(),
            tag: tag.clone(),
            modified: SystemTime::now(),
            content_type: upload.content_type,
            metadata: upload.metadata,
            checksum: Checksum::default(),
        };
        state.insert(bucket, key, object)?;
        Ok(tag)
    }

    pub(crate) fn abort(&self, bucket: &str, key: &str, id: &str) -> Result<(), Refusal> {
        let mut state = self.state();
        state.upload(bucket, key, id)?;
        state.close(id);
        Ok(())
    }
}

/// Returns the bytes of the parts `named` (numbers and entity tags), after the same checks as in
/// S3.
fn choose(upload: &Upload, named: &[(i32, String)]) -> Result<Vec<Bytes>, Refusal> {
    if named.is_empty() {
        return Err(Refusal::InvalidPart);
    }
    if named.windows(2).any(|pair| matches!(pair, [(first, _), (second, _)] if first >= second)) {
        return Err(Refusal::PartOrder);
    }
    let mut chosen = Vec::with_capacity(named.len());
    for (at, (number, tag)) in named.iter().enumerate() {
        let part = upload.parts.get(number).filter(|part| part.tag == *tag).ok_or(Refusal::InvalidPart)?;
        if at + 1 < named.len() && part.bytes.len() < PART_BYTES {
            return Err(Refusal::PartTooSmall);
        }
        chosen.push(part.bytes.clone());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;

    fn object(bytes: &'static [u8]) -> Object {
        Object {
            bytes: Bytes::from_static(bytes),
            tag: String::new(),
            modified: SystemTime::now(),
            content_type: None,
            metadata: None,
            checksum: Checksum::default(),
        }
    }

    fn objects(limit: u64) -> Objects {
        Objects::new(&["b".to_owned()], limit)
    }

    #[test]
    fn of_racing_writers_one_wins() {
        let objects = Arc::new(objects(1000));
        let threads: Vec<_> = (0..16)
            .map(|_| {
                let objects = objects.clone();
                std::thread::spawn(move || objects.put("b", "k", &Condition::Absent, object(b"x")).is_ok())
            })
            .collect();
        assert_eq!(
            threads
                .into_iter()
                .filter(|_| true)
                .map(|thread| thread.join().unwrap())
                .filter(|won| *won)
                .count(),
            1
        );
    }

    #[test]
    fn conditions_on_tags() {
        let objects = objects(1000);
        assert_eq!(objects.put("b", "k", &Condition::Tag("x".into()), object(b"x")), Err(Refusal::NoSuchKey));
        let first = objects.put("b", "k", &Condition::None, object(b"x")).unwrap();
        let second = objects.put("b", "k", &Condition::Tag(first.clone()), object(b"x")).unwrap();
        assert_ne!(first, second);
        assert_eq!(objects.put("b", "k", &Condition::Tag(first), object(b"x")), Err(Refusal::Precondition));
    }

    #[test]
    fn no_more_is_held_than_allowed() {
        let objects = objects(8);
        objects.put("b", "k", &Condition::None, object(b"12345")).unwrap();
        objects.put("b", "l", &Condition::None, object(b"123")).unwrap();
        assert_eq!(objects.put("b", "m", &Condition::None, object(b"1")), Err(Refusal::Full));
        let id = objects.open("b", "m", None, None).unwrap();
        assert_eq!(objects.part("b", "m", &id, 1, Bytes::from_static(b"1")), Err(Refusal::Full));
        objects.delete("b", "k").unwrap();
        objects.delete("b", "k").unwrap();
        objects.part("b", "m", &id, 1, Bytes::from_static(b"12345")).unwrap();
        assert_eq!(objects.room(1), Err(Refusal::Full));
        objects.part("b", "m", &id, 1, Bytes::new()).unwrap();
        assert_eq!(objects.room(5), Ok(()));
        objects.abort("b", "m", &id).unwrap();
        assert_eq!(objects.abort("b", "m", &id), Err(Refusal::NoSuchUpload));
        assert_eq!(objects.state().held, 3);
    }

    #[test]
    fn an_upload_is_checked_when_it_is_completed() {
        let objects = objects(1 << 30);
        let id = objects.open("b", "k", None, None).unwrap();
        let large = Bytes::from(vec![1; PART_BYTES]);
        let one = objects.part("b", "k", &id, 1, large).unwrap();
        let two = objects.part("b", "k", &id, 2, Bytes::from_static(b"22")).unwrap();
        let three = objects.part("b", "k", &id, 3, Bytes::from_static(b"333")).unwrap();
        let complete = |named: &[(i32, &String)]| {
            let named: Vec<_> = named.iter().map(|(number, tag)| (*number, (*tag).clone())).collect();
            objects.complete("b", "k", &id, &named, &Condition::Absent)
        };
        assert_eq!(complete(&[]), Err(Refusal::InvalidPart));
        assert_eq!(complete(&[(1, &two)]), Err(Refusal::InvalidPart));
        assert_eq!(complete(&[(4, &one)]), Err(Refusal::InvalidPart));
        assert_eq!(complete(&[(2, &two), (1, &one)]), Err(Refusal::PartOrder));
        assert_eq!(complete(&[(1, &one), (2, &two), (3, &three)]), Err(Refusal::PartTooSmall));
        complete(&[(1, &one), (3, &three)]).unwrap();
        assert_eq!(objects.get("b", "k").unwrap().bytes.len(), PART_BYTES + 3);
        assert_eq!(complete(&[(1, &one)]), Err(Refusal::Precondition));
        assert_eq!(objects.state().held, PART_BYTES as u64 + 3);
    }

    #[test]
    fn listings_go_page_by_page() {
        let objects = objects(1000);
        for key in ["a/1", "a/2", "a/x/1", "b/1", "b/2", "c", "d/1"] {
            objects.put("b", key, &Condition::None, object(b"x")).unwrap();
        }
        for delimiter in ["", "/"] {
            for prefix in ["", "a/", "b", "zz"] {
                let whole = objects.list("b", prefix, delimiter, "", 1000).unwrap();
                assert_eq!(whole.next, None);
                let mut expected: Vec<String> =
                    whole.objects.iter().map(|(key, _)| key.clone()).chain(whole.prefixes).collect();
                expected.sort();
                for most in 1..4 {
                    let (mut found, mut after) = (Vec::new(), String::new());
                    loop {
                        let page = objects.list("b", prefix, delimiter, &after, most).unwrap();
                        assert!(page.objects.len() + page.prefixes.len() <= most);
                        found.extend(page.objects.iter().map(|(key, _)| key.clone()).chain(page.prefixes));
                        let Some(next) = page.next else { break };
                        after = next;
                    }
                    found.sort();
                    assert_eq!(
                        found, expected,
                        "prefix {prefix:?}, delimiter {delimiter:?}, {most} at a time"
                    );
                }
            }
        }
        assert_eq!(objects.list("b", "", "/", "", 10).unwrap().prefixes, ["a/", "b/", "d/"]);
        assert_eq!(objects.list("b", "", "", "", 0).unwrap().objects.len(), 0);
        assert_eq!(objects.list("none", "", "", "", 1).unwrap_err(), Refusal::NoSuchBucket);
    }
}
