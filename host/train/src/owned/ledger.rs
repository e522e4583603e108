//! The worker's side: parameters with their moments, gradients as they come, and updates.

use std::collections::BTreeMap;

use eciton_exec::workers::{Owned, Passes};
use eciton_plan::{Algorithm, IntervalId, Optimiser};
use eciton_tensor::frame::Frame;
use eciton_tensor::{Buffer, Matrix, stride_for};

use super::errand::{self, Errand, Reply};
use crate::weights::{GradientSums, Rule, is_finite};

/// Intervals of a round, and nodes of one, at most.
const MAX_NODES: usize = 1 << 16;

/// State that a worker owns.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    parameters: BTreeMap<u32, Parameter>,
    /// Whether rounds read the values before the newest, and one begins before the last one is over.
    delayed: bool,
    /// Gradients as they arrive. `None` before the first round has begun.
    sums: Option<GradientSums>,
    /// Whole gradients of replicas with their rounds, by parameter.
    passed: BTreeMap<u32, (u32, Buffer)>,
    /// Those that other workers are to get.
    out: Vec<Passes>,
}

#[derive(Debug)]
struct Parameter {
    version: u64,
    extents: Vec<u32>,
    uses: Vec<u32>,
    values: Buffer,
    /// Those of the update before, where rounds read them.
    before: Option<Buffer>,
    /// First moments, then second ones.
    moments: Vec<Buffer>,
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Owned for Ledger {
    fn matrix(&self, name: &str) -> Option<Matrix> {
        let (version, number) = name.strip_prefix('v')?.split_once(".p")?;
        let parameter = self.parameters.get(&number.parse().ok()?)?;
        let values = parameter.of(version.parse().ok()?)?;
        let lease = values.read(0..values.rows()).ok()?;
        Matrix::from(lease).with_extents(&parameter.extents).ok()
    }

    fn add(&mut self, name: &str, interval: IntervalId, parts: Vec<Buffer>) -> Result<(), String> {
        let number = |text: &str| text.parse::<u32>().ok();
        let parsed = name.strip_prefix('s').and_then(|name| name.split_once(".r"));
        let parsed = parsed.and_then(|(of, round)| Some((number(round)?, number(of)?)));
        let (round, number) = parsed.ok_or_else(|| format!("`{name}` is no sum"))?;
        let known = self.parameters.values().find(|parameter| parameter.uses.contains(&number));
        let known = known.ok_or_else(|| format!("parameter {number} is another worker's"))?;
        let shape = (known.values.rows(), known.values.columns());
        if let Some(part) = parts.iter().find(|part| (part.rows(), part.columns()) != shape) {
            return Err(format!("{} x {} values, not {shape:?}", part.rows(), part.columns()));
        }
        let sums = self.sums.as_mut().ok_or_else(|| format!("there is no interval {interval}"))?;
        sums.add((round, number), interval, parts).map(drop)
    }

    fn errand(&mut self, frame: &Frame<'_>, late: bool) -> Option<Vec<u8>> {
        let done = errand::meta::<Errand>(frame).and_then(|errand| self.run(errand, frame));
        let written = match done {
            Ok((Reply::Late, _)) if !late => return None,
            Ok((reply, matrices)) => errand::write(&reply, &matrices),
            Err(reason) => Err(reason),
        };
        let failed = |reason| errand::write(&Reply::Failed { reason }, &[]).unwrap_or_default();
        Some(written.unwrap_or_else(failed))
    }

    fn passes(&mut self) -> Vec<Passes> {
        std::mem::take(&mut self.out)
    }

    fn passed(&mut self, name: &str, round: u32, matrix: &Matrix) {
        let number = name.strip_prefix('g').and_then(|number| number.parse().ok());
        let Some((number, known)) = number.and_then(|number| self.parameters.get_key_value(&number)) else {
            return;
        };
        let shape = (known.values.rows(), known.values.columns());
        let gradient = buffer(matrix).ok().filter(|found| (found.rows(), found.columns()) == shape);
        gradient.into_iter().for_each(|found| drop(self.passed.insert(*number, (round, found))));
    }

    fn bytes(&self) -> u64 {
        let parameter = |one: &Parameter| {
            let buffers = std::iter::once(&one.values).chain(&one.before).chain(&one.moments);
            buffers.map(|buffer| buffer.bytes() as u64).sum::<u64>()
        };
        let sums = self.sums.as_ref().map_or(0, GradientSums::bytes);
        let passed = self.passed.values().map(|(_, gradient)| gradient.bytes() as u64).sum::<u64>();
        self.parameters.values().map(parameter).sum::<u64>() + sums + passed
    }
}

impl Ledger {
    fn run(&mut self, errand: Errand, frame: &Frame<'_>) -> Result<(Reply, Vec<Matrix>), String> {
        let done = Ok((Reply::Done, Vec::new()));
        match errand {
            Errand::Begin { atoms, nodes, parameters, delayed } => {
                self.begin((atoms, nodes), &parameters)?;
                self.delayed = delayed;
                let matrices = |one: &Parameter| 1 + one.moments.len() + usize::from(one.before.is_some());
                let all = self.parameters.iter();
                let parameters = all.map(|(&number, one)| (number, one.version, matrices(one))).collect();
                Ok((Reply::Owned { parameters }, Vec::new()))
            }
            Errand::Own { parameter, version, extents, uses, matrix } => {
                let matrices = errand::matrices(frame)?;
                let own = buffer(matrices.first().ok_or("a parameter without values")?)?;
                if matrix == 0 {
                    // A copy is told of each update.
                    let last = self.parameters.remove(&parameter).filter(|one| one.version + 1 == version);
                    let before = last.filter(|_| self.delayed).map(|one| one.values);
                    let moments = Vec::new();
                    let owned = Parameter { version, extents, uses, values: own, before, moments };
                    self.parameters.insert(parameter, owned);
                    return done;
                }
                let known = self.parameters.get_mut(&parameter).filter(|known| known.version == version);
                let known =
                    known.ok_or_else(|| format!("parameter {parameter} has no values of that update"))?;
                if (own.rows(), own.columns()) != (known.values.rows(), known.values.columns()) {
                    return Err("moments that are not of the values' shape".to_owned());
                }
                if known.moments.len() + 1 != matrix {
                    return Err(format!("matrix {matrix} of parameter {parameter} out of turn"));
                }
                known.moments.push(own);
                done
            }
            Errand::Before { parameter, version } => {
                let matrices = errand::matrices(frame)?;
                let before = buffer(matrices.first().ok_or("a parameter without values")?)?;
                let known = self.parameters.get_mut(&parameter).filter(|known| known.version == version);
                let known =
                    known.ok_or_else(|| format!("parameter {parameter} has no values of that update"))?;
                if (before.rows(), before.columns()) != (known.values.rows(), known.values.columns()) {
                    return Err("values that are not of the newest values' shape".to_owned());
                }
                known.before = Some(before);
                done
            }
            Errand::Fill { round, intervals, numbers } => {
                for number in numbers {
                    let known = self.parameters.values().find(|parameter| parameter.uses.contains(&number));
                    let known = known.ok_or_else(|| format!("parameter {number} is not here"))?;
                    let (rows, columns) = (known.values.rows(), known.values.columns());
                    for &interval in &intervals {
                        let nodes = self.sums.as_ref().and_then(|sums| sums.nodes(IntervalId(interval)));
                        let count = nodes.map_or(0, |nodes| nodes.len());
                        let zeros = (0..count).map(|_| Buffer::zeroed(rows, columns).map_err(said));
                        let zeros = zeros.collect::<Result<Vec<_>, _>>()?;
                        self.add(&sum_name(number, round), IntervalId(interval), zeros)?;
                    }
                }
                done
            }
            Errand::Sum { round, number } => {
                let known = self.parameters.values().find(|parameter| parameter.uses.contains(&number));
                let known = known.ok_or_else(|| format!("parameter {number} is not here"))?;
                let whole = Buffer::zeroed(known.values.rows(), known.values.columns()).map_err(said)?;
                let mut into = whole.write(0..whole.rows()).map_err(said)?;
                let sums = self.sums.as_mut().ok_or("no round has begun")?;
                sums.remove((round, number), |sum| into.view_mut().data_mut().copy_from_slice(sum))?;
                Ok((Reply::Done, vec![into.into_read().into()]))
            }
            Errand::Add { round, number } => {
                let matrices = errand::matrices(frame)?;
                let sum = buffer(matrices.first().ok_or("a sum without values")?)?;
                self.sums.as_mut().ok_or("no round has begun")?.insert((round, number), sum)?;
                done
            }
            Errand::Norm { round, mut sum, parameters } => {
                for number in parameters {
                    let columns = self.parameter(number)?.values.columns();
                    sum = self.gradient((round, number), |gradient| squares(sum, gradient, columns))?;
                }
                Ok((Reply::Norm { sum }, Vec::new()))
            }
            Errand::Share { round, to } => {
                for (number, place) in to {
                    let matrix = self.whole((round, number))?;
                    self.out.push(Passes { place, name: format!("g{number}"), round, matrix });
                }
                done
            }
            Errand::Await { round, parameters } => {
                let has = |number: &u32| self.passed.get(number).is_some_and(|(of, _)| *of == round);
                let reply = if parameters.iter().all(has) { Reply::Done } else { Reply::Late };
                Ok((reply, Vec::new()))
            }
            Errand::Stay { parameters } => {
                self.parameters.retain(|number, _| parameters.contains(number));
                done
            }
            Errand::Update { round, version, algorithm, rate, factor, most, parameters, replicas } => {
                let all = parameters.iter().map(|of| (of, false)).chain(replicas.iter().map(|of| (of, true)));
                let refused = self.update((round, version), (algorithm, rate), (factor, most), all)?;
                let reply = refused.map_or(Reply::Done, |parameter| Reply::Refused { parameter });
                Ok((reply, Vec::new()))
            }
            Errand::Give { parameter: number, version, matrix } => {
                let parameter = self.parameter(number)?;
                let values = parameter.of(version);
                let values =
                    values.ok_or_else(|| format!("parameter {number} is of update {}", parameter.version))?;
                let moments = parameter.moments.iter().filter(|_| parameter.version == version);
                let given = std::iter::once(values).chain(moments).nth(matrix);
                let given = given.ok_or_else(|| format!("parameter {number} has no matrix {matrix}"))?;
                let given = given.read(0..given.rows()).map_err(said)?;
                Ok((Reply::Done, vec![given.into()]))
            }
        }
    }

