//! Execution replaced by messages and a gated unit: a gated graph network over the control flow (Li et al. 2016), with
//! as many steps as the pointer would take.
//!
//! h_n starts as the LSTM's output for node n's line. In each step, with t(n) and f(n) the successors of n, and d_n the
//! number of edges that lead to n:
//!
//! ```text
//! s_n = [sum over t(k) = n of h_k | sum over f(k) = n of h_k | h_t(n) | h_f(n)] / sqrt(2 + d_n)
//! m_n = s_n W_m
//! r, z = sigmoid(m W_x,r + b_r + h W_u,r), sigmoid(m W_x,z + b_z + h W_u,z)
//! u = tanh(m W_x,u + b_u + r (h W_u,u)),  h' = (1 - z) u + z h
//! ```
//!
//! W_m [4 H, H], W_x and W_u [H, 3 H], b [3 H]. The result is h of the exit.

use eciton_sdk::{Activation, Epilogue, Matrix, Prologue, Real, Result, linalg, scratch};

use crate::lstm::{Cell, LineSums, Lstm, State, each, matrix, read, sigmoid, tanh};
use crate::program::{Place, Programs};
use crate::sums::{Products, Rows};

const PLAIN: Prologue<'static> = Prologue { bias: None, activation: Activation::Identity, dropout: None };

/// The network, for one task.
#[derive(Debug)]
pub(crate) struct Gated<'a> {
    pub(crate) lstm: Lstm<'a>,
    /// W_m
    pub(crate) messages: &'a Matrix,
    /// W_x
    pub(crate) input: &'a Matrix,
    /// b
    pub(crate) bias: &'a Matrix,
    /// W_u
    pub(crate) recurrent: &'a Matrix,
}

/// Nodes of programs, and what leads where among them.
#[derive(Debug)]
struct Nodes {
    places: Vec<Place>,
    /// Of each node its successors, as positions in `places`.
    next: Vec<[usize; 2]>,
    /// 2 + d_n
    degree: Vec<u32>,
    /// Position of each program's exit.
    exits: Vec<usize>,
}

/// What `back` needs of a step, of the nodes that it changed.
#[derive(Debug)]
struct Step {
    nodes: Vec<usize>,
    s: Matrix,
    m: Matrix,
    h: Matrix,
    /// [r | z | u] and, last, h W_u,u
    gates: Matrix,
}

/// What gradients are summed from.
#[derive(Debug)]
pub(crate) struct GatedSums<R> {
    pub(crate) messages: Products,
    pub(crate) input: Products,
    pub(crate) recurrent: Products,
    pub(crate) bias: Rows<R>,
}

impl Nodes {
    fn new(programs: &Programs) -> Self {
        let mut all = Self { places: Vec::new(), next: Vec::new(), degree: Vec::new(), exits: Vec::new() };
        for program in 0..programs.count() as u32 {
            let (first, places) = (all.places.len(), programs.nodes(program));
            let at = |node: u32| first + places.partition_point(|place| place.node < node);
            all.exits.push(at(programs.exit(program)));
            all.next.extend(places.iter().map(|&place| programs.next(place).map(at)));
            all.places.extend(places);
        }
        let mut degree = vec![2u32; all.places.len()];
        all.next.iter().flatten().for_each(|&to| degree[to] += 1);
        Self { degree, ..all }
    }

    fn scale<R: Real>(&self, node: usize) -> R {
        R::ONE / R::from_f32(self.degree[node] as f32).sqrt()
    }

    /// Those of programs with more than so many steps.
    fn after(&self, programs: &Programs, step: u32) -> Vec<usize> {
        let runs = |at: &usize| programs.steps(self.places[*at].program) > step;
        (0..self.places.len()).filter(runs).collect()
    }

    /// s of some nodes, all those of some programs.
    fn gather<R: Real>(&self, nodes: &[usize], h: &[R], hidden: usize) -> Vec<R> {
        let mut all = vec![R::ZERO; self.places.len() * 4 * hidden];
        for &node in nodes {
            let own = node * hidden..(node + 1) * hidden;
            for (k, &to) in self.next[node].iter().enumerate() {
                let sums = &mut all[(to * 4 + k) * hidden..][..hidden];
                sums.iter_mut().zip(&h[own.clone()]).for_each(|(sum, &h)| *sum += h);
                all[(node * 4 + 2 + k) * hidden..][..hidden].copy_from_slice(&h[to * hidden..][..hidden]);
            }
        }
        let mut s = Vec::with_capacity(nodes.len() * 4 * hidden);
        for &node in nodes {
            let by: R = self.scale(node);
            s.extend(all[node * 4 * hidden..][..4 * hidden].iter().map(|&v| v * by));
        }
        s
    }

