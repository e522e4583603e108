//! Simulation of a driver around the engine, with virtual time. Answers arrive in any order, twice,
//! late, as failures, or never. The environment variable `ECITON_SEEDS` sets the number of seeds,
//! for instance `ECITON_SEEDS=100000 cargo test --release -p eciton-engine`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod apart;
mod attempts;
mod defects;
mod fuzz;
mod hosts;
mod lanes;
mod run;
mod runs;
mod store;
mod world;

pub(crate) use defects::Planted;

use crate::{Deadlines, Settings};
use eciton_program::{DataShape, Place, Program, Scope};
use eciton_recipe::{Model, ModelSettings, TaskType};
use eciton_types::{
    Attribute, BackwardNeeds, EdgeSignature, Initialiser, ParameterSpec, Round, RowsSpec, Signature, StageId,
    Value, Version,
};

/// Returns true if the steps of `stage` are tasks, which functions may run.
fn is_task(program: &Program, stage: StageId) -> bool {
    program.place(stage).is_task()
}

/// Random number generator of the simulation (SplitMix64).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hash(values: &[u64]) -> u64 {
    values.iter().fold(0x5eed, |sum, &value| mix(sum.rotate_left(7) ^ mix(value)))
}

fn signature(kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]) -> Result<Signature, String> {
    let rows = |width| RowsSpec { name: "rows".into(), extents: vec![width] };
    let edges = (kernel == "gatv2").then(|| EdgeSignature { passed: rows(1) });
    let out = attributes.iter().find_map(|attribute| match attribute.value {
        Value::Integer(out) if edges.is_none() => u32::try_from(out).ok(),
        _ => None,
    });
    let out = out.unwrap_or(inputs[0][0]);
    // The head's weight would share its name with the last layer's.
    let name = if kernel == "head" { "bias" } else { "weight" };
    let (shape, initialiser) = (vec![out], Initialiser::Zeros);
    let trained = kernel != "sum" && kernel != "activate";
    let parameter = ParameterSpec { name: name.into(), shape, initialiser };
    Ok(Signature {
        inputs: inputs.iter().map(|extents| rows(extents[0])).collect(),
        parameters: Some(parameter).into_iter().filter(|_| trained).collect(),
        outputs: vec![rows(out)],
        kept: edges.iter().map(|_| rows(1)).collect(),
        backward_needs: BackwardNeeds { inputs: true, outputs: false },
        loss: (kernel == "head").then_some(eciton_types::signature::TargetKind::Classes),
        edges,
    })
}

fn gcn(layers: u32) -> Program {
    let model = Model::gcn(layers, 16, 0.5, 30, 7).unwrap();
    let shape = DataShape { rows: 100, features: 30, classes: 7, edge_features: 0, read_out: 0, group: 1 };
    Program::build(&model, shape, eciton_program::Rewrites::default(), &signature).unwrap()
}

/// Returns a program whose layers have an edge kernel. Its steps read weights and rows of all
/// intervals, and some compute gradients.
fn gatv2(layers: u32, edges: Place) -> Program {
    let text = format!("kind = \"gatv2\"\nheads = 1\nlayers = {layers}");
    let model =
        Model::resolve(&ModelSettings::parse(&text, "m.toml").unwrap(), 30, 7, TaskType::Classification)
            .unwrap();
    let shape = DataShape { rows: 100, features: 30, classes: 7, edge_features: 0, read_out: 0, group: 1 };
    let mut program = Program::build(&model, shape, eciton_program::Rewrites::default(), &signature).unwrap();
    program.place_edges(edges);
    program
}

/// Returns a variant of the program of [`gatv2`]. One step reads rows of all intervals from two
/// stages, which do not wait for each other.
fn two_reads(edges: Place) -> Program {
    let mut program = gatv2(1, edges);
    program.stages[2].reads.iter_mut().for_each(|read| read.scope = Scope::All);
    program
}

/// Returns programs that have all kinds of steps and all placements.
fn programs() -> Vec<Program> {
    let edges = [Place::Host, Place::Anywhere].into_iter();
    let along = edges.flat_map(|place| [gatv2(1, place), gatv2(2, place), two_reads(place)]);
    (1..=4).map(gcn).chain(along).collect()
}

fn settings(random: &mut Random) -> Settings {
    let intervals = [1, 2, 3, 8, 17, 64][random.below(6) as usize];
    let rounds = 1 + random.below(5) as u32;
    let eval_every = random.below(4) as u32;
    let first = Round(1 + random.below(3) as u32);
    let last = Round(first.0 + rounds - 1);
    let attempts = 1 + random.below(4) as u32;
    let weights = Version(u64::from(first.0) - 1);
    let maximum_us = [20_000, 1_000_000][random.below(2) as usize];
    let ratio = [1.01, 2.0, 4.0][random.below(3) as usize];
    let deadlines = Deadlines { floor_us: 1 + random.below(10_000), ratio, maximum_us };
    let deadlines = random.percent(75).then_some(deadlines);
    Settings { first, last, weights, eval_every, attempts, deadlines, ..Settings::new(intervals, rounds) }
}

/// Returns the number of seeds that a test tries. It is `usual`, or the value of `ECITON_SEEDS`.
fn seeds(usual: u64) -> u64 {
    // The variable only changes the number of seeds.
    #[allow(clippy::disallowed_methods)]
    let wanted = std::env::var("ECITON_SEEDS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Description of a test case, which is printed if the test panics.
#[derive(Debug)]
struct Context(String);

impl Drop for Context {
    #[allow(clippy::disallowed_macros, clippy::print_stderr)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with {}", self.0);
        }
    }
}
