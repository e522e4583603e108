//! Updates of parameters on workers. Gradient sums are sent to all workers that update a parameter,
//! and each of these workers takes the same optimiser step.

use std::collections::BTreeMap;
use std::ops::Range;

use eciton_exec::Executor;
use eciton_planner::policy::Takeover;
use eciton_recipe::Optimiser;
use eciton_tensor::Buffer;
use eciton_types::{IntervalId, Location, Round, Step, TensorKey, Version};

use super::instruction::{self, Instruction, Reply};
use super::{Answered, Asking, Maker, Owned, Owners};
use super::{all_given, ask, exclude, failed, given, id, matrix_key, take, tell};
use crate::error::{Error, Result};
use crate::weights::Refused;

/// Gradient sums that one replica of the pipeline has computed for one use of a parameter. It
/// consists of the number of the use, the replica, and one sum per tree node.
pub(crate) type Collected = ((u32, usize), Vec<Buffer>);

/// Maximum total size in bytes of the gradient sums that the host requests at once, because the
/// replies must fit into its memory.
pub(crate) const COLLECTED_BYTES: usize = 64 << 20;

/// Returns the key of a gradient sum in `round`. `number` is the use of the parameter, and `node`
/// is the index of the tree node.
fn sum_key(number: u32, round: Round, node: usize) -> TensorKey {
    // The cast is lossless: there are at most as many nodes as intervals.
    TensorKey::Sum { of: id(number), round, node: node as u32 }
}

impl Owners {
    /// Adds gradients of 0 to the sums of workers, for intervals that have no rows in `round`.
    fn fill<M: Executor + ?Sized>(&self, asking: &mut Asking<'_, M>, round: Round) -> Result<()> {
        let empty = self.empty.borrow();
        let intervals: Vec<u32> =
            empty.iter().filter(|(of, _)| *of == round).map(|(_, interval)| *interval).collect();
        if intervals.is_empty() {
            return Ok(());
        }
        let mut made: BTreeMap<Location, Vec<(u32, usize, usize)>> = BTreeMap::new();
        for one in &self.parameters {
            let (rows, columns) = one.shape();
            for (number, lane) in one.made() {
                let Some(lane) = lane else { continue };
                for replica in 0..self.tops.len() {
                    let at = self.home(lane, replica)?;
                    made.entry(at).or_default().push((number, rows, columns));
                }
            }
        }
        let fill = |(at, uses)| {
            let fill = Instruction::Fill { round: round.0, intervals: intervals.clone(), uses };
            Ok((at, instruction::write(&fill, &[]).map_err(failed)?))
        };
        tell(asking, made.into_iter().map(fill).collect::<Result<_>>()?)
    }