    fn parameter(&self, number: u32) -> Result<&Parameter, String> {
        self.parameters.get(&number).ok_or_else(|| format!("parameter {number} is another worker's"))
    }

    fn begin(&mut self, (atoms, nodes): (u32, Vec<Vec<(u8, u32)>>), stay: &[u32]) -> Result<(), String> {
        let (tree, nodes) = errand::tree(atoms, nodes);
        let count: usize = nodes.iter().map(Vec::len).sum();
        if count > MAX_NODES || nodes.len() > MAX_NODES {
            return Err(format!("{count} nodes of {} intervals", nodes.len()));
        }
        self.sums = Some(GradientSums::new(tree, &nodes).map_err(said)?);
        self.passed.clear();
        self.out.clear();
        self.parameters.retain(|number, _| stay.contains(number));
        Ok(())
    }

    /// Hands the whole gradient of a round and a parameter to `then`: of its uses, in their order.
    fn gradient<T>(&self, (round, number): (u32, u32), then: impl FnOnce(&[f32]) -> T) -> Result<T, String> {
        let uses = &self.parameter(number)?.uses;
        self.sums.as_ref().ok_or("no round has begun")?.whole(round, uses, then)
    }

    /// The whole gradient of a round and a parameter, to be passed on.
    fn whole(&self, (round, number): (u32, u32)) -> Result<Matrix, String> {
        let values = &self.parameter(number)?.values;
        let whole = Buffer::zeroed(values.rows(), values.columns()).map_err(said)?;
        let mut into = whole.write(0..whole.rows()).map_err(said)?;
        self.gradient((round, number), |gradient| into.view_mut().data_mut().copy_from_slice(gradient))?;
        Ok(into.into_read().into())
    }

