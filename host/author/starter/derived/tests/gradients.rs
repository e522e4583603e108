use eciton_sdk::{Value, check, derive::Derived};
use glu::Glu;

#[test]
fn gradients_are_those_of_differences() {
    let attributes = [("out-features", Value::Integer(3))];
    let report = check::gradients::<Derived<Glu>>(&[vec![4]], &attributes, 5, 1).unwrap();
    assert!(report.worst < 1e-7, "{report:?}");
}
