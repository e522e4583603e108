//! Leaky integrate-and-fire neurons, step by step, and the gradients through their steps.

use eciton_sdk::Real;

/// What stands for the derivative of a spike by u = U - theta, or is what passes in its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Surrogate {
    /// (a / 2) / (1 + (pi a u / 2)^2), the derivative of arctan(pi a u / 2) / pi
    Atan(f32),
    /// 1 / (1 + k |u|)^2, the derivative of u / (1 + k |u|)
    FastSigmoid(f32),
    /// 1, the derivative of u
    StraightThrough,
}

/// The neurons of a layer: all alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neurons {
    pub(crate) beta: f32,
    pub(crate) threshold: f32,
    /// Whether a spike sets U to zero; else it takes theta from it.
    pub(crate) to_zero: bool,
    pub(crate) surrogate: Surrogate,
    /// Whether what passes is the function whose derivative the surrogate is.
    pub(crate) smooth: bool,
}

fn half_pi<R: Real>() -> R {
    // pi / 2 to f64, of two numbers that f32 has exactly.
    R::from_f32(1.570_796_4) + R::from_f32(-4.371_139e-8)
}

fn magnitude<R: Real>(x: R) -> R {
    x.max(-x)
}

/// arctan x, to about 1e-15 of 1: three times arctan x = 2 arctan(x / (1 + sqrt(1 + x^2))), then its series.
fn arctan<R: Real>(x: R) -> R {
    let mut z = x;
    for _ in 0..3 {
        z = z / (R::ONE + (R::ONE + z * z).sqrt());
    }
    let square = z * z;
    let mut sum = R::ZERO;
    for odd in (0..14).rev() {
        let term = R::ONE / R::from_f32((2 * odd + 1) as f32);
        sum = term - square * sum;
    }
    R::from_f32(8.0) * z * sum
}

impl Surrogate {
    /// Of u in the place of 1 where u > 0, if `smooth`.
    fn smoothed<R: Real>(self, u: R) -> R {
        match self {
            Self::Atan(a) => arctan(half_pi::<R>() * R::from_f32(a) * u) / (half_pi::<R>() + half_pi()),
            Self::FastSigmoid(k) => u / (R::ONE + R::from_f32(k) * magnitude(u)),
            Self::StraightThrough => u,
        }
    }

    /// d *= the surrogate's derivative at U - theta.
    #[inline(always)]
    fn scale<R: Real>(self, u: &Block<R>, threshold: R, d: &mut Block<R>) {
        match self {
            Self::Atan(a) => {
                let (half, by) = (R::from_f32(a / 2.0), half_pi::<R>() * R::from_f32(a));
                for (d, &u) in d.iter_mut().zip(u) {
                    let x = by * (u - threshold);
                    *d = *d * half / (R::ONE + x * x);
                }
            }
            Self::FastSigmoid(k) => {
                let k = R::from_f32(k);
                for (d, &u) in d.iter_mut().zip(u) {
                    let x = R::ONE + k * magnitude(u - threshold);
                    *d = *d / (x * x);
                }
            }
            Self::StraightThrough => {}
        }
    }
}

/// Neurons that go through all steps together, so that U stays in registers.
const LANES: usize = 16;
type Block<R> = [R; LANES];

/// A block from `at` on; zeros behind the end.
#[inline(always)]
fn load<R: Real>(from: &[R], at: usize) -> Block<R> {
    if let Some(Ok(whole)) = from.get(at..at + LANES).map(TryInto::try_into) {
        return whole;
    }
    let mut block = [R::ZERO; LANES];
    block.iter_mut().zip(from.iter().skip(at)).for_each(|(to, &v)| *to = v);
    block
}

/// Writes a block from `at` on, up to the end.
#[inline(always)]
fn store<R: Real>(block: &Block<R>, to: &mut [R], at: usize) {
    match to.get_mut(at..at + LANES).map(<&mut Block<R>>::try_from) {
        Some(Ok(whole)) => *whole = *block,
        _ => to.iter_mut().skip(at).zip(block).for_each(|(to, &v)| *to = v),
    }
}

/// Values of a layer's neurons in many rows and steps: [rows, T, neurons], or [rows, neurons] that are the same in all
/// steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BySteps<'a, R> {
    pub(crate) values: &'a [R],
    pub(crate) constant: bool,
}

impl<R: Real> BySteps<'_, R> {
    #[inline(always)]
    fn at(&self, layer: Layer, row: usize, step: usize, neuron: usize) -> Block<R> {
        let before = if self.constant { row } else { row * layer.steps + step };
        load(self.values, before * layer.neurons + neuron)
    }
}

/// Extents of what a layer is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layer {
    pub(crate) rows: usize,
    pub(crate) steps: usize,
    pub(crate) neurons: usize,
}

impl Layer {
    /// Rows, and of each the first neurons of its blocks, last ones first: what a block writes beyond a row's neurons
    /// belongs to the next step or row, and is written after it.
    fn blocks(self) -> impl Iterator<Item = (usize, usize)> {
        let count = self.neurons.div_ceil(LANES);
        (0..self.rows).flat_map(move |row| (0..count).rev().map(move |block| (row, block * LANES)))
    }
}

