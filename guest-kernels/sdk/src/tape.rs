//! Tape: record of the operations in a kernel's forward pass, from which its gradient is derived.
//!
//! While a [`Tape`] records, each operation of [`crate::linalg`], each view and each scratch matrix
//! becomes a [`Step`]. A step has a rule that computes the gradients of its operands from the
//! gradient of its result. [`walk::Walk`] then processes the steps in reverse order. A value is a
//! [`Node`] of one of three kinds. The gradient of a matrix of rows is a matrix. The gradient of a
//! value made of parameters alone is a sum over rows, which one reduction writes. The state of a
//! softmax over segments has no gradient of its own for its largest value and inverse.

mod dense;
mod edges;
mod lazy;
mod rules;
mod terms;
mod walk;

use std::cell::RefCell;
use std::rc::Rc;

use crate::handles::{Ids, Laid, Matrix, Out, RawMatrix};
use crate::op::Op;
use crate::types::{Error, Result};

pub(crate) use edges::{Ends, Side};
use lazy::Lazy;
pub(crate) use lazy::{Key, Later};
pub(crate) use terms::Term;
pub(crate) use walk::{Walk, fill, zeros_later};

/// View of a matrix.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Rows {
        start: u32,
        count: u32,
    },
    Columns {
        start: u32,
        count: u32,
    },
    Reshape(Vec<u32>),
    /// Each row is split into N rows. The second field creates the view.
    Split(u32, Make),
    /// N rows are joined to one row. The second field creates the view.
    Grouped(u32, Make),
}

/// Function that creates a view. It is a pointer, so that a component imports the function only if
/// it uses such views.
pub(crate) type Make = fn(&RawMatrix, u32) -> Result<RawMatrix>;

/// Executor of a kernel's operations. It is a trait object, so that a component without derived
/// gradients does not contain it.
pub(crate) trait Recorder {
    fn created(&self, shape: &[u32]) -> Result<Out>;
    fn finished(&self, matrix: &Matrix, key: Option<Key>);
    fn viewed(&self, x: &Matrix, view: View) -> Result<Matrix>;
    fn written(&self, into: &Out, start: u32, count: u32) -> Result<()>;
    fn operation(&self, op: &Op<'_>) -> Result<()>;
    fn read(&self, matrix: &Matrix) -> Result<()>;
    fn listed(&self, ids: &Ids) -> Result<()>;
}

thread_local! {
    static RECORDER: RefCell<Option<Rc<dyn Recorder>>> = const { RefCell::new(None) };
}

/// Returns the recorder of this thread, or `None` if there is none.
#[inline]
pub(crate) fn recorder() -> Option<Rc<dyn Recorder>> {
    RECORDER.with_borrow(Clone::clone)
}

/// Runs `work` while `recorder` executes the operations of this thread.
fn with_recorder<T>(recorder: Rc<dyn Recorder>, work: impl FnOnce() -> T) -> T {
    struct Reset(Option<Rc<dyn Recorder>>);
    impl Drop for Reset {
        fn drop(&mut self) {
            RECORDER.with_borrow_mut(|r| *r = self.0.take());
        }
    }
    let _reset = Reset(RECORDER.with_borrow_mut(|r| r.replace(recorder)));
    work()
}

/// Kind of a node, which determines the form of its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Matrix of rows. The gradient has the same extents.
    Rows,
    /// Value made of parameters alone. The gradient is a list of [`Term`]s.
    Parameter,
    /// State [n, 2 p] of a softmax. The gradient [n, p] is the values times their gradient, summed
    /// where rows are gathered.
    State,
}

/// Value on a tape: a matrix or rows of an output, with its dependencies.
#[derive(Debug)]
pub(crate) struct Node {
    kind: Kind,
    rows: u32,
    /// True if it depends on an input or a parameter.
    tracked: bool,
    /// True if it depends on an input or a parameter whose gradient is requested.
    wanted: bool,
    /// True if it is a parameter itself.
    leaf: bool,
    /// Number of operations and views that read it.
    uses: u32,
    /// True if something was added to values that had been written before.
    accumulated: bool,
    value: Option<Matrix>,
}

