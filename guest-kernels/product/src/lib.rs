//! Kernel `product`: y = x1 * x2, value by value, as gates have it (Dauphin et al. 2017).
//!
//! x1, x2, y [n, k]; dx1 = dy * x2, dx2 = dy * x1.

use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Product {
    columns: u32,
}

impl Kernel for Product {
    fn attributes() -> Vec<AttributeSpec> {
        vec![]
    }

    fn open(inputs: &[Vec<u32>], _: &Attributes) -> Result<Self> {
        let [one, other] = inputs else {
            return Err(Error::Argument(format!("product takes two inputs, not {}", inputs.len())));
        };
        match (&one[..], &other[..]) {
            (&[columns], &[same]) if columns == same => Ok(Self { columns }),
            _ => Err(Error::Shape {
                operation: "product".to_owned(),
                operand: "one row of x2, as one of x1".to_owned(),
                expected: one.clone(),
                found: other.clone(),
            }),
        }
    }

    fn signature(&self) -> Signature {
        let k = [self.columns];
        Signature::new().input("x1", &k).input("x2", &k).output("y", &k).needing_inputs()
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        linalg::multiply(io.inputs[0], io.inputs[1], io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        for (into, other) in io.input_gradients.iter().zip(io.inputs.iter().rev()) {
            if let Some(into) = into {
                linalg::multiply(io.gradients[0], other, into)?;
            }
        }
        Ok(())
    }
}

eciton_sdk::export_kernel!(Product);
