//! Norms over all rows on the host. They run the steps of [`moments`] with the arithmetic of each
//! norm.

use eciton_program::Operation;
use eciton_tensor::ops::statistics::{ColumnSums, Statistics};
use eciton_tensor::{View, ViewMut, ops};

use super::moments::{self, Arithmetic};
use crate::driver::operator::Operator;
use crate::error::Result;

/// Defines a norm and its function `$open`, which opens the operator. The arithmetic is in the
/// module `$open` of `eciton_tensor::ops`.
macro_rules! norm {
    ($name:ident, $open:ident, $running:expr) => {
        #[derive(Debug)]
        struct $name;

        pub(super) fn $open(operation: &Operation) -> Result<Box<dyn Operator>> {
            moments::open::<$name>(operation)
        }

        impl Arithmetic for $name {
            type Moments = ops::$open::Moments;
            type Means = ops::$open::Means;

            fn moments(of: &Statistics) -> Self::Moments {
                Self::Moments::from_statistics(of)
            }

            fn running(means: &[f32], variances: &[f32]) -> Option<Self::Moments> {
                $running(means, variances)
            }

            fn normalise(moments: &Self::Moments, input: View<'_>, output: &mut ViewMut<'_>) {
                moments.normalise(input, output);
            }

            fn turn(output: View<'_>, gradient: View<'_>, turned: &mut ViewMut<'_>) {
                ops::$open::turn(output, gradient, turned);
            }

            fn means(of: &ColumnSums) -> Self::Means {
                Self::Means::from_sums(of)
            }

            fn backward(
                (moments, means): (&Self::Moments, &Self::Means),
                output: View<'_>,
                turned: View<'_>,
                gradient: &mut ViewMut<'_>,
            ) {
                means.backward(moments, output, turned, gradient);
            }
        }
    };
}

norm!(BatchNorm, batch_norm, |means: &[f32], variances: &[f32]| {
    Some(ops::batch_norm::Moments::from_running(means, variances))
});
norm!(PairNorm, pair_norm, |_: &[f32], _: &[f32]| None);
