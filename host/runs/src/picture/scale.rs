//! Value axes of pictures. An axis starts at zero, or is logarithmic if the values span more than
//! two powers of ten.

/// Ratio of the largest value to the smallest one above which an axis is logarithmic.
const DECADES: f64 = 100.0;
/// Maximum number of ticks of a logarithmic axis.
const MAX_TICKS: i32 = 7;

/// An axis of values, with its range and its ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Linear axis from 0 to `to`, with a tick at each multiple of `step`.
    Linear { to: f64, step: f64 },
    /// Logarithmic axis from 10^`from` to 10^`to`. A value of zero or below is drawn at the lower
    /// end.
    Logarithmic { from: i32, to: i32 },
}

impl Scale {
    /// Linear axis from 0 to 100 for shares in per cent.
    pub(crate) const PERCENT: Self = Self::Linear { to: 100.0, step: 20.0 };

    /// Returns a linear axis from 0 to the largest value, rounded up to the next tick.
    pub(crate) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let step = nice_step(if highest > 0.0 { highest / 4.0 } else { 0.25 });
        Self::Linear { to: (highest / step).ceil().max(1.0) * step, step }
    }

    /// Returns an axis for the values. It is logarithmic if the positive values span more than two
    /// powers of ten, and linear otherwise.
    pub(crate) fn for_values(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.clone().filter(|value| value.is_finite() && *value > 0.0);
        let (least, most) =
            positive.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
        if most / least <= DECADES || most == 0.0 {
            return Self::linear(values);
        }
        // Exponents of f64 have at most three digits.
        let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        Self::Logarithmic { from, to: to.max(from + 1) }
    }

    /// Returns the position of a value on the axis, from 0 at the lower end to 1 at the upper end.
    /// Values outside of the axis are clamped.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Self::Linear { to, .. } => value / to,
            Self::Logarithmic { from, .. } if value <= 10f64.powi(from) => 0.0,
            Self::Logarithmic { from, to } => (value.log10() - f64::from(from)) / f64::from(to - from),
        };
        place.clamp(0.0, 1.0)
    }

    /// Returns the values of the ticks with their labels.
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

    /// Returns whether the axis is logarithmic.
    pub(crate) fn is_logarithmic(&self) -> bool {
        matches!(self, Self::Logarithmic { .. })
    }
}

/// Returns the tick label of a power of ten, for instance `0.01`, `100` or `1e5`.
fn named(power: i32) -> String {
    match power {
        -3..0 => format!("{:.*}", power.unsigned_abs() as usize, 10f64.powi(power)),
        0..4 => format!("{:.0}", 10f64.powi(power)),
        _ => format!("1e{power}"),
    }
}

/// Returns a step between ticks: the smallest number of the form 1, 2 or 5 times a power of ten
/// that is at least `rough`.
pub(crate) fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|n| n * power).find(|&step| step >= rough * 0.999).unwrap_or(10.0 * power)
}

/// Returns the multiples of `step` between `from` and `to`, but not more than 50 of them.
pub(crate) fn ticks((from, to): (f64, f64), step: f64) -> Vec<f64> {
    let first = (from / step).ceil();
    (0..50).map(|n| (first + f64::from(n)) * step).take_while(|&tick| tick <= to + 1e-9 * step).collect()
}

/// Returns the epochs that get a tick on an axis. These are the first epoch and the round numbers
/// that are not too close to it.
pub(crate) fn epoch_ticks((from, to): (f64, f64)) -> Vec<f64> {
    let step = if to > from { nice_step((to - from) / 5.0).max(1.0) } else { 1.0 };
    let round = ticks((from, to), step).into_iter().filter(|&tick| tick - from > 0.4 * step);
    std::iter::once(from).chain(round).collect()
}

/// Returns the label of a tick with as many decimals as `step` needs. Values from 10,000 on are
/// abbreviated, for instance `20k` or `3M`.
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
        let of = |values: &[f64]| Scale::for_values(values.iter().copied());
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
