//! The parameter shard of a worker: parameters that the worker owns, with their optimiser moments
//! and gradient sums.

use std::collections::BTreeMap;

use eciton_tensor::frame::Frame;
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{IntervalId, Node, ParameterId, Round, TensorKey, Tree};
use eciton_workers::{Owned, Passes};

use super::instruction::{self, Instruction, OwnLane, Reply};
use crate::weights::{GradientSums, Parameter, Parameters, Step};

/// Maximum number of intervals, and maximum number of tree nodes in total. It limits the memory
/// that a malformed instruction can request.
const MAX_NODES: usize = 1 << 16;

/// Level and index of a node in the summation tree.
type Pair = (u8, u32);

/// The parameter shard of a worker, which carries out the instructions of the host.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    parameters: Parameters,
    /// Sums of the gradients that were computed so far. `None` until the host sends
    /// [`Instruction::Begin`].
    sums: Option<GradientSums>,
    /// Gradients of the worker's own lane. `None` if the worker adds up all gradients alike.
    own: Option<OwnLane>,
    /// Partial sums of the intervals that the worker has taken over from a failed worker, by round,
    /// use and interval.
    taken: BTreeMap<(u32, u32, u32), Vec<Buffer>>,
    /// Maximum number of rounds in flight. Sums of older rounds are removed.
    rounds: u32,
    /// Gradient sums that must still be sent to other workers.
    out: Vec<Passes>,
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Owned for Ledger {
    fn matrix(&self, key: &TensorKey) -> Option<Matrix> {
        let TensorKey::Weight { parameter, version } = *key else { return None };
        self.parameters.get(parameter.0.into()).ok()?.matrix(version.0).ok()
    }

    fn add(
        &mut self,
        (of, Round(round)): (ParameterId, Round),
        interval: IntervalId,
        parts: Vec<Buffer>,
    ) -> Result<(), String> {
        let number = of.0.into();
        self.fits(number, &parts)?;
        // Sums of rounds that are no longer in flight are removed, because the host does not report
        // that it has read them.
        round.checked_sub(self.rounds).into_iter().for_each(|over| self.forget_through(over));
        match self.own.as_ref().is_none_or(|own| own.has(number, interval.0)) {
            true => self.sum((round, number), interval, parts),
            false => self.take((round, number), interval, parts),
        }
    }

    fn instruction(&mut self, frame: &Frame<'_>, late: bool) -> Option<Vec<u8>> {
        let done =
            instruction::meta::<Instruction>(frame).and_then(|instruction| self.run(instruction, frame));
        let written = match done {
            Ok((Reply::Late, _)) if !late => return None,
            Ok((reply, matrices)) => instruction::write(&reply, &matrices),
            Err(reason) => Err(reason),
        };
        let failed = |reason| instruction::write(&Reply::Failed { reason }, &[]).unwrap_or_default();
        Some(written.unwrap_or_else(failed))
    }

    fn passes(&mut self) -> Vec<Passes> {
        std::mem::take(&mut self.out)
    }

    fn passed(&mut self, key: &TensorKey, matrix: &Matrix) {
        let Ok((of, top)) = sum_of(key) else { return };
        let Ok(shape) = self.parameters.of_use(of.1).map(Parameter::shape) else { return };
        let sum = instruction::buffer(matrix).ok().filter(|found| (found.rows(), found.columns()) == shape);
        if let Some((sums, sum)) = self.sums.as_mut().zip(sum) {
            // A sum for a tree node that this worker does not have is ignored.
            drop(sums.insert(of, top, sum));
        }
    }

    fn bytes(&self) -> u64 {
        let sums = self.sums.as_ref().map_or(0, GradientSums::bytes);
        let taken = self.taken.values().flatten().map(|part| part.bytes() as u64).sum::<u64>();
        self.parameters.bytes() + sums + taken
    }
}

