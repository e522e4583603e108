//! What a plan says of lanes: who does which layers, and the schedule, by count of operations.

use eciton_plan::lanes::caps;
use eciton_plan::schedule::{Grid, Shape};
use eciton_plan::{Config, Order, Place, StageId, WeightVersions};
use serde::Serialize;

use crate::session::Draft;

/// Rounds that a grid shows where rounds overlap; else one.
const ROUNDS: u32 = 3;

/// Lanes and their schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanesPlan {
    /// Replicas of the pipeline.
    pub width: u32,
    /// What a lane does first.
    pub order: Order,
    /// Which weights a round reads.
    pub weights: WeightVersions,
    /// Of one replica.
    pub lanes: Vec<LanePlan>,
    /// The share of the lanes' time in which they do nothing, if time goes by operations.
    pub bubble: f64,
    /// The largest lane's operations beside the mean's.
    pub imbalance: f64,
    /// Lines of lanes, time to the right.
    pub grid: String,
    /// The same as SVG.
    #[serde(skip)]
    pub picture: String,
}

/// A lane of one replica.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanePlan {
    /// Its stages: forward, the loss and back.
    pub stages: Vec<String>,
    /// Operations on a row, forward and back.
    pub flops: f64,
    /// Values of the parameters that its stages read.
    pub parameters: u64,
    /// Most parts of a batch between their first step here and their last.
    pub cap: u32,
}

impl LanesPlan {
    /// Of a run on lanes; `rows` of each part.
    pub(super) fn of(draft: &Draft, config: &Config, rows: &[usize]) -> Option<Self> {
        let (lanes, intervals) = (config.lanes.lanes, u32::try_from(rows.len()).unwrap_or(u32::MAX));
        if lanes.count == 0 {
            return None;
        }
        let (program, spans) = (&draft.planned.program, &draft.planned.spans);
        let (schedule, stored) = (&draft.planned.schedule, draft.inputs.stored());
        let of_replica = intervals.div_ceil(lanes.width.max(1));
        let caps = caps(schedule, &lanes, of_replica);
        let flops = |id: StageId| spans.get(id).map_or(0.0, |span| span.row_flops(program, stored));
        let on = |lane: u16| {
            let all = (0u16..).map(StageId).zip(&schedule.stages);
            all.filter(move |(_, stage)| stage.place == Place::Lane(lane))
        };
        let one = |lane: u16| {
            let mut read: Vec<_> = on(lane)
                .filter_map(|(id, _)| spans.get(id))
                .flat_map(|span| span.ids())
                .filter_map(|id| program.operation(id))
                .flat_map(|operation| operation.parameters.iter().map(|&id| program.owner(id)))
                .collect();
            read.sort_unstable();
            read.dedup();
            let values = read.iter().filter_map(|&id| program.parameter(id)).map(|one| one.len() as u64);
            LanePlan {
                stages: on(lane).map(|(_, stage)| stage.name.clone()).collect(),
                flops: on(lane).map(|(id, _)| flops(id)).sum(),
                parameters: values.sum(),
                cap: caps.get(usize::from(lane)).copied().unwrap_or(1),
            }
        };
        // At most `MAX_LANES`.
        let each: Vec<LanePlan> = (0..lanes.depth() as u16).map(one).collect();
        let bound = config.pipeline.bound();
        let rounds = if bound > 0 { ROUNDS } else { 1 };
        let shape = Shape { program: schedule, lanes, intervals, rounds, bound };
        let count = |stage: StageId, interval: u32| {
            flops(stage) * rows.get(interval as usize).map_or(1.0, |&rows| rows.max(1) as f64)
        };
        let grid = Grid::of(&shape, &count);
        let (largest, sum) =
            each.iter().fold((0.0f64, 0.0), |(m, s), lane| (m.max(lane.flops), s + lane.flops));
        Some(Self {
            width: lanes.width,
            order: lanes.order,
            weights: config.pipeline.weights(),
            imbalance: if sum > 0.0 { largest * each.len() as f64 / sum } else { 1.0 },
            lanes: each,
            bubble: grid.bubble(),
            grid: grid.text(),
            picture: grid.svg(),
        })
    }
}
