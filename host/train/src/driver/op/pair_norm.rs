//! PairNorm on its way: the steps of [`moments`] with its arithmetic.

use eciton_plan::Operation;
use eciton_tensor::ops::pair_norm::{self, Means, Moments};
use eciton_tensor::{View, ViewMut};

use super::Operator;
use super::moments::{self, Arithmetic};
use crate::error::Result;

#[derive(Debug)]
struct PairNorm;

pub(super) fn open(_: &Operation) -> Result<Box<dyn Operator>> {
    moments::open::<PairNorm>()
}

impl Arithmetic for PairNorm {
    type Moments = Moments;
    type Means = Means;

    fn moments<'a, I: Iterator<Item = &'a [f32]>>(columns: usize, rows: impl Fn() -> I) -> Moments {
        Moments::of(columns, rows)
    }

    fn normalise(moments: &Moments, input: View<'_>, output: &mut ViewMut<'_>) {
        moments.normalise(input, output);
    }

    fn turn(output: View<'_>, gradient: View<'_>, turned: &mut ViewMut<'_>) {
        pair_norm::turn(output, gradient, turned);
    }

    fn means<'a>(columns: usize, turned: impl Iterator<Item = &'a [f32]>) -> Means {
        Means::of(columns, turned)
    }

    fn backward(
        (moments, means): (&Moments, &Means),
        output: View<'_>,
        turned: View<'_>,
        gradient: &mut ViewMut<'_>,
    ) {
        means.backward(moments, output, turned, gradient);
    }
}
