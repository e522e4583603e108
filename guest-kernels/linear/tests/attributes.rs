//! What `linear` says of itself, and what it answers to attributes that it cannot take.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_linear::Linear;
use eciton_sdk::{Attributes, Error, Kernel, Value};

fn open(inputs: &[Vec<u32>], changed: &[(&str, Value)]) -> Result<Linear, Error> {
    let mut all: Vec<(String, Value)> = vec![("out-features".to_owned(), Value::Integer(3))];
    let defaults = Linear::attributes().into_iter().filter_map(|a| Some((a.name.to_owned(), a.default?)));
    all.extend(defaults);
    for (name, value) in changed {
        let slot = all.iter_mut().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name}"));
        slot.1 = value.clone();
    }
    Linear::open(inputs, &Attributes::new(all))
}

#[track_caller]
fn refused(name: &str, value: Value) {
    match open(&[vec![4]], &[(name, value.clone())]) {
        Err(Error::Argument(text)) => assert!(text.contains(name) || text.contains("known are"), "{text}"),
        other => panic!("{name} = {value:?}: {other:?}"),
    }
}

#[test]
fn wrong_values_are_refused() {
    for value in [
        Value::Integer(0),
        Value::Integer(-1),
        Value::Integer(i64::MAX),
        Value::Number(3.0),
        Value::Flag(true),
    ] {
        refused("out-features", value);
    }
    for name in ["bias", "input-bias"] {
        refused(name, Value::Integer(1));
        refused(name, Value::Text("true".to_owned()));
    }
    for name in ["activation", "input-activation"] {
        refused(name, Value::Text("rleu".to_owned()));
        refused(name, Value::Text(String::new()));
        refused(name, Value::Flag(false));
    }
    for p in [1.0, -0.1, 1.0 - 1e-12, f64::NAN, f64::INFINITY] {
        refused("dropout", Value::Number(p));
    }
    refused("dropout", Value::Integer(1));
    refused("dropout", Value::Text("0.5".to_owned()));
    assert!(open(&[vec![4]], &[("dropout", Value::Integer(0))]).is_ok());
}

#[test]
fn a_missing_attribute_is_named() {
    let error = Linear::open(&[vec![4]], &Attributes::default()).unwrap_err();
    assert_eq!(
        error,
        Error::Argument("attribute `out-features` must be given: a whole number from 1".to_owned())
    );
}

#[test]
fn wrong_inputs_are_refused() {
    for inputs in [vec![], vec![vec![4], vec![4]]] {
        let error = open(&inputs, &[]).unwrap_err();
        assert!(matches!(&error, Error::Argument(text) if text.contains("one input")), "{error:?}");
    }
    for input in [vec![], vec![2, 2]] {
        let error = open(std::slice::from_ref(&input), &[]).unwrap_err();
        assert!(matches!(&error, Error::Shape { found, .. } if *found == input), "{error:?}");
    }
}

#[test]
fn the_signature_follows_the_attributes() {
    let shapes = |changed: &[(&str, Value)]| {
        let s = open(&[vec![4]], changed).unwrap().signature();
        assert_eq!((s.inputs[0].extents.clone(), s.outputs[0].extents.clone()), (vec![4], vec![3]));
        assert!(s.kept.is_empty() && s.needs_inputs && s.loss.is_none());
        let parameters: Vec<(String, Vec<u32>)> =
            s.parameters.into_iter().map(|p| (p.name, p.shape)).collect();
        (parameters, s.needs_outputs)
    };
    let named = |name: &str, shape: &[u32]| (name.to_owned(), shape.to_vec());
    assert_eq!(shapes(&[]), (vec![named("weight", &[4, 3]), named("bias", &[3])], false));
    let all = [
        ("bias", Value::Flag(false)),
        ("input-bias", Value::Flag(true)),
        ("activation", Value::Text("relu".to_owned())),
    ];
    assert_eq!(shapes(&all), (vec![named("input-bias", &[4]), named("weight", &[4, 3])], true));
}
