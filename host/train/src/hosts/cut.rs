//! Division of the intervals among the hosts of a run.

use std::ops::Range;

use crate::error::{Error, Result};

/// Division of the intervals among the hosts. Each host has consecutive intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// First interval of each host, followed by the number of intervals.
    firsts: Vec<u32>,
}

impl Cut {
    /// Divides intervals with the first atoms and rows `starts`, which the numbers of atoms and rows
    /// follow, so that all hosts have about the same number of atoms, which are of
    /// about equal work. If the data set was divided into as many parts, the hosts begin as near to
    /// the first rows `parts` as intervals do.
    ///
    /// # Errors
    /// Returns [`Error::Hosts`] if there are fewer intervals than hosts.
    pub(crate) fn new(starts: &[[u32; 2]], parts: &[u32], hosts: u32) -> Result<Self> {
        let parts = if parts.len() == hosts as usize { parts } else { &[] };
        let intervals = starts.len().saturating_sub(1) as u32;
        let atoms = starts.last().map_or(0, |[atoms, _]| *atoms);
        if intervals < hosts {
            return Err(Error::Hosts(format!(
                "the data set has {intervals} intervals, which {hosts} hosts cannot divide among them; use \
                 fewer hosts, or set `run.intervals` to at least {hosts}"
            )));
        }
        let mut firsts = vec![0];
        for host in 1..hosts {
            let wanted = u64::from(atoms) * u64::from(host) / u64::from(hosts);
            let distance = |at: &u32| {
                let [atom, row] = starts[*at as usize];
                match parts.get(host as usize) {
                    Some(&first) => u64::from(row.abs_diff(first)),
                    None => u64::from(atom).abs_diff(wanted),
                }
            };
            let before = firsts.last().copied().unwrap_or(0);
            let all = before + 1..=intervals - (hosts - host);
            firsts.push(all.min_by_key(distance).unwrap_or(before + 1));
        }
        firsts.push(intervals);
        Ok(Self { firsts })
    }

    /// Returns the intervals of a host.
    pub(crate) fn of(&self, host: u32) -> Range<u32> {
        let at = |host: u32| self.firsts.get(host as usize).copied().unwrap_or(0);
        at(host)..at(host + 1)
    }

    /// Returns the intervals of each host.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.firsts.windows(2).map(|pair| pair[0]..pair[1])
    }
}
