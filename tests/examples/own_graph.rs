//! Trains on a graph that is made in memory, a few epochs at a time, and predicts the classes of its
//! vertices.
//!
//! `cargo run --release -p eciton-tests --example own_graph`
//!
//! The graph has two groups of vertices. An edge connects two vertices of one group nine times out
//! of ten. A vertex's only feature is random, so that the network must learn from the edges.
#![allow(missing_docs, clippy::print_stdout)]

use eciton_graph::adjacency::Options as GraphOptions;
use eciton_graph::build;
use eciton_graph::dataset::Dataset;
use eciton_graph::features::Features;
use eciton_graph::labels::Labels;
use eciton_graph::random::SplitMix64;
use eciton_graph::split::Split;
use eciton_recipe::Config;
use eciton_train::{Options, Silent, Trainer};

const VERTICES: u32 = 400;

pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut random = SplitMix64::new(7);
    let group = |vertex: u32| vertex % 2;
    let mut edges = Vec::new();
    while edges.len() < 2400 {
        let mut vertex = || random.below(VERTICES.into()) as u32;
        let (source, target) = (vertex(), vertex());
        let wanted = random.below(10) < 9;
        if source != target && (group(source) == group(target)) == wanted {
            edges.push((source, target));
        }
    }
    let graph = build::in_memory(&(u64::from(VERTICES), &edges[..]), GraphOptions::default(), 2)?;
    let features: Vec<f32> = (0..VERTICES).map(|_| random.below(1000) as f32 / 1000.0).collect();
    let labels = Labels::classes((0..VERTICES).map(group).collect(), 2);
    let split =
        Split { train: (0..40).collect(), validation: (40..100).collect(), test: (100..VERTICES).collect() };
    let features = Features::from_dense(1, &features)?;
    let dataset = Dataset::new("two-groups".to_owned(), graph, features, labels, split);

    let mut config = Config::default();
    config.set("model.kind=gin")?;
    config.set("optimiser.lr=0.02")?;
    let mut trainer = Trainer::new(&config, &Options::default(), dataset)?;
    for _ in 0..5 {
        let epochs = trainer.run(20, &mut Silent)?;
        println!("epoch {:3}  loss {:.3}", trainer.epoch(), epochs.last().map_or(0.0, |last| last.loss));
    }
    println!("test accuracy {:.1} %", 100.0 * trainer.evaluate()?.test.unwrap_or_default());
    let scores = trainer.predict()?; // [vertices, classes]
    println!("scores of vertex 399: {:.2} and {:.2}", scores[[399, 0]], scores[[399, 1]]);
    Ok(())
}
