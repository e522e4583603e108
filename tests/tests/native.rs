//! Kernels as native code, a test-only build: the same bits as the components', so that a
//! comparison of their times compares the same work.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_kernel::native;
use eciton_tests::{cora, options, train};

#[test]
fn native_kernels_give_the_bits_of_the_components() {
    for (threads, intervals) in [(1, 1), (2, 4)] {
        let mut config = cora(20);
        (config.run.threads, config.run.intervals) = (Some(threads), Some(intervals));
        let (wasm, losses) = train(&config, &options()).unwrap();
        native::set(true);
        let found = train(&config, &options());
        native::set(false);
        let (found, found_losses) = found.unwrap();
        assert_eq!(found.model_digest, wasm.model_digest, "{threads} threads, {intervals} intervals");
        assert_eq!(found_losses, losses);
    }
}
