//! Gradients by default: a kernel of a forward pass alone, whose gradients are derived from what it does.
//!
//! ```
//! use eciton_sdk::{check, prelude::*};
//! /// y = x + tanh(x w + b)
//! struct Residual { columns: u32 }
//! impl ForwardKernel for Residual {
//!     fn attributes() -> Vec<AttributeSpec> { vec![] }
//!     fn open(inputs: &[Vec<u32>], _: &Attributes) -> Result<Self> { Ok(Residual { columns: inputs[0][0] }) }
//!     fn signature(&self) -> Signature {
//!         let n = self.columns;
//!         Signature::new()
//!             .input("x", &[n])
//!             .output("y", &[n])
//!             .parameter("weight", &[n, n], Initialiser::GlorotUniform)
//!             .parameter("bias", &[n], Initialiser::Zeros)
//!     }
//!     fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
//!         let (x, w) = (io.inputs[0], io.parameters[0]);
//!         let plain = Prologue { bias: None, activation: Activation::Identity, dropout: None };
//!         let step = Out::create(&x.shape())?;
//!         let after = Epilogue { bias: Some(io.parameters[1]), activation: Activation::Tanh };
//!         linalg::linear(x, &plain, w, &after, &step)?;
//!         linalg::axpby(1.0, x, 1.0, &step.finish()?, io.outputs[0])
//!     }
//! }
//! // export_kernel!(Derived<Residual>);
//! let report = check::gradients::<Derived<Residual>>(&[vec![3]], &[], 4, 7).unwrap();
//! assert!(report.worst < 1e-6, "{report:?}");
//! ```

mod edge;

pub use edge::{DerivedEdges, ForwardEdgeKernel};

use crate::handles::{Matrix, Out};
use crate::math::Real;
use crate::signature::{AttributeSpec, Attributes, Signature};
use crate::tape::{Side, Tape, Walk};
use crate::types::{Result, Task};
use crate::{Backward, Forward, Kernel};

/// A vertex kernel of a forward pass alone: [`Derived`] makes a [`Kernel`] of it.
///
/// `forward` composes [`crate::linalg`] over its inputs and parameters. What it reads into the guest has no gradient:
/// reading what depends on an input or a parameter fails in `backward`, naming the operation, and so does what the
/// contract cannot derive: a maximum, a product of parameters, a weight of two products with different operands. A
/// scratch matrix that the guest writes is a constant.
pub trait ForwardKernel: Sized + 'static {
    /// As [`Kernel::attributes`].
    fn attributes() -> Vec<AttributeSpec>;
    /// As [`Kernel::open`].
    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self>;
    /// Inputs, parameters and outputs; what is kept and needed is [`Derived`]'s to say.
    fn signature(&self) -> Signature;
    /// Inputs to outputs; nothing is kept. Runs again in `backward`, on the same inputs.
    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()>;
}

/// The [`Kernel`] of a [`ForwardKernel`], for `export_kernel!(Derived<Mine>)`.
///
/// `backward` runs `forward` again, into scratch matrices, and goes back over what it did; of inputs and parameters
/// alone, so nothing is kept between the two. An operation is done when its result is first read, and an equal one on the
/// same matrices is not done again, so that `forward` costs what the gradients need of it.
#[derive(Debug)]
pub struct Derived<K>(K);

impl<K: ForwardKernel> Kernel for Derived<K> {
    fn attributes() -> Vec<AttributeSpec> {
        K::attributes()
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        K::open(inputs, attributes).map(Self)
    }

    fn signature(&self) -> Signature {
        let of = self.0.signature();
        Signature { kept: vec![], needs_inputs: true, needs_outputs: false, loss: None, ..of }
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        self.0.forward::<R>(task, io)
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let tape = Tape::new(Side::none());
        let wanted = io.input_gradients.iter().map(Option::is_some);
        let inputs: Vec<Matrix> = io.inputs.iter().zip(wanted).map(|(x, w)| tape.input(x, w)).collect();
        let parameters: Vec<Matrix> = io.parameters.iter().map(|p| tape.parameter(p, true)).collect();
        let outputs = tape.record(|| {
            let places = self.0.signature().outputs.into_iter();
            let places = places.map(|o| Out::create(&[&[task.rows], &o.extents[..]].concat()));
            let places = places.collect::<Result<Vec<Out>>>()?;
            let (inputs, parameters, outputs) = (refs(&inputs), refs(&parameters), refs(&places));
            let io = Forward { inputs: &inputs, parameters: &parameters, outputs: &outputs, kept: &[] };
            self.0.forward::<R>(task, io)?;
            places.into_iter().map(Out::finish).collect::<Result<Vec<Matrix>>>()
        })?;
        tape.back(|| {
            let mut walk = Walk::new(&tape, &parameters, io.parameter_gradients, task.rows);
            for (output, gradient) in outputs.into_iter().zip(io.gradients) {
                walk.add(&output, gradient.shared(0));
            }
            for (input, into) in inputs.iter().zip(io.input_gradients) {
                into.iter().for_each(|into| walk.place(input, into));
            }
            walk.run()?;
            walk.write_placed()?;
            walk.reduce()
        })
    }
}

fn refs<T>(values: &[T]) -> Vec<&T> {
    values.iter().collect()
}
