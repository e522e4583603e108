use eciton_sdk::{Value, check};
use squash::Squash;

#[test]
fn gradients_are_those_of_differences() {
    let attributes = [
        ("out-features", Value::Integer(3)),
        ("input-bias", Value::Flag(true)),
        ("input-activation", Value::Text("relu".to_owned())),
        ("dropout", Value::Number(0.5)),
    ];
    let report = check::gradients::<Squash>(&[vec![4]], &attributes, 5, 1).unwrap();
    assert!(report.worst < 1e-7, "{report:?}");
}
