//! Reads of other intervals' rows in asynchronous runs, in which intervals may be in different
//! rounds.
//!
//! The engine chooses the round from which a step reads the rows of each interval, when it submits
//! the first attempt at the step. This is the step's own round or an earlier one. Rows are stored
//! in a ring of [`Pipeline::row_versions`] rounds. A step that would overwrite rows in use waits
//! until their readers have ended. This happens with a staleness bound of 1 or more, when a slow
//! interval overtakes a fast interval that is reading its old rows.

use eciton_recipe::{Mode, Pipeline};
use eciton_types::{IntervalId, Round, StageId};
use std::collections::BTreeMap;

/// Steps in flight that read rows of all intervals, with the ages of these rows.
#[derive(Clone, Debug)]
pub(super) struct Readings {
    ring: u32,
    intervals: u32,
    /// Index of each stage among the stages whose rows of all intervals are read. Empty unless the
    /// run is asynchronous.
    sources: Vec<Option<u16>>,
    /// Number of steps that are reading the rows of a source stage, by source, interval and index
    /// in the ring of rounds.
    readers: Vec<u32>,
    /// Ages in rounds of the rows that each step is reading, by interval.
    open: BTreeMap<(StageId, IntervalId), Vec<u8>>,
    /// Unused lists of ages, which are kept to avoid allocations.
    spare: Vec<Vec<u8>>,
    /// Steps (stage and interval) that wait until readers have ended, in the order of arrival.
    pub blocked: Vec<(u16, u32)>,
}

impl Readings {
    pub(super) fn new(
        pipeline: &Pipeline,
        intervals: u32,
        reads: impl Iterator<Item = u16>,
        stages: usize,
    ) -> Self {
        let mut sources = Vec::new();
        let mut count = 0u16;
        if pipeline.mode == Mode::Async {
            sources = vec![None; stages];
            for source in reads {
                if let Some(place @ None) = sources.get_mut(usize::from(source)) {
                    *place = Some(count);
                    count += 1;
                }
            }
        }
        let ring = pipeline.row_versions();
        let readers = vec![0; usize::from(count) * intervals as usize * ring as usize];
        let (open, spare, blocked) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { ring, intervals, sources, readers, open, spare, blocked }
    }

    pub(super) fn clear(&mut self) {
        self.readers.fill(0);
        let open = std::mem::take(&mut self.open);
        self.spare.extend(open.into_values());
        self.blocked.clear();
    }

    pub(super) fn ages(&self, stage: StageId, interval: IntervalId) -> Option<&[u8]> {
        self.open.get(&(stage, interval)).map(|ages| &ages[..])
    }

    fn reader(&self, source: u16, interval: u32, round: Round) -> Option<usize> {
        let source = usize::from((*self.sources.get(usize::from(source))?)?);
        let ring = self.ring as usize;
        Some((source * self.intervals as usize + interval as usize) * ring + round.index() % ring)
    }

    /// Records that a step starts to read rows of the stages `sources` from all intervals. `newest`
    /// returns the newest round in which an interval has written the rows of all sources. The step
    /// reads these rows, but no rows from after its own round.
    pub(super) fn open(
        &mut self,
        (stage, interval, round): (StageId, IntervalId, Round),
        sources: &[u16],
        newest: impl Fn(u32) -> Round,
    ) {
        let mut ages = self.spare.pop().unwrap_or_default();
        ages.clear();
        for of in 0..self.intervals {
            let read = newest(of).min(round);
            // At most the staleness bound + 1, which is below 64.
            ages.push((round.0 - read.0) as u8);
            for &source in sources {
                if let Some(place) = self.reader(source, of, read) {
                    self.readers[place] += 1;
                }
            }
        }
        self.open.insert((stage, interval), ages);
    }

    /// Records that a step no longer reads rows of other intervals. Returns true if another step
    /// may have waited for this.
    pub(super) fn close(
        &mut self,
        stage: StageId,
        interval: IntervalId,
        round: Round,
        sources: &[u16],
    ) -> bool {
        let Some(ages) = self.open.remove(&(stage, interval)) else {
            return false;
        };
        for (of, &age) in (0..).zip(&ages) {
            for &source in sources {
                if let Some(place) = self.reader(source, of, Round(round.0 - u32::from(age))) {
                    self.readers[place] -= 1;
                }
            }
        }
        self.spare.push(ages);
        !self.blocked.is_empty()
    }

    /// Returns true if a step is reading the rows that a step of `stage` on `interval` in `round`
    /// would overwrite. These rows are of an earlier round at the same index of the ring.
    pub(super) fn is_read(&self, stage: u16, interval: u32, round: Round) -> bool {
        self.reader(stage, interval, round).is_some_and(|place| self.readers[place] > 0)
    }
}
