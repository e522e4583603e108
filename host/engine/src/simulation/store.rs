//! What a driver keeps, each thing under its own tag: rows, weights and gradients, in as many versions as
//! the pipeline says. It trusts no engine: what is read must be there, whole, and of an allowed age.

use super::{Planted, hash};
use crate::Settings;
use eciton_plan::{Epoch, Mode, Program, Scope, Stage, StageId, Step, Version, WeightVersions};
use std::collections::BTreeMap;

/// A place for rows: which epoch's they are; `None` while they are being written.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    tag: Option<Epoch>,
    value: u64,
    readers: u32,
}

/// By stage and interval; more than one where one was added again.
type Gradients = BTreeMap<(u16, u32), Vec<u64>>;

#[derive(Debug)]
pub(super) struct Store {
    settings: Settings,
    planted: Option<Planted>,
    /// The stages whose rows gathers read.
    gathered: Vec<bool>,
    /// The stages that yield gradients.
    yields: Vec<bool>,
    /// By stage, interval and place in the ring.
    rows: BTreeMap<(u16, u32, u32), Rows>,
    /// By place in the ring.
    weights: BTreeMap<u64, (Version, u64)>,
    /// By place in the ring of epochs.
    gradients: BTreeMap<u32, (Epoch, Gradients)>,
    /// In the order in which they came.
    arrived: Vec<(Epoch, u64)>,
    /// The newest version, the epochs that are over.
    pub newest: Version,
    pub over: u32,
    /// Rows of other intervals read in asynchronous epochs, by age.
    pub ages: BTreeMap<u32, u64>,
    /// The most versions of weights that were needed at once.
    pub versions: usize,
    /// From this epoch on the run was asked to be synchronous.
    pub exact_from: Option<Epoch>,
}

