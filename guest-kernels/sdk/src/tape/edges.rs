//! What edge kernels add to a tape: own rows go to edges and back by the task's lists alone, and of targets their
//! sources see one row each, `passed`, with a *slot* for each thing that is brought to edges and for the gradient of each
//! sum over edges, in the order of the forward pass.

use std::cell::{Cell, RefCell};

use super::lazy::Lazy;
use super::{View, refuse};
use crate::handles::{Ids, Matrix};
use crate::op::{Before, Op};
use crate::types::{Error, Result};

/// Which ends own rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// There are no edges: a vertex kernel.
    None,
    /// Only extents matter.
    Dry,
    Targets,
    Sources,
}

/// What is at a slot.
#[derive(Debug)]
enum Slot {
    /// Own rows, by their value on the tape.
    Own(Matrix),
    /// The gradient of a sum over edges.
    Gradient,
}

/// The side from which a tape sees edges.
#[derive(Debug)]
pub(crate) struct Side {
    ends: Ends,
    lists: Option<(Ids, Ids)>,
    slots: RefCell<Vec<(Slot, u32)>>,
    /// [m, the widths of all slots]
    passed: Option<Matrix>,
    /// Where the next slot of `passed` starts.
    next: Cell<u32>,
    starts: RefCell<Vec<u32>>,
}

impl Side {
    /// A vertex kernel.
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

    /// A slot for a sum's gradient.
    pub(super) fn sum(&self, width: u32) -> Result<usize> {
        self.slot(Slot::Gradient, width)
    }

    /// The slot of own rows.
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

    /// By edge, what targets passed at a slot: [m, width].
    pub(super) fn passed(&self, slot: usize, lazy: &Lazy) -> Result<Matrix> {
        let passed = self.passed.as_ref().ok_or_else(|| missing("passed rows"))?;
        let (start, width) = (self.starts.borrow()[slot], self.slots.borrow()[slot].1);
        lazy.view(passed, &View::Columns { start, count: width })
    }

    /// By edge, the own rows of a node.
    pub(super) fn gathered(&self, node: u32, lazy: &Lazy) -> Result<Matrix> {
        let slots = self.slots.borrow();
        let is = |slot: &Slot| matches!(slot, Slot::Own(x) if x.node() == node);
        let Some(slot) = slots.iter().position(|(slot, _)| is(slot)) else {
            return Err(refuse("softmax-segments", "its state is not brought to edges by task.to_edges"));
        };
        self.passed(slot, lazy)
    }

    /// Does an operation, or what stands in its place on this side.
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
                "the lists of edges are read in the guest, and differ between both ends",
            ));
        }
        Ok(())
    }

    /// Values of a row that is passed; at least one.
    pub(crate) fn width(&self) -> u32 {
        self.next.get().max(1)
    }

    /// What targets pass, slot by slot: own rows, or the gradient, and how many values a row has.
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