impl Ledger {
    /// Carries out an instruction of the host. `frame` has its matrices. Returns the reply and the
    /// matrices that belong to it.
    fn run(&mut self, instruction: Instruction, frame: &Frame<'_>) -> Result<(Reply, Vec<Matrix>), String> {
        let done = Ok((Reply::Done, Vec::new()));
        match instruction {
            Instruction::Begin { atoms, nodes, tops, delayed, rounds, own } => {
                (self.rounds, self.own) = (rounds, own);
                self.begin(Tree::new(atoms), (nodes, tops))?;
                self.parameters.keep(if delayed { 2 } else { 1 });
                let matrices = |one: &Parameter| one.versions() + one.moments().len();
                let all = self.parameters.iter();
                let parameters =
                    all.filter_map(|(number, one)| Some((number, one.newest()?, matrices(one)))).collect();
                Ok((Reply::Owned { parameters }, Vec::new()))
            }
            Instruction::Own { key, extents, uses, decay } => {
                let matrices = instruction::matrices(frame)?;
                let own = instruction::buffer(matrices.first().ok_or("the parameter has no values")?)?;
                match key {
                    TensorKey::Weight { parameter, version } => {
                        // A worker with a copy of the parameter receives the values after each
                        // update.
                        let one = Parameter::new((own.rows(), own.columns()), extents, uses, decay);
                        self.parameters.take(parameter.0.into(), one, version.0, own)?;
                    }
                    TensorKey::Moment { parameter, which, version } => {
                        let known = self.known(parameter.0.into(), version.0)?;
                        if known.moments().len() != usize::from(which) {
                            return Err(format!("{key} was sent in the wrong order"));
                        }
                        known.take_moment(own)?;
                    }
                    other => return Err(format!("expected a matrix of a parameter, found {other}")),
                }
                done
            }
            Instruction::Fill { round, intervals, uses } => {
                for (number, rows, columns) in uses {
                    for &interval in &intervals {
                        let nodes = self.sums.as_ref().and_then(|sums| sums.nodes(IntervalId(interval)));
                        let count = nodes.map_or(0, |nodes| nodes.len());
                        let zeros = (0..count).map(|_| Buffer::zeroed(rows, columns).map_err(said));
                        let zeros = zeros.collect::<Result<Vec<_>, _>>()?;
                        self.fits(number, &zeros)?;
                        self.sum((round, number), IntervalId(interval), zeros)?;
                    }
                }
                done
            }
            Instruction::Parts { round, of, interval } => {
                Ok((Reply::Done, self.parts((round, of, interval))?))
            }
            Instruction::Merge { round, sums } => {
                for (of, interval) in sums {
                    let parts = buffers(&self.parts((round, of, interval))?)?;
                    self.sum((round, of), IntervalId(interval), parts)?;
                }
                done
            }
            Instruction::Add { round, of, interval } => {
                let parts = buffers(&instruction::matrices(frame)?)?;
                self.fits(of, &parts)?;
                self.sum((round, of), IntervalId(interval), parts)?;
                done
            }
            Instruction::Norm { round, sum, parameters } => {
                let sum = self.parameters.squares(self.sums()?, round, &parameters, sum)?;
                Ok((Reply::Norm { sum }, Vec::new()))
            }
            Instruction::Share { to } => {
                for (key, to) in to {
                    let (of, top) = sum_of(&key)?;
                    let matrix = self.sums()?.top(of, top)?.into();
                    self.out.push(Passes { to, key, matrix });
                }
                done
            }
            Instruction::Await { sums: wanted } => {
                let sums = self.sums()?;
                let wanted = wanted.iter().map(sum_of).collect::<Result<Vec<_>, _>>()?;
                let all = wanted.into_iter().all(|(of, top)| sums.has(of, top));
                Ok((if all { Reply::Done } else { Reply::Late }, Vec::new()))
            }
            Instruction::Stay { parameters } => {
                self.parameters.retain(&parameters);
                done
            }
            Instruction::Update { round, version, algorithm, rate, factor, most, parameters, compared } => {
                let step = Step::new((algorithm, rate), version, (factor, most))?;
                let refused = self.update(round, &step, &parameters)?;
                let reply = match refused {
                    Some(parameter) => Reply::Refused { parameter },
                    None => {
                        let digest = |&number: &u32| self.parameters.get(number)?.digest();
                        Reply::Updated { digests: compared.iter().map(digest).collect::<Result<_, _>>()? }
                    }
                };
                Ok((reply, Vec::new()))
            }
            Instruction::Give { key } => Ok((Reply::Done, vec![self.given(&key)?])),
        }
    }

