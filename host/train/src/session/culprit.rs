//! The search for a value that is not finite: the round once more, with a look at all that it writes.

use eciton_engine::{Engine, Settings};
use eciton_exec::LocalPool;
use eciton_plan::{Config, Lanes, Mode, Pipeline, Round};

use super::Session;
use crate::batch::Batches;
use crate::culprit::Culprit;
use crate::driver::{self, Counts, RowStore, Stages, State, Watch};
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::report::Silent;

impl Session {
    /// An error with the place of the first value that is not finite, where that is what it is about and the place
    /// is found.
    pub(super) fn explained(&mut self, config: &Config, seed: u64, mut error: Error) -> Error {
        // Weights that workers own are not here to look with.
        if !self.weights.owners().have_parameters()
            && let Error::NotFinite { round, first, .. } = &mut error
        {
            tracing::info!(round = *round, "looking for the first value that is not finite");
            self.settle();
            // The run has failed; a search that fails as well changes nothing.
            let found = self.first_not_finite(seed, Round(*round)).ok().flatten();
            *first = found.map(|culprit| Box::new(owned(config, culprit)));
        }
        error
    }

    /// Does a round once more on this machine, stage after stage, from the weights as they are. Random numbers are
    /// those of the round, so it computes what it computed, as long as the weights are those that it read.
    fn first_not_finite(&mut self, seed: u64, round: Round) -> Result<Option<Culprit>> {
        // The failed round has left some.
        self.weights.forget_gradients();
        let program = &self.program;
        let intervals = self.engine.settings().intervals;
        let pipeline = Pipeline { mode: Mode::Sync, ..Pipeline::default() };
        let settings = Settings { pipeline, eval_every: 0, ..Settings::new(intervals, round.0) };
        let mut engine = Engine::new(program, settings)?;
        let rows = RowStore::new(
            program,
            self.rows.intervals().to_vec(),
            (&pipeline, &Lanes::default()),
            self.rows.format,
            &[&self.rows],
        )?;
        let batches = self.source.as_ref().map(|source| Batches::new(source.clone(), seed, round));
        let watch = Watch::default();
        let stages = Stages::new(program, &self.inputs, &rows, &self.layers, Some(seed))?;
        let stages = stages.with_batches(batches).with_watch(&watch);
        let pool = eciton_exec::Settings {
            threads: self.threads,
            fresh_instances: false,
            newest_first: false,
            lanes: 0,
        };
        let mut machine = LocalPool::new(pool).map_err(Error::Threads)?;
        let (mut counts, mut logs, mut silent) = (Counts::default(), Logs::default(), Silent);
        let mut state = State::new(
            &mut self.weights,
            (&mut counts, &mut self.doubts),
            &mut silent,
            &mut logs,
            None,
            None,
        );
        driver::forward(&mut machine, &mut engine, &stages, &mut state, round, None)?;
        drop(stages);
        Ok(watch.found())
    }
}

/// The same, with the component that the kernel is of, where the user brought it.
fn owned(config: &Config, mut culprit: Culprit) -> Culprit {
    let replaced = config.kernels.get(&culprit.kernel).cloned();
    let is_path = || culprit.kernel.contains(['/', '.']).then(|| culprit.kernel.clone());
    culprit.own = replaced.or_else(is_path);
    culprit
}