type OfRows = Box<dyn FnOnce(&mut Walk<'_>, Matrix) -> Result<()>>;
type OfTerms = Box<dyn FnOnce(&mut Walk<'_>, Vec<Term>) -> Result<()>>;

/// Rule for the gradient of a step's operands.
enum Back {
    /// The operands have no gradient.
    Nothing,
    Rows(OfRows),
    Terms(OfTerms),
    /// The gradient of the operands is the one that targets passed to their sources, whatever the
    /// gradient here is.
    Passed(OfRows, usize),
}

/// Write of some rows of a node.
struct Step {
    node: u32,
    first: u32,
    count: u32,
    accumulate: bool,
    back: Back,
}

/// Properties of an operand.
#[derive(Debug, Clone, Copy)]
struct Operand {
    kind: Kind,
    tracked: bool,
    wanted: bool,
}

/// Returns the error for an operation without a derivative.
pub(crate) fn refuse(operation: &str, why: &str) -> Error {
    let text = [operation, ": ", why, "; write this kernel's backward by hand, or compute it in another way"];
    Error::Unsupported(text.concat())
}

/// Steps and nodes that were recorded so far.
#[derive(Default)]
struct Recorded {
    nodes: Vec<Node>,
    steps: Vec<Step>,
}

/// Tape of one call, which records operations and derives gradients.
pub(crate) struct Tape {
    recorded: RefCell<Recorded>,
    side: Side,
    lazy: Rc<Lazy>,
}

impl Tape {
    pub(crate) fn new(side: Side) -> Rc<Self> {
        // If only extents matter, operations run at once, so that errors are found.
        let lazy = Lazy::new(side.is_dry());
        let tape = Self { recorded: RefCell::default(), side, lazy };
        // Node 0 represents values that no tape knows.
        tape.node(Kind::Rows, &[], None);
        Rc::new(tape)
    }

    pub(crate) fn side(&self) -> &Side {
        &self.side
    }

    fn node(&self, kind: Kind, shape: &[u32], value: Option<Matrix>) -> u32 {
        let nodes = &mut self.recorded.borrow_mut().nodes;
        nodes.push(Node {
            kind,
            rows: shape.first().copied().unwrap_or(0),
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
        let node = self.node(kind, matrix.extents(), Some(matrix.shared(0)));
        let of = &mut self.recorded.borrow_mut().nodes[node as usize];
        (of.tracked, of.wanted, of.leaf) = (true, wanted, true);
        matrix.shared(node)
    }

    /// Registers an input. `wanted` is true if its gradient is requested.
    pub(crate) fn input(&self, matrix: &Matrix, wanted: bool) -> Matrix {
        self.start(matrix, Kind::Rows, wanted)
    }

    pub(crate) fn parameter(&self, matrix: &Matrix, wanted: bool) -> Matrix {
        self.start(matrix, Kind::Parameter, wanted)
    }

    /// Runs `work` while this tape records the operations of this thread.
    pub(crate) fn record<T>(self: &Rc<Self>, work: impl FnOnce() -> T) -> T {
        with_recorder(Rc::clone(self) as Rc<dyn Recorder>, work)
    }

    /// Runs `work` during the backward pass. It may read values that the tape knows.
    pub(crate) fn back<T>(&self, work: impl FnOnce() -> T) -> T {
        with_recorder(Rc::clone(&self.lazy) as Rc<dyn Recorder>, work)
    }

    fn operand(&self, matrix: &Matrix) -> Operand {
        let nodes = &mut self.recorded.borrow_mut().nodes;
        let node = &mut nodes[matrix.node() as usize];
        node.uses += 1;
        Operand { kind: node.kind, tracked: node.tracked, wanted: node.wanted }
    }

    /// Records that rows of `into` were written by an operation with this rule.
    fn wrote(&self, into: &Out, kind: Kind, from: &[Operand], accumulate: bool, back: Back) -> Result<()> {
        let ((node, first), laid) = (into.target(), into.laid());
        let rows = laid.rows(into.extents().first().copied().unwrap_or(0));
        let back = match (laid, back) {
            (Laid::AsTheyAre, back) => back,
            (_, Back::Nothing) => Back::Nothing,
            // Gradient of the output's rows, in the form in which the operation saw them.
            (_, Back::Rows(back)) => Back::Rows(Box::new(move |walk, g| back(walk, laid.view_of(g)?))),
            _ => {
                return Err(refuse(
                    "split-out, group-out",
                    "the gradient of a value made of parameters, or of a sum over edges, cannot be derived",
                ));
            }
        };
        self.step((node, first, rows), kind, from, accumulate, back)
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
            return Err(refuse("write", "some rows of a matrix are made of parameters, and others are not"));
        }
        if tracked {
            (of.kind, of.tracked) = (kind, true);
        }
        let whole = of.rows == count;
        if of.tracked && of.kind != Kind::Rows && (!whole || accumulate) {
            return Err(refuse(
                "write",
                "a value made of parameters or a softmax state must be written by one operation",
            ));
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
    fn created(&self, shape: &[u32]) -> Result<Out> {
        self.lazy.scratch(shape, self.node(Kind::Rows, shape, None))
    }

    fn finished(&self, matrix: &Matrix, key: Option<Key>) {
        self.lazy.remember(matrix, key);
        let nodes = &mut self.recorded.borrow_mut().nodes;
        nodes[matrix.node() as usize].value = Some(matrix.shared(0));
    }

    fn viewed(&self, x: &Matrix, view: View) -> Result<Matrix> {
        let made = self.lazy.view(x, &view)?;
        let of = self.operand(x);
        let shape = made.shape();
        // Equal views share a matrix, but are different values. Values may be equal at one end of
        // an edge only.
        let node = self.node(of.kind, &shape, Some(made.shared(0)));
        if !of.tracked {
            return Ok(made.shared(node));
        }
        let back = rules::view(x, view, shape.clone(), of.kind)?;
        let count = shape.first().copied().unwrap_or(0);
        self.step((node, 0, count), of.kind, &[of], false, back)?;
        Ok(made.shared(node))
    }

    fn written(&self, into: &Out, start: u32, count: u32) -> Result<()> {
        let (node, first) = into.target();
        self.step((node, first + start, count), Kind::Rows, &[], false, Back::Nothing)
    }

    fn operation(&self, op: &Op<'_>) -> Result<()> {
        self.side.run(op, &self.lazy)?;
        self.rule(op)
    }

    fn read(&self, matrix: &Matrix) -> Result<()> {
        if self.operand(matrix).tracked {
            let why =
                "values that a gradient must flow through are read in the guest, where no tape sees them";
            return Err(refuse("read-rows", why));
        }
        matrix.make()
    }

    fn listed(&self, ids: &Ids) -> Result<()> {
        self.side.listed(ids)
    }
}
