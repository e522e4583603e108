//! Tests of the handler. Every transport, with and without streaming, gives the bits of a direct
//! run.

use crate::fixture::{Case, Fixture, Shape};
use eciton_kernel::Kind;
use eciton_kernel::wire::Encoding;
use eciton_transport::Store;

/// Returns small tasks, and tasks whose input is large enough to be streamed.
fn shapes() -> Vec<Shape> {
    let sparse = |shape: Shape| Shape { sparse: true, ..shape };
    vec![
        Shape::linear(Kind::Forward, 17, 9, 5),
        Shape::linear(Kind::Backward, 17, 9, 5),
        Shape::loss(40, 7),
        Shape::linear(Kind::Forward, 6000, 65, 16),
        Shape::linear(Kind::Backward, 6000, 65, 16),
        Shape::loss(9000, 11),
        sparse(Shape::linear(Kind::Forward, 3000, 400, 16)),
        sparse(Shape::linear(Kind::Backward, 3000, 400, 16)),
    ]
}

#[tokio::test]
async fn every_transport_gives_the_bits_of_a_direct_run() {
    let fixture = Fixture::new();
    for (n, shape) in shapes().into_iter().enumerate() {
        let case = Case::new(shape);
        let wanted = case.direct();
        let frame = case.frame(Encoding::F32);
        let constants = case.frame_with_constants(&*fixture.store, n as u64).await;
        let mut invocations =
            vec![("inline", case.inline(frame.clone())), ("constants", case.inline(constants.clone()))];
        for stream in [true, false] {
            // An object holds one frame, so each invocation completes before the next frame is
            // written.
            for (what, frame) in [("object", &frame), ("object, constants", &constants)] {
                invocations.push((what, case.stored(&*fixture.store, frame.clone(), stream).await));
                for (what, invocation) in invocations.drain(..) {
                    for max_inline_bytes in [invocation.max_inline_bytes, 100] {
                        fixture.store.delete(&[case.answer_key()]).await.unwrap();
                        let invocation =
                            eciton_transport::Invocation { max_inline_bytes, ..invocation.clone() };
                        let answer = fixture.answer(&invocation).await.unwrap();
                        assert_eq!(answer.meta().key, case.key);
                        let (found, _) = case.read(answer);
                        assert_eq!(found, wanted, "{what}, {shape:?}, stream {stream}, {max_inline_bytes}");
                    }
                }
            }
        }
    }
}
