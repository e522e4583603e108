//! `conv2d` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_conv2d::Conv2d;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, random};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_125;

/// [height, width, c, channels, kernel, stride, padding, dilation]
type Case = [u32; 8];

const CASES: [Case; 7] = [
    [3, 3, 1, 1, 3, 1, 0, 1],
    [4, 5, 2, 3, 3, 1, 1, 1],
    [5, 4, 3, 2, 2, 2, 0, 1],
    [6, 5, 1, 2, 3, 2, 2, 1],
    [7, 7, 1, 2, 3, 1, 2, 2],
    [2, 3, 4, 5, 1, 1, 0, 1],
    [1, 1, 2, 3, 3, 1, 1, 1],
];

fn attributes(case: Case, bias: bool, activation: &str) -> Vec<(&'static str, Value)> {
    let [height, width, _, channels, kernel, stride, padding, dilation] = case.map(i64::from);
    let whole = [
        ("height", height),
        ("width", width),
        ("channels", channels),
        ("kernel", kernel),
        ("stride", stride),
        ("padding", padding),
        ("dilation", dilation),
    ];
    let mut all: Vec<(&str, Value)> = whole.map(|(name, v)| (name, Value::Integer(v))).into();
    all.push(("bias", Value::Flag(bias)));
    all.push(("activation", Value::Text(activation.to_owned())));
    all
}

fn open(case: Case, inputs: &[Vec<u32>], activation: &str) -> Result<Conv2d> {
    let all = attributes(case, true, activation).into_iter().map(|(name, value)| (name.to_owned(), value));
    Conv2d::open(inputs, &Attributes::new(all.collect()))
}

#[test]
fn gradients() {
    for case in CASES {
        let [height, width, channels, features, kernel, ..] = case;
        for (bias, activation) in [(true, "identity"), (false, "relu"), (true, "tanh"), (true, "leaky-relu")]
        {
            for rows in [0, 1, 3] {
                let attributes = attributes(case, bias, activation);
                let inputs = [vec![height * width * channels]];
                let report = check::gradients::<Conv2d>(&inputs, &attributes, rows, SEED)
                    .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows, {attributes:?}: {e}"));
                assert!(report.worst < 1e-7, "seed {SEED}, {rows} rows, {attributes:?}: {report:?}");
                let weights = kernel * kernel * channels * features + if bias { features } else { 0 };
                assert_eq!(report.checked, (rows * height * width * channels + weights) as usize);
            }
        }
    }
}

#[test]
fn forward_is_the_formula() {
    for case in CASES {
        let [height, width, channels, features, kernel, stride, padding, dilation] = case;
        let inputs = [vec![height * width * channels]];
        let conv = open(case, &inputs, "relu").unwrap();
        let signature = conv.signature();
        let context = Context { rows: 2, ..Context::default() };
        let host = Reference::new(context);
        let values = |count: u32, stream| -> Vec<f64> {
            let key = random::key(SEED, 9, 0, 0, stream);
            (0..u64::from(count)).map(|i| random::uniform(random::bits32(key, i, 0)) * 2.0 - 1.0).collect()
        };
        let x = values(2 * height * width * channels, 0);
        let w = values(kernel * kernel * channels * features, 1);
        let b = values(features, 2);
        let size = signature.outputs[0].extents[0];
        let y = host.output(&[2, size]).unwrap();
        let (input, weight) = (
            host.matrix(&[2, height * width * channels], &x).unwrap(),
            host.matrix(&signature.parameters[0].shape, &w).unwrap(),
        );
        let bias = host.matrix(&[features], &b).unwrap();
        let io = Forward { inputs: &[&input], parameters: &[&weight, &bias], outputs: &[&y], kept: &[] };
        host.run(|| conv.forward::<f64>(&context.task(), io)).unwrap();
        let across = (width + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
        let down = (height + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
        assert_eq!(size, down * across * features);
        for (at, &found) in host.values(&y).unwrap().iter().enumerate() {
            let at = at as u32;
            let (image, window, m) = (at / size, at % size / features, at % features);
            let mut sum = b[m as usize];
            for place in 0..kernel * kernel * channels {
                let (ky, kx, c) = (place / channels / kernel, place / channels % kernel, place % channels);
                let y = (window / across * stride + ky * dilation).checked_sub(padding);
                let x_at = (window % across * stride + kx * dilation).checked_sub(padding);
                if let (Some(y), Some(x_at)) = (y.filter(|&y| y < height), x_at.filter(|&x| x < width)) {
                    let pixel = (image * height * width + y * width + x_at) * channels + c;
                    sum += x[pixel as usize] * w[(place * features + m) as usize];
                }
            }
            assert!((found - sum.max(0.0)).abs() < 1e-12, "{case:?}, value {at}: {found}, not {sum}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = CASES[0];
    assert!(open(case, &[vec![9]], "relu").is_ok());
    for inputs in [vec![], vec![vec![9]; 2], vec![vec![10]], vec![vec![3, 3]], vec![vec![0]]] {
        assert!(matches!(open(case, &inputs, "relu"), Err(Error::Argument(_))), "{inputs:?}");
    }
    let larger = [3, 3, 1, 1, 4, 1, 0, 1];
    let text = open(larger, &[vec![9]], "relu").unwrap_err().to_string();
    assert!(text.contains("no window"), "{text}");
    assert!(open(case, &[vec![9]], "gelu").unwrap_err().to_string().contains("`gelu` is unknown"));
}
