//! Placeholder for buckets in builds without the feature `aws`.

use super::{Address, Fault};
use crate::error::{Error, Result};
use crate::no_aws::NoAws;

/// Objects under a key prefix of a bucket. Builds without the feature `aws` cannot open a bucket,
/// so this type has no values.
#[derive(Debug)]
pub enum Bucket {}

impl Bucket {
    /// Returns an error that names the command that builds Eciton with the feature `aws`.
    ///
    /// # Errors
    /// Always returns [`Error::NoAws`].
    pub fn open(_: &Address) -> Result<Self> {
        Err(Error::NoAws(NoAws("s3://...")))
    }

    /// Reads an object. This is never called, because the type has no values in this build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn get(&self, _: &str, _: u64) -> Result<Vec<u8>, Fault> {
        match *self {}
    }

    /// Reads an object that may not exist. This is never called, because the type has no values in
    /// this build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn find(&self, _: &str, _: u64) -> Result<Option<Vec<u8>>, Fault> {
        match *self {}
    }

    /// Returns the size of an object. This is never called, because the type has no values in this
    /// build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn size(&self, _: &str) -> Result<Option<u64>, Fault> {
        match *self {}
    }

    /// Reads a range of an object. This is never called, because the type has no values in this
    /// build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn read(
        &self,
        _: &str,
        _: std::ops::Range<u64>,
        _: &mut (dyn FnMut(&[u8]) -> std::io::Result<()> + Send),
    ) -> Result<(), Fault> {
        match *self {}
    }

    /// Reads objects that may not exist. This is never called, because the type has no values in
    /// this build.
    pub fn find_each(&self, _: &[String], _: u64, _: &mut dyn FnMut(usize, Result<Option<Vec<u8>>, Fault>)) {
        match *self {}
    }

    /// Returns true if an object exists. This is never called, because the type has no values in
    /// this build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn has(&self, _: &str) -> Result<bool, Fault> {
        match *self {}
    }

    /// Writes an object. This is never called, because the type has no values in this build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn put(&self, _: &str, _: Vec<u8>, _: bool) -> Result<bool, Fault> {
        match *self {}
    }

    /// Deletes an object. This is never called, because the type has no values in this build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn delete(&self, _: &str) -> Result<(), Fault> {
        match *self {}
    }

    /// Writes the objects that do not exist. This is never called, because the type has no values
    /// in this build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn put_absent(&self, _: Vec<(String, Vec<u8>)>) -> Result<(), Fault> {
        match *self {}
    }

    /// Returns the numbers of requests and bytes. This is never called, because the type has no
    /// values in this build.
    #[must_use]
    pub fn counts(&self) -> eciton_transport::Counts {
        match *self {}
    }
}