    /// Checks that partial sums of a use have the shape of its parameter, if the worker has it.
    fn fits(&self, number: u32, parts: &[Buffer]) -> Result<(), String> {
        let shape = self.parameters.of_use(number).ok().map(Parameter::shape);
        let differs = |part: &&Buffer| shape.is_some_and(|shape| (part.rows(), part.columns()) != shape);
        match parts.iter().find(differs) {
            None => Ok(()),
            Some(part) => {
                Err(format!("found {} x {} values, expected {shape:?}", part.rows(), part.columns()))
            }
        }
    }

    /// Adds the partial sums of an interval to the sums of a round and a use.
    fn sum(&mut self, of: (u32, u32), interval: IntervalId, parts: Vec<Buffer>) -> Result<(), String> {
        let sums = self.sums.as_mut().ok_or_else(|| format!("there is no interval {interval}"))?;
        sums.add(of, interval, parts).map(drop)
    }

    /// Stores the partial sums of an interval that the worker has taken over.
    fn take(
        &mut self,
        (round, number): (u32, u32),
        interval: IntervalId,
        parts: Vec<Buffer>,
    ) -> Result<(), String> {
        let nodes = self.sums.as_ref().and_then(|sums| sums.nodes(interval));
        let count = nodes.ok_or_else(|| format!("there is no interval {interval}"))?.len();
        if parts.len() != count {
            return Err(format!("{} partial sums of interval {interval}, not {count}", parts.len()));
        }
        self.taken.entry((round, number, interval.0)).or_insert(parts);
        Ok(())
    }

    /// Returns the partial sums of an interval that the worker has taken over. `of` has the round,
    /// the use and the interval.
    fn parts(&self, of: (u32, u32, u32)) -> Result<Vec<Matrix>, String> {
        let missing = || format!("gradient {} of interval {} is missing", of.1, of.2);
        let parts = self.taken.get(&of).ok_or_else(missing)?;
        parts.iter().map(|part| Ok(part.read(0..part.rows()).map_err(said)?.into())).collect()
    }

    /// Removes the sums of all rounds up to and including `round`.
    fn forget_through(&mut self, round: u32) {
        self.sums.iter_mut().for_each(|sums| drop(sums.forget_through(round)));
        self.taken.retain(|(of, ..), _| *of > round);
    }

    /// Returns the matrix with the key `key`, which is the values of a parameter, an optimiser
    /// moment, or a gradient sum.
    fn given(&self, key: &TensorKey) -> Result<Matrix, String> {
        let given = match *key {
            TensorKey::Weight { parameter, version } => {
                let parameter = self.parameters.get(parameter.0.into())?;
                parameter.values(version.0).ok_or_else(|| not_of(key, parameter))?
            }
            TensorKey::Moment { parameter, which, version } => {
                let parameter = self.parameters.get(parameter.0.into())?;
                let moments = parameter.moments().get(usize::from(which));
                moments
                    .filter(|_| parameter.newest() == Some(version.0))
                    .ok_or_else(|| not_of(key, parameter))?
            }
            _ => {
                let (of, top) = sum_of(key)?;
                return Ok(self.sums()?.top(of, top)?.into());
            }
        };
        Ok(given.read(0..given.rows()).map_err(said)?.into())
    }

    /// Returns the parameter with the number `number`. Fails if its newest values are not of
    /// `version`.
    fn known(&mut self, number: u32, version: u64) -> Result<&mut Parameter, String> {
        let known = self.parameters.get_mut(number).ok().filter(|known| known.newest() == Some(version));
        known.ok_or_else(|| format!("parameter {number} has no values of update {version}"))
    }

