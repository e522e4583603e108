//! The tape: what a kernel's forward pass does, written down so that its gradient can be derived.
//!
//! While a [`Tape`] records, each operation of [`crate::linalg`], each view and each scratch matrix becomes a
//! [`Step`] with the rule that takes the gradient of what it writes back to what it reads; [`walk::Walk`] then
//! follows the steps backwards. A value is a [`Node`]: a matrix by rows, whose gradient is a matrix; something
//! made of parameters alone, whose gradient is a sum over rows that is written by one reduction; or the state of a
//! softmax over segments, whose largest value and inverse have no gradient of their own.

mod edges;
mod rules;
mod terms;
mod walk;

use std::cell::RefCell;
use std::rc::Rc;

use crate::handles::{Ids, Matrix, Out};
use crate::op::Op;
use crate::types::{Error, Result};

pub(crate) use edges::{Ends, Side};
pub(crate) use terms::Term;
pub(crate) use walk::{Walk, fill};

/// A view of a matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View {
    Rows { start: u32, count: u32 },
    Columns { start: u32, count: u32 },
    Reshape,
}

/// Who is told of what a kernel does. Behind a pointer, so that a component without derived gradients has none of it.
pub(crate) trait Recorder {
    fn created(&self, shape: &[u32]) -> u32;
    fn finished(&self, matrix: Matrix) -> Matrix;
    fn viewed(&self, x: &Matrix, view: View, made: Matrix) -> Result<Matrix>;
    fn written(&self, into: &Out, start: u32, count: u32) -> Result<()>;
    /// Does something in the operation's place; whether it did.
    fn instead(&self, op: &Op<'_>) -> Result<bool>;
    fn operation(&self, op: &Op<'_>) -> Result<()>;
    fn read(&self, matrix: &Matrix) -> Result<()>;
    fn listed(&self, ids: &Ids) -> Result<()>;
}

thread_local! {
    static RECORDER: RefCell<Option<Rc<dyn Recorder>>> = const { RefCell::new(None) };
}

/// Who records on this thread, if anybody does.
#[inline]
pub(crate) fn recorder() -> Option<Rc<dyn Recorder>> {
    RECORDER.with_borrow(Clone::clone)
}

/// What a gradient with regard to a node looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A matrix of the node's extents.
    Rows,
    /// [`Term`]s, for the node is made of parameters alone.
    Parameter,
    /// [n, p] for a softmax's state [n, 2 p]: the values times their gradient, summed where rows are gathered.
    State,
}

/// A value.
#[derive(Debug)]
pub(crate) struct Node {
    kind: Kind,
    shape: Vec<u32>,
    /// Whether it depends on an input or a parameter.
    tracked: bool,
    /// Whether it depends on one whose gradient is wanted.
    wanted: bool,
    /// Whether it is a parameter itself.
    leaf: bool,
    /// How many operations and views read it.
    uses: u32,
    /// Whether something was added onto what had been written.
    accumulated: bool,
    value: Option<Matrix>,
}

type OfRows = Box<dyn FnOnce(&mut Walk<'_>, Matrix) -> Result<()>>;
type OfTerms = Box<dyn FnOnce(&mut Walk<'_>, Vec<Term>) -> Result<()>>;

/// How the gradient of what a step wrote goes on.
enum Back {
    /// No further.
    Nothing,
    Rows(OfRows),
    Terms(OfTerms),
    /// Whatever the gradient here is, it goes on as what targets passed to their sources.
    Passed(OfRows, usize),
}

/// One writing of some rows of a node.
struct Step {
    node: u32,
    first: u32,
    count: u32,
    accumulate: bool,
    back: Back,
}

/// What is known of an operand.
#[derive(Debug, Clone, Copy)]
struct Operand {
    kind: Kind,
    tracked: bool,
    wanted: bool,
}

/// The error for what has no derivation.
pub(crate) fn refuse(operation: &str, why: &str) -> Error {
    let text = [operation, ": ", why, "; write this kernel's backward by hand, or compute it in another way"];
    Error::Unsupported(text.concat())
}

/// What was recorded so far.
#[derive(Default)]
struct Recorded {
    nodes: Vec<Node>,
    steps: Vec<Step>,
}

/// The tape of one call.
pub(crate) struct Tape {
    recorded: RefCell<Recorded>,
    side: Side,
}

impl Tape {
    pub(crate) fn new(side: Side) -> Rc<Self> {
        let tape = Self { recorded: RefCell::default(), side };
        // Node 0 stands for what no tape knows.
        tape.node(Kind::Rows, &[], None);
        Rc::new(tape)
    }

    pub(crate) fn side(&self) -> &Side {
        &self.side
    }

    fn node(&self, kind: Kind, shape: &[u32], value: Option<Matrix>) -> u32 {
        let nodes = &mut self.recorded.borrow_mut().nodes;
        let shape = shape.to_vec();
        nodes.push(Node {
            kind,
            shape,
            tracked: false,
            wanted: false,
            leaf: false,
            uses: 0,
            accumulated: false,
            value,
        });
        nodes.len() as u32 - 1
    }

    fn start(&self, matrix: &Matrix, kind: Kind, wanted: bool) -> Matrix {
        let node = self.node(kind, &matrix.shape(), Some(matrix.shared(0)));
        let of = &mut self.recorded.borrow_mut().nodes[node as usize];
        (of.tracked, of.wanted, of.leaf) = (true, wanted, true);
        matrix.shared(node)
    }

    /// An input, and whether its gradient is wanted.
    pub(crate) fn input(&self, matrix: &Matrix, wanted: bool) -> Matrix {
        self.start(matrix, Kind::Rows, wanted)
    }

    pub(crate) fn parameter(&self, matrix: &Matrix, wanted: bool) -> Matrix {
        self.start(matrix, Kind::Parameter, wanted)
    }

    /// Runs `work` while this tape records on this thread.
    pub(crate) fn record<T>(self: &Rc<Self>, work: impl FnOnce() -> T) -> T {
        struct Reset(Option<Rc<dyn Recorder>>);
        impl Drop for Reset {
            fn drop(&mut self) {
                RECORDER.with_borrow_mut(|r| *r = self.0.take());
            }
        }
        let recorder: Rc<dyn Recorder> = Rc::clone(self) as Rc<dyn Recorder>;
        let _reset = Reset(RECORDER.with_borrow_mut(|r| r.replace(recorder)));
        work()
    }

    fn of(&self, matrix: &Matrix) -> Operand {
        let nodes = &mut self.recorded.borrow_mut().nodes;
        let node = &mut nodes[matrix.node() as usize];
        node.uses += 1;
        Operand { kind: node.kind, tracked: node.tracked, wanted: node.wanted }
    }

    /// Notes that rows of `into` were written, by what has this gradient.
    fn wrote(&self, into: &Out, kind: Kind, from: &[Operand], accumulate: bool, back: Back) -> Result<()> {
        let (node, first) = into.target();
        let shape = into.shape();
        self.step((node, first, shape.first().copied().unwrap_or(0)), kind, from, accumulate, back)
    }

    fn step(
        &self,
        (node, first, count): (u32, u32, u32),
        kind: Kind,
        from: &[Operand],
        accumulate: bool,
        back: Back,
    ) -> Result<()> {
        if node == 0 {
            return Ok(());
        }
        let mut recorded = self.recorded.borrow_mut();
        let of = &mut recorded.nodes[node as usize];
        let tracked = from.iter().any(|o| o.tracked);
        if of.tracked && tracked && of.kind != kind {
            return Err(refuse("write", "rows of one matrix come from parameters and from elsewhere"));
        }
        if tracked {
            (of.kind, of.tracked) = (kind, true);
        }
        let whole = of.shape.first().is_none_or(|&rows| rows == count);
        if of.tracked && of.kind != Kind::Rows && (!whole || accumulate) {
            return Err(refuse("write", "what is made of parameters or softmax states is written at once"));
        }
        let wanted = from.iter().any(|o| o.wanted);
        of.wanted |= wanted;
        of.accumulated |= accumulate;
        let back = if wanted { back } else { Back::Nothing };
        recorded.steps.push(Step { node, first, count, accumulate, back });
        Ok(())
    }
}

impl Recorder for Tape {
    fn created(&self, shape: &[u32]) -> u32 {
        self.node(Kind::Rows, shape, None)
    }

    fn finished(&self, matrix: Matrix) -> Matrix {
        let nodes = &mut self.recorded.borrow_mut().nodes;
        nodes[matrix.node() as usize].value = Some(matrix.shared(0));
        matrix
    }

    fn viewed(&self, x: &Matrix, view: View, made: Matrix) -> Result<Matrix> {
        let of = self.of(x);
        if !of.tracked {
            return Ok(made);
        }
        let shape = made.shape();
        let node = self.node(of.kind, &shape, Some(made.shared(0)));
        let back = rules::view(x, view, shape.clone(), of.kind)?;
        let count = shape.first().copied().unwrap_or(0);
        self.step((node, 0, count), of.kind, &[of], false, back)?;
        Ok(made.shared(node))
    }

    fn written(&self, into: &Out, start: u32, count: u32) -> Result<()> {
        let (node, first) = into.target();
        self.step((node, first + start, count), Kind::Rows, &[], false, Back::Nothing)
    }

    fn instead(&self, op: &Op<'_>) -> Result<bool> {
        self.side.instead(op)
    }

    fn operation(&self, op: &Op<'_>) -> Result<()> {
        self.rule(op)
    }

    fn read(&self, matrix: &Matrix) -> Result<()> {
        if self.of(matrix).tracked {
            let why =
                "values that a gradient must flow through are read in the guest, where no tape sees them";
            return Err(refuse("read-rows", why));
        }
        Ok(())
    }

    fn listed(&self, ids: &Ids) -> Result<()> {
        self.side.listed(ids)
    }
}
