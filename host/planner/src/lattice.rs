//! Lattice: all possible stages of a series-parallel graph, from the last operators to the first.
//!
//! A *state* is a set of operators together with all operators after them. A *step* adds a stage to
//! a state. The added stage is convex. The steps from the empty state to the state of all operators
//! are a partition into stages, in topological order. All partitions into convex stages are such
//! sequences (Tarnawski et al. 2020: ideals), including those of GraphPipe's recursive cuts. States
//! that differ only by an exchange of equal branches are one state.
//!
//! An *atom* is a set of operators that stay together in one stage. If there are more than
//! [`MOST_STEPS`] steps, adjacent operators are merged to atoms, starting with the lightest, until
//! the number of steps is allowed.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;
use super::stage_time::Sums;
use super::tree::Part;

/// Maximum number of steps of a lattice.
const MOST_STEPS: usize = 60_000;
/// Maximum number of atoms, which are sets of operators that stay together. A [`Set`] has one bit
/// for each atom.
const MOST_ATOMS: usize = 128;
/// Factor by which the weight limit of merged operators grows in each attempt.
const COARSER: f64 = 1.15;

/// Set of atoms, with one bit each. An atom is a set of operators that stay together in one stage.
/// Atoms are numbered depth first.
pub(super) type Set = u128;

/// Stage that can be added to a state of the lattice.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub to: usize,
    /// Atoms of the stage, in the branch numbering of the state before the step.
    pub stage: Set,
    /// Atoms of the state before the step that read the stage's output.
    pub readers: Set,
    /// Number of each atom in the branch numbering of the state after the step.
    pub places: Vec<u8>,
    pub sums: Sums,
}

/// States in ascending order of size, with the steps from each of them.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    pub atoms: Vec<Vec<usize>>,
    pub states: Vec<State>,
}

/// State: the set of the atoms that are already in stages.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Sums of times and bytes over the operators that are in no stage yet.
    pub rest: Sums,
    /// Atoms of the state that read atoms outside the state.
    pub frontier: Set,
    pub steps: Vec<Step>,
}

impl Lattice {
    /// Returns the lattice of a graph. `weight` returns the weight of a list of operators, by which
    /// operators are merged.
    pub(super) fn from_graph(graph: &Graph, part: &Part, weight: &dyn Fn(&[usize]) -> f64) -> Option<Self> {
        let all = weight(&part.operators());
        let mut limit = 0.0;
        loop {
            let coarse = part.coarse(limit, weight);
            if let Some(found) = Shape::from_part(graph, &coarse).and_then(|shape| shape.lattice(graph)) {
                return Some(found);
            }
            if limit >= all {
                return None;
            }
            limit = (limit * COARSER).max(all / MOST_ATOMS as f64).min(all);
        }
    }

    /// Returns the indices of the operators in a set of atoms.
    pub(super) fn operators(&self, set: Set) -> impl Iterator<Item = usize> {
        bits(set).filter_map(|at| self.atoms.get(at)).flatten().copied()
    }
}

/// Returns the indices of the bits of a set, in ascending order.
pub(super) fn bits(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            at
        })
    })
}

fn ones(length: usize) -> Set {
    if length >= Set::BITS as usize { Set::MAX } else { (1 << length) - 1 }
}

/// Returns a set in canonical form, with equal branches sorted by their members in the set. Also
/// returns the new number of each atom.
fn named(twins: &[Vec<(usize, usize)>], atoms: usize, set: Set) -> (Set, Vec<u8>) {
    // At most `MOST_ATOMS`.
    let mut places: Vec<u8> = (0..atoms).map(|at| at as u8).collect();
    let mut set = set;
    for blocks in twins {
        let value = |&(start, length): &(usize, usize)| set >> start & ones(length);
        let mut order: Vec<&(usize, usize)> = blocks.iter().collect();
        order.sort_by_key(|block| value(block));
        if order.iter().zip(blocks).all(|(one, other)| *one == other) {
            continue;
        }
        let mut next = set;
        let mut moved = vec![None; atoms];
        for (&&(from, length), &(to, _)) in order.iter().zip(blocks) {
            next = next & !(ones(length) << to) | (set >> from & ones(length)) << to;
            (0..length).for_each(|at| moved[from + at] = Some((to + at) as u8));
        }
        set = next;
        for place in &mut places {
            *place = moved.get(usize::from(*place)).copied().flatten().unwrap_or(*place);
        }
    }
    (set, places)
}

