//! Kernel `slice`: y = the columns of x from `start` on.
//!
//! x [n, k], y [n, count]; dx = dy in those columns, zero elsewhere.

use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Slice {
    columns: u32,
    start: u32,
    count: u32,
}

impl Kernel for Slice {
    fn attributes() -> Vec<AttributeSpec> {
        vec![
            AttributeSpec::new("start", "the first column, from 0", None),
            AttributeSpec::new("count", "columns of the result", None),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("slice takes one input, not {}", inputs.len())));
        };
        let [columns] = input[..] else {
            return Err(Error::Shape {
                operation: "slice".to_owned(),
                operand: "one row of x".to_owned(),
                expected: vec![0],
                found: input.clone(),
            });
        };
        let (start, count) = (attributes.count("start")?, attributes.size("count")?);
        if start.checked_add(count).is_none_or(|end| end > columns) {
            return Err(Error::Argument(format!(
                "attributes `start` and `count` are {start} and {count}; x has {columns} columns"
            )));
        }
        Ok(Self { columns, start, count })
    }

    fn signature(&self) -> Signature {
        Signature::new().input("x", &[self.columns]).output("y", &[self.count])
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        let part = io.inputs[0].columns(self.start, self.count)?;
        linalg::axpby(1.0, &part, 0.0, &part, io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        match io.input_gradients[0] {
            Some(into) => dense::place_columns(io.gradients[0], self.start, into),
            None => Ok(()),
        }
    }
}

eciton_sdk::export_kernel!(Slice);
