//! The soft instruction pointer: lines run, branches are decided, and pointer and states move along the control flow.
//!
//! Of place n of a level with mass p_n and, after its line has run, state a_n = [c | h]; of an exit a_n is the state as
//! it was:
//!
//! ```text
//! b_n   = softmax(a_n W_b + c_b)                    if true, if false; their sum, 1, where both lead to one place
//! w_nm  = b_nm p_n                                  for each successor m of n
//! p'_m  = sum over n of w_nm
//! s'_m  = (sum over n of w_nm a_n) / (p'_m + 1e-7)
//! ```

use eciton_sdk::{Error, Real, Result};

use crate::lstm::{Cell, LineSums, Lstm, State};
use crate::program::{Edge, Level, Place, Programs, Way};
use crate::sums::Rows;

/// What keeps a place that no pointer reaches from dividing by zero.
const LEAST: f32 = 1e-7;

/// Parts of the network that an ablation takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Without: every successor has the share 1.
    pub(crate) decisions: bool,
    /// Without: every place has the mass 1.
    pub(crate) pointer: bool,
    /// Without: nothing is divided by p'.
    pub(crate) normalise: bool,
}

/// The machine, for one task.
#[derive(Debug)]
pub(crate) struct Machine<'a, R> {
    pub(crate) lstm: Lstm<'a>,
    pub(crate) parts: Parts,
    /// W_b [2 H, 2] and c_b [2]
    pub(crate) branch: Vec<R>,
    pub(crate) branch_bias: Vec<R>,
}

/// States and masses of the places of a level.
#[derive(Debug)]
struct Held<R> {
    /// [places, 2 H]
    states: Vec<R>,
    mass: Vec<R>,
}

/// What `back` needs of a step.
#[derive(Debug)]
struct Step<R> {
    before: Held<R>,
    cells: Vec<Cell>,
    /// a [places, 2 H]
    ran: Vec<R>,
    /// b of each place
    shares: Vec<[R; 2]>,
}

/// What gradients of W_b and c_b are summed from.
#[derive(Debug)]
pub(crate) struct BranchSums<R> {
    pub(crate) weight: Rows<R>,
    pub(crate) bias: Rows<R>,
}

fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    let mut sum = R::ZERO;
    a.iter().zip(b).for_each(|(&a, &b)| sum += a * b);
    sum
}

/// to += by from
fn add<R: Real>(to: &mut [R], by: R, from: &[R]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to += by * from);
}

