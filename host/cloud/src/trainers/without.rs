//! A build without AWS's clients has no functions.

use eciton_kernel::cache::Cache;
use eciton_recipe::{Emulator, Executor};

use super::{Call, OnEnd, Rules};
use crate::bill::{Bill, Cost};
use crate::concurrency::Cut;
use crate::error::{Error, Result};
use crate::no_aws::NoAws;

/// Functions that do whole runs: none.
#[derive(Debug)]
pub enum Trainers {}

impl Trainers {
    /// Refuses, in words.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &Executor, _: &Emulator, _: &[(&str, &[u8])], _: Option<Cache>) -> Result<Self> {
        Err(Error::NoAws(NoAws("a run as a function's task")))
    }

    /// Does the same as with AWS.
    ///
    /// # Errors
    /// As with AWS.
    pub fn put(&mut self, _: &str, _: Vec<u8>) -> Result<()> {
        match *self {}
    }

    /// Does the same as with AWS.
    #[must_use]
    pub fn time_limit(&self) -> std::time::Duration {
        match *self {}
    }

    /// Does the same as with AWS.
    #[must_use]
    pub fn cut(&self, _: usize) -> Option<Cut> {
        match *self {}
    }

    /// Does the same as with AWS.
    #[must_use]
    pub fn bill(&self) -> Bill {
        match *self {}
    }

    /// Does the same as with AWS.
    #[must_use]
    pub fn cost(&self) -> Cost {
        match *self {}
    }

    /// Does the same as with AWS.
    #[must_use]
    pub fn waits(&self) -> std::time::Duration {
        match *self {}
    }

    /// Does the same as with AWS.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        match *self {}
    }

    /// Does the same as with AWS.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match *self {}
    }

    /// Does the same as with AWS.
    ///
    /// # Errors
    /// As with AWS.
    pub fn run(&mut self, _: &[Call], _: &Rules<'_>, _: &mut OnEnd<'_>) -> Result<()> {
        match *self {}
    }
}
