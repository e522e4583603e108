//! Nothing is computed before somebody reads it, and nothing twice.
//!
//! An operation that writes a whole scratch matrix is put off until its result is read: by the guest, or on the way
//! to a place of the host's. What no gradient needs is thus never computed, be it of the forward pass, which `backward`
//! runs again, or a gradient that nobody asked for. Of two equal operations on equal operands the second is the result
//! of the first, for matrices do not change.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::rules::{Early, held};
use super::{Recorder, View};
use crate::handles::{Ids, Matrix, Out, Remembered, call_unseen};
use crate::op::{After, Before, Op};
use crate::types::{Activation, Dropout, Function, Reduction, Result, Smooth, Windows};

/// Results that wait for each other at most; a longer chain is computed as far as it is known, for each link takes some
/// stack.
const DEPTH_MAX: u32 = 64;

/// What tells an operation or a view, with its operands, from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    parts: [u64; 8],
    count: u8,
}

impl Key {
    fn new(tag: u64) -> Self {
        Self { parts: [tag, 0, 0, 0, 0, 0, 0, 0], count: 1 }
    }

    fn note(&mut self, part: impl Into<u64>) {
        if let Some(place) = self.parts.get_mut(usize::from(self.count)) {
            *place = part.into();
        }
        self.count += 1;
    }

    /// Whether it has all of what it was told.
    fn is_whole(&self) -> bool {
        usize::from(self.count) <= self.parts.len()
    }
}

/// An operation that writes all of a place.
pub(crate) type Write = Box<dyn FnOnce(&Out) -> Result<()>>;

/// How a matrix is made that nobody has read yet.
pub(crate) enum Later {
    /// `depth`: results that wait for each other, this one too.
    Written {
        write: Write,
        depth: u32,
    },
    View(Matrix, View),
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written { depth, .. } => write!(f, "Written({depth})"),
            Self::View(of, view) => write!(f, "View({of:?}, {view:?})"),
        }
    }
}

/// Who puts operations off and remembers results.
#[derive(Debug, Default)]
pub(crate) struct Lazy {
    /// Computes at once, and knows nothing again.
    eager: bool,
    known: RefCell<BTreeMap<Key, Remembered>>,
}

impl Lazy {
    pub(super) fn new(eager: bool) -> Rc<Self> {
        Rc::new(Self { eager, known: RefCell::default() })
    }

    /// A scratch matrix for a value on a tape.
    pub(super) fn scratch(&self, shape: &[u32], node: u32) -> Result<Out> {
        if self.eager { Out::scratch(shape, node) } else { Ok(Out::draft(shape, node)) }
    }

    pub(super) fn remember(&self, matrix: &Matrix, key: Option<Key>) {
        if let Some(key) = key.filter(Key::is_whole) {
            self.known.borrow_mut().insert(key, matrix.remembered());
        }
    }

    fn known(&self, key: &Key) -> Option<Matrix> {
        self.known.borrow().get(key)?.matrix()
    }

    /// A view, which is no value on a tape yet.
    pub(super) fn view(&self, x: &Matrix, view: &View) -> Result<Matrix> {
        let raw = || x.make().and_then(|()| x.view_of_raw(view)).map(Matrix::new);
        if self.eager {
            return raw();
        }
        let Some(shape) = viewed(x.extents(), view) else { return raw() };
        if shape == x.extents() {
            return Ok(x.shared(0));
        }
        let mut key = match view {
            View::Rows { .. } => Key::new(20),
            View::Columns { .. } => Key::new(21),
            View::Reshape(_) => Key::new(22),
            View::Split(..) => Key::new(23),
            View::Grouped(..) => Key::new(24),
        };
        key.note(x.identity());
        match view {
            View::Rows { start, count } | View::Columns { start, count } => {
                key.note(*start);
                key.note(*count);
            }
            View::Reshape(shape) => shape.iter().for_each(|&extent| key.note(extent)),
            View::Split(t, _) | View::Grouped(t, _) => key.note(*t),
        }
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let made = match x.is_there() || x.depth() >= DEPTH_MAX {
            true => raw()?,
            false => Matrix::later(shape, Later::View(x.shared(0), view.clone())),
        };
        self.remember(&made, Some(key));
        Ok(made)
    }

    /// An operation, now or later.
    pub(super) fn run(&self, op: &Op<'_>) -> Result<()> {
        let done = match *op {
            // What is there may be sparse rows, of which this makes dense ones.
            Op::Apply { x, by, into } => by.is_identity() && !x.is_there() && stands_for(x, into),
            Op::ApplyBackward { by, grad, into, .. } => by.is_identity() && stands_for(grad, into),
            _ => false,
        };
        if done {
            return Ok(());
        }
        match put_off(op) {
            Some((into, key, write)) if !self.eager && into.is_blank() => {
                // One operation may write its values as other extents, [m] and [1, m].
                if self.known(&key).is_some_and(|known| stands_for(&known, into)) {
                    return Ok(());
                }
                let depth = op.matrices().map(Matrix::depth).max().unwrap_or(0) + 1;
                if depth > DEPTH_MAX {
                    return run_now(op);
                }
                into.write_later(Later::Written { write, depth }, Some(key));
                Ok(())
            }
            _ => run_now(op),
        }
    }

