//! Tests of a program's operators, and of the prediction against the grid of a program on lanes.

use super::super::{Graph, Lane, Machine, Planner, plan};
use super::wanted;
use crate::placement::Placement;
use crate::sample_programs;
use crate::sample_programs::signature;
use crate::schedule::{Grid, Shape};
use crate::testing::Random;
use eciton_program::{DataShape, FusedStages, Place, Profile, Program, Rewrites};
use eciton_recipe::lanes::{LaneSettings, Lanes};
use eciton_recipe::pipeline_schedule::PipelineSchedule;
use eciton_recipe::{Model, ModelSettings, TaskType};
use eciton_types::StageId;

/// Returns the program of a perceptron with `layers` layers.
fn perceptron(layers: u32) -> Program {
    let text = format!("kind = \"mlp\"\nhidden = 8\nlayers = {layers}");
    let settings = ModelSettings::parse(&text, "m").unwrap();
    let model = Model::resolve(&settings, 8, 8, TaskType::Classification).unwrap();
    let shape = DataShape { rows: 64, features: 8, classes: 8, edge_features: 0, read_out: 0, group: 1 };
    let mut program = Program::build(&model, shape, Rewrites::default(), &signature).unwrap();
    program.set_apart(1, 64, 0);
    program
}

#[test]
fn a_perceptrons_operators_by_hand() {
    let program = perceptron(3);
    let profile = Profile::default();
    let graph = Graph::from_program(&program, &profile, 1.0).unwrap();
    let of: Vec<_> = graph.operators().iter().map(|of| (of.reads.clone(), of.kept, of.output)).collect();
    // Rows of 8 values each, read by the next layer and again on its way back; scores by the loss
    // alone.
    assert_eq!(of, [(vec![], 32.0, 32.0), (vec![0], 32.0, 32.0), (vec![1], 32.0, 0.0)]);
    let values: usize = program.parameters.iter().map(|of| of.len()).sum();
    assert_eq!(graph.weights(), 4.0 * values as f64);
    let mut measured = profile.clone();
    let slow = eciton_program::StageProfile {
        host_seconds_per_row: Some(0.25),
        ..profile.stages(&program, 1.0).unwrap()[1]
    };
    measured.stages.push(slow);
    let graph = Graph::from_program(&program, &measured, 1.0).unwrap();
    assert_eq!(graph.operators()[1].forward.row, 0.25);
}

#[test]
fn all_stages_of_deep_networks_are_somebodys() {
    let seed = 4510;
    let mut random = Random::new(seed);
    let mut taken = 0;
    for round in 0..300 {
        let program = sample_programs::random_deep(&mut random);
        let profile = Profile::default();
        let host = program.stages.iter().any(|stage| stage.place == Place::Host);
        let graph = Graph::from_program(&program, &profile, 1.0);
        assert_eq!(graph.is_err(), host, "seed {seed}, program {round}");
        let Ok(graph) = graph else { continue };
        taken += 1;
        let row: f64 = graph.operators().iter().map(|of| of.forward.row + of.backward.row).sum();
        let flops: f64 = profile.stages(&program, 1.0).unwrap().iter().map(|of| of.flops_per_row).sum();
        let all = flops * profile.host.seconds_per_flop;
        assert!((row - all).abs() <= 1e-9 * all, "seed {seed}, program {round}: {row} of {all}");
        let calls: f64 = graph.operators().iter().map(|of| of.forward.call + of.backward.call).sum();
        let steps = program.stages.len() as f64 * profile.host.seconds_per_step;
        assert!((calls - steps).abs() <= 1e-9 * steps, "seed {seed}, program {round}");
        let values: usize = program.parameters.iter().map(|of| of.len()).sum();
        assert!(graph.weights() >= 4.0 * values as f64, "seed {seed}, program {round}");
    }
    assert!(taken > 30, "{taken} of 300 programs have no stage of the host");
}

#[test]
fn predictions_are_the_grids_of_programs_on_lanes() {
    let program = perceptron(6);
    let profile = Profile::default();
    let graph = Graph::from_program(&program, &profile, 1.0).unwrap();
    let measured = profile.stages(&program, 1.0).unwrap();
    for (name, schedule) in [0, 1, 4].map(|at| PipelineSchedule::ALL[at]) {
        let lane = Lane { pace: 1.0, memory: None, link: 1e18 };
        let answer = plan(&graph, &Machine::equal(3, lane), &wanted(64, &[schedule], &[8])).unwrap().plan;
        // The same cut as layers: all layers are alike but for the first, which gives no gradient
        // back.
        let cut: Vec<u32> = answer.stages.iter().map(|stage| stage.operators[0] as u32).collect();
        let chunks = Some(answer.shape.chunks).filter(|&chunks| chunks > 1);
        let lanes =
            Lanes { count: answer.shape.depth, chunks, order: schedule.settings().0, ..Lanes::default() };
        let placement =
            Placement::from_program(&program, &LaneSettings { lanes, cut, ..LaneSettings::default() }, false)
                .unwrap();
        let spans = FusedStages::from_program(&program, &placement.spans(&program)).unwrap();
        let mut fused = spans.fuse(&program);
        placement.place(&mut fused, &spans);
        let took = |stage: StageId, _: u32| -> f64 {
            let inside = spans.get(stage).unwrap().ids();
            let of = |id: StageId| {
                let row = measured[id.index()].flops_per_row * profile.host.seconds_per_flop;
                profile.host.seconds_per_step + 8.0 * row
            };
            inside.map(of).sum()
        };
        let shape = Shape { program: &fused, lanes, intervals: 8, rounds: 1, bound: 0 };
        let grid = Grid::from_shape(&shape, &took);
        let (ours, theirs) = (answer.round_seconds, grid.span());
        assert!((ours - theirs).abs() <= 1e-6 * theirs, "{name}: {ours}, grid {theirs}");
        assert!((answer.bubble - grid.bubble()).abs() < 1e-6, "{name}");
        assert!(answer.shape.depth > 1 && answer.planner != Planner::Branches);
    }
}