/// The numbers of [`Neurons`] as the arithmetic has them: a spike is a factor, so that loops become vectors.
#[derive(Debug, Clone, Copy)]
struct Rules<R> {
    beta: R,
    threshold: R,
    /// What a spike takes from beta, and what it takes from U.
    takes: (R, R),
}

/// 1 where U is above theta, else 0.
#[inline(always)]
fn spike<R: Real>(u: R, threshold: R) -> R {
    if u > threshold { R::ONE } else { R::ZERO }
}

impl<R: Real> Rules<R> {
    /// U from that of the step before and I.
    #[inline(always)]
    fn step(&self, u: &mut Block<R>, current: &Block<R>) {
        let (beta, threshold, (less, reset)) = (self.beta, self.threshold, self.takes);
        for (u, &i) in u.iter_mut().zip(current) {
            let s = spike(*u, threshold);
            *u = (beta - s * less) * *u + i - s * reset;
        }
    }
}

impl Neurons {
    fn rules<R: Real>(&self) -> Rules<R> {
        let (beta, threshold) = (R::from_f32(self.beta), R::from_f32(self.threshold));
        let takes = if self.to_zero { (beta, R::ZERO) } else { (R::ZERO, threshold) };
        Rules { beta, threshold, takes }
    }

    /// Writes the spikes [rows, T, neurons]; with `summed` their sums over T, [rows, neurons].
    pub(crate) fn forward<R: Real>(
        &self,
        layer: Layer,
        currents: BySteps<'_, R>,
        summed: bool,
        into: &mut [R],
    ) {
        let threshold = R::from_f32(self.threshold);
        if self.smooth {
            let of = |u: R| self.surrogate.smoothed(u - threshold);
            return self.pass(layer, currents, summed, into, of);
        }
        self.pass(layer, currents, summed, into, |u| spike(u, threshold));
    }

    #[inline(always)]
    fn pass<R: Real>(
        &self,
        layer: Layer,
        currents: BySteps<'_, R>,
        summed: bool,
        into: &mut [R],
        fire: impl Fn(R) -> R + Copy,
    ) {
        let rules = self.rules::<R>();
        for (row, neuron) in layer.blocks() {
            let (mut u, mut sum) = ([R::ZERO; LANES], [R::ZERO; LANES]);
            for step in 0..layer.steps {
                rules.step(&mut u, &currents.at(layer, row, step, neuron));
                let fired = u.map(fire);
                if summed {
                    sum.iter_mut().zip(&fired).for_each(|(sum, &s)| *sum += s);
                } else {
                    store(&fired, into, (row * layer.steps + step) * layer.neurons + neuron);
                }
            }
            if summed {
                store(&sum, into, row * layer.neurons + neuron);
            }
        }
    }

    /// Writes the gradients of the currents, [rows, T, neurons], given those of the spikes; or, of currents that are the
    /// same in all steps, their sums over T, [rows, neurons]. A reset passes no gradient.
    pub(crate) fn backward<R: Real>(
        &self,
        layer: Layer,
        currents: BySteps<'_, R>,
        spikes: BySteps<'_, R>,
        into: &mut [R],
    ) {
        let rules = self.rules::<R>();
        // U of each step, and then the gradient of its current.
        let mut history = vec![[R::ZERO; LANES]; layer.steps];
        for (row, neuron) in layer.blocks() {
            let mut u = [R::ZERO; LANES];
            for (step, kept) in history.iter_mut().enumerate() {
                rules.step(&mut u, &currents.at(layer, row, step, neuron));
                *kept = u;
            }
            let (mut later, mut sum) = ([R::ZERO; LANES], [R::ZERO; LANES]);
            for (step, kept) in history.iter_mut().enumerate().rev() {
                let mut own = spikes.at(layer, row, step, neuron);
                self.surrogate.scale(kept, rules.threshold, &mut own);
                for ((later, &u), own) in later.iter_mut().zip(&*kept).zip(own) {
                    let s = spike(u, rules.threshold);
                    *later = own + (rules.beta - s * rules.takes.0) * *later;
                }
                sum.iter_mut().zip(&later).for_each(|(sum, &d)| *sum += d);
                *kept = later;
            }
            if currents.constant {
                store(&sum, into, row * layer.neurons + neuron);
                continue;
            }
            // In the order of steps, as blocks write beyond theirs.
            for (step, d) in history.iter().enumerate() {
                store(d, into, (row * layer.steps + step) * layer.neurons + neuron);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arctan_is_the_inverse_of_the_tangent() {
        for at in -200..=200 {
            let x = f64::from(at) * 0.37;
            assert!((arctan(x) - x.atan()).abs() < 4e-15, "{x}: {}", arctan(x));
        }
        assert!((2.0 * half_pi::<f64>() - std::f64::consts::PI).abs() < 1e-14);
    }
}
