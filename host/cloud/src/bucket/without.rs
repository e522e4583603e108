//! Replacement for buckets in builds without AWS's clients.

use super::{Address, Fault};
use crate::error::{Error, Result};
use crate::no_aws::NoAws;

/// Objects below a key prefix of a bucket. This build cannot open one, so no value exists.
#[derive(Debug)]
pub enum Bucket {}

impl Bucket {
    /// Fails with the command that builds Eciton with AWS's clients.
    ///
    /// # Errors
    /// Always returns [`Error::NoAws`].
    pub fn open(_: &Address) -> Result<Self> {
        Err(Error::NoAws(NoAws("--store s3://...")))
    }

    /// Reads an object of at most this number of bytes. No value exists in this build, so it is
    /// never called.
    ///
    /// # Errors
    /// Returns no error in this build.
    pub fn get(&self, _: &str, _: u64) -> Result<Vec<u8>, Fault> {
        match *self {}
    }

    /// Reads an object that may be absent. No value exists in this build, so it is never called.
    ///
    /// # Errors
    /// Returns no error in this build.
    pub fn find(&self, _: &str, _: u64) -> Result<Option<Vec<u8>>, Fault> {
        match *self {}
    }

    /// Reads objects that may be absent. No value exists in this build, so it is never called.
    pub fn find_each(&self, _: &[String], _: u64, _: &mut dyn FnMut(usize, Result<Option<Vec<u8>>, Fault>)) {
        match *self {}
    }

    /// Returns whether an object exists. No value exists in this build, so it is never called.
    ///
    /// # Errors
    /// Returns no error in this build.
    pub fn has(&self, _: &str) -> Result<bool, Fault> {
        match *self {}
    }

    /// Writes an object. No value exists in this build, so it is never called.
    ///
    /// # Errors
    /// Returns no error in this build.
    pub fn put(&self, _: &str, _: Vec<u8>, _: bool) -> Result<bool, Fault> {
        match *self {}
    }

    /// Writes the objects that are absent. No value exists in this build, so it is never called.
    ///
    /// # Errors
    /// Returns no error in this build.
    pub fn put_absent(&self, _: Vec<(String, Vec<u8>)>) -> Result<(), Fault> {
        match *self {}
    }

    /// Returns the request counts. No value exists in this build, so it is never called.
    #[must_use]
    pub fn counts(&self) -> eciton_transport::Counts {
        match *self {}
    }
}