    fn sums(&self) -> Result<&GradientSums, String> {
        self.sums.as_ref().ok_or_else(|| "no round has begun".to_owned())
    }

    /// Starts new gradient sums for the nodes of the summation tree `tree`. Sums that were not sent
    /// yet are dropped.
    fn begin(&mut self, tree: Tree, (nodes, tops): (Vec<Vec<Pair>>, Vec<Pair>)) -> Result<(), String> {
        let count = nodes.iter().map(Vec::len).sum::<usize>() + tops.len();
        if count > MAX_NODES || nodes.len() > MAX_NODES {
            return Err(format!("{count} tree nodes of {} intervals are too many", nodes.len()));
        }
        let nodes: Vec<Vec<Node>> = nodes.into_iter().map(instruction::nodes).collect();
        self.sums = Some(GradientSums::new(tree, &nodes, &instruction::nodes(tops)).map_err(said)?);
        self.taken.clear();
        self.out.clear();
        Ok(())
    }

    /// Updates the listed parameters. Returns the first one whose gradient is not finite.
    fn update(&mut self, round: u32, step: &Step, parameters: &[u32]) -> Result<Option<u32>, String> {
        let sums = self.sums.as_ref().ok_or("no round has begun")?;
        let refused = self.parameters.update(Some(sums), round, parameters, step, &|_| {})?;
        if refused.is_none() {
            self.forget_through(round);
        }
        Ok(refused)
    }
}

/// Copies matrices to new buffers.
fn buffers(matrices: &[Matrix]) -> Result<Vec<Buffer>, String> {
    matrices.iter().map(instruction::buffer).collect()
}

/// Returns the round, the use and the tree node of the gradient sum that `key` stands for.
fn sum_of(key: &TensorKey) -> Result<((u32, u32), usize), String> {
    match *key {
        TensorKey::Sum { of, round, node } => Ok(((round.0, of.0.into()), node as usize)),
        _ => Err(format!("expected a gradient sum, found {key}")),
    }
}