    /// The transpose: adds to `dh` what `ds` owes it.
    fn spread<R: Real>(&self, nodes: &[usize], ds: &[R], dh: &mut [R], hidden: usize) {
        let mut all = vec![R::ZERO; self.places.len() * 4 * hidden];
        for (&node, ds) in nodes.iter().zip(ds.chunks_exact(4 * hidden)) {
            let by: R = self.scale(node);
            all[node * 4 * hidden..][..4 * hidden].iter_mut().zip(ds).for_each(|(to, &d)| *to = d * by);
        }
        for &node in nodes {
            for (k, &to) in self.next[node].iter().enumerate() {
                for (from, into) in [(to * 4 + k, node), (node * 4 + 2 + k, to)] {
                    let from = &all[from * hidden..][..hidden];
                    dh[into * hidden..][..hidden].iter_mut().zip(from).for_each(|(dh, &d)| *dh += d);
                }
            }
        }
    }
}

/// Rows of some nodes.
fn pick<R: Real>(nodes: &[usize], of: &[R], hidden: usize) -> Vec<R> {
    nodes.iter().flat_map(|&node| of[node * hidden..][..hidden].iter().copied()).collect()
}

impl Gated<'_> {
    /// How often nodes are changed in all, and how many there are.
    pub(crate) fn uses(programs: &Programs) -> (usize, usize) {
        let nodes = Nodes::new(programs);
        let steps = nodes.places.iter().map(|place| programs.steps(place.program) as usize);
        (steps.sum(), nodes.places.len())
    }

    fn start<R: Real>(
        &self,
        programs: &Programs,
        nodes: &Nodes,
        keep: bool,
    ) -> Result<(State<R>, Vec<Cell>)> {
        let zeros = vec![R::ZERO; nodes.places.len() * self.lstm.hidden];
        let mut state = State { c: zeros.clone(), h: zeros };
        let cells = self.lstm.run(programs, &nodes.places, &mut state, keep)?;
        Ok((state, cells))
    }

    fn step<R: Real>(&self, nodes: &Nodes, which: Vec<usize>, h: &mut [R]) -> Result<Step> {
        let hidden = self.lstm.hidden;
        let (count, columns) = (which.len() as u32, hidden as u32);
        let s = matrix(4 * hidden, &nodes.gather(&which, h, hidden))?;
        let own = matrix(hidden, &pick(&which, h, hidden))?;
        let m =
            scratch(&[count, columns], |into| linalg::matmul(&s, false, self.messages, false, false, into))?;
        let after = Epilogue { bias: Some(self.bias), activation: Activation::Identity };
        let shape = [count, 3 * columns];
        let x = scratch(&shape, |into| linalg::linear(&m, &PLAIN, self.input, &after, into))?;
        let u = scratch(&shape, |into| linalg::matmul(&own, false, self.recurrent, false, false, into))?;
        let (x, u): (Vec<R>, Vec<R>) = (read(&x)?, read(&u)?);
        let mut gates = vec![R::ZERO; which.len() * 4 * hidden];
        let rows = gates
            .chunks_exact_mut(4 * hidden)
            .zip(x.chunks_exact(3 * hidden).zip(u.chunks_exact(3 * hidden)));
        for (&node, (gates, (x, u))) in which.iter().zip(rows) {
            let ((x, x_new), (u, u_new)) = (x.split_at(2 * hidden), u.split_at(2 * hidden));
            let (open, rest) = gates.split_at_mut(2 * hidden);
            let (new, kept) = rest.split_at_mut(hidden);
            each(open, [x, u, u], |_, [x, u, _]| sigmoid(x + u));
            let (r, z) = open.split_at(hidden);
            each(new, [x_new, u_new, r], |_, [x, u, r]| tanh(x + r * u));
            kept.copy_from_slice(u_new);
            each(&mut h[node * hidden..][..hidden], [new, z, z], |h, [n, z, _]| (R::ONE - z) * n + z * h);
        }
        Ok(Step { nodes: which, s, m, h: own, gates: matrix(4 * hidden, &gates)? })
    }

    /// The exits' h [programs, H] after the last step.
    pub(crate) fn forward<R: Real>(&self, programs: &Programs) -> Result<Vec<R>> {
        let nodes = Nodes::new(programs);
        let (State { mut h, .. }, _) = self.start(programs, &nodes, false)?;
        for step in 0..programs.most_steps() {
            self.step(&nodes, nodes.after(programs, step), &mut h)?;
        }
        Ok(pick(&nodes.exits, &h, self.lstm.hidden))
    }

    /// Sums for the parameters' gradients, given that of the exits' h, `grad` [programs, H].
    pub(crate) fn backward<R: Real>(
        &self,
        programs: &Programs,
        grad: &[R],
        lines: &mut LineSums<R>,
        sums: &mut GatedSums<R>,
    ) -> Result<()> {
        let (nodes, hidden) = (Nodes::new(programs), self.lstm.hidden);
        let (State { mut h, .. }, cells) = self.start::<R>(programs, &nodes, true)?;
        let mut steps = Vec::new();
        for step in 0..programs.most_steps() {
            steps.push(self.step(&nodes, nodes.after(programs, step), &mut h)?);
        }
        let mut dh = vec![R::ZERO; h.len()];
        for (&exit, grad) in nodes.exits.iter().zip(grad.chunks_exact(hidden)) {
            dh[exit * hidden..][..hidden].copy_from_slice(grad);
        }
        for step in steps.iter().rev() {
            self.step_back(&nodes, step, &mut dh, sums)?;
        }
        let mut start = State { c: vec![R::ZERO; dh.len()], h: dh };
        let zeros = vec![R::ZERO; start.h.len()];
        self.lstm.back(&nodes.places, &cells, zeros, &mut start, lines)
    }

    fn step_back<R: Real>(
        &self,
        nodes: &Nodes,
        step: &Step,
        dh: &mut [R],
        sums: &mut GatedSums<R>,
    ) -> Result<()> {
        let hidden = self.lstm.hidden;
        let (gates, h): (Vec<R>, Vec<R>) = (read(&step.gates)?, read(&step.h)?);
        let count = step.nodes.len();
        let (mut dx, mut du) = (vec![R::ZERO; count * 3 * hidden], vec![R::ZERO; count * 3 * hidden]);
        let owner = |&node: &usize| nodes.places[node].program;
        let rows = dx.chunks_exact_mut(3 * hidden).zip(du.chunks_exact_mut(3 * hidden));
        let known = gates.chunks_exact(4 * hidden).zip(h.chunks_exact(hidden));
        for ((node, (dx, du)), (gates, h)) in step.nodes.iter().zip(rows).zip(known) {
            let d = &mut dh[node * hidden..][..hidden];
            let ((r, z), (n, u)) = {
                let (open, rest) = gates.split_at(2 * hidden);
                (open.split_at(hidden), rest.split_at(hidden))
            };
            let (dr, rest) = dx.split_at_mut(hidden);
            let (dz, dn) = rest.split_at_mut(hidden);
            each(dn, [d, z, n], |_, [d, z, n]| d * (R::ONE - z) * (R::ONE - n * n));
            each(dz, [d, h, n], |_, [d, h, n]| d * (h - n));
            each(dz, [z, z, z], |dz, [z, ..]| dz * z * (R::ONE - z));
            each(dr, [dn, u, r], |_, [dn, u, r]| dn * u * r * (R::ONE - r));
            let (du_open, du_new) = du.split_at_mut(2 * hidden);
            each(du_new, [dn, r, r], |_, [dn, r, _]| dn * r);
            du_open.copy_from_slice(&dx[..2 * hidden]);
            each(d, [z, z, z], |d, [z, ..]| d * z);
            let bias = sums.bias.of(owner(node));
            bias.iter_mut().zip(&*dx).for_each(|(bias, &d)| *bias += d);
        }
        let (dx, du) = (matrix(3 * hidden, &dx)?, matrix(3 * hidden, &du)?);
        let product = |d: &Matrix, w: &Matrix, like: &Matrix| {
            scratch(&like.shape(), |into| linalg::matmul(d, false, w, true, false, into))
        };
        let dm = product(&dx, self.input, &step.m)?;
        let ds: Vec<R> = read(&product(&dm, self.messages, &step.s)?)?;
        let own: Vec<R> = read(&product(&du, self.recurrent, &step.h)?)?;
        for (&node, own) in step.nodes.iter().zip(own.chunks_exact(hidden)) {
            dh[node * hidden..][..hidden].iter_mut().zip(own).for_each(|(dh, &d)| *dh += d);
        }
        nodes.spread(&step.nodes, &ds, dh, hidden);
        sums.messages.add(&step.s, &dm, step.nodes.iter().map(owner))?;
        sums.input.add(&step.m, &dx, step.nodes.iter().map(owner))?;
        sums.recurrent.add(&step.h, &du, step.nodes.iter().map(owner))
    }
}