    /// into = x, which nothing is computed for where `into` is scratch.
    pub(super) fn copy(&self, x: Matrix, into: &Out) -> Result<()> {
        if stands_for(&x, into) {
            return Ok(());
        }
        into.make()?;
        x.write_to(into)
    }
}

/// Makes x what is written to `into`, if that is scratch of the same extents; whether it is.
fn stands_for(x: &Matrix, into: &Out) -> bool {
    let same = into.is_blank() && x.extents() == into.extents();
    if same {
        into.same(x.shared(0));
    }
    same
}

/// With operands and places that are there.
fn run_now(op: &Op<'_>) -> Result<()> {
    op.matrices().try_for_each(Matrix::make)?;
    op.places().try_for_each(Out::make)?;
    call_unseen(*op)
}

/// Extents of a view; none where the host is to say what is wrong with it.
fn viewed(shape: &[u32], view: &View) -> Option<Vec<u32>> {
    let within = |start: u32, count: u32, of: u32| start.checked_add(count).is_some_and(|end| end <= of);
    match (view, shape) {
        (View::Rows { start, count }, [rows, row @ ..]) if within(*start, *count, *rows) => {
            Some([&[*count], row].concat())
        }
        (View::Columns { start, count }, [rows, columns]) if within(*start, *count, *columns) => {
            Some(vec![*rows, *count])
        }
        (View::Reshape(to), [rows, row @ ..]) => {
            let values = |row: &[u32]| row.iter().map(|&e| u128::from(e)).product::<u128>();
            let [first, to_row @ ..] = &to[..] else { return None };
            (to.len() <= 4 && first == rows && values(to_row) == values(row)).then(|| to.clone())
        }
        (&View::Split(t, _), [rows, row @ ..]) => {
            let columns = row.iter().try_fold(1u32, |n, &e| n.checked_mul(e))?;
            let fits = columns.checked_rem(t) == Some(0);
            fits.then(|| Some(vec![rows.checked_mul(t)?, columns / t])).flatten()
        }
        (&View::Grouped(t, _), [rows, row @ ..]) => {
            let columns = row.iter().try_fold(1u32, |n, &e| n.checked_mul(e))?;
            let fits = rows.checked_rem(t) == Some(0);
            fits.then(|| Some(vec![rows / t, columns.checked_mul(t)?])).flatten()
        }
        _ => None,
    }
}

/// An epilogue that outlives its call.
struct Late {
    bias: Option<Matrix>,
    activation: Activation,
}

impl Late {
    fn after(&self) -> After<'_> {
        After { bias: self.bias.as_ref(), activation: self.activation }
    }
}

/// Something that is kept for later, and told from others.
trait Part {
    type Kept: 'static;
    fn note(&self, key: &mut Key);
    fn kept(&self) -> Self::Kept;
}

impl Part for &Matrix {
    type Kept = Matrix;

    fn note(&self, key: &mut Key) {
        key.note(self.identity());
    }

    fn kept(&self) -> Matrix {
        held(self)
    }
}

impl Part for &Ids {
    type Kept = Ids;

    fn note(&self, key: &mut Key) {
        key.note(self.identity());
    }

    fn kept(&self) -> Ids {
        self.shared()
    }
}

impl Part for &[u32] {
    type Kept = Vec<u32>;

    fn note(&self, key: &mut Key) {
        self.iter().for_each(|&value| key.note(value));
    }

    fn kept(&self) -> Vec<u32> {
        self.to_vec()
    }
}

impl Part for Windows {
    type Kept = Self;

    fn note(&self, key: &mut Key) {
        key.note(u64::from(self.kernel) << 32 | u64::from(self.stride));
        key.note(u64::from(self.padding) << 32 | u64::from(self.dilation));
    }

    fn kept(&self) -> Self {
        *self
    }
}

impl Part for After<'_> {
    type Kept = Late;

    fn note(&self, key: &mut Key) {
        key.note(self.bias.map_or(0, Matrix::identity));
        key.note(activation(self.activation));
    }

    fn kept(&self) -> Late {
        Late { bias: self.bias.map(held), activation: self.activation }
    }
}

impl Part for Before<'_> {
    type Kept = Early;

    fn note(&self, key: &mut Key) {
        key.note(self.bias.map_or(0, Matrix::identity));
        key.note(activation(self.activation));
        key.note(self.dropout.map_or(0, |Dropout { probability, stream }| {
            // No probability is negative: the sign tells a dropout from none.
            u64::from((-probability).to_bits()) << 32 | u64::from(stream)
        }));
    }

    fn kept(&self) -> Early {
        Early::new(self)
    }
}

