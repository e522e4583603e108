//! The axis of values: from zero, or by powers of ten where values span more than two of them.

/// The ratio of the largest to the smallest value from which an axis is logarithmic.
const DECADES: f64 = 100.0;
/// Most ticks of a logarithmic axis.
const MAX_TICKS: i32 = 7;

/// An axis of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// An axis from 0 to `to`, a tick each `step`.
    Linear { to: f64, step: f64 },
    /// An axis from 10^`from` to 10^`to`; values of zero and less lie at its lower end.
    Logarithmic { from: i32, to: i32 },
}

impl Scale {
    /// A scale of shares, in per cent.
    pub(crate) const PERCENT: Self = Self::Linear { to: 100.0, step: 20.0 };

    /// A scale from 0 to at least the largest value.
    pub(crate) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let step = nice_step(if highest > 0.0 { highest / 4.0 } else { 0.25 });
        Self::Linear { to: (highest / step).ceil().max(1.0) * step, step }
    }

    /// A scale as [`Scale::linear`], or by powers of ten where positive values span more than two
    /// of them.
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.clone().filter(|value| value.is_finite() && *value > 0.0);
        let (least, most) =
            positive.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
        if most / least <= DECADES || most == 0.0 {
            return Self::linear(values);
        }
        // f64's exponents are at most three digits.
        let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        Self::Logarithmic { from, to: to.max(from + 1) }
    }

    /// The place of a value, from 0 at the lower end to 1 at the upper one.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Self::Linear { to, .. } => value / to,
            Self::Logarithmic { from, .. } if value <= 10f64.powi(from) => 0.0,
            Self::Logarithmic { from, to } => (value.log10() - f64::from(from)) / f64::from(to - from),
        };
        place.clamp(0.0, 1.0)
    }

    /// Values that the axis names, with their names.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        match *self {
            Self::Linear { to, step } => {
                ticks((0.0, to), step).into_iter().map(|tick| (tick, label(tick, step))).collect()
            }
            Self::Logarithmic { from, to } => {
                let every = ((to - from) / MAX_TICKS + 1).max(1) as usize;
                (from..=to).step_by(every).map(|power| (10f64.powi(power), named(power))).collect()
            }
        }
    }

    /// Returns whether it is by powers of ten.
    pub(crate) fn is_logarithmic(&self) -> bool {
        matches!(self, Self::Logarithmic { .. })
    }
}

/// A power of ten: `0.01`, `1`, `100`, `1e5`.
fn named(power: i32) -> String {
    match power {
        -3..0 => format!("{:.*}", power.unsigned_abs() as usize, 10f64.powi(power)),
        0..4 => format!("{:.0}", 10f64.powi(power)),
        _ => format!("1e{power}"),
    }
}

/// 1, 2 or 5 times a power of ten, at least `rough`.
pub(crate) fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|n| n * power).find(|&step| step >= rough * 0.999).unwrap_or(10.0 * power)
}

/// Multiples of `step` within a range; at most 50.
pub(crate) fn ticks((from, to): (f64, f64), step: f64) -> Vec<f64> {
    let first = (from / step).ceil();
    (0..50).map(|n| (first + f64::from(n)) * step).take_while(|&tick| tick <= to + 1e-9 * step).collect()
}

/// Epochs that an axis names: the first, and round numbers that are not beside it.
pub(crate) fn epoch_ticks((from, to): (f64, f64)) -> Vec<f64> {
    let step = if to > from { nice_step((to - from) / 5.0).max(1.0) } else { 1.0 };
    let round = ticks((from, to), step).into_iter().filter(|&tick| tick - from > 0.4 * step);
    std::iter::once(from).chain(round).collect()
}

/// A tick with as many decimals as its step has; thousands as k and millions as M.
pub(crate) fn label(value: f64, step: f64) -> String {
    if value >= 1e6 {
        return format!("{}M", value / 1e6);
    }
    if value >= 1e4 {
        return format!("{}k", value / 1e3);
    }
    let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks((0.0, 2.0), nice_step(1.9 / 4.0)), [0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(ticks((1.0, 200.0), 50.0), [50.0, 100.0, 150.0, 200.0]);
        assert_eq!((label(0.5, 0.5), label(25_000.0, 1.0)), ("0.5".to_owned(), "25k".to_owned()));
        assert_eq!(nice_step(30.0), 50.0);
        assert_eq!(epoch_ticks((1.0, 200.0)), [1.0, 50.0, 100.0, 150.0, 200.0]);
    }

    #[test]
    fn an_axis_is_by_powers_of_ten_where_values_span_more_than_two() {
        let of = |values: &[f64]| Scale::of(values.iter().copied());
        assert_eq!(of(&[2.0, 1.9, 0.03]), Scale::Linear { to: 2.0, step: 0.5 });
        let wide = of(&[218.0, 3.0, 0.5, f64::NAN]);
        assert_eq!(wide, Scale::Logarithmic { from: -1, to: 3 });
        let names: Vec<String> = wide.ticks().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["0.1", "1", "10", "100", "1000"]);
        assert_eq!((wide.place(0.0), wide.place(10.0), wide.place(1e9)), (0.0, 0.5, 1.0));
        assert!(of(&[]).ticks().len() == 2 && !of(&[0.0, 0.0]).is_logarithmic());
        assert!(of(&[1e-12, 1e9]).ticks().len() <= 8);
        assert_eq!([named(-3), named(4), named(-5)], ["0.001", "1e4", "1e-5"]);
    }
}
