//! Store of a simulated driver, with rows, weights and gradients in as many versions as the
//! pipeline has. It checks that the data a step reads exist, are complete, and have an allowed age.

use super::{Planted, hash};
use crate::Settings;
use eciton_program::{Program, Scope};
use eciton_recipe::{Mode, WeightVersions};
use eciton_types::{Round, StageId, Step, Version};
use std::collections::BTreeMap;

/// Stored rows of a stage and an interval. `tag` is the round of the rows, or `None` while a step
/// writes them.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    tag: Option<Round>,
    value: u64,
    readers: u32,
}

/// Gradients by stage and interval. A list has several elements if a gradient was added more than
/// once.
type Gradients = BTreeMap<(u16, u32), Vec<u64>>;

#[derive(Debug)]
pub(super) struct Store {
    settings: Settings,
    planted: Option<Planted>,
    /// True for each stage whose rows of all intervals are read by a step.
    gathered: Vec<bool>,
    /// True for each stage whose steps compute gradients.
    yields: Vec<bool>,
    /// Rows by stage, interval and index in the ring.
    rows: BTreeMap<(u16, u32, u32), Rows>,
    /// Weights by index in the ring of versions.
    weights: BTreeMap<u64, (Version, u64)>,
    /// Gradients by index in the ring of rounds.
    gradients: BTreeMap<u32, (Round, Gradients)>,
    /// Gradients in the order of their arrival.
    arrived: Vec<(Round, u64)>,
    /// Newest version of the weights. The next field is the number of finished rounds.
    pub newest: Version,
    pub over: u32,
    /// Number of reads of other intervals' rows in asynchronous rounds, by age of the rows.
    pub ages: BTreeMap<u32, u64>,
    /// Maximum number of weight versions that were needed at the same time.
    pub versions: usize,
    /// First round that must be synchronous, if the test has requested it.
    pub exact_from: Option<Round>,
}

impl Store {
    pub(super) fn new(program: &Program, settings: Settings, planted: Option<Planted>) -> Self {
        let mut gathered = vec![false; program.stages.len()];
        for id in 0..program.stages.len() {
            for (stage, scope) in program.dependencies(StageId(id as u16)) {
                gathered[stage.index()] |= scope == Scope::All;
            }
        }
        let yields = program.stages.iter().map(|stage| !stage.sums.is_empty()).collect();
        let weights = BTreeMap::from([(0, (settings.weights, 1))]);
        Self {
            settings,
            planted,
            gathered,
            yields,
            rows: BTreeMap::new(),
            weights,
            gradients: BTreeMap::new(),
            arrived: Vec::new(),
            newest: settings.weights,
            over: 0,
            ages: BTreeMap::new(),
            versions: 1,
            exact_from: None,
        }
    }

    pub(super) fn is_exact(&self, round: Round) -> bool {
        let Settings { pipeline, first, last, .. } = self.settings;
        let synchronised = self.exact_from.is_some_and(|from| round >= from);
        let late = round.0 + pipeline.synchronous_last > last.0;
        pipeline.mode != Mode::Async || round == first || late || synchronised
    }

    /// Checks that an interval which enters `round` is not too far ahead of the slowest one.
    pub(super) fn check_entry(&self, round: Round) {
        let bound = match self.settings.pipeline.mode {
            Mode::Async if self.is_exact(round) => 0,
            _ => self.settings.pipeline.bound(),
        };
        let slowest = self.settings.first.0 + self.over;
        assert!(
            round.0 <= slowest + bound,
            "round {round} entered, the slowest is in {slowest}, bound {bound}"
        );
    }

    /// Checks the version of the weights that the tasks of an interval read in `round`.
    pub(super) fn check_version(&self, round: Round, version: Version) {
        let before = u64::from(round.0 - self.settings.first.0);
        let found = version.0 - self.settings.weights.0;
        let (least, most) = match self.settings.pipeline.weights() {
            WeightVersions::Latest => (before, before),
            WeightVersions::Newest => (0, before),
            WeightVersions::TwoBuffered => (before.saturating_sub(1), before.saturating_sub(1)),
            WeightVersions::Stash => {
                let bound = if self.is_exact(round) { 0 } else { self.settings.pipeline.bound() };
                (before.saturating_sub(bound.into()), before)
            }
        };
        let there = self.newest.0 - self.settings.weights.0;
        assert!((least..=most.min(there)).contains(&found), "round {round} reads weights {version}");
    }

    fn place(&self, stage: StageId, interval: u32, round: Round) -> (u16, u32, u32) {
        let ring = if self.gathered[stage.index()] { self.settings.pipeline.row_versions() } else { 1 };
        (stage.0, interval, round.0 % ring)
    }

    /// Records that a step starts to write its rows, and checks that no step is reading the old
    /// ones.
    pub(super) fn begin(&mut self, step: Step) {
        let rows = self.rows.entry(self.place(step.stage, step.interval.0, step.round)).or_default();
        assert_eq!(rows.readers, 0, "{step} writes over rows of round {:?} that are being read", rows.tag);
        rows.tag = None;
    }

    /// Records that the rows of a step are complete.
    pub(super) fn publish(&mut self, step: Step, value: u64) {
        let place = self.place(step.stage, step.interval.0, step.round);
        *self.rows.get_mut(&place).unwrap() = Rows { tag: Some(step.round), value, readers: 0 };
    }

