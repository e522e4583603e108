use eciton_sdk::check;
use gated::Gated;

#[test]
fn gradients_are_those_of_differences() {
    let report = check::edge_gradients::<Gated>(&[4], &[4], 0, &[], 6, 1).unwrap();
    assert!(report.worst < 1e-7, "{report:?}");
}