impl<R: Real> Machine<'_, R> {
    fn width(&self) -> usize {
        2 * self.lstm.hidden
    }

    /// c and h of the places that run.
    fn running(&self, level: &Level, of: &[R]) -> State<R> {
        let hidden = self.lstm.hidden;
        let mut state = State { c: Vec::new(), h: Vec::new() };
        for &at in &level.running {
            let (c, h) = of[at as usize * 2 * hidden..][..2 * hidden].split_at(hidden);
            state.c.extend_from_slice(c);
            state.h.extend_from_slice(h);
        }
        state
    }

    /// Puts c and h of the places that run where they belong among all.
    fn put(&self, level: &Level, state: &State<R>, into: &mut [R]) {
        let hidden = self.lstm.hidden;
        let rows = state.c.chunks_exact(hidden).zip(state.h.chunks_exact(hidden));
        for (&at, (c, h)) in level.running.iter().zip(rows) {
            let (to_c, to_h) = into[at as usize * 2 * hidden..][..2 * hidden].split_at_mut(hidden);
            to_c.copy_from_slice(c);
            to_h.copy_from_slice(h);
        }
    }

    /// b of every place; of those that decide nothing it is not looked at.
    fn decide(&self, level: &Level, ran: &[R]) -> Vec<[R; 2]> {
        let mut shares = vec![[R::ONE; 2]; level.places.len()];
        if !self.parts.decisions {
            return shares;
        }
        let mut decided = None;
        for edge in level.edges.iter().filter(|edge| edge.way != Way::Always) {
            // The edges of a place follow each other.
            if decided.replace(edge.from) == Some(edge.from) {
                continue;
            }
            let a = &ran[edge.from as usize * self.width()..][..self.width()];
            let mut z = [self.branch_bias[0], self.branch_bias[1]];
            for (&a, w) in a.iter().zip(self.branch.chunks_exact(2)) {
                z[0] += a * w[0];
                z[1] += a * w[1];
            }
            let largest = z[0].max(z[1]);
            let [yes, no] = z.map(|z| (z - largest).exp());
            let sum = yes + no;
            shares[edge.from as usize] = [yes / sum, no / sum];
        }
        shares
    }

    /// The share of an edge, and the mass it is a share of.
    fn share(&self, edge: &Edge, shares: &[[R; 2]], mass: &[R]) -> (R, R) {
        let [yes, no] = shares[edge.from as usize];
        let share = match edge.way {
            Way::IfTrue => yes,
            Way::IfFalse => no,
            Way::Always if self.parts.decisions => R::ONE,
            Way::Always => yes + no,
        };
        (share, if self.parts.pointer { mass[edge.from as usize] } else { R::ONE })
    }

    /// What a place's sums are divided by.
    fn divisor(&self, mass: R) -> R {
        if self.parts.normalise { mass + R::from_f32(LEAST) } else { R::ONE }
    }

    /// The next level's states and masses, the latter before they are scaled.
    fn mix(&self, level: &Level, next: &Level, ran: &[R], shares: &[[R; 2]], mass: &[R]) -> Held<R> {
        let width = self.width();
        let mut to =
            Held { states: vec![R::ZERO; next.places.len() * width], mass: vec![R::ZERO; next.places.len()] };
        for edge in &level.edges {
            let (share, of) = self.share(edge, shares, mass);
            to.mass[edge.to as usize] += share * of;
            let a = &ran[edge.from as usize * width..][..width];
            add(&mut to.states[edge.to as usize * width..][..width], share * of, a);
        }
        for (state, &mass) in to.states.chunks_exact_mut(width).zip(&to.mass) {
            let by = R::ONE / self.divisor(mass);
            state.iter_mut().for_each(|v| *v *= by);
        }
        to
    }

    /// Without decisions shares do not add up to 1: masses would grow without bound. What is divided by them does not
    /// see a common factor.
    fn scale(&self, next: &Level, mass: &mut [R]) {
        if self.parts.decisions || !self.parts.normalise {
            return;
        }
        let mut start = 0;
        while let Some(first) = next.places.get(start) {
            let count = next.places[start..].iter().take_while(|p| p.program == first.program).count();
            let of_program = &mut mass[start..start + count];
            let mut sum = R::ZERO;
            of_program.iter().for_each(|&p| sum += p);
            if sum > R::ZERO {
                of_program.iter_mut().for_each(|p| *p = *p / sum);
            }
            start += count;
        }
    }

    fn places(&self, level: &Level) -> Vec<Place> {
        level.running.iter().map(|&at| level.places[at as usize]).collect()
    }

    /// Where everything begins: states 0, all mass at node 0.
    fn start(&self, level: &Level) -> Held<R> {
        let mass = level.places.iter().map(|place| if place.node == 0 { R::ONE } else { R::ZERO });
        Held { states: vec![R::ZERO; level.places.len() * self.width()], mass: mass.collect() }
    }

    /// From a level to the next.
    fn step(
        &self,
        programs: &Programs,
        (level, next): (&Level, &Level),
        before: Held<R>,
        keep: bool,
    ) -> Result<(Held<R>, Step<R>)> {
        let mut state = self.running(level, &before.states);
        let cells = self.lstm.run(programs, &self.places(level), &mut state, keep)?;
        let mut ran = before.states.clone();
        self.put(level, &state, &mut ran);
        let shares = self.decide(level, &ran);
        let mut after = self.mix(level, next, &ran, &shares, &before.mass);
        self.scale(next, &mut after.mass);
        Ok((after, Step { before, cells, ran, shares }))
    }

    /// The places of programs that end at this level: their exits.
    fn ended<'l>(
        programs: &'l Programs,
        levels: &'l [Level],
        at: usize,
    ) -> impl Iterator<Item = (usize, Place)> + 'l {
        let over = move |place: &Place| programs.steps(place.program) as usize == at;
        levels[at].places.iter().copied().enumerate().filter(move |(_, place)| over(place))
    }

    /// The exits' states [programs, 2 H] after the last step, and their masses.
    pub(crate) fn forward(&self, programs: &Programs, levels: &[Level]) -> Result<(Vec<R>, Vec<R>)> {
        let width = self.width();
        let mut y = vec![R::ZERO; programs.count() * width];
        let mut mass = vec![R::ZERO; programs.count()];
        let Some(first) = levels.first() else { return Ok((y, mass)) };
        let mut held = self.start(first);
        for at in 0..levels.len() {
            for (slot, place) in Self::ended(programs, levels, at) {
                let program = place.program as usize;
                y[program * width..][..width].copy_from_slice(&held.states[slot * width..][..width]);
                mass[program] = held.mass[slot];
            }
            if let Some(next) = levels.get(at + 1) {
                held = self.step(programs, (&levels[at], next), held, false)?.0;
            }
        }
        Ok((y, mass))
    }

    /// Sums for the parameters' gradients, given that of the exits' states `grad` [programs, 2 H].
    pub(crate) fn backward(
        &self,
        programs: &Programs,
        levels: &[Level],
        grad: &[R],
        lines: &mut LineSums<R>,
        branches: &mut BranchSums<R>,
    ) -> Result<()> {
        let Some(first) = levels.first() else { return Ok(()) };
        let (mut steps, mut held) = (Vec::new(), self.start(first));
        for pair in levels.windows(2) {
            let [level, next] = pair else { continue };
            let (after, step) = self.step(programs, (level, next), held, true)?;
            held = after;
            steps.push(step);
        }
        // Of the level at hand: gradients of its states and masses.
        let mut after = held;
        let last = levels.len() - 1;
        let mut grads = self.ending(programs, levels, last, grad);
        let mut masses = vec![R::ZERO; levels[last].places.len()];
        for (at, step) in steps.into_iter().enumerate().rev() {
            let (level, next) = (&levels[at], &levels[at + 1]);
            let Step { before, cells, ran, shares } = step;
            let mixed = Mixed { grads: &grads, masses: &masses, after: &after, scaled: self.is_scaled() };
            let (mut d_ran, d_shares, d_mass) =
                self.mix_back(level, next, &ran, &shares, &before.mass, &mixed)?;
            self.decide_back(level, &ran, &shares, &d_shares, &mut d_ran, branches);
            let mut state = self.running(level, &d_ran);
            let c = self.running(level, &before.states).c;
            self.lstm.back(&self.places(level), &cells, c, &mut state, lines)?;
            self.put(level, &state, &mut d_ran);
            grads = self.ending(programs, levels, at, grad);
            add(&mut grads, R::ONE, &d_ran);
            (masses, after) = (d_mass, before);
        }
        Ok(())
    }

    fn is_scaled(&self) -> bool {
        !self.parts.decisions && self.parts.normalise
    }

    /// The gradient of a level's states so far as programs end there.
    fn ending(&self, programs: &Programs, levels: &[Level], at: usize, grad: &[R]) -> Vec<R> {
        let width = self.width();
        let mut into = vec![R::ZERO; levels[at].places.len() * width];
        for (slot, place) in Self::ended(programs, levels, at) {
            into[slot * width..][..width].copy_from_slice(&grad[place.program as usize * width..][..width]);
        }
        into
    }

    /// Gradients of a, of b and of p, given those of the next level's states and masses.
    #[allow(clippy::type_complexity)]
    fn mix_back(
        &self,
        level: &Level,
        next: &Level,
        ran: &[R],
        shares: &[[R; 2]],
        mass: &[R],
        mixed: &Mixed<'_, R>,
    ) -> Result<(Vec<R>, Vec<[R; 2]>, Vec<R>)> {
        let width = self.width();
        let rows =
            |of: &[R], at: u32| of.get(at as usize * width..(at as usize + 1) * width).map(<[R]>::to_vec);
        // Masses before they were scaled.
        let mut whole = mixed.after.mass.clone();
        if mixed.scaled {
            whole.fill(R::ZERO);
            for edge in &level.edges {
                let (share, of) = self.share(edge, shares, mass);
                whole[edge.to as usize] += share * of;
            }
        }
        // Of p' through the division: -s' . ds' / (p' + 1e-7).
        let through = |at: usize| {
            if !self.parts.normalise {
                return R::ZERO;
            }
            let span = at * width..(at + 1) * width;
            -dot(&mixed.after.states[span.clone()], &mixed.grads[span]) / self.divisor(whole[at])
        };
        let through: Vec<R> = (0..next.places.len()).map(through).collect();
        let mut d_ran = vec![R::ZERO; ran.len()];
        let mut d_shares = vec![[R::ZERO; 2]; level.places.len()];
        let mut d_mass = vec![R::ZERO; level.places.len()];
        for edge in &level.edges {
            let (from, to) = (edge.from as usize, edge.to as usize);
            let (share, of) = self.share(edge, shares, mass);
            let by = R::ONE / self.divisor(whole[to]);
            let missing = || Error::Kernel("ipa: an edge to no place".to_owned());
            let grad = rows(mixed.grads, edge.to).ok_or_else(missing)?;
            let d_weight = dot(&ran[from * width..][..width], &grad) * by + mixed.masses[to] + through[to];
            add(&mut d_ran[from * width..][..width], share * of * by, &grad);
            match edge.way {
                Way::IfTrue => d_shares[from][0] += d_weight * of,
                Way::IfFalse => d_shares[from][1] += d_weight * of,
                Way::Always => {}
            }
            // Without decisions masses follow from the graph alone.
            if self.parts.pointer && self.parts.decisions {
                d_mass[from] += d_weight * share;
            }
        }
        Ok((d_ran, d_shares, d_mass))
    }

    /// Gradients of W_b, c_b and, added to `d_ran`, a through the decisions.
    fn decide_back(
        &self,
        level: &Level,
        ran: &[R],
        shares: &[[R; 2]],
        d_shares: &[[R; 2]],
        d_ran: &mut [R],
        sums: &mut BranchSums<R>,
    ) {
        if !self.parts.decisions {
            return;
        }
        let width = self.width();
        for (at, place) in level.places.iter().enumerate() {
            let ([yes, no], [d_yes, d_no]) = (shares[at], d_shares[at]);
            if d_yes == R::ZERO && d_no == R::ZERO {
                continue;
            }
            let mean = yes * d_yes + no * d_no;
            let dz = [yes * (d_yes - mean), no * (d_no - mean)];
            let span = at * width..(at + 1) * width;
            let d_a = d_ran[span.clone()].iter_mut().zip(self.branch.chunks_exact(2));
            d_a.for_each(|(d, w)| *d += dz[0] * w[0] + dz[1] * w[1]);
            let weight = sums.weight.of(place.program).chunks_exact_mut(2);
            for (w, &a) in weight.zip(&ran[span]) {
                w[0] += a * dz[0];
                w[1] += a * dz[1];
            }
            let bias = sums.bias.of(place.program);
            bias[0] += dz[0];
            bias[1] += dz[1];
        }
    }
}

/// What `mix` made, and its gradients.
struct Mixed<'a, R> {
    grads: &'a [R],
    masses: &'a [R],
    after: &'a Held<R>,
    /// Whether its masses were scaled since.
    scaled: bool,
}
