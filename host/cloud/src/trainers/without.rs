//! Replacement for trainer functions in builds without AWS's clients.

use eciton_kernel::cache::Cache;
use eciton_recipe::{Emulator, Executor};

use super::{Call, OnEnd, Rules};
use crate::bill::{Bill, Cost};
use crate::concurrency::Cut;
use crate::error::{Error, Result};
use crate::no_aws::NoAws;

/// Functions that compute whole training runs. This build has none, so no value exists.
#[derive(Debug)]
pub enum Trainers {}

impl Trainers {
    /// Fails with the command that builds Eciton with AWS's clients.
    ///
    /// # Errors
    /// Always returns [`Error::NoAws`].
    pub fn start(_: &Executor, _: &Emulator, _: &[(&str, &[u8])], _: Option<Cache>) -> Result<Self> {
        Err(Error::NoAws(NoAws("a run as a function's task")))
    }

    /// Stores an object that calls read. No value exists in this build, so it is never called.
    ///
    /// # Errors
    /// Returns no error in this build.
    pub fn put(&mut self, _: &str, _: Vec<u8>) -> Result<()> {
        match *self {}
    }

    /// Returns the time limit of a call. No value exists in this build, so it is never called.
    #[must_use]
    pub fn time_limit(&self) -> std::time::Duration {
        match *self {}
    }

    /// Returns the limit that lowers the number of functions. No value exists in this build, so it
    /// is never called.
    #[must_use]
    pub fn cut(&self, _: usize) -> Option<Cut> {
        match *self {}
    }

    /// Returns the charged usage so far. No value exists in this build, so it is never called.
    #[must_use]
    pub fn bill(&self) -> Bill {
        match *self {}
    }

    /// Returns the cost so far. No value exists in this build, so it is never called.
    #[must_use]
    pub fn cost(&self) -> Cost {
        match *self {}
    }

    /// Returns the time that a modelled call waits for the object store. No value exists in this
    /// build, so it is never called.
    #[must_use]
    pub fn waits(&self) -> std::time::Duration {
        match *self {}
    }

    /// Returns the share of the processor of a modelled function. No value exists in this build, so
    /// it is never called.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        match *self {}
    }

    /// Returns the seconds of all calls so far. No value exists in this build, so it is never
    /// called.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match *self {}
    }

    /// Makes calls. No value exists in this build, so it is never called.
    ///
    /// # Errors
    /// Returns no error in this build.
    pub fn run(&mut self, _: &[Call], _: &Rules<'_>, _: &mut OnEnd<'_>) -> Result<()> {
        match *self {}
    }
}
