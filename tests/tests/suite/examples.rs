//! The programs of `tests/examples` run.

#[allow(dead_code, unreachable_pub)]
#[path = "../../examples/own_graph.rs"]
mod own_graph;
#[allow(dead_code, unreachable_pub)]
#[path = "../../examples/train_cora.rs"]
mod train_cora;

#[test]
fn each_example_runs() {
    train_cora::main().unwrap();
    own_graph::main().unwrap();
}
