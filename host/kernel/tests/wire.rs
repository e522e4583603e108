//! Tests that encode and decode calls. They give the same bits as direct runs, and everything else
//! is refused.
//!
//! Random tests print their seed (`ECITON_SEED=n` replays). `ECITON_FUZZ_SECONDS=600 cargo test
//! --release -p eciton-kernel --test wire` runs the mutation fuzz for ten minutes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "wire/answers.rs"]
mod answers;
#[path = "wire/case.rs"]
mod case;
#[path = "wire/edges.rs"]
mod edges;
#[path = "wire/mutations.rs"]
mod mutations;
#[path = "wire/requests.rs"]
mod requests;
#[path = "wire/round_trips.rs"]
mod round_trips;

use std::sync::Arc;

use case::{Case, LINEAR, LOSS, Numbers, load};
use eciton_kernel::wire::Encoding;
use eciton_kernel::{Kernel, Kind};
use eciton_tensor::frame::Header;
use serde_json::Value;

const KINDS: [Kind; 3] = [Kind::Forward, Kind::Backward, Kind::Loss];

/// Returns a random call of one of the two kernels, and the index of the kernel.
fn any_case(numbers: &mut Numbers, kernels: &[Arc<Kernel>; 2], rows: usize) -> (usize, Case) {
    let (rows, which) = (numbers.below(rows) as u32, numbers.below(2));
    let kind = KINDS[numbers.below(2 + which)];
    let case = match which {
        0 => Case::linear(numbers, &kernels[0], kind, rows, 40),
        _ => {
            let of = ["cross-entropy", "binary-cross-entropy", "squared-error"][numbers.below(3)];
            Case::loss(numbers, &kernels[1], kind, rows, 12, of)
        }
    };
    (which, case)
}

fn kernels() -> [Arc<Kernel>; 2] {
    [load("linear", LINEAR), load("head", LOSS)]
}

/// Returns a request as JSON, with the frame that contains it.
fn as_json(case: &Case) -> (Vec<u8>, Value) {
    let bytes = case.frame(Encoding::F32, vec!["o".to_owned().into()], &[]);
    let meta = serde_json::from_slice(&Header::parse(&bytes).unwrap().meta).unwrap();
    (bytes, meta)
}
