//! Assignment of lanes to the connected workers. Workers get the values of the snapshot, or those
//! of a later update if other workers have all of them.

use eciton_exec::Executor;
use eciton_tensor::Matrix;
use eciton_types::{Location, Version};

use super::instruction::{self, Instruction, Reply};
use super::{Answered, Asking, Owned, Owners, ask, exclude, failed, matrix_key, take, tell};
use crate::error::Result;

/// A parameter that a worker has stored: its number, the version of its values, and the number of
/// its matrices.
type Held = (u32, u64, usize);

/// Source of the values that workers get, which is other workers or the snapshot.
struct Source {
    version: u64,
    /// For each parameter, a worker that has all of its matrices. If `None`, the values come from
    /// the snapshot.
    holders: Option<Vec<Location>>,
}

/// The matrices of a parameter that a worker needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// Only the values, because another worker updates the parameter.
    Values,
    /// The values and the optimiser moments, because the worker updates the parameter.
    All,
}

impl Owners {
    /// Assigns lanes to the connected workers (`there`). Workers that have values of another
    /// version get new ones. Returns the version of these values.
    pub(crate) fn restore<M: Executor + ?Sized>(
        &mut self,
        asking: &mut Asking<'_, M>,
        there: Vec<bool>,
    ) -> Result<Version> {
        self.homes = self.assigned(&there);
        (self.there, self.joined) = (there, None);
        let wanted = self.shares()?;
        let all: Vec<Location> =
            Location::workers().zip(&self.there).filter(|(_, there)| **there).map(|(at, _)| at).collect();
        // Workers keep all parameters until the host has determined which ones must be sent to
        // other workers.
        let instructions = all.iter().map(|at| Ok((*at, self.begin(*at)?))).collect::<Result<_>>()?;
        let mut held: Vec<Vec<Held>> = vec![Vec::new(); self.there.len()];
        for Answered { at, reply, .. } in ask(asking, instructions, true)? {
            let Reply::Owned { parameters } = reply else {
                return Err(exclude(asking, at, format!("expected its parameters, found {reply:?}")));
            };
            held.get_mut(at.index()).into_iter().for_each(|of| of.clone_from(&parameters));
        }
        let source = self.source(&held);
        let given = self.given.get();
        for ((to, of), held) in Location::workers().zip(wanted.iter()).zip(&held) {
            for &(number, share) in of {
                let count = self.count(share, source.version);
                let has = |&(of, at, found): &Held| of == number && at == source.version && found >= count;
                if given || !held.iter().any(has) {
                    self.move_to(asking, (to, number, share), &source)?;
                }
            }
        }
        let stay = |&at: &Location| {
            let own = wanted.get(at.index()).into_iter().flatten();
            let stay = Instruction::Stay { parameters: own.map(|(number, _)| *number).collect() };
            Ok((at, instruction::write(&stay, &[]).map_err(failed)?))
        };
        tell(asking, all.iter().map(stay).collect::<Result<_>>()?)?;
        self.given.set(false);
        self.noted = Some(Version(source.version)).filter(|_| self.replicates());
        Ok(Version(source.version))
    }

    /// Returns the parameters that each worker needs, with the matrices of each.
    fn shares(&self) -> Result<Vec<Vec<(u32, Share)>>> {
        let mut wanted: Vec<Vec<(u32, Share)>> = vec![Vec::new(); self.there.len()];
        for (number, one) in (0u32..).zip(&self.parameters) {
            let holders = self.holders(one)?;
            let copies = self.copies(one, &holders)?;
            let all = holders.into_iter().map(|at| (at, Share::All));
            for (at, share) in all.chain(copies.into_iter().map(|at| (at, Share::Values))) {
                wanted.get_mut(at.index()).into_iter().for_each(|of| of.push((number, share)));
            }
        }
        Ok(wanted)
    }

    /// Returns true if workers also need the values from before the update to `version`.
    fn is_before(&self, version: u64) -> bool {
        self.delayed && version > 0
    }

    /// Returns the number of matrices that a worker needs of one parameter at `version`.
    fn count(&self, share: Share, version: u64) -> usize {
        let own = if share == Share::All { self.matrices() } else { 1 };
        own + usize::from(self.is_before(version))
    }

    /// Returns the source of the values. The workers are the source if together they have all
    /// values of the last finished round. Otherwise the snapshot is. `held` lists the parameters
    /// that each worker has stored.
    fn source(&self, held: &[Vec<Held>]) -> Source {
        let of = |version: u64| -> Option<Source> {
            let count = self.count(Share::All, version);
            let has = |number: u32| {
                let has = |&(of, at, found): &Held| of == number && at == version && found >= count;
                Location::workers().zip(held).find(|(_, held)| held.iter().any(has)).map(|(at, _)| at)
            };
            // The cast is lossless, because a program has at most 2^16 parameters.
            let holders = (0..self.parameters.len() as u32).map(has).collect::<Option<Vec<Location>>>()?;
            Some(Source { version, holders: Some(holders) })
        };
        let noted = self.noted.filter(|_| !self.given.get());
        let later = noted.map(|version| version.0).filter(|version| *version > self.logged().0);
        later.and_then(of).unwrap_or(Source { version: self.logged().0, holders: None })
    }

    /// Sends the matrices of a parameter to the worker `to`, one at a time to save memory.
    fn move_to<M: Executor + ?Sized>(
        &self,
        asking: &mut Asking<'_, M>,
        (to, number, share): (Location, u32, Share),
        source: &Source,
    ) -> Result<()> {
        let (one, version) = (self.parameter(number)?, source.version);
        let from = source.holders.as_ref().and_then(|holders| holders.get(number as usize)).copied();
        let mut give = |instruction: Instruction, (version, matrix): (u64, usize), logged: usize| {
            let given = match from {
                Some(from) => take(asking, from, matrix_key(number, version, matrix), one.shape())?,
                None => self.logged_matrix(one, number, logged)?,
            };
            tell(asking, vec![(to, instruction::write(&instruction, &[given]).map_err(failed)?)])
        };
        let before = usize::from(self.is_before(version));
        if before > 0 {
            give(one.own(number, version - 1, 0), (version - 1, 0), self.matrices())?;
        }
        (0..self.count(share, version) - before)
            .try_for_each(|matrix| give(one.own(number, version, matrix), (version, matrix), matrix))
    }

    /// Returns a matrix of a parameter from the snapshot.
    fn logged_matrix(&self, one: &Owned, number: u32, matrix: usize) -> Result<Matrix> {
        let values = self.log_file()?.get(number as usize, matrix)?;
        instruction::matrix(one.shape(), &values).map_err(failed)
    }
}
