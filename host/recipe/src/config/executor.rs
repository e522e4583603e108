//! Selection of the executor of a configuration.

use super::Config;
use crate::error::{Error, Result};
use crate::executor::{Emulator, Executor, ExecutorKind};
use crate::workers::Workers;

impl Config {
    /// Selects the executor `local`, which runs tasks on threads of this machine. See
    /// [`Config::run_on`].
    pub fn run_here(&mut self) {
        self.run_on(ExecutorKind::Local);
    }

    /// Selects the executor `workers`, which runs tasks on connected workers. See
    /// [`Config::run_on`].
    pub fn run_on_workers(&mut self) {
        self.run_on(ExecutorKind::Workers);
    }

    /// Selects the executor `lambda`, which runs tasks on AWS Lambda. See [`Config::run_on`].
    pub fn run_on_lambda(&mut self) {
        self.run_on(ExecutorKind::Lambda);
    }

    /// Selects an executor, and resets all settings that it does not read to their defaults. A
    /// recipe for functions can therefore also run on this machine.
    pub fn run_on(&mut self, kind: ExecutorKind) {
        let reads = |key| ExecutorKind::readers(key).is_none_or(|readers| readers.contains(&kind));
        let executor = std::mem::take(&mut self.executor);
        self.executor = match reads("executor.functions") {
            true => Executor { kind, ..executor },
            false => Executor { kind, host_hour_usd: executor.host_hour_usd, ..Executor::default() },
        };
        if !reads("executor.deployment") {
            self.executor.deployment = None;
        }
        if !reads("executor.host") {
            self.executor.host = None;
        }
        if !reads("emulator.seed") {
            self.emulator = Emulator::default();
        }
        if !reads("workers.count") {
            self.workers = Workers::default();
        }
        self.run.tune_threads &= reads("run.tune_threads");
    }

    /// Checks that the executor of this configuration reads the key `key`. `found` is the value of
    /// the key for the error message.
    ///
    /// # Errors
    /// Returns [`Error::Unread`] if the executor ignores the key.
    pub fn check_read(&self, key: &str, found: &str) -> Result<()> {
        let kind = self.executor.kind;
        match ExecutorKind::readers(key) {
            Some(readers) if !readers.contains(&kind) => {
                Err(Error::Unread { key: key.to_owned(), found: found.to_owned(), kind: kind.name() })
            }
            _ => Ok(()),
        }
    }
}
