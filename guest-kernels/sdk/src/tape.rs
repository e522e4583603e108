//! The tape: what a kernel's forward pass does, written down so that its gradient can be derived.
//!
//! While a [`Tape`] records, each operation of [`crate::linalg`], each view and each scratch matrix becomes a
//! [`Step`] with the rule that takes the gradient of what it writes back to what it reads; [`walk::Walk`] then
//! follows the steps backwards. A value is a [`Node`]: a matrix by rows, whose gradient is a matrix; something
//! made of parameters alone, whose gradient is a sum over rows that is written by one reduction; or the state of a
//! softmax over segments, whose largest value and inverse have no gradient of their own.

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

/// A view of a matrix.
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
    /// Each row cut into so many, and how it is made.
    Split(u32, Make),
    /// So many rows put together, and how it is made.
    Grouped(u32, Make),
}

/// Makes a view: a pointer, so that a component imports it only where it asks for such a view.
pub(crate) type Make = fn(&RawMatrix, u32) -> Result<RawMatrix>;

/// Who does what a kernel asks for. Behind a pointer, so that a component without derived gradients has none of it.
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

/// Who records on this thread, if anybody does.
#[inline]
pub(crate) fn recorder() -> Option<Rc<dyn Recorder>> {
    RECORDER.with_borrow(Clone::clone)
}

/// Runs `work` while `recorder` does what it asks for on this thread.
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
    rows: u32,
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
    lazy: Rc<Lazy>,
}

impl Tape {
    pub(crate) fn new(side: Side) -> Rc<Self> {
        // Where only extents matter an error is to come at once.
        let lazy = Lazy::new(side.is_dry());
        let tape = Self { recorded: RefCell::default(), side, lazy };
        // Node 0 stands for what no tape knows.
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

    /// An input, and whether its gradient is wanted.
    pub(crate) fn input(&self, matrix: &Matrix, wanted: bool) -> Matrix {
        self.start(matrix, Kind::Rows, wanted)
    }

    pub(crate) fn parameter(&self, matrix: &Matrix, wanted: bool) -> Matrix {
        self.start(matrix, Kind::Parameter, wanted)
    }

    /// Runs `work` while this tape records on this thread.
    pub(crate) fn record<T>(self: &Rc<Self>, work: impl FnOnce() -> T) -> T {
        with_recorder(Rc::clone(self) as Rc<dyn Recorder>, work)
    }

    /// Runs `work`, which is on the way back: it may read what the tape knows.
    pub(crate) fn back<T>(&self, work: impl FnOnce() -> T) -> T {
        with_recorder(Rc::clone(&self.lazy) as Rc<dyn Recorder>, work)
    }

    fn of(&self, matrix: &Matrix) -> Operand {
        let nodes = &mut self.recorded.borrow_mut().nodes;
        let node = &mut nodes[matrix.node() as usize];
        node.uses += 1;
        Operand { kind: node.kind, tracked: node.tracked, wanted: node.wanted }
    }

    /// Notes that rows of `into` were written, by what has this gradient.
    fn wrote(&self, into: &Out, kind: Kind, from: &[Operand], accumulate: bool, back: Back) -> Result<()> {
        let ((node, first), laid) = (into.target(), into.laid());
        let rows = laid.rows(into.extents().first().copied().unwrap_or(0));
        let back = match (laid, back) {
            (Laid::AsTheyAre, back) => back,
            (_, Back::Nothing) => Back::Nothing,
            // The gradient of the place's rows, as the operation saw them.
            (_, Back::Rows(back)) => Back::Rows(Box::new(move |walk, g| back(walk, laid.of(g)?))),
            _ => return Err(refuse("split-out, group-out", "of what is made of parameters, or of edges")),
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
            return Err(refuse("write", "rows of one matrix come from parameters and from elsewhere"));
        }
        if tracked {
            (of.kind, of.tracked) = (kind, true);
        }
        let whole = of.rows == count;
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
        let of = self.of(x);
        let shape = made.shape();
        // Equal views are one matrix, but two values: what a kernel makes may be equal at one end of an edge alone.
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
        if self.of(matrix).tracked {
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