fn not_of(key: &TensorKey, parameter: &Parameter) -> String {
    format!("{key} is missing; the newest values are of update {}", parameter.newest().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::matrix_key;
    use super::*;
    use eciton_recipe::Algorithm;
    use eciton_types::Location;

    fn asked(ledger: &mut Ledger, instruction: &Instruction, matrices: &[Matrix]) -> (Reply, Vec<Matrix>) {
        let bytes = instruction::write(instruction, matrices).unwrap();
        let answer = ledger.instruction(&Frame::parse(&bytes).unwrap(), true).unwrap();
        let frame = Frame::parse(&answer).unwrap();
        (instruction::meta(&frame).unwrap(), instruction::matrices(&frame).unwrap())
    }

    fn refused(ledger: &mut Ledger, instruction: &Instruction, matrices: &[Matrix]) -> String {
        match asked(ledger, instruction, matrices).0 {
            Reply::Failed { reason } => reason,
            other => format!("{other:?}"),
        }
    }

    fn matrix(values: &[f32; 6]) -> Matrix {
        instruction::matrix((2, 3), values).unwrap()
    }

    fn parts(of: &[[f32; 6]]) -> Vec<Buffer> {
        of.iter().map(|values| Buffer::from_rows(2, 3, values).unwrap()).collect()
    }

    fn begin(delayed: bool) -> Instruction {
        // Two intervals of a node each.
        let nodes = [0, 1].map(|atom| vec![(0, atom)]).to_vec();
        Instruction::Begin {
            atoms: 2,
            nodes,
            tops: vec![(1, 0)],
            delayed,
            rounds: if delayed { 2 } else { 1 },
            own: None,
        }
    }

    fn own(parameter: u32, uses: Vec<u32>, matrix: usize) -> Instruction {
        let key = matrix_key(parameter, 4, matrix);
        Instruction::Own { key, extents: vec![3], uses, decay: Some(0.0) }
    }

    fn weight(version: u64) -> TensorKey {
        matrix_key(7, version, 0)
    }

    fn sum(of: u16, round: u32, node: u32) -> TensorKey {
        TensorKey::Sum { of: ParameterId(of), round: Round(round), node }
    }

    const UPDATED: Reply = Reply::Updated { digests: Vec::new() };
    const SEVEN: (ParameterId, Round) = (ParameterId(7), Round(1));

    fn update_of(round: u32, version: u64, parameters: Vec<u32>, compared: Vec<u32>) -> Instruction {
        let algorithm = Algorithm::Sgd { momentum: 0.5, nesterov: false };
        let (rate, factor, most) = (0.25, None, None);
        Instruction::Update { round, version, algorithm, rate, factor, most, parameters, compared }
    }

    fn update(version: u64, parameters: Vec<u32>) -> Instruction {
        update_of(1, version, parameters, Vec::new())
    }

    #[test]
    fn a_parameter_is_owned_updated_and_given() {
        let mut ledger = Ledger::default();
        assert_eq!(asked(&mut ledger, &begin(false), &[]).0, Reply::Owned { parameters: vec![] });
        let given = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0; 6]];
        for (at, values) in given.iter().enumerate() {
            assert_eq!(asked(&mut ledger, &own(7, vec![7, 9], at), &[matrix(values)]).0, Reply::Done);
        }
        assert!(ledger.matrix(&weight(4)).is_some() && ledger.matrix(&weight(3)).is_none());
        for key in [matrix_key(8, 4, 0), matrix_key(7, 4, 1), sum(7, 1, 0)] {
            assert!(ledger.matrix(&key).is_none(), "{key}");
        }
        // One use here, the other elsewhere; parts in any order.
        ledger.add(SEVEN, IntervalId(1), parts(&[[2.0; 6]])).unwrap();
        assert!(refused(&mut ledger, &update(5, vec![7]), &[]).contains("1 of 3 additions"));
        ledger.add(SEVEN, IntervalId(0), parts(&[[1.0; 6]])).unwrap();
        assert!(refused(&mut ledger, &update(5, vec![7]), &[]).contains("no gradient"));
        ledger.passed(&sum(9, 1, 0), &matrix(&[1.0; 6]));
        let (norm, _) =
            asked(&mut ledger, &Instruction::Norm { round: 1, sum: 1.0, parameters: vec![7] }, &[]);
        assert_eq!(norm, Reply::Norm { sum: 1.0 + 6.0 * 16.0 });
        let held = ledger.bytes();
        assert_eq!(asked(&mut ledger, &update(5, vec![7]), &[]).0, UPDATED);
        assert!(ledger.bytes() < held, "gradients are gone");
        let give = |matrix, version| Instruction::Give { key: matrix_key(7, version, matrix) };
        let given =
            [0, 1].map(|at| instruction::values(&asked(&mut ledger, &give(at, 5), &[]).1[0]).unwrap());
        assert_eq!(given, [vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], vec![4.0; 6]]);
        assert!(refused(&mut ledger, &give(0, 4), &[]).contains("are of update 5"));
        assert!(refused(&mut ledger, &give(2, 5), &[]).contains("moment 1 of weight 7"));
        assert_eq!(asked(&mut ledger, &begin(false), &[]).0, Reply::Owned { parameters: vec![(7, 5, 2)] });
        // Values that are not finite end the update.
        for interval in [0, 1] {
            ledger.add(SEVEN, IntervalId(interval), parts(&[[f32::NAN; 6]])).unwrap();
        }
        ledger.passed(&sum(9, 1, 0), &matrix(&[1.0; 6]));
        let refused = asked(&mut ledger, &update(6, vec![7]), &[]).0;
        assert_eq!(refused, Reply::Refused { parameter: 7 });
        assert!(ledger.matrix(&weight(5)).is_some(), "as it was");
        assert_eq!(asked(&mut ledger, &begin(false), &[]).0, Reply::Owned { parameters: vec![(7, 5, 2)] });
        assert_eq!(asked(&mut ledger, &Instruction::Stay { parameters: vec![1] }, &[]).0, Reply::Done);
        assert_eq!(asked(&mut ledger, &begin(false), &[]).0, Reply::Owned { parameters: vec![] });
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn the_values_before_the_newest_are_there_where_rounds_read_them() {
        let mut ledger = Ledger::default();
        let begin = begin(true);
        asked(&mut ledger, &begin, &[]);
        let own_of = |version, matrix| match own(7, vec![7], matrix) {
            Instruction::Own { extents, uses, decay, .. } => {
                Instruction::Own { key: matrix_key(7, version, matrix), extents, uses, decay }
            }
            other => other,
        };
        for version in [2, 3, 4] {
            asked(&mut ledger, &own_of(version, 0), &[matrix(&[version as f32; 6])]);
        }
        asked(&mut ledger, &own_of(4, 1), &[matrix(&[0.0; 6])]);
        assert!(refused(&mut ledger, &own_of(3, 2), &[matrix(&[0.0; 6])]).contains("no values of update 3"));
        assert!(ledger.matrix(&weight(2)).is_none());
        assert!(ledger.matrix(&weight(3)).is_some());
        // Values that are not those of the version before do not stay.
        asked(&mut ledger, &own_of(9, 0), &[matrix(&[9.0; 6])]);
        assert!(ledger.matrix(&weight(4)).is_none());
        for version in [3, 4] {
            asked(&mut ledger, &own_of(version, 0), &[matrix(&[1.0; 6])]);
        }
        asked(&mut ledger, &own_of(4, 1), &[matrix(&[0.0; 6])]);
        assert_eq!(asked(&mut ledger, &begin, &[]).0, Reply::Owned { parameters: vec![(7, 4, 3)] });
        // A round begins before the one before it is over.
        for (round, value) in [(5, 4.0), (6, 8.0)] {
            for interval in [0, 1] {
                let of = (ParameterId(7), Round(round));
                ledger.add(of, IntervalId(interval), parts(&[[value; 6]])).unwrap();
            }
        }
        let update = |round: u32| update_of(round, round.into(), vec![7], Vec::new());
        let values =
            |ledger: &Ledger, of| instruction::values(&ledger.matrix(&weight(of)).unwrap()).unwrap()[0];
        assert_eq!(asked(&mut ledger, &update(5), &[]).0, UPDATED);
        assert_eq!((values(&ledger, 4), values(&ledger, 5)), (1.0, 1.0 - 0.25 * 8.0));
        assert!(ledger.matrix(&weight(3)).is_none());
        assert_eq!(asked(&mut ledger, &update(6), &[]).0, UPDATED);
        assert_eq!((values(&ledger, 5), values(&ledger, 6)), (-1.0, -1.0 - 0.25 * 20.0));
        let give = |matrix| Instruction::Give { key: matrix_key(7, 5, matrix) };
        assert_eq!(instruction::values(&asked(&mut ledger, &give(0), &[]).1[0]).unwrap()[0], -1.0);
        assert!(refused(&mut ledger, &give(1), &[]).contains("moment 0 of weight 7"));
    }

    #[test]
    fn workers_that_pass_each_other_their_sums_make_the_same_update() {
        let ledgers = || {
            let mut ledger = Ledger::default();
            // Each has an interval of two, and its sum.
            let nodes = [0, 1].map(|atom| vec![(0, atom)]).to_vec();
            let tops = vec![(0, 0), (0, 1)];
            let begin = Instruction::Begin { atoms: 2, nodes, tops, delayed: false, rounds: 1, own: None };
            asked(&mut ledger, &begin, &[]);
            for at in [0, 1] {
                asked(&mut ledger, &own(7, vec![7], at), &[matrix(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]);
            }
            ledger
        };
        let mut both = [ledgers(), ledgers()];
        for (interval, ledger) in (0..).zip(&mut both) {
            let value = 0.1 + interval as f32;
            ledger.add(SEVEN, IntervalId(interval), parts(&[[value; 6]])).unwrap();
        }
        let mut passed = Vec::new();
        for (top, ledger) in (0..).zip(&mut both) {
            let share = Instruction::Share { to: vec![(sum(7, 1, top), Location::worker(3))] };
            assert_eq!(asked(ledger, &share, &[]).0, Reply::Done);
            passed.extend(ledger.passes());
            assert!(ledger.passes().is_empty());
        }
        assert_eq!((passed.len(), passed[0].to, passed[0].key), (2, Location::worker(3), sum(7, 1, 0)));
        let waits =
            |top| instruction::write(&Instruction::Await { sums: vec![sum(7, 1, top)] }, &[]).unwrap();
        let is_there =
            |ledger: &mut Ledger, top, late| ledger.instruction(&Frame::parse(&waits(top)).unwrap(), late);
        let [first, second] = &mut both;
        assert_eq!(is_there(first, 1, false), None, "it waits");
        assert!(is_there(first, 1, true).is_some(), "it waits no longer");
        assert!(refused(first, &update(5, vec![7]), &[]).contains("parameter 7"));
        // None of these fits: a stranger's, one of another shape, one of another round or node.
        first.passed(&sum(8, 1, 1), &passed[1].matrix);
        first.passed(&weight(4), &passed[1].matrix);
        first.passed(&sum(7, 1, 1), &instruction::matrix((3, 2), &[0.0; 6]).unwrap());
        first.passed(&sum(7, 2, 1), &passed[1].matrix);
        first.passed(&sum(7, 1, 2), &passed[1].matrix);
        assert_eq!(is_there(first, 1, false), None);
        first.passed(&sum(7, 1, 1), &passed[1].matrix);
        second.passed(&sum(7, 1, 0), &passed[0].matrix);
        assert!(is_there(first, 1, false).is_some() && is_there(second, 0, false).is_some());
        drop(passed);
        let held = first.bytes();
        let update = update_of(1, 5, vec![7], vec![7]);
        let replies = [&mut *first, &mut *second].map(|ledger| asked(ledger, &update, &[]).0);
        assert!(first.bytes() < held, "the sums are gone");
        let all = |ledger: &mut Ledger| {
            let give = |matrix| Instruction::Give { key: matrix_key(7, 5, matrix) };
            [0, 1].map(|at| instruction::values(&asked(ledger, &give(at), &[]).1[0]).unwrap())
        };
        let values: Vec<u8> =
            all(first).concat().iter().flat_map(|value: &f32| value.to_le_bytes()).collect();
        let digests = vec![crc32fast::hash(&values)];
        assert_eq!(replies, [0, 1].map(|_| Reply::Updated { digests: digests.clone() }));
        assert_eq!(all(first), all(second));
        // Momentum 0.5, and a gradient of 0.1 + 1.1.
        assert_eq!(all(first)[1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|before| 0.5 * before + (0.1 + 1.1)));
        assert_eq!(asked(first, &Instruction::Stay { parameters: vec![] }, &[]).0, Reply::Done);
    }

    /// Checks that the sum of a lane that two workers share has the bits of a single worker's sum.
    #[test]
    fn a_worker_adds_up_what_peers_have_taken_over() {
        let nodes = || [0, 1].map(|atom| vec![(0, atom)]).to_vec();
        let ledger = |own| {
            let mut ledger = Ledger::default();
            let (tops, delayed) = (vec![(1, 0)], false);
            let begin = Instruction::Begin { atoms: 2, nodes: nodes(), tops, delayed, rounds: 1, own };
            asked(&mut ledger, &begin, &[]);
            ledger
        };
        // The worker's own lane has neither the intervals nor the use.
        let other = || Some(OwnLane { intervals: (2, 4), uses: vec![3] });
        let values = [[0.1; 6], [1e8; 6]];
        let mut single = ledger(None);
        let [mut first, mut second] = [ledger(other()), ledger(other())];
        for (interval, value) in (0..).zip(values) {
            single.add(SEVEN, IntervalId(interval), parts(&[value])).unwrap();
        }
        first.add(SEVEN, IntervalId(0), parts(&values[..1])).unwrap();
        second.add(SEVEN, IntervalId(1), parts(&values[1..])).unwrap();
        assert!(second.bytes() > 0);
        let give = Instruction::Give { key: sum(7, 1, 0) };
        assert!(refused(&mut first, &give, &[]).contains("no gradient"));
        let wanted = Instruction::Parts { round: 1, of: 7, interval: 1 };
        assert!(refused(&mut first, &wanted, &[]).contains("gradient 7 of interval 1"));
        // The second time, an update is repeated after another failure.
        for _ in 0..2 {
            let merge = Instruction::Merge { round: 1, sums: vec![(7, 0)] };
            assert_eq!(asked(&mut first, &merge, &[]).0, Reply::Done);
            let given = asked(&mut second, &wanted, &[]).1;
            let add = Instruction::Add { round: 1, of: 7, interval: 1 };
            assert_eq!(asked(&mut first, &add, &given).0, Reply::Done);
        }
        let all = |ledger: &mut Ledger| instruction::values(&asked(ledger, &give, &[]).1[0]).unwrap();
        assert_eq!(all(&mut first), all(&mut single));
        // Partial sums of a round that is over are removed.
        second.add((ParameterId(7), Round(2)), IntervalId(1), parts(&values[..1])).unwrap();
        assert!(refused(&mut second, &wanted, &[]).contains("is missing"));
        let wrong = second.add(SEVEN, IntervalId(0), parts(&values)).unwrap_err();
        assert!(wrong.contains("2 partial sums of interval 0"), "{wrong}");
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let mut ledger = Ledger::default();
        let early = ledger.add(SEVEN, IntervalId(0), parts(&[[0.0; 6]])).unwrap_err();
        assert!(early.contains("no interval"), "{early}");
        asked(&mut ledger, &begin(false), &[]);
        assert!(refused(&mut ledger, &own(7, vec![7], 0), &[]).contains("has no values"));
        assert!(refused(&mut ledger, &own(7, vec![7], 1), &[matrix(&[0.0; 6])]).contains("has no values"));
        asked(&mut ledger, &own(7, vec![7], 0), &[matrix(&[0.0; 6])]);
        let short = instruction::matrix((1, 3), &[0.0; 3]).unwrap();
        assert!(
            refused(&mut ledger, &own(7, vec![7], 1), &[short])
                .contains("found 1 x 3 values, expected 2 x 3")
        );
        assert!(
            refused(&mut ledger, &own(7, vec![7], 2), &[matrix(&[0.0; 6])]).contains("in the wrong order")
        );
        for (interval, of, words) in [
            (2, parts(&[[0.0; 6]]), "no interval 2"),
            (0, parts(&[[0.0; 6], [0.0; 6]]), "2 partial sums"),
            (0, vec![Buffer::zeroed(3, 2).unwrap()], "3 x 2 values"),
        ] {
            let error = ledger.add(SEVEN, IntervalId(interval), of).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let nodes = vec![vec![(0, 0)], vec![(0, 0)]];
        let tops = vec![(1, 0)];
        let wrong = Instruction::Begin { atoms: 2, nodes, tops, delayed: false, rounds: 1, own: None };
        assert!(!refused(&mut ledger, &wrong, &[]).starts_with("Owned"));
        for (instruction, words) in [
            (Instruction::Give { key: sum(3, 1, 0) }, "no gradient 3"),
            (Instruction::Give { key: sum(7, 1, 1) }, "no gradient 7"),
            (Instruction::Fill { round: 1, intervals: vec![0], uses: vec![(7, 3, 2)] }, "3 x 2 values"),
            (update(6, vec![3]), "no parameter 3"),
        ] {
            let told = refused(&mut ledger, &instruction, &[]);
            assert!(told.contains(words), "{instruction:?}: {told}");
        }
        let mut writer = eciton_tensor::frame::Writer::new(b"{\"instruction\":\"own\"}".to_vec());
        writer.ids(vec![1]).unwrap();
        let bytes = writer.finish().unwrap();
        let answer = ledger.instruction(&Frame::parse(&bytes).unwrap(), true).unwrap();
        let frame = Frame::parse(&answer).unwrap();
        assert!(matches!(instruction::meta(&frame).unwrap(), Reply::Failed { .. }));
    }
}
