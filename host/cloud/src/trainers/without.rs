//! Placeholder for trainer functions in builds without the feature `aws`.

use eciton_kernel::cache::Cache;
use eciton_recipe::{Emulator, Executor};

use super::{Call, OnEnd, Rules};
use crate::bill::{Bill, Cost};
use crate::concurrency::Cut;
use crate::error::{Error, Result};
use crate::no_aws::NoAws;

/// Functions that compute whole training runs. Builds without the feature `aws` cannot start any,
/// so this type has no values.
#[derive(Debug)]
pub enum Trainers {}

impl Trainers {
    /// Returns an error that names the command that builds Eciton with the feature `aws`.
    ///
    /// # Errors
    /// Always returns [`Error::NoAws`].
    pub fn start(_: &Executor, _: &Emulator, _: &[(&str, &[u8])], _: Option<Cache>) -> Result<Self> {
        Err(Error::NoAws(NoAws("a whole run as a task of functions")))
    }

    /// Writes an object that calls read. This is never called, because the type has no values in
    /// this build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn put(&mut self, _: &str, _: Vec<u8>) -> Result<()> {
        match *self {}
    }

    /// Returns the time limit of a call. This is never called, because the type has no values in
    /// this build.
    #[must_use]
    pub fn time_limit(&self) -> std::time::Duration {
        match *self {}
    }

    /// Returns the limit on the number of functions. This is never called, because the type has no
    /// values in this build.
    #[must_use]
    pub fn cut(&self, _: usize) -> Option<Cut> {
        match *self {}
    }

    /// Returns the usage so far. This is never called, because the type has no values in this
    /// build.
    #[must_use]
    pub fn bill(&self) -> Bill {
        match *self {}
    }

    /// Returns the cost so far. This is never called, because the type has no values in this build.
    #[must_use]
    pub fn cost(&self) -> Cost {
        match *self {}
    }

    /// Returns the modelled waits for the object store. This is never called, because the type has
    /// no values in this build.
    #[must_use]
    pub fn waits(&self) -> std::time::Duration {
        match *self {}
    }

    /// Returns the computing speed of a modelled function. This is never called, because the type
    /// has no values in this build.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        match *self {}
    }

    /// Returns the duration of all calls so far. This is never called, because the type has no
    /// values in this build.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match *self {}
    }

    /// Makes calls. This is never called, because the type has no values in this build.
    ///
    /// # Errors
    /// Never returns an error in this build.
    pub fn run(&mut self, _: &[Call], _: &Rules<'_>, _: &mut OnEnd<'_>) -> Result<()> {
        match *self {}
    }
}