    /// Completes the sums of lanes that peers of their failed workers share. The partial sums that
    /// a worker has taken over are sent to one worker of the lane, which adds them up.
    ///
    /// # Errors
    /// Returns [`Error::Gone`] if a worker that has sums has failed.
    fn gather<M: Executor + ?Sized>(&self, asking: &mut Asking<'_, M>, round: Round) -> Result<()> {
        if self.takeover == Takeover::Previous {
            return Ok(());
        }
        for one in self.parameters.iter().filter(|one| !one.of.is_frozen()) {
            for (number, maker) in one.makers() {
                for replica in 0..self.tops.len() {
                    let taken = self.taken((maker, replica), round)?;
                    let to = self.home(maker.lane, replica)?;
                    self.gather_one(asking, (one, number, round), to, taken)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the intervals of a replica that other workers than the lane's own have run, each
    /// with the worker that has its gradients. Intervals without rows are left out.
    fn taken(&self, (maker, replica): (Maker, usize), round: Round) -> Result<Vec<(Location, u32)>> {
        let own = replica * self.lanes.depth() as usize + maker.lane;
        let empty = self.empty.borrow();
        let run = self.run(replica).filter(|&interval| !empty.contains(&(round, interval)));
        let at = |interval| Ok((self.summed_at(maker, round, IntervalId(interval))?, interval));
        let all = run.map(at).collect::<Result<Vec<_>>>()?;
        Ok(all.into_iter().filter(|(at, _)| at.index() != own).collect())
    }

    /// Returns the worker that has the gradients of an interval.
    fn summed_at(
        &self,
        Maker { lane, stage }: Maker,
        round: Round,
        interval: IntervalId,
    ) -> Result<Location> {
        if self.have_parameters() {
            // The cast is lossless, because the number of lanes is limited.
            return self.location_of(lane as u16, interval);
        }
        let step = Step { round, stage, interval };
        let missing = || Error::Internal(format!("no worker has the gradients of {step}"));
        self.summed.get(&step).copied().ok_or_else(missing)
    }

    /// Sends the partial sums of one use that workers have taken over to the worker `to`. The host
    /// requests few of them at a time, because the replies must fit into its memory.
    fn gather_one<M: Executor + ?Sized>(
        &self,
        asking: &mut Asking<'_, M>,
        (one, of, Round(round)): (&Owned, u32, Round),
        to: Location,
        taken: Vec<(Location, u32)>,
    ) -> Result<()> {
        let (here, others): (Vec<_>, Vec<_>) = taken.into_iter().partition(|(at, _)| *at == to);
        if !here.is_empty() {
            let sums = here.into_iter().map(|(_, interval)| (of, interval)).collect();
            let merge = instruction::write(&Instruction::Merge { round, sums }, &[]).map_err(failed)?;
            tell(asking, vec![(to, merge)])?;
        }
        for few in others.chunks((COLLECTED_BYTES / (one.length() * 4).max(1)).max(1)) {
            let request = |&(at, interval): &(Location, u32)| {
                let parts = Instruction::Parts { round, of, interval };
                Ok((at, instruction::write(&parts, &[]).map_err(failed)?))
            };
            let answers = ask(asking, few.iter().map(request).collect::<Result<_>>()?, false)?;
            let mut adds = Vec::with_capacity(few.len());
            for (&(at, interval), answer) in few.iter().zip(&answers) {
                let parts = all_given(answer, one.shape()).map_err(|reason| exclude(asking, at, reason))?;
                let add = Instruction::Add { round, of, interval };
                adds.push((to, instruction::write(&add, &parts).map_err(failed)?));
            }
            tell(asking, adds)?;
        }
        Ok(())
    }

    /// Requests the gradient sums of `round` from workers, if parameters live on the host. Returns
    /// the sums for each use of a parameter and each replica of the pipeline, with one sum per tree
    /// node.
    ///
    /// # Errors
    /// Returns [`Error::Gone`] if a worker that has sums has failed.
    pub(crate) fn collect<M: Executor + ?Sized>(
        &self,
        asking: &mut Asking<'_, M>,
        round: Round,
    ) -> Result<Vec<Collected>> {
        self.fill(asking, round)?;
        self.gather(asking, round)?;
        let mut wanted = Vec::new();
        for (replica, tops) in self.tops().enumerate() {
            for one in self.parameters.iter().filter(|one| !one.of.is_frozen()) {
                for (number, lane) in one.made() {
                    let Some(lane) = lane else { continue };
                    let at = self.home(lane, replica)?;
                    wanted.extend(tops.clone().map(|top| ((number, replica), top, at, one)));
                }
            }
        }
        let mut collected: Vec<Collected> = Vec::new();
        // The host requests few sums at a time, because the replies must fit into its memory.
        let bytes = |one: &Owned| one.length() * 4;
        while !wanted.is_empty() {
            let mut sum = 0;
            let few = wanted.iter().take_while(|(.., one)| {
                let before = sum;
                sum += bytes(one);
                before < COLLECTED_BYTES
            });
            let few: Vec<_> = wanted.drain(..few.count()).collect();
            let request = |&((number, _), top, at, _): &((u32, usize), usize, Location, &Owned)| {
                let give = Instruction::Give { key: sum_key(number, round, top) };
                Ok((at, instruction::write(&give, &[]).map_err(failed)?))
            };
            let answers = ask(asking, few.iter().map(request).collect::<Result<_>>()?, false)?;
            for ((of, _, at, one), answer) in few.into_iter().zip(&answers) {
                let part = given(answer, one.shape()).and_then(|matrix| instruction::buffer(&matrix));
                let part = part.map_err(|reason| exclude(asking, at, reason))?;
                match collected.last_mut().filter(|(known, _)| *known == of) {
                    Some((_, parts)) => parts.push(part),
                    None => collected.push((of, vec![part])),
                }
            }
        }
        Ok(collected)
    }

    /// Returns an iterator over the replicas of the pipeline. An item is the range of the tree
    /// nodes whose sums the replica computes.
    fn tops(&self) -> impl Iterator<Item = Range<usize>> {
        self.tops.iter().scan(0, |next, tops| {
            let first = *next;
            *next += tops.len();
            Some(first..*next)
        })
    }

    /// Records that the update of `round` is finished. Intervals without rows are forgotten for
    /// this round and earlier ones.
    pub(crate) fn updated(&self, round: Round) {
        self.empty.borrow_mut().retain(|(of, _)| *of > round);
    }

    /// Sends the values of all parameters at `version` to the workers that read but do not update
    /// them.
    fn copy<M: Executor + ?Sized>(&self, asking: &mut Asking<'_, M>, version: Version) -> Result<()> {
        let version = version.0;
        for (number, one) in (0u32..).zip(&self.parameters) {
            let holders = self.holders(one)?;
            let copies = self.copies(one, &holders)?;
            let Some(&owner) = holders.first().filter(|_| !copies.is_empty()) else { continue };
            let given = take(asking, owner, matrix_key(number, version, 0), one.shape())?;
            let own = instruction::write(&one.own(number, version, 0), &[given]).map_err(failed)?;
            tell(asking, copies.into_iter().map(|at| (at, own.clone())).collect())?;
        }
        Ok(())
    }

    /// Updates all parameters on workers to `version`. Returns the gradient norm if `clip_norm` is
    /// set or if `measures` is true. If a gradient is not finite, returns a refusal, after which the run must end because
    /// some parameters may be updated already.
    pub(crate) fn update<M: Executor + ?Sized>(
        &self,
        asking: &mut Asking<'_, M>,
        (optimiser, rate, measures): (&Optimiser, f64, bool),
        (round, version): (Round, Version),
    ) -> Result<std::result::Result<Option<f64>, Refused>> {
        self.fill(asking, round)?;
        self.gather(asking, round)?;
        self.exchange(asking, round)?;
        let measures = measures || optimiser.clip_norm.is_some();
        let norm = measures.then(|| self.norm(asking, round)).transpose()?;
        if let Some(norm) = norm.filter(|norm| !norm.is_finite()) {
            return Ok(Err(Refused::Norm(norm)));
        }
        let factor = crate::weights::clip_factor(optimiser, norm);
        let most = optimiser.clip_value.map(|most| most as f32);
        let algorithm = optimiser.algorithm;
        // Numbers of the parameters that each worker updates, and of those among them that other
        // workers update as well.
        let mut held: BTreeMap<Location, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
        for (number, one) in (0u32..).zip(&self.parameters) {
            let holders = self.holders(one)?;
            for &at in &holders {
                let (parameters, compared) = held.entry(at).or_default();
                parameters.push(number);
                compared.extend((holders.len() > 1).then_some(number));
            }
        }
        let update = |(&at, (parameters, compared)): (&Location, &(Vec<u32>, Vec<u32>))| {
            let (round, version) = (round.0, version.0);
            let (parameters, compared) = (parameters.clone(), compared.clone());
            let update =
                Instruction::Update { round, version, algorithm, rate, factor, most, parameters, compared };
            Ok((at, instruction::write(&update, &[]).map_err(failed)?))
        };
        let updates = held.iter().map(update).collect::<Result<_>>()?;
        let mut digests: BTreeMap<u32, Vec<(Location, u32)>> = BTreeMap::new();
        for Answered { at, reply, .. } in ask(asking, updates, false)? {
            let compared = held.get(&at).map_or(&[][..], |(_, compared)| compared);
            match reply {
                Reply::Updated { digests: found } if found.len() == compared.len() => {
                    for (&number, digest) in compared.iter().zip(found) {
                        digests.entry(number).or_default().push((at, digest));
                    }
                }
                Reply::Refused { parameter } if (parameter as usize) < self.parameters.len() => {
                    return Ok(Err(Refused::Gradient(parameter as usize)));
                }
                other => return Err(exclude(asking, at, format!("expected an update, found {other:?}"))),
            }
        }
        self.compare(asking, &digests)?;
        self.copy(asking, version)?;
        Ok(Ok(norm))
    }

    /// Compares the digests of updated parameters between all workers that update them. The digest
    /// of the majority counts, and that of the owner in case of a tie. A worker with another digest
    /// is excluded, and the run rolls back.
    fn compare<M: Executor + ?Sized>(
        &self,
        asking: &mut Asking<'_, M>,
        digests: &BTreeMap<u32, Vec<(Location, u32)>>,
    ) -> Result<()> {
        for (&number, found) in digests {
            let owner = self.owner(self.parameter(number)?)?;
            let votes = |digest: u32| {
                let equal = found.iter().filter(|(_, other)| *other == digest);
                (equal.clone().count(), equal.clone().any(|(at, _)| *at == owner))
            };
            let counts = found.iter().map(|(_, digest)| *digest).max_by_key(|digest| votes(*digest));
            let differs = found.iter().find(|(_, digest)| Some(*digest) != counts);
            if let Some(&(at, _)) = differs {
                let reason = format!(
                    "its values of parameter {number} differ from those of {} other workers at the \
                     same update",
                    found.len() - 1
                );
                return Err(exclude(asking, at, reason));
            }
        }
        Ok(())
    }

    /// Makes workers send their gradient sums to all workers that update the parameters, and waits
    /// until the sums have arrived. No parameter is updated before that, so a failure does not lose
    /// more than this update.
    fn exchange<M: Executor + ?Sized>(&self, asking: &mut Asking<'_, M>, round: Round) -> Result<()> {
        let mut shares: BTreeMap<Location, Vec<(TensorKey, Location)>> = BTreeMap::new();
        let mut waits: BTreeMap<Location, Vec<TensorKey>> = BTreeMap::new();
        for one in self.parameters.iter().filter(|one| !one.of.is_frozen()) {
            let holders = self.holders(one)?;
            for (number, lane) in one.made() {
                let Some(lane) = lane else { continue };
                for (replica, tops) in self.tops().enumerate() {
                    let from = self.home(lane, replica)?;
                    for (top, &to) in tops.flat_map(|top| holders.iter().map(move |to| (top, to))) {
                        if to != from {
                            let key = sum_key(number, round, top);
                            shares.entry(from).or_default().push((key, to));
                            waits.entry(to).or_default().push(key);
                        }
                    }
                }
            }
        }
        let shares = shares.into_iter().map(|(at, to)| (at, Instruction::Share { to }));
        let waits = waits.into_iter().map(|(at, sums)| (at, Instruction::Await { sums }));
        let all = shares.chain(waits).collect::<Vec<_>>();
        let write = |(at, instruction): (Location, Instruction)| {
            Ok((at, instruction::write(&instruction, &[]).map_err(failed)?))
        };
        let instructions = all.into_iter().map(write).collect::<Result<_>>()?;
        for Answered { at, reply, .. } in ask(asking, instructions, false)? {
            match reply {
                Reply::Done => {}
                // The worker that sends the sums has failed, or its connection to this one has.
                Reply::Late => return Err(Error::Gone { at }),
                other => return Err(exclude(asking, at, format!("expected a gradient, found {other:?}"))),
            }
        }
        Ok(())
    }

    /// Computes the L2 norm of all gradients. Each worker adds its squared gradients to a running
    /// sum, in the order of the parameters.
    fn norm<M: Executor + ?Sized>(&self, asking: &mut Asking<'_, M>, round: Round) -> Result<f64> {
        let trained = (0u32..).zip(&self.parameters).filter(|(_, one)| !one.of.is_frozen());
        let mut runs: Vec<(Location, Vec<u32>)> = Vec::new();
        for (number, one) in trained {
            let at = self.owner(one)?;
            match runs.last_mut() {
                Some((last, numbers)) if *last == at => numbers.push(number),
                _ => runs.push((at, vec![number])),
            }
        }
        let mut sum = 0.0;
        for (at, parameters) in runs {
            let instruction = instruction::write(&Instruction::Norm { round: round.0, sum, parameters }, &[])
                .map_err(failed)?;
            for Answered { reply, .. } in ask(asking, vec![(at, instruction)], false)? {
                match reply {
                    Reply::Norm { sum: found } => sum = found,
                    other => return Err(exclude(asking, at, format!("expected a norm, found {other:?}"))),
                }
            }
        }
        Ok(sum.sqrt())
    }
}
