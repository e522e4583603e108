//! Tests of the crates that `eciton kernel new --edge` and `--derived` create. (The guide's test
//! covers the third template.)
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "../starter/edge/src/lib.rs"]
mod gated;
#[path = "../starter/derived/src/lib.rs"]
mod glu;

use eciton_sdk::{Value, check, derive::Derived};

#[test]
fn gradients_of_the_derived_kernel_are_those_of_differences() {
    for rows in [0, 1, 5, 70] {
        let attributes = [("out-features", Value::Integer(3))];
        let report = check::gradients::<Derived<glu::Glu>>(&[vec![4]], &attributes, rows, 1).unwrap();
        assert!(report.worst < 1e-7, "{rows} rows: {report:?}");
    }
}

#[test]
fn gradients_of_the_edge_kernel_are_those_of_differences() {
    for rows in [0, 1, 6, 70] {
        let columns = if rows < 70 { 4 } else { 1 };
        let report = check::edge_gradients::<gated::Gated>(&[columns], &[columns], 0, &[], rows, 1).unwrap();
        assert!(report.worst < 1e-7, "{rows} vertices: {report:?}");
    }
}