/// Result of adding a stage: the stage, the set after the step, and the number of each atom in that
/// set.
type Reached = (Set, Set, Vec<u8>);

/// Atoms of a graph, with the atoms that each of them reads and those that read it.
struct Shape {
    atoms: Vec<Vec<usize>>,
    reads: Vec<Set>,
    readers: Vec<Set>,
    /// Runs of atoms that are equal branches, as (start, length). Inner branches come first.
    twins: Vec<Vec<(usize, usize)>>,
    /// For each atom, those of its runs in `twins` that have a following run, as (start, start of
    /// the following run, length).
    ahead: Vec<Vec<(usize, usize, usize)>>,
}

impl Shape {
    /// Returns the atoms of a part of the graph. Returns `None` if there are too many atoms.
    fn from_part(graph: &Graph, part: &Part) -> Option<Self> {
        let mut shape = Self {
            atoms: Vec::new(),
            reads: Vec::new(),
            readers: Vec::new(),
            twins: Vec::new(),
            ahead: Vec::new(),
        };
        shape.add(graph, part);
        let count = shape.atoms.len();
        if count > MOST_ATOMS {
            return None;
        }
        let mut atom_of = vec![0; graph.len()];
        for (at, operators) in shape.atoms.iter().enumerate() {
            operators.iter().for_each(|&of| atom_of[of] = at);
        }
        shape.reads = vec![0; count];
        shape.readers = vec![0; count];
        for of in 0..graph.len() {
            for &read in graph.reads(of) {
                let (from, to) = (atom_of[read], atom_of[of]);
                if from != to {
                    shape.reads[to] |= 1 << from;
                    shape.readers[from] |= 1 << to;
                }
            }
        }
        shape.chain(part, &mut 0);
        shape.ahead = vec![Vec::new(); count];
        for blocks in &shape.twins {
            for two in blocks.windows(2) {
                let ((start, length), (next, _)) = (two[0], two[1]);
                shape.ahead[start..start + length].iter_mut().for_each(|of| of.push((start, next, length)));
            }
        }
        Some(shape)
    }

    /// Numbers the atoms of a part of the graph, and finds equal branches.
    fn add(&mut self, graph: &Graph, part: &Part) {
        match part {
            Part::Whole(operators) => self.atoms.push(operators.clone()),
            Part::Series(parts) => parts.iter().for_each(|part| self.add(graph, part)),
            Part::Parallel(parts) => {
                let mut kinds: BTreeMap<Vec<u64>, Vec<(usize, usize)>> = BTreeMap::new();
                for part in parts {
                    let start = self.atoms.len();
                    self.add(graph, part);
                    let block = (start, self.atoms.len() - start);
                    kinds.entry(kind(graph, part, &self.atoms[start..])).or_default().push(block);
                }
                self.twins.extend(kinds.into_values().filter(|blocks| blocks.len() > 1));
            }
        }
    }

    /// Orders adjacent series parts that do not read each other. Such parts occur in a part that is
    /// treated as a chain. Returns the part's atoms.
    fn chain(&mut self, part: &Part, next: &mut usize) -> (usize, usize) {
        let start = *next;
        match part {
            Part::Whole(_) => *next += 1,
            Part::Parallel(parts) => {
                for part in parts {
                    self.chain(part, next);
                }
            }
            Part::Series(parts) => {
                let mut last: Option<(usize, usize)> = None;
                for part in parts {
                    let range = self.chain(part, next);
                    if let Some((from, to)) = last
                        && to - from == 1
                        && range.1 - range.0 == 1
                    {
                        self.reads[range.0] |= 1 << from;
                        self.readers[from] |= 1 << range.0;
                    }
                    last = Some(range);
                }
            }
        }
        (start, *next)
    }