    /// Hands the gradient that an owner has passed to `then`.
    fn replica<T>(&self, number: u32, then: impl FnOnce(&[f32]) -> T) -> Result<T, String> {
        let passed = self.passed.get(&number);
        let (_, gradient) = passed.ok_or_else(|| format!("no gradient of replica {number} has come"))?;
        Ok(then(gradient.read(0..gradient.rows()).map_err(said)?.view().data()))
    }

    /// Updates parameters and replicas; the first whose gradient is not finite, where the update ends.
    fn update<'a>(
        &mut self,
        (round, version): (u32, u64),
        (algorithm, rate): (Algorithm, f64),
        (factor, most): (Option<f32>, Option<f32>),
        all: impl Iterator<Item = (&'a (u32, Option<f32>), bool)>,
    ) -> Result<Option<u32>, String> {
        let step = u32::try_from(version).map_err(said)?;
        let rule = Rule::new(&Optimiser { algorithm, ..Optimiser::default() }, rate, step);
        for (&(number, decay), replica) in all {
            if self.delayed {
                let Parameter { values, .. } = self.parameter(number)?;
                let copy = {
                    let from = values.read(0..values.rows()).map_err(said)?;
                    let copy = Buffer::zeroed(values.rows(), values.columns()).map_err(said)?;
                    let mut into = copy.write(0..values.rows()).map_err(said)?;
                    into.view_mut().data_mut().copy_from_slice(from.view().data());
                    drop(into);
                    copy
                };
                let known = self.parameters.get_mut(&number);
                let known = known.ok_or_else(|| format!("parameter {number} is another worker's"))?;
                known.before = Some(std::mem::replace(&mut known.values, copy));
            }
            if let Some(decay) = decay {
                let Parameter { values, moments, .. } = self.parameter(number)?;
                let mut values = values.write(0..values.rows()).map_err(said)?;
                let mut moments = moments.iter().map(|moment| moment.write(0..moment.rows()));
                let mut moment = || moments.next().transpose().map_err(said);
                let (mut first, mut second) = (moment()?, moment()?);
                let take = |gradient: &[f32]| {
                    if !is_finite(gradient) {
                        return false;
                    }
                    let mut views = (values.view_mut(), first.as_mut().map(|moment| moment.view_mut()));
                    let mut second = second.as_mut().map(|moment| moment.view_mut());
                    let first = views.1.as_mut().map_or(&mut [][..], |view| view.data_mut());
                    let second = second.as_mut().map_or(&mut [][..], |view| view.data_mut());
                    let values = views.0.data_mut();
                    if factor.is_none() && most.is_none() {
                        rule.step(decay, values, gradient, first, second);
                        return true;
                    }
                    let factor = factor.unwrap_or(1.0);
                    let clip = |value: &f32| {
                        let scaled = value * factor;
                        most.map_or(scaled, |most| scaled.clamp(-most, most))
                    };
                    let clipped: Vec<f32> = gradient.iter().map(clip).collect();
                    rule.step(decay, values, &clipped, first, second);
                    true
                };
                let updated = match replica {
                    true => self.replica(number, take),
                    false => self.gradient((round, number), take),
                };
                if !updated? {
                    return Ok(Some(number));
                }
            }
            let parameter = self.parameters.get_mut(&number);
            parameter.ok_or_else(|| format!("parameter {number} is another worker's"))?.version = version;
        }
        self.sums.iter_mut().for_each(|sums| drop(sums.forget_through(round)));
        self.passed.retain(|_, (of, _)| *of > round);
        Ok(None)
    }
}

impl Parameter {
    /// Its values of an update.
    fn of(&self, version: u64) -> Option<&Buffer> {
        match version {
            _ if version == self.version => Some(&self.values),
            _ if version + 1 == self.version => self.before.as_ref(),
            _ => None,
        }
    }
}

/// The name of the sum of a use, in a round.
pub(super) fn sum_name(number: u32, round: u32) -> String {
    format!("s{number}.r{round}")
}

/// A sum of squares with those of a gradient's values, row by row without padding.
fn squares(sum: f64, gradient: &[f32], columns: usize) -> f64 {
    let rows = gradient.chunks(stride_for(columns).max(1));
    let values = rows.flat_map(|row| row.iter().take(columns));
    values.fold(sum, |sum, &value| sum + f64::from(value) * f64::from(value))
}

/// A copy of a matrix that can be written.
fn buffer(matrix: &Matrix) -> Result<Buffer, String> {
    Buffer::from_rows(matrix.rows(), matrix.columns(), &errand::values(matrix)?).map_err(said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_plan::{Node, Tree};

    fn asked(ledger: &mut Ledger, errand: &Errand, matrices: &[Matrix]) -> (Reply, Vec<Matrix>) {
        let bytes = errand::write(errand, matrices).unwrap();
        let answer = ledger.errand(&Frame::parse(&bytes).unwrap(), true).unwrap();
        let frame = Frame::parse(&answer).unwrap();
        (errand::meta(&frame).unwrap(), errand::matrices(&frame).unwrap())
    }

    fn refused(ledger: &mut Ledger, errand: &Errand, matrices: &[Matrix]) -> String {
        match asked(ledger, errand, matrices).0 {
            Reply::Failed { reason } => reason,
            other => format!("{other:?}"),
        }
    }

    fn matrix(values: &[f32; 6]) -> Matrix {
        errand::matrix((2, 3), values).unwrap()
    }

    fn parts(of: &[[f32; 6]]) -> Vec<Buffer> {
        of.iter().map(|values| Buffer::from_rows(2, 3, values).unwrap()).collect()
    }

    fn begin(parameters: Vec<u32>) -> Errand {
        begin_with(parameters, false)
    }

    fn begin_with(parameters: Vec<u32>, delayed: bool) -> Errand {
        // Two intervals of a node each.
        let nodes = vec![vec![Node::atom(0)], vec![Node::atom(1)]];
        Errand::Begin { atoms: Tree::new(2).atoms(), nodes: errand::pairs(&nodes), parameters, delayed }
    }

    fn own(parameter: u32, uses: Vec<u32>, matrix: usize) -> Errand {
        Errand::Own { parameter, version: 4, extents: vec![3], uses, matrix }
    }

    fn update(version: u64, parameters: Vec<(u32, Option<f32>)>) -> Errand {
        let algorithm = Algorithm::Sgd { momentum: 0.5, nesterov: false };
        let (rate, factor, most, replicas) = (0.25, None, None, vec![]);
        Errand::Update { round: 1, version, algorithm, rate, factor, most, parameters, replicas }
    }

    #[test]
    fn a_parameter_is_owned_updated_and_given() {
        let mut ledger = Ledger::default();
        assert_eq!(asked(&mut ledger, &begin(vec![7]), &[]).0, Reply::Owned { parameters: vec![] });
        let given = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0; 6]];
        for (at, values) in given.iter().enumerate() {
            assert_eq!(asked(&mut ledger, &own(7, vec![7, 9], at), &[matrix(values)]).0, Reply::Done);
        }
        assert!(ledger.matrix("v4.p7").is_some() && ledger.matrix("v3.p7").is_none());
        for name in ["", "v4", "v4.p8", "vx.p7", "p7.v4", "v4.p7.p7"] {
            assert!(ledger.matrix(name).is_none(), "{name}");
        }
        // One use here, the other elsewhere; parts in any order.
        ledger.add("s7.r1", IntervalId(1), parts(&[[2.0; 6]])).unwrap();
        assert!(refused(&mut ledger, &update(5, vec![(7, Some(0.0))]), &[]).contains("1 of 3 additions"));
        ledger.add("s7.r1", IntervalId(0), parts(&[[1.0; 6]])).unwrap();
        assert!(refused(&mut ledger, &update(5, vec![(7, Some(0.0))]), &[]).contains("no gradient"));
        assert_eq!(
            asked(&mut ledger, &Errand::Add { round: 1, number: 9 }, &[matrix(&[1.0; 6])]).0,
            Reply::Done
        );
        let (norm, _) = asked(&mut ledger, &Errand::Norm { round: 1, sum: 1.0, parameters: vec![7] }, &[]);
        assert_eq!(norm, Reply::Norm { sum: 1.0 + 6.0 * 16.0 });
        let held = ledger.bytes();
        assert_eq!(asked(&mut ledger, &update(5, vec![(7, Some(0.0))]), &[]).0, Reply::Done);
        assert!(ledger.bytes() < held, "gradients are gone");
        let give = |matrix, version| Errand::Give { parameter: 7, version, matrix };
        let given = [0, 1].map(|at| errand::values(&asked(&mut ledger, &give(at, 5), &[]).1[0]).unwrap());
        assert_eq!(given, [vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], vec![4.0; 6]]);
        assert!(refused(&mut ledger, &give(0, 4), &[]).contains("of update 5"));
        assert!(refused(&mut ledger, &give(2, 5), &[]).contains("no matrix 2"));
        assert_eq!(asked(&mut ledger, &begin(vec![7]), &[]).0, Reply::Owned { parameters: vec![(7, 5, 2)] });
        // Values that are not finite end the update.
        for interval in [0, 1] {
            ledger.add("s7.r1", IntervalId(interval), parts(&[[f32::NAN; 6]])).unwrap();
        }
        assert_eq!(
            asked(&mut ledger, &Errand::Add { round: 1, number: 9 }, &[matrix(&[1.0; 6])]).0,
            Reply::Done
        );
        let refused = asked(&mut ledger, &update(6, vec![(7, Some(0.0))]), &[]).0;
        assert_eq!(refused, Reply::Refused { parameter: 7 });
        assert!(ledger.matrix("v5.p7").is_some(), "as it was");
        assert_eq!(asked(&mut ledger, &begin(vec![1]), &[]).0, Reply::Owned { parameters: vec![] });
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn the_values_before_the_newest_are_there_where_rounds_read_them() {
        let mut ledger = Ledger::default();
        let begin = begin_with(vec![7], true);
        asked(&mut ledger, &begin, &[]);
        asked(&mut ledger, &own(7, vec![7], 0), &[matrix(&[1.0; 6])]);
        asked(&mut ledger, &own(7, vec![7], 1), &[matrix(&[0.0; 6])]);
        assert!(ledger.matrix("v3.p7").is_none());
        let before = |version| Errand::Before { parameter: 7, version };
        assert_eq!(asked(&mut ledger, &before(4), &[matrix(&[9.0; 6])]).0, Reply::Done);
        assert!(refused(&mut ledger, &before(3), &[matrix(&[9.0; 6])]).contains("of that update"));
        assert_eq!(asked(&mut ledger, &begin, &[]).0, Reply::Owned { parameters: vec![(7, 4, 3)] });
        // A round begins before the one before it is over.
        for (round, value) in [(5, 4.0), (6, 8.0)] {
            for interval in [0, 1] {
                ledger.add(&sum_name(7, round), IntervalId(interval), parts(&[[value; 6]])).unwrap();
            }
        }
        let update = |round: u32| match update(round.into(), vec![(7, Some(0.0))]) {
            Errand::Update { version, algorithm, rate, factor, most, parameters, replicas, .. } => {
                Errand::Update { round, version, algorithm, rate, factor, most, parameters, replicas }
            }
            other => other,
        };
        let values = |ledger: &Ledger, name: &str| errand::values(&ledger.matrix(name).unwrap()).unwrap()[0];
        assert_eq!(asked(&mut ledger, &update(5), &[]).0, Reply::Done);
        assert_eq!((values(&ledger, "v4.p7"), values(&ledger, "v5.p7")), (1.0, 1.0 - 0.25 * 8.0));
        assert!(ledger.matrix("v3.p7").is_none());
        assert_eq!(asked(&mut ledger, &update(6), &[]).0, Reply::Done);
        assert_eq!((values(&ledger, "v5.p7"), values(&ledger, "v6.p7")), (-1.0, -1.0 - 0.25 * 20.0));
        let give = |matrix| Errand::Give { parameter: 7, version: 5, matrix };
        assert_eq!(errand::values(&asked(&mut ledger, &give(0), &[]).1[0]).unwrap()[0], -1.0);
        assert!(refused(&mut ledger, &give(1), &[]).contains("has no matrix 1"));
    }