fn activation(of: Activation) -> u64 {
    let (tag, parameter) = match of {
        Activation::Identity => (0, 0.0),
        Activation::Relu => (1, 0.0),
        Activation::LeakyRelu(slope) => (2, slope),
        Activation::Elu(alpha) => (3, alpha),
        Activation::Sigmoid => (4, 0.0),
        Activation::Tanh => (5, 0.0),
    };
    tag << 32 | u64::from(parameter.to_bits())
}

type PutOff<'a> = (&'a Out, Key, Write);

/// What is done later in the operation's place, where it writes one whole matrix.
fn put_off<'a>(op: &Op<'a>) -> Option<PutOff<'a>> {
    /// `Name { kept operands; plain values as numbers; into }`
    macro_rules! match_op {
        ($($tag:literal $name:ident { $($part:ident $(as $get:ident)?),*; $($value:ident: $number:expr),*; $into:ident $(, $field:ident: $fixed:literal)* })*) => {
            match *op {
                $( Op::$name { $($part,)* $($value,)* $into $(, $field: $fixed)* } => {
                    let mut key = Key::new($tag);
                    $( $part.note(&mut key); )*
                    $( key.note($number); )*
                    $( let $part = $part.kept(); )*
                    let write = move |to: &Out| {
                        run_now(&Op::$name {
                            $( $part: operand!($part $($get)?), )* $($value,)* $into: to $(, $field: $fixed)*
                        })
                    };
                    Some(($into, key, Box::new(write) as Box<_>))
                } )*
                _ => None,
            }
        };
    }
    macro_rules! operand {
        ($part:ident) => {
            &$part
        };
        ($part:ident before) => {
            $part.before()
        };
        ($part:ident after) => {
            $part.after()
        };
        ($part:ident plain) => {
            $part
        };
    }
    match_op! {
        1 Matmul { a, b; batched: batched, transpose_a: transpose_a, transpose_b: transpose_b; into, accumulate: false }
        2 Apply { x, by as before;; into }
        3 ApplyBackward { x, by as before, grad;; into }
        4 Axpby { x, y; alpha: alpha.to_bits(), beta: beta.to_bits(); into }
        5 Multiply { x, y;; into }
        6 Softmax { x;; into }
        7 GatherRows { x, rows;; into }
        8 ScatterAddRows { x, rows;; into }
        9 SumRows { x;; into }
        10 ReduceColumns { x; by: reduction(by); into }
        11 ReduceSegments { x, offsets; by: reduction(by); into }
        12 Inner { x, y;; into }
        13 Scale { x, by;; into }
        14 SoftmaxSegments { x, offsets;; state }
        15 SoftmaxValues { x, state;; into }
        16 Linear { x, before as before, w, after as after;; into }
        17 Elementwise { x; by: function(by); into }
        18 ElementwiseBackward { x, grad; by: function(by); into }
        30 Permute { x, order;; into }
        31 PlaceColumns { x; at: at; into }
        32 SoftmaxMasked { x; causal: causal, scale: scale.to_bits(); into }
        33 SoftmaxBackward { y, grad; scale: scale.to_bits(); into }
        34 Patches { x, by as plain;; into }
        35 PatchesSum { x, by as plain;; into }
        36 Pool { x, by as plain; with: reduction(with); into }
        37 PoolBackward { x, by as plain, grad; with: reduction(with); into }
        38 Smoothed { x; by: smooth(by); into }
        39 SmoothedBackward { x, grad; by: smooth(by); into }
    }
}

fn smooth(by: Smooth) -> u64 {
    match by {
        Smooth::Gelu => 0,
        Smooth::GeluTanh => 1,
        Smooth::Silu => 2,
        Smooth::Softplus => 3,
    }
}

fn function(by: Function) -> u64 {
    let (tag, power) = match by {
        Function::Exp => (0, 0.0),
        Function::Log => (1, 0.0),
        Function::Sqrt => (2, 0.0),
        Function::Reciprocal => (3, 0.0),
        Function::Absolute => (4, 0.0),
        Function::Power(power) => (5, power),
    };
    tag << 32 | u64::from(power.to_bits())
}

fn reduction(by: Reduction) -> u64 {
    match by {
        Reduction::Sum => 0,
        Reduction::Mean => 1,
        Reduction::Max => 2,
    }
}

/// What works without a tape, on the way back over one.
impl Recorder for Lazy {
    fn created(&self, shape: &[u32]) -> Result<Out> {
        self.scratch(shape, 0)
    }

    fn finished(&self, matrix: &Matrix, key: Option<Key>) {
        self.remember(matrix, key);
    }

    fn viewed(&self, x: &Matrix, view: View) -> Result<Matrix> {
        self.view(x, &view)
    }

    fn written(&self, _: &Out, _: u32, _: u32) -> Result<()> {
        Ok(())
    }

    fn operation(&self, op: &Op<'_>) -> Result<()> {
        self.run(op)
    }

    fn read(&self, matrix: &Matrix) -> Result<()> {
        matrix.make()
    }

    fn listed(&self, _: &Ids) -> Result<()> {
        Ok(())
    }
}