    /// Computes all states and steps. Returns `None` if there are too many steps.
    fn lattice(self, graph: &Graph) -> Option<Lattice> {
        let count = self.atoms.len();
        let mut numbers: BTreeMap<(u32, Set), usize> = BTreeMap::new();
        // Sizes only grow, so all steps to a set are found before the set is visited.
        let mut found: Vec<(Set, Vec<Reached>)> = Vec::new();
        let mut waiting: BTreeSet<(u32, Set)> = BTreeSet::from([(0, 0)]);
        let mut steps = 0;
        while let Some((_, set)) = waiting.pop_first() {
            let mut stages = Vec::new();
            self.stages(set, 0, self.open(set), count, &mut stages, MOST_STEPS - steps)?;
            steps += stages.len();
            let mut reached = Vec::with_capacity(stages.len());
            for stage in stages {
                let (to, places) = named(&self.twins, count, set | stage);
                waiting.insert((to.count_ones(), to));
                reached.push((stage, to, places));
            }
            numbers.insert((set.count_ones(), set), found.len());
            found.push((set, reached));
        }
        let states = found.into_iter().map(|(set, reached)| {
            let frontier =
                bits(set).filter(|&at| self.reads[at] & !set != 0).fold(0, |all, at| all | 1 << at);
            let rest = self.sums(graph, !set & ones(count));
            let steps = reached.into_iter().map(|(stage, to, places)| Step {
                to: numbers.get(&(to.count_ones(), to)).copied().unwrap_or(0),
                stage,
                readers: bits(stage).fold(0, |all, at| all | self.readers[at]) & set,
                places,
                sums: self.sums(graph, stage),
            });
            State { frontier, rest, steps: steps.collect() }
        });
        let states = states.collect();
        Some(Lattice { states, atoms: self.atoms })
    }

    fn sums(&self, graph: &Graph, set: Set) -> Sums {
        let mut inside: Vec<usize> = bits(set).flat_map(|at| &self.atoms[at]).copied().collect();
        inside.sort_unstable();
        Sums::from_operators(graph, inside.iter().copied(), |of| inside.binary_search(&of).is_ok())
    }

    /// Returns the atoms outside a set that no other atom outside the set reads. Such atoms can be
    /// added next.
    fn open(&self, set: Set) -> Set {
        let open = |at: &usize| set >> at & 1 == 0 && self.readers[*at] & !set == 0;
        (0..self.atoms.len()).filter(open).fold(0, |all, at| all | 1 << at)
    }

    /// Collects all stages that can be added to a set. Stages that differ only by an exchange of
    /// equal branches are collected once.
    fn stages(
        &self,
        set: Set,
        stage: Set,
        open: Set,
        below: usize,
        found: &mut Vec<Set>,
        most: usize,
    ) -> Option<()> {
        let candidates = bits(open & ones(below)).collect::<Vec<usize>>();
        for at in candidates {
            let next = stage | 1 << at;
            // Of two equal branches with the same members in the set, the later one has at least
            // the same members in the stage.
            let ahead = self.ahead[at].iter().all(|&(start, after, length)| {
                let of = |set: Set, start: usize| set >> start & ones(length);
                of(set, start) != of(set, after) || of(next, start) <= of(next, after)
            });
            if !ahead {
                continue;
            }
            if found.len() >= most {
                return None;
            }
            found.push(next);
            let all = set | next;
            let opened = bits(self.reads[at]).filter(|&read| self.readers[read] & !all == 0);
            let opened = opened.fold(open & !(1 << at), |open, read| open | 1 << read);
            self.stages(set, next, opened, at, found, most)?;
        }
        Some(())
    }
}

/// Returns the key of a branch. It consists of the values of its operators, the operators that they
/// read, and their readers. Equal branches have the same key.
fn kind(graph: &Graph, part: &Part, atoms: &[Vec<usize>]) -> Vec<u64> {
    let own = part.operators();
    let place = |of: usize| own.binary_search(&of).map_or((1, of as u64), |at| (0, at as u64));
    let mut kind: Vec<u64> = atoms.iter().map(|atom| atom.len() as u64).collect();
    for operator in own.iter().filter_map(|&at| Some((at, graph.operators().get(at)?))) {
        let (at, of) = operator;
        let figures = [
            of.forward.call,
            of.forward.row,
            of.backward.call,
            of.backward.row,
            of.weights,
            of.kept,
            of.output,
        ];
        kind.extend(figures.map(f64::to_bits));
        for list in [graph.reads(at), graph.readers(at)] {
            kind.push(list.len() as u64);
            kind.extend(list.iter().flat_map(|&of| <[u64; 2]>::from(place(of))));
        }
    }
    kind
}
