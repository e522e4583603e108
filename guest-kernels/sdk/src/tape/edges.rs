//! Parts of a tape for edge kernels. Own rows are copied to edges and back only with the task's
//! lists. A source sees one row of each target, `passed`. This row has a *slot* for each value that
//! is copied to edges, and for the gradient of each sum over edges. Slots are in the order of the
//! forward pass.

use std::cell::{Cell, RefCell};

use super::lazy::Lazy;
use super::{View, refuse};
use crate::handles::{Ids, Matrix};
use crate::op::{Before, Op};
use crate::types::{Error, Result};

/// End of the edges to which the own rows belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// There are no edges, because the kernel is a vertex kernel.
    None,
    /// Only extents matter, and there are no rows.
    Dry,
    Targets,
    Sources,
}

/// Content of a slot.
#[derive(Debug)]
enum Slot {
    /// Own rows, by their value on the tape.
    Own(Matrix),
    /// Gradient of a sum over edges.
    Gradient,
}

/// End of the edges from which a tape records, with its lists.
#[derive(Debug)]
pub(crate) struct Side {
    ends: Ends,
    lists: Option<(Ids, Ids)>,
    slots: RefCell<Vec<(Slot, u32)>>,
    /// Passed rows of all slots, [m, sum of the widths].
    passed: Option<Matrix>,
    /// Column of `passed` at which the next slot starts.
    next: Cell<u32>,
    starts: RefCell<Vec<u32>>,
}

impl Side {
    /// Creates the side of a vertex kernel.
    pub(crate) fn none() -> Self {
        let (slots, starts) = (RefCell::default(), RefCell::default());
        Self { ends: Ends::None, lists: None, slots, passed: None, next: Cell::new(0), starts }
    }

    pub(crate) fn new(ends: Ends, offsets: &Ids, owners: &Ids, passed: Option<&Matrix>) -> Self {
        let (lists, passed) = (Some((offsets.shared(), owners.shared())), passed.map(|p| p.shared(0)));
        Self { ends, lists, passed, ..Self::none() }
    }

    pub(super) fn is_edges(&self) -> bool {
        self.ends != Ends::None
    }

    pub(super) fn is_dry(&self) -> bool {
        self.ends == Ends::Dry
    }

    pub(super) fn is_sources(&self) -> bool {
        self.ends == Ends::Sources
    }

    pub(super) fn is_offsets(&self, ids: &Ids) -> bool {
        self.lists.as_ref().is_some_and(|(offsets, _)| offsets.is(ids))
    }

    pub(super) fn is_owners(&self, ids: &Ids) -> bool {
        self.lists.as_ref().is_some_and(|(_, owners)| owners.is(ids))
    }

    pub(super) fn offsets(&self) -> Result<Ids> {
        let lists = self.lists.as_ref();
        lists.map(|(offsets, _)| offsets.shared()).ok_or_else(|| missing("offsets"))
    }

    pub(super) fn owners(&self) -> Result<Ids> {
        let lists = self.lists.as_ref();
        lists.map(|(_, owners)| owners.shared()).ok_or_else(|| missing("owners"))
    }

    fn slot(&self, slot: Slot, width: u32) -> Result<usize> {
        let start = self.next.get();
        let next = start.checked_add(width).ok_or_else(|| {
            refuse("passed", "what targets pass to their sources has more than 2^32 - 1 values")
        })?;
        self.next.set(next);
        self.starts.borrow_mut().push(start);
        self.slots.borrow_mut().push((slot, width));
        Ok(self.slots.borrow().len() - 1)
    }

    /// Adds a slot for the gradient of a sum.
    pub(super) fn sum(&self, width: u32) -> Result<usize> {
        self.slot(Slot::Gradient, width)
    }

    /// Returns the slot of own rows.
    fn own(&self, x: &Matrix) -> Result<usize> {
        let same = |slot: &Slot| match slot {
            Slot::Own(other) if x.node() != 0 => other.node() == x.node(),
            Slot::Own(other) => other.is(x),
            Slot::Gradient => false,
        };
        let found = self.slots.borrow().iter().position(|(slot, _)| same(slot));
        if let Some(found) = found {
            return Ok(found);
        }
        let width = x.shape().iter().skip(1).product();
        self.slot(Slot::Own(x.shared(x.node())), width)
    }

    /// Returns the values that targets passed in a slot, per edge: [m, width].
    pub(super) fn passed(&self, slot: usize, lazy: &Lazy) -> Result<Matrix> {
        let passed = self.passed.as_ref().ok_or_else(|| missing("passed rows"))?;
        let (start, width) = (self.starts.borrow()[slot], self.slots.borrow()[slot].1);
        lazy.view(passed, &View::Columns { start, count: width })
    }

    /// Returns the own rows of a node, per edge.
    pub(super) fn gathered(&self, node: u32, lazy: &Lazy) -> Result<Matrix> {
        let slots = self.slots.borrow();
        let is = |slot: &Slot| matches!(slot, Slot::Own(x) if x.node() == node);
        let Some(slot) = slots.iter().position(|(slot, _)| is(slot)) else {
            return Err(refuse("softmax-segments", "its state cannot be copied to edges with task.to_edges"));
        };
        self.passed(slot, lazy)
    }

    /// Executes an operation, or its replacement on this side.
    pub(super) fn run(&self, op: &Op<'_>, lazy: &Lazy) -> Result<()> {
        match *op {
            Op::GatherRows { x, rows, into } if self.is_owners(rows) => {
                let slot = self.own(x)?;
                if !self.is_sources() {
                    return lazy.run(op);
                }
                let passed = lazy.view(&self.passed(slot, lazy)?, &View::Reshape(into.shape()))?;
                lazy.copy(passed, into)
            }
            // There are no rows to draw numbers for, and the host may be between two tasks.
            Op::Linear { x, before, w, after, into } if self.is_dry() => {
                let before = Before { dropout: None, ..before };
                lazy.run(&Op::Linear { x, before, w, after, into })
            }
            Op::Apply { x, by, into } if self.is_dry() => {
                lazy.run(&Op::Apply { x, by: Before { dropout: None, ..by }, into })
            }
            _ => lazy.run(op),
        }
    }

    pub(super) fn listed(&self, ids: &Ids) -> Result<()> {
        if self.is_offsets(ids) || self.is_owners(ids) {
            return Err(refuse(
                "read",
                "the guest reads the edge lists, which differ between both ends of an edge",
            ));
        }
        Ok(())
    }

    /// Returns the number of values in a passed row, at least one.
    pub(crate) fn width(&self) -> u32 {
        self.next.get().max(1)
    }

    /// Returns the content that targets pass in each slot (own rows or the gradient), and the
    /// number of values in a row.
    pub(crate) fn parts(&self, gradients: &Passed) -> Vec<(Option<Matrix>, u32)> {
        let part = |(at, (slot, width)): (usize, &(Slot, u32))| {
            let rows = match slot {
                Slot::Own(x) => Some(x.shared(0)),
                Slot::Gradient => gradients.0.iter().find(|(slot, _)| *slot == at).map(|(_, g)| g.shared(0)),
            };
            (rows, *width)
        };
        self.slots.borrow().iter().enumerate().map(part).collect()
    }
}

fn missing(what: &str) -> Error {
    Error::Kernel(["a tape of edges has no ", what].concat())
}

/// Gradients of sums over edges, by slot.
#[derive(Debug, Default)]
pub(crate) struct Passed(Vec<(usize, Matrix)>);

impl Passed {
    pub(super) fn put(&mut self, slot: usize, gradient: Matrix) {
        self.0.push((slot, gradient));
    }
}
