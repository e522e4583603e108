//! Kernel `concat`: y = [x1 | x2 | ..], the rows of any number of inputs side by side.
//!
//! xi [n, ki], y [n, k1 + k2 + ..]; dxi = its columns of dy.

use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Concat {
    columns: Vec<u32>,
}

impl Kernel for Concat {
    fn attributes() -> Vec<AttributeSpec> {
        vec![]
    }

    fn open(inputs: &[Vec<u32>], _: &Attributes) -> Result<Self> {
        if inputs.is_empty() {
            return Err(Error::Argument("concat takes one input or more, not none".to_owned()));
        }
        let one = |input: &Vec<u32>| match input[..] {
            [columns] => Ok(columns),
            _ => Err(Error::Shape {
                operation: "concat".to_owned(),
                operand: "one row of an input".to_owned(),
                expected: vec![0],
                found: input.clone(),
            }),
        };
        let columns = inputs.iter().map(one).collect::<Result<Vec<u32>>>()?;
        match columns.iter().try_fold(0u32, |sum, &k| sum.checked_add(k)) {
            Some(_) => Ok(Self { columns }),
            None => Err(Error::Argument("concat: a row has at most 2^32 - 1 values".to_owned())),
        }
    }

    fn signature(&self) -> Signature {
        let inputs = self.columns.iter().enumerate();
        let s = inputs
            .fold(Signature::new(), |s, (at, &k)| s.input(&["x", &(at + 1).to_string()].concat(), &[k]));
        s.output("y", &[self.columns.iter().sum()])
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        dense::concat(io.inputs, io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        let mut start = 0;
        for (&columns, into) in self.columns.iter().zip(io.input_gradients) {
            if let Some(into) = into {
                let part = io.gradients[0].columns(start, columns)?;
                linalg::axpby(1.0, &part, 0.0, &part, into)?;
            }
            start += columns;
        }
        Ok(())
    }
}

eciton_sdk::export_kernel!(Concat);