    #[test]
    fn a_replica_is_updated_with_the_gradient_that_its_owner_passes() {
        let ledgers = || {
            let mut ledger = Ledger::default();
            asked(&mut ledger, &begin(vec![7]), &[]);
            for at in [0, 1] {
                asked(&mut ledger, &own(7, vec![7], at), &[matrix(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]);
            }
            ledger
        };
        let (mut owner, mut neighbour) = (ledgers(), ledgers());
        for interval in [0, 1] {
            owner.add("s7.r1", IntervalId(interval), parts(&[[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]])).unwrap();
        }
        let share = Errand::Share { round: 1, to: vec![(7, 3)] };
        assert_eq!(asked(&mut owner, &share, &[]).0, Reply::Done);
        let passed = owner.passes();
        assert_eq!((passed.len(), passed[0].place, &passed[0].name[..], passed[0].round), (1, 3, "g7", 1));
        assert!(owner.passes().is_empty());
        let waits = errand::write(&Errand::Await { round: 1, parameters: vec![7] }, &[]).unwrap();
        let is_there = |ledger: &mut Ledger, late| ledger.errand(&Frame::parse(&waits).unwrap(), late);
        assert_eq!(is_there(&mut neighbour, false), None, "it waits");
        assert!(is_there(&mut neighbour, true).is_some(), "it waits no longer");
        // None of these fits: a stranger's, one of another shape, one of another round.
        neighbour.passed("g8", 1, &passed[0].matrix);
        neighbour.passed("s7.r1", 1, &passed[0].matrix);
        neighbour.passed("g7", 1, &errand::matrix((3, 2), &[0.0; 6]).unwrap());
        neighbour.passed("g7", 2, &passed[0].matrix);
        assert_eq!(is_there(&mut neighbour, false), None);
        let mut late = update(5, vec![]);
        if let Errand::Update { replicas, .. } = &mut late {
            *replicas = vec![(7, Some(0.0))];
        }
        asked(&mut neighbour, &begin(vec![7]), &[]);
        assert!(refused(&mut neighbour, &late, &[]).contains("no gradient of replica 7"));
        neighbour.passed("g7", 1, &passed[0].matrix);
        assert!(is_there(&mut neighbour, false).is_some());
        let held = neighbour.bytes();
        assert_eq!(asked(&mut neighbour, &late, &[]).0, Reply::Done);
        assert!(neighbour.bytes() < held, "the gradient is gone");
        assert_eq!(asked(&mut owner, &update(5, vec![(7, Some(0.0))]), &[]).0, Reply::Done);
        let all = |ledger: &mut Ledger| {
            let give = |matrix| Errand::Give { parameter: 7, version: 5, matrix };
            [0, 1].map(|at| errand::values(&asked(ledger, &give(at), &[]).1[0]).unwrap())
        };
        assert_eq!(all(&mut neighbour), all(&mut owner));
        assert_eq!(asked(&mut neighbour, &Errand::Stay { parameters: vec![] }, &[]).0, Reply::Done);
        assert_eq!(neighbour.bytes(), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let mut ledger = Ledger::default();
        assert!(
            ledger.add("s7.r1", IntervalId(0), parts(&[[0.0; 6]])).unwrap_err().contains("another worker's")
        );
        asked(&mut ledger, &begin(vec![7]), &[]);
        assert!(refused(&mut ledger, &own(7, vec![7], 0), &[]).contains("without values"));
        assert!(refused(&mut ledger, &own(7, vec![7], 1), &[matrix(&[0.0; 6])]).contains("has no values"));
        asked(&mut ledger, &own(7, vec![7], 0), &[matrix(&[0.0; 6])]);
        let short = errand::matrix((1, 3), &[0.0; 3]).unwrap();
        assert!(refused(&mut ledger, &own(7, vec![7], 1), &[short]).contains("not of the values' shape"));
        assert!(refused(&mut ledger, &own(7, vec![7], 2), &[matrix(&[0.0; 6])]).contains("out of turn"));
        for (name, interval, of, words) in [
            ("7", 0, parts(&[[0.0; 6]]), "is no sum"),
            ("s8.r1", 0, parts(&[[0.0; 6]]), "another worker's"),
            ("s7.r1", 2, parts(&[[0.0; 6]]), "no interval 2"),
            ("s7.r1", 0, parts(&[[0.0; 6], [0.0; 6]]), "2 parts"),
            ("s7.r1", 0, vec![Buffer::zeroed(3, 2).unwrap()], "3 x 2 values"),
        ] {
            let error = ledger.add(name, IntervalId(interval), of).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        ledger.add("s7.r1", IntervalId(1), parts(&[[0.0; 6]])).unwrap();
        let twice = ledger.add("s7.r1", IntervalId(1), parts(&[[0.0; 6]])).unwrap_err();
        assert!(twice.contains("came twice"), "{twice}");
        let nodes = vec![vec![(0, 0)], vec![(0, 0)]];
        let wrong = Errand::Begin { atoms: 2, nodes, parameters: vec![], delayed: false };
        assert!(!refused(&mut ledger, &wrong, &[]).starts_with("Owned"));
        for (errand, words) in [
            (Errand::Sum { round: 1, number: 3 }, "parameter 3 is not here"),
            (Errand::Fill { round: 1, intervals: vec![0], numbers: vec![3] }, "parameter 3 is not here"),
            (Errand::Fill { round: 1, intervals: vec![9], numbers: vec![7] }, "no interval 9"),
            (update(6, vec![(3, None)]), "another worker's"),
            (Errand::Add { round: 1, number: 7 }, "without values"),
        ] {
            let told = refused(&mut ledger, &errand, &[]);
            assert!(told.contains(words), "{errand:?}: {told}");
        }
        let mut writer = eciton_tensor::frame::Writer::new(b"{\"errand\":\"own\"}".to_vec());
        writer.ids(vec![1]).unwrap();
        let bytes = writer.finish().unwrap();
        let answer = ledger.errand(&Frame::parse(&bytes).unwrap(), true).unwrap();
        let frame = Frame::parse(&answer).unwrap();
        assert!(matches!(errand::meta(&frame).unwrap(), Reply::Failed { .. }));
    }
}