    /// Returns the rows of `stage` for the step's own interval, and checks that they are of the
    /// step's round.
    pub(super) fn own(&self, stage: StageId, step: Step) -> u64 {
        let rows = self.rows[&self.place(stage, step.interval.0, step.round)];
        assert_eq!(rows.tag, Some(step.round), "{step} reads its own rows of stage {stage}");
        rows.value
    }

    /// Records that `step` starts to read rows of the interval `of` that are `age` rounds older
    /// than the step.
    pub(super) fn open(&mut self, stage: StageId, of: u32, step: Step, age: u32) {
        let exact = self.is_exact(step.round);
        let most = if exact { 0 } else { self.settings.pipeline.bound() + 1 };
        assert!(age <= most, "{step} reads rows {age} rounds old of interval {of}, {most} are allowed");
        let wanted = Round(step.round.0 - age);
        let place = self.place(stage, of, wanted);
        let rows = self.rows.get_mut(&place);
        let rows = rows.unwrap_or_else(|| panic!("{step} reads rows of {of} that nobody wrote"));
        assert_eq!(rows.tag, Some(wanted), "{step} reads rows of interval {of}, {age} rounds old");
        rows.readers += 1;
        if !exact && of != step.interval.0 {
            *self.ages.entry(age).or_default() += 1;
        }
    }

    /// Returns rows of another interval, and checks that they have not changed since
    /// [`Store::open`].
    pub(super) fn read(&self, stage: StageId, of: u32, step: Step, age: u32) -> u64 {
        let wanted = Round(step.round.0 - age);
        let rows = self.rows[&self.place(stage, of, wanted)];
        assert_eq!(rows.tag, Some(wanted), "{step}: rows of interval {of} changed while they were read");
        rows.value
    }

    /// Records that `step` no longer reads rows of the interval `of`.
    pub(super) fn close(&mut self, stage: StageId, of: u32, step: Step, age: u32) {
        self.read(stage, of, step, age);
        let place = self.place(stage, of, Round(step.round.0 - age));
        self.rows.get_mut(&place).unwrap().readers -= 1;
    }

    fn weight_place(&self, version: Version) -> u64 {
        let early = self.planted == Some(Planted::StashFreedEarly);
        let ring = self.settings.pipeline.weight_versions();
        (version.0 - self.settings.weights.0) % u64::from(if early { ring.max(2) - 1 } else { ring })
    }

    /// Returns a version of the weights, and checks that it is available.
    pub(super) fn read_weights(&self, version: Version) -> u64 {
        let found = self.weights.get(&self.weight_place(version)).copied();
        let (tag, value) = found.unwrap_or_else(|| panic!("weights {version} are not there"));
        assert_eq!(tag, version, "weights {version} are wanted, their place holds others");
        value
    }

    /// Returns the value of the newest weights.
    pub(super) fn value(&self) -> u64 {
        self.read_weights(self.newest)
    }

    /// Records the gradient of a step, if its stage computes gradients.
    pub(super) fn add_gradient(&mut self, step: Step, value: u64) {
        if !self.yields[step.stage.index()] {
            return;
        }
        let place = step.round.0 % self.settings.pipeline.gradient_versions();
        let (round, all) = self.gradients.entry(place).or_insert((step.round, BTreeMap::new()));
        assert!(*round == step.round || all.is_empty(), "{step}: gradients of round {round} are still there");
        *round = step.round;
        all.entry((step.stage.0, step.interval.0)).or_default().push(value);
        self.arrived.push((step.round, value));
    }

    /// Computes the next version of the weights from the gradients of a round. Checks that each
    /// gradient was added exactly once.
    pub(super) fn update(&mut self, round: Round, held: impl Iterator<Item = Version>) {
        assert_eq!(round.0, self.settings.first.0 + self.over);
        let place = round.0 % self.settings.pipeline.gradient_versions();
        let (tag, all) = self.gradients.remove(&place).unwrap_or_default();
        let yields = self.yields.iter().filter(|yields| **yields).count();
        assert!(tag == round && all.len() == yields * self.settings.intervals as usize, "update of {round}");
        assert!(all.values().all(|of| of.len() == 1), "gradients of round {round} came more than once");
        let sum = |value: u64, gradient: &u64| hash(&[value, *gradient]);
        let newest = if self.planted == Some(Planted::ArrivalOrder) {
            let arrived: Vec<u64> =
                self.arrived.iter().filter(|(of, _)| *of == round).map(|(_, v)| *v).collect();
            arrived.iter().fold(self.value(), sum)
        } else {
            all.values().flatten().fold(self.value(), sum)
        };
        self.arrived.retain(|(of, _)| *of > round);
        self.newest = Version(self.newest.0 + 1);
        let mut alive: Vec<Version> = held.filter(|held| *held < self.newest).collect();
        alive.push(self.newest);
        alive.sort_unstable();
        alive.dedup();
        self.versions = self.versions.max(alive.len());
        let most = self.settings.pipeline.weight_versions() as usize;
        assert!(alive.len() <= most, "versions {alive:?} are needed, {most} are allowed");
        self.weights.insert(self.weight_place(self.newest), (self.newest, newest));
    }
}
