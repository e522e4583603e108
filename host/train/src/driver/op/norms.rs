//! Norms over all rows on the host. They run the steps of [`moments`] with the arithmetic of each
//! norm.

use eciton_program::Operation;
use eciton_tensor::{View, ViewMut, ops};

use super::moments::{self, Arithmetic};
use crate::driver::operator::Operator;
use crate::error::Result;

/// Defines a norm and its function `$open`, which opens the operator. The arithmetic is in the
/// module `$open` of `eciton_tensor::ops`.
macro_rules! norm {
    ($name:ident, $open:ident) => {
        #[derive(Debug)]
        struct $name;

        pub(super) fn $open(_: &Operation) -> Result<Box<dyn Operator>> {
            moments::open::<$name>()
        }

        impl Arithmetic for $name {
            type Moments = ops::$open::Moments;
            type Means = ops::$open::Means;

            fn moments<'a, I: Iterator<Item = &'a [f32]>>(
                columns: usize,
                rows: impl Fn() -> I,
            ) -> Self::Moments {
                Self::Moments::from_rows(columns, rows)
            }

            fn normalise(moments: &Self::Moments, input: View<'_>, output: &mut ViewMut<'_>) {
                moments.normalise(input, output);
            }

            fn turn(output: View<'_>, gradient: View<'_>, turned: &mut ViewMut<'_>) {
                ops::$open::turn(output, gradient, turned);
            }

            fn means<'a>(columns: usize, turned: impl Iterator<Item = &'a [f32]>) -> Self::Means {
                Self::Means::from_turned(columns, turned)
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

norm!(BatchNorm, batch_norm);
norm!(PairNorm, pair_norm);
