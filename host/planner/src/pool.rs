//! Pool: groups of lanes. A stage runs on one group, which has one lane for each replica.

use super::machine::{Lane, Machine};

/// Maximum number of combinations of used groups by class that planners search.
const MAX_SHARES: usize = 512;

/// Group of lanes, one for each replica. Its pace and memory are those of its worst lane.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub lane: Lane,
    /// Index of the machine's lane, for each replica.
    pub lanes: Vec<usize>,
}

/// Groups of a machine's lanes, the fastest first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pool {
    pub groups: Vec<Group>,
    /// Classes of equal groups, as (index of the first group, number of groups).
    pub classes: Vec<(usize, usize)>,
}

impl Pool {
    /// Forms groups of `width` lanes, so that lanes of similar pace are together. Surplus lanes are
    /// not used.
    pub(super) fn from_machine(machine: &Machine, width: u32) -> Self {
        let memory = |lane: &Lane| lane.memory.unwrap_or(f64::INFINITY);
        let mut order: Vec<(usize, Lane)> = machine.lanes.iter().copied().enumerate().collect();
        order.sort_by(|(_, one), (_, other)| {
            let paces = other.pace.total_cmp(&one.pace);
            paces.then(memory(other).total_cmp(&memory(one))).then(other.link.total_cmp(&one.link))
        });
        let groups = order.chunks_exact(width.max(1) as usize).map(|lanes| Group {
            lane: worst(lanes.iter().map(|(_, lane)| *lane)),
            lanes: lanes.iter().map(|(at, _)| *at).collect(),
        });
        let groups: Vec<Group> = groups.collect();
        let mut classes: Vec<(usize, usize)> = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            match classes.last_mut() {
                Some((first, count)) if groups.get(*first).is_some_and(|of| of.lane == group.lane) => {
                    *count += 1;
                }
                _ => classes.push((at, 1)),
            }
        }
        Self { groups, classes }
    }

    /// Returns the number of combinations of used groups by class. Returns `None` if there are more
    /// combinations than planners search.
    pub(super) fn shares(&self) -> Option<usize> {
        let shares = self.classes.iter().try_fold(1usize, |all, (_, count)| all.checked_mul(count + 1))?;
        (self.classes.len() == 1 || shares <= MAX_SHARES).then_some(shares)
    }

    /// Returns all groups as one class, in which every group has the properties of the worst one.
    pub(super) fn levelled(&self) -> Self {
        let lane = worst(self.groups.iter().map(|group| group.lane));
        let groups: Vec<Group> = self.groups.iter().map(|of| Group { lane, ..of.clone() }).collect();
        Self { classes: vec![(0, groups.len())], groups }
    }

    /// Returns the lane that represents a class of groups.
    pub(super) fn lane(&self, class: usize) -> Option<&Lane> {
        let (first, _) = self.classes.get(class)?;
        self.groups.get(*first).map(|group| &group.lane)
    }
}

fn worst(lanes: impl Iterator<Item = Lane>) -> Lane {
    let all = Lane { pace: f64::INFINITY, memory: None, link: f64::INFINITY };
    lanes.fold(all, |worst, lane| Lane {
        pace: worst.pace.min(lane.pace),
        memory: match (worst.memory, lane.memory) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        },
        link: worst.link.min(lane.link),
    })
}