impl Store {
    pub(super) fn new(program: &Program, settings: Settings, planted: Option<Planted>) -> Self {
        let mut gathered = vec![false; program.stages.len()];
        for id in 0..program.stages.len() {
            for (stage, scope) in program.dependencies(StageId(id as u16)) {
                gathered[stage.index()] |= scope == Scope::All;
            }
        }
        let yields = program.stages.iter().map(Stage::yields_gradients).collect();
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

    pub(super) fn is_exact(&self, epoch: Epoch) -> bool {
        let Settings { pipeline, first, last, .. } = self.settings;
        let synchronised = self.exact_from.is_some_and(|from| epoch >= from);
        let late = epoch.0 + pipeline.synchronous_last > last.0;
        pipeline.mode != Mode::Async || epoch == first || late || synchronised
    }

    /// An interval enters an epoch: it may not be too far ahead.
    pub(super) fn check_entry(&self, epoch: Epoch) {
        let bound = match self.settings.pipeline.mode {
            Mode::Async if self.is_exact(epoch) => 0,
            _ => self.settings.pipeline.bound(),
        };
        let slowest = self.settings.first.0 + self.over;
        assert!(
            epoch.0 <= slowest + bound,
            "epoch {epoch} entered, the slowest is in {slowest}, bound {bound}"
        );
    }

    /// The version that an epoch's tasks may read that starts now.
    pub(super) fn check_version(&self, epoch: Epoch, version: Version) {
        let before = u64::from(epoch.0 - self.settings.first.0);
        let found = version.0 - self.settings.weights.0;
        let (least, most) = match self.settings.pipeline.weights() {
            WeightVersions::Latest => (before, before),
            WeightVersions::TwoBuffered => (before.saturating_sub(1), before.saturating_sub(1)),
            WeightVersions::Stash => {
                let bound = if self.is_exact(epoch) { 0 } else { self.settings.pipeline.bound() };
                (before.saturating_sub(bound.into()), before)
            }
        };
        let there = self.newest.0 - self.settings.weights.0;
        assert!((least..=most.min(there)).contains(&found), "epoch {epoch} reads weights {version}");
    }

    fn place(&self, stage: StageId, interval: u32, epoch: Epoch) -> (u16, u32, u32) {
        let ring = if self.gathered[stage.index()] { self.settings.pipeline.row_versions() } else { 1 };
        (stage.0, interval, epoch.0 % ring)
    }

    /// A step begins to write its rows.
    pub(super) fn begin(&mut self, step: Step) {
        let rows = self.rows.entry(self.place(step.stage, step.interval.0, step.epoch)).or_default();
        assert_eq!(rows.readers, 0, "{step} writes over rows of epoch {:?} that are being read", rows.tag);
        rows.tag = None;
    }

    /// A step's rows are there.
    pub(super) fn publish(&mut self, step: Step, value: u64) {
        let place = self.place(step.stage, step.interval.0, step.epoch);
        *self.rows.get_mut(&place).unwrap() = Rows { tag: Some(step.epoch), value, readers: 0 };
    }

    /// Reads an interval's own rows.
    pub(super) fn own(&self, stage: StageId, step: Step) -> u64 {
        let rows = self.rows[&self.place(stage, step.interval.0, step.epoch)];
        assert_eq!(rows.tag, Some(step.epoch), "{step} reads its own rows of stage {stage}");
        rows.value
    }

    /// Begins to read rows of an interval that are so many epochs older than the step.
    pub(super) fn open(&mut self, stage: StageId, of: u32, step: Step, age: u32) {
        let exact = self.is_exact(step.epoch);
        let most = if exact { 0 } else { self.settings.pipeline.bound() + 1 };
        assert!(age <= most, "{step} reads rows {age} epochs old of interval {of}, {most} are allowed");
        let wanted = Epoch(step.epoch.0 - age);
        let place = self.place(stage, of, wanted);
        let rows = self.rows.get_mut(&place);
        let rows = rows.unwrap_or_else(|| panic!("{step} reads rows of {of} that nobody wrote"));
        assert_eq!(rows.tag, Some(wanted), "{step} reads rows of interval {of}, {age} epochs old");
        rows.readers += 1;
        if !exact && of != step.interval.0 {
            *self.ages.entry(age).or_default() += 1;
        }
    }

    /// Ends it: they must still be what they were.
    pub(super) fn close(&mut self, stage: StageId, of: u32, step: Step, age: u32) -> u64 {
        let wanted = Epoch(step.epoch.0 - age);
        let rows = self.rows.get_mut(&self.place(stage, of, wanted)).unwrap();
        assert_eq!(rows.tag, Some(wanted), "{step}: rows of interval {of} changed while they were read");
        rows.readers -= 1;
        rows.value
    }

    fn weight_place(&self, version: Version) -> u64 {
        let early = self.planted == Some(Planted::StashFreedEarly);
        let ring = self.settings.pipeline.weight_versions();
        (version.0 - self.settings.weights.0) % u64::from(if early { ring.max(2) - 1 } else { ring })
    }

    /// Reads a version of the weights.
    pub(super) fn read_weights(&self, version: Version) -> u64 {
        let found = self.weights.get(&self.weight_place(version)).copied();
        let (tag, value) = found.unwrap_or_else(|| panic!("weights {version} are not there"));
        assert_eq!(tag, version, "weights {version} are wanted, their place holds others");
        value
    }

    /// The newest weights.
    pub(super) fn value(&self) -> u64 {
        self.read_weights(self.newest)
    }

    /// A step's gradient arrives.
    pub(super) fn add_gradient(&mut self, step: Step, value: u64) {
        if !self.yields[step.stage.index()] {
            return;
        }
        let place = step.epoch.0 % self.settings.pipeline.gradient_versions();
        let (epoch, all) = self.gradients.entry(place).or_insert((step.epoch, BTreeMap::new()));
        assert!(*epoch == step.epoch || all.is_empty(), "{step}: gradients of epoch {epoch} are still there");
        *epoch = step.epoch;
        all.entry((step.stage.0, step.interval.0)).or_default().push(value);
        self.arrived.push((step.epoch, value));
    }

    /// All gradients of an epoch, each once, make the next version.
    pub(super) fn update(&mut self, epoch: Epoch, held: impl Iterator<Item = Version>) {
        assert_eq!(epoch.0, self.settings.first.0 + self.over);
        let place = epoch.0 % self.settings.pipeline.gradient_versions();
        let (tag, all) = self.gradients.remove(&place).unwrap_or_default();
        let yields = self.yields.iter().filter(|yields| **yields).count();
        assert!(tag == epoch && all.len() == yields * self.settings.intervals as usize, "update of {epoch}");
        assert!(all.values().all(|of| of.len() == 1), "gradients of epoch {epoch} came more than once");
        let sum = |value: u64, gradient: &u64| hash(&[value, *gradient]);
        let newest = if self.planted == Some(Planted::ArrivalOrder) {
            let arrived: Vec<u64> =
                self.arrived.iter().filter(|(of, _)| *of == epoch).map(|(_, v)| *v).collect();
            arrived.iter().fold(self.value(), sum)
        } else {
            all.values().flatten().fold(self.value(), sum)
        };
        self.arrived.retain(|(of, _)| *of > epoch);
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
