//! Updates: gradients brought to owners, passed to replicas, and taken by both.

use std::collections::BTreeMap;

use eciton_exec::Executor;
use eciton_plan::{Optimiser, Round, Version};
use eciton_tensor::Buffer;

use super::errand::{self, Errand, Reply};
use super::{Answered, Owned, Owners, ask, exclude, failed, given, take, tell};
use crate::error::{Error, Result};
use crate::weights::Refused;

/// Sums of a use that a replica's worker has made: number of the use, replica, and sums.
pub(crate) type Collected = ((u32, usize), Vec<Buffer>);

/// Bytes of sums that are asked for at once.
pub(crate) const COLLECTED_BYTES: usize = 64 << 20;

impl Owners {
    /// Adds the gradients of a round's intervals without a row, which are zero, to workers' sums.
    fn fill<M: Executor + ?Sized>(&self, machine: &mut M, round: Round) -> Result<()> {
        let empty = self.empty.borrow();
        let intervals: Vec<u32> = empty.iter().filter(|(of, _)| *of == round).map(|(_, at)| *at).collect();
        if intervals.is_empty() {
            return Ok(());
        }
        let mut made: BTreeMap<u32, Vec<(u32, usize, usize)>> = BTreeMap::new();
        for one in &self.parameters {
            let (rows, columns) = one.shape();
            for (number, lane) in one.made() {
                for replica in 0..self.tops.len() {
                    let Some(place) = lane.map(|lane| self.place(lane + replica * self.depth)).transpose()?
                    else {
                        continue;
                    };
                    made.entry(place).or_default().push((number, rows, columns));
                }
            }
        }
        let fill = |(place, uses)| {
            let fill = Errand::Fill { round: round.0, intervals: intervals.clone(), uses };
            Ok((place, errand::write(&fill, &[]).map_err(failed)?))
        };
        tell(machine, made.into_iter().map(fill).collect::<Result<_>>()?)
    }

    /// Brings the sums of a round, whose parameters live on the host, to the host. Returns the sums
    /// by use and replica: those of the replica's nodes of the tree, left to right.
    ///
    /// # Errors
    /// [`Error::Gone`] if a worker that has sums is gone.
    pub(crate) fn collect<M: Executor + ?Sized>(&self, machine: &mut M, round: Round) -> Result<Vec<Collected>> {
        self.fill(machine, round)?;
        let mut wanted = Vec::new();
        let firsts = self.tops.iter().scan(0, |next, tops| {
            let first = *next;
            *next += tops.len();
            Some(first)
        });
        for (replica, (first, tops)) in firsts.zip(&self.tops).enumerate() {
            for one in self.parameters.iter().filter(|one| !one.of.is_frozen()) {
                for (number, lane) in one.made() {
                    let Some(lane) = lane else { continue };
                    let place = self.place(lane + replica * self.depth)?;
                    wanted.extend((first..first + tops.len()).map(|top| ((number, replica), top, place, one)));
                }
            }
        }
        let mut collected: Vec<Collected> = Vec::new();
        // Few at a time: the host has room for their frames.
        let bytes = |one: &Owned| one.length() * 4;
        while !wanted.is_empty() {
            let mut sum = 0;
            let few = wanted.iter().take_while(|(.., one)| {
                let before = sum;
                sum += bytes(one);
                before < COLLECTED_BYTES
            });
            let few: Vec<_> = wanted.drain(..few.count()).collect();
            let request = |&((number, _), top, place, _): &((u32, usize), usize, u32, &Owned)| {
                let sum = Errand::Sum { round: round.0, number, top };
                Ok((place, errand::write(&sum, &[]).map_err(failed)?))
            };
            let answers = ask(machine, few.iter().map(request).collect::<Result<_>>()?, false)?;
            for ((of, _, place, one), answer) in few.into_iter().zip(&answers) {
                let part = given(answer, one.shape()).and_then(|matrix| errand::buffer(&matrix));
                let part = part.map_err(|reason| exclude(machine, place, reason))?;
                match collected.last_mut().filter(|(known, _)| *known == of) {
                    Some((_, parts)) => parts.push(part),
                    None => collected.push((of, vec![part])),
                }
            }
        }
        Ok(collected)
    }

    /// Forgets which intervals of a round have no row, once its update is made.
    pub(crate) fn updated(&self, round: Round) {
        self.empty.borrow_mut().retain(|(of, _)| *of > round);
    }

    /// Brings gradients of weights that lanes have in common to the place that owns these.
    fn bring<M: Executor + ?Sized>(&self, machine: &mut M, round: Round) -> Result<()> {
        let round = round.0;
        for one in self.parameters.iter().filter(|one| !one.of.is_frozen() && one.makers.len() > 1) {
            let owner = self.homes(one)?.0;
            for (number, lane) in one.made() {
                let Some(from) = lane.map(|lane| self.place(lane)).transpose()? else { continue };
                if from == owner {
                    continue;
                }
                let given = take(machine, from, &Errand::Sum { round, number, top: 0 }, one.shape())?;
                let add = errand::write(&Errand::Add { round, number }, &[given]).map_err(failed)?;
                tell(machine, vec![(owner, add)])?;
            }
        }
        Ok(())
    }

    /// Gives those that have copies of a parameter its values of a version.
    fn copy<M: Executor + ?Sized>(&self, machine: &mut M, version: Version) -> Result<()> {
        let version = version.0;
        for (number, one) in (0u32..).zip(&self.parameters) {
            let (owner, mut copies) = self.homes(one)?;
            let replicas = self.replicas(one)?;
            copies.retain(|place| !replicas.contains(place));
            if copies.is_empty() {
                continue;
            }
            let give = Errand::Give { parameter: number, version, matrix: 0 };
            let given = take(machine, owner, &give, one.shape())?;
            let own = errand::write(&one.own(number, version, 0), &[given]).map_err(failed)?;
            tell(machine, copies.into_iter().map(|place| (place, own.clone())).collect())?;
        }
        Ok(())
    }

