//! Every gradient of `head`, of its scores and of its loss, against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_head::Head;
use eciton_sdk::{Value, check};

const SEED: u64 = 20_240_608;

#[test]
fn gradients_over_values() {
    for of in ["binary-cross-entropy", "squared-error", "absolute-error"] {
        for (rows, columns) in [(0, 2), (1, 1), (2, 7), (9, 3)] {
            for bias in [true, false] {
                let attributes = [("bias", Value::Flag(bias)), ("of", Value::Text(of.to_owned()))];
                let report = check::gradients::<Head>(&[vec![columns]], &attributes, rows, SEED)
                    .unwrap_or_else(|e| panic!("seed {SEED}, {of}, {rows} x {columns}, bias {bias}: {e}"));
                assert!(report.worst < 1e-7, "seed {SEED}, {of}, {rows} x {columns}: {report:?}");
                assert!(report.worst_f32 < 1e-5, "seed {SEED}, {of}, {rows} x {columns}: {report:?}");
            }
        }
    }
}

#[test]
fn gradients() {
    for rows in [0, 1, 2, 9] {
        for classes in [1, 2, 7, 40] {
            for bias in [true, false] {
                let attributes = [("bias", Value::Flag(bias))];
                let report = check::gradients::<Head>(&[vec![classes]], &attributes, rows, SEED)
                    .unwrap_or_else(|e| panic!("seed {SEED}, {rows} x {classes}, bias {bias}: {e}"));
                assert!(report.worst < 1e-7, "seed {SEED}, {rows} x {classes}, bias {bias}: {report:?}");
                assert!(report.worst_f32 < 1e-5, "seed {SEED}, {rows} x {classes}, bias {bias}: {report:?}");
                // Of the scores, then of the loss, then of the loss of rows with weights.
                let values = rows * classes + if bias { classes } else { 0 };
                assert_eq!(report.checked, 3 * values as usize);
            }
        }
    }
}

#[test]
fn gradients_of_the_focal_loss() {
    for gamma in [0.5, 1.0, 2.0] {
        for (rows, classes) in [(0, 2), (1, 3), (9, 7)] {
            let report =
                check::gradients::<Head>(&[vec![classes]], &[("focal", Value::Number(gamma))], rows, SEED)
                    .unwrap_or_else(|e| panic!("seed {SEED}, gamma {gamma}, {rows} x {classes}: {e}"));
            assert!(report.worst < 1e-7, "seed {SEED}, gamma {gamma}, {rows} x {classes}: {report:?}");
            assert!(report.worst_f32 < 1e-5, "seed {SEED}, gamma {gamma}, {rows} x {classes}: {report:?}");
        }
    }
}
