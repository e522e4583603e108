//! Builds without AWS's clients have no buckets.

use super::{Address, Fault};
use crate::error::{Error, Result};
use crate::no_aws::NoAws;

/// Objects below a prefix of a bucket. This build cannot open one.
#[derive(Debug)]
pub enum Bucket {}

impl Bucket {
    /// Refuses with the command that builds Eciton with AWS's clients.
    ///
    /// # Errors
    /// [`Error::NoAws`], always.
    pub fn open(_: &Address) -> Result<Self> {
        Err(Error::NoAws(NoAws("--store s3://...")))
    }

    /// Reads an object, as with AWS.
    ///
    /// # Errors
    /// As with AWS.
    pub fn get(&self, _: &str, _: u64) -> Result<Vec<u8>, Fault> {
        match *self {}
    }

    /// Reads an object that may be absent, as with AWS.
    ///
    /// # Errors
    /// As with AWS.
    pub fn find(&self, _: &str, _: u64) -> Result<Option<Vec<u8>>, Fault> {
        match *self {}
    }

    /// Reads objects that may be absent, as with AWS.
    pub fn find_each(&self, _: &[String], _: u64, _: &mut dyn FnMut(usize, Result<Option<Vec<u8>>, Fault>)) {
        match *self {}
    }

    /// Returns whether an object exists, as with AWS.
    ///
    /// # Errors
    /// As with AWS.
    pub fn has(&self, _: &str) -> Result<bool, Fault> {
        match *self {}
    }

    /// Writes an object, as with AWS.
    ///
    /// # Errors
    /// As with AWS.
    pub fn put(&self, _: &str, _: Vec<u8>, _: bool) -> Result<bool, Fault> {
        match *self {}
    }

    /// Writes the objects that are absent, as with AWS.
    ///
    /// # Errors
    /// As with AWS.
    pub fn put_absent(&self, _: Vec<(String, Vec<u8>)>) -> Result<(), Fault> {
        match *self {}
    }

    /// Returns the requests so far, as with AWS.
    #[must_use]
    pub fn counts(&self) -> eciton_transport::Counts {
        match *self {}
    }
}