    /// Updates all parameters to a version; the norm of their gradients, where it is asked for. Gradients that are not
    /// finite are refused, and the run with them: other parameters may have been updated.
    pub(crate) fn update<M: Executor + ?Sized>(
        &self,
        machine: &mut M,
        (optimiser, rate): (&Optimiser, f64),
        (round, version): (Round, Version),
    ) -> Result<std::result::Result<Option<f64>, Refused>> {
        self.fill(machine, round)?;
        self.bring(machine, round)?;
        let norm = optimiser.clip_norm.map(|_| self.norm(machine, round)).transpose()?;
        if let Some(norm) = norm.filter(|norm| !norm.is_finite()) {
            return Ok(Err(Refused::Norm(norm)));
        }
        let factor = crate::weights::clip_factor(optimiser, norm);
        let most = optimiser.clip_value.map(|most| most as f32);
        let algorithm = optimiser.algorithm;
        let replicas = self.share(machine, round)?;
        let update = |(place, (parameters, replicas)): (u32, (Vec<u32>, Vec<u32>))| {
            let (round, version) = (round.0, version.0);
            let update =
                Errand::Update { round, version, algorithm, rate, factor, most, parameters, replicas };
            Ok((place, errand::write(&update, &[]).map_err(failed)?))
        };
        let each = (0u32..).zip(self.owned()?.into_iter().zip(replicas));
        let each = each.filter(|(_, (own, replicas))| !own.is_empty() || !replicas.is_empty());
        for Answered { place, reply, .. } in ask(machine, each.map(update).collect::<Result<_>>()?, false)? {
            match reply {
                Reply::Done => {}
                Reply::Refused { parameter } if (parameter as usize) < self.parameters.len() => {
                    return Ok(Err(Refused::Gradient(parameter as usize)));
                }
                other => return Err(exclude(machine, place, format!("{other:?} in place of an update"))),
            }
        }
        self.copy(machine, version)?;
        Ok(Ok(norm))
    }

    /// Has owners pass gradients to the places of replicas, and waits for these; replicas, by place. No parameter is
    /// updated before all are there: a loss meanwhile goes back to the last update.
    fn share<M: Executor + ?Sized>(&self, machine: &mut M, round: Round) -> Result<Vec<Vec<u32>>> {
        let mut replicas: Vec<Vec<u32>> = vec![Vec::new(); self.there.len()];
        let mut shares: Vec<Vec<(u32, u32)>> = replicas.iter().map(|_| Vec::new()).collect();
        for (number, one) in (0u32..).zip(&self.parameters) {
            let places = self.replicas(one)?;
            for &place in &places {
                replicas.get_mut(place as usize).into_iter().for_each(|of| of.push(number));
            }
            let own = shares.get_mut(self.homes(one)?.0 as usize).filter(|_| !one.of.is_frozen());
            own.into_iter().for_each(|of| of.extend(places.iter().map(|&place| (number, place))));
        }
        let is_trained =
            |number: &u32| self.parameters.get(*number as usize).is_some_and(|one| !one.of.is_frozen());
        let round = round.0;
        let share = |to| Errand::Share { round, to };
        let waits = |of: &Vec<u32>| of.iter().copied().filter(is_trained).collect::<Vec<u32>>();
        let waits = |parameters| Errand::Await { round, parameters: waits(parameters) };
        let shares = (0u32..).zip(shares).filter(|(_, to)| !to.is_empty()).map(|(at, to)| (at, share(to)));
        let waits = (0u32..).zip(&replicas).filter(|(_, of)| !of.is_empty()).map(|(at, of)| (at, waits(of)));
        let all = shares.chain(waits).collect::<Vec<_>>();
        let write =
            |(place, errand): (u32, Errand)| Ok((place, errand::write(&errand, &[]).map_err(failed)?));
        let errands = all.into_iter().map(write).collect::<Result<_>>()?;
        for Answered { place, reply, .. } in ask(machine, errands, false)? {
            match reply {
                Reply::Done => {}
                // The worker that was to pass them has failed, or its connection to this one has.
                Reply::Late => return Err(Error::Gone { place }),
                other => return Err(exclude(machine, place, format!("{other:?} in place of a gradient"))),
            }
        }
        Ok(replicas)
    }

    /// The norm of all gradients: a sum that goes from worker to worker, in the order of parameters.
    fn norm<M: Executor + ?Sized>(&self, machine: &mut M, round: Round) -> Result<f64> {
        let trained = (0u32..).zip(&self.parameters).filter(|(_, one)| !one.of.is_frozen());
        let mut runs: Vec<(u32, Vec<u32>)> = Vec::new();
        for (number, one) in trained {
            let place = self.homes(one)?.0;
            match runs.last_mut() {
                Some((last, numbers)) if *last == place => numbers.push(number),
                _ => runs.push((place, vec![number])),
            }
        }
        let mut sum = 0.0;
        for (place, parameters) in runs {
            let errand =
                errand::write(&Errand::Norm { round: round.0, sum, parameters }, &[]).map_err(failed)?;
            for Answered { reply, .. } in ask(machine, vec![(place, errand)], false)? {
                match reply {
                    Reply::Norm { sum: found } => sum = found,
                    other => return Err(exclude(machine, place, format!("{other:?} in place of a norm"))),
                }
            }
        }
        Ok(sum.sqrt())
    }
}
