//! Search for the first value that is not finite. The failed round (optimiser step) is repeated,
//! and all values that its steps write are checked.

use eciton_engine::{Engine, Settings};
use eciton_exec::LocalPool;
use eciton_recipe::{Config, Lanes, Mode, Pipeline};
use eciton_runs::report::Silent;
use eciton_types::Round;

use super::Session;
use crate::batch::Batches;
use crate::driver::{self, Counts, RowStore, State, Watch, open_stages};
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::nan_trace::NanTrace;

impl Session {
    /// Searches for the first value that is not finite, and adds its location to
    /// [`Error::NotFinite`]. Other errors are returned unchanged.
    pub(super) fn explained(&mut self, config: &Config, seed: u64, mut error: Error) -> Error {
        // Weights that workers own are not available on the host for the search, and rows of other
        // hosts are not either.
        if !self.weights.owners().have_parameters()
            && self.exchange.is_none()
            && let Error::NotFinite { round, first, .. } = &mut error
        {
            tracing::info!(round = *round, "looking for the first value that is not finite");
            self.settle();
            // The run has failed already. If the search fails as well, the first error is returned
            // without a location.
            let found = self.first_not_finite(seed, Round(*round)).ok().flatten();
            *first = found.map(|culprit| Box::new(owned(config, culprit)));
        }
        error
    }

    /// Repeats a round on this machine with the current weights, one stage after another. Returns
    /// the first value that is not finite. The results are those of the failed round if it used the
    /// current weights.
    fn first_not_finite(&mut self, seed: u64, round: Round) -> Result<Option<NanTrace>> {
        // The failed round has left gradients.
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
            (&[&self.rows], None, None),
        )?;
        let batches = self.source.as_ref().map(|source| Batches::new(source.clone(), seed, round));
        let watch = Watch::default();
        let stages = open_stages(program, &self.inputs, &rows, &self.layers, Some(seed))?;
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
        driver::forward(&mut machine, &mut engine, &stages, &mut state, round, (None, None))?;
        drop(stages);
        Ok(watch.found())
    }
}

/// Adds the path of the kernel's component to the trace, if the user supplied the kernel.
fn owned(config: &Config, mut culprit: NanTrace) -> NanTrace {
    let replaced = config.kernels.get(&culprit.kernel).cloned();
    let is_path = || culprit.kernel.contains(['/', '.']).then(|| culprit.kernel.clone());
    culprit.own = replaced.or_else(is_path);
    culprit
}
