//! Tests of the random number generator against the independent vectors of `tests/oracle`.
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::prologue::{Prologue, RowIds};
use eciton_tensor::random::{Dropout, Key, Purpose, bits32, uniform};
use eciton_tensor::{View, ViewMut};

#[test]
fn keys_bits_and_masks_are_those_of_the_vectors() {
    let all: serde_json::Value =
        serde_json::from_str(include_str!("../../../../tests/oracle/random_vectors.json")).unwrap();
    let vectors = all["vectors"].as_array().unwrap();
    assert!(vectors.len() > 20);
    for v in vectors {
        let number = |name: &str| v[name].as_u64().unwrap() as u32;
        let long = |name: &str| v[name].as_str().unwrap().parse::<u64>().unwrap();
        let purpose = match number("purpose") {
            1 => Purpose::Initialiser,
            2 => Purpose::Dropout,
            3 => Purpose::Kernel,
            other => panic!("purpose {other}"),
        };
        let key = Key::new(long("seed"), purpose, number("epoch"), number("layer"), number("stream"));
        assert_eq!(format!("{:016x}", key.0), v["key"].as_str().unwrap(), "{v}");
        let (row, column) = (long("row"), number("column"));
        let bits = bits32(key.row(row), column);
        assert_eq!(bits, number("bits32"), "{v}");
        assert_eq!(f64::from(uniform(bits)), v["uniform"].as_f64().unwrap(), "{v}");
        // A mask of the values around each probability at which the value starts to be dropped.
        let p = uniform(bits);
        if column > 4096 {
            continue;
        }
        for p in [p - 1e-6, p + 1e-6, 0.5].into_iter().filter(|p| (0.0..1.0).contains(p)) {
            let dropout = Dropout::new(key, p);
            let row_ids = RowIds::From(row);
            let (x, columns) = (vec![1.0; column as usize + 1], column as usize + 1);
            let mut u = vec![0.0; columns];
            let prologue =
                Prologue { bias: None, activation: Activation::Identity, dropout, row_ids, cut: 1 };
            prologue.forward(View::new(&x, 1, columns), 0, &mut ViewMut::new(&mut u, 1, columns));
            let dropped = f64::from(bits) < (f64::from(p) * 4_294_967_296.0).ceil();
            assert_eq!(u[column as usize], if dropped { 0.0 } else { 1.0 / (1.0 - p) }, "{v} at {p}");
        }
    }
}

#[test]
fn probabilities_out_of_range_are_none() {
    let key = Key::new(1, Purpose::Dropout, 0, 0, 0);
    for p in [-0.1, 1.0, 2.0, f32::NAN, f32::INFINITY] {
        assert!(Dropout::new(key, p).is_none(), "{p}");
    }
    assert_eq!(Dropout::new(key, 0.0).unwrap().factor((1, 2), 3), 1.0);
}
