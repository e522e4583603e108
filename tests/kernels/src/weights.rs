//! A loss that asks for its rows' weights, and by the attribute `fault` takes them for something else.

use eciton_sdk::Attributes;
use eciton_sdk::prelude::*;

/// The sum of weight * w_i * |x_i|^2 over rows that count, with one class a row.
#[derive(Debug)]
pub struct Squares {
    columns: u32,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// None: w_i is what the row counts.
    None,
    /// It is squared.
    Squared,
    /// It is the next row's.
    Shifted,
    /// It is never asked for.
    Unasked,
    /// It is asked for in `open`.
    InOpen,
}

const FAULTS: [(&str, Fault); 5] = [
    ("none", Fault::None),
    ("squared", Fault::Squared),
    ("shifted", Fault::Shifted),
    ("unasked", Fault::Unasked),
    ("in-open", Fault::InOpen),
];

impl Kernel for Squares {
    fn attributes() -> Vec<AttributeSpec> {
        let none = Some(Value::Text("none".to_owned()));
        vec![AttributeSpec::new("fault", "what is wrong: none, squared, shifted, unasked, in-open", none)]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let name = attributes.text("fault")?;
        let found = FAULTS.iter().find(|(known, _)| *known == name);
        let &(_, fault) = found.ok_or_else(|| Error::Argument(format!("fault {name:?} is unknown")))?;
        if fault == Fault::InOpen {
            given::row_weights()?;
        }
        Ok(Self { columns: inputs[0][0], fault })
    }

    fn signature(&self) -> Signature {
        let row = [self.columns];
        Signature::new().input("x", &row).output("scores", &row).with_loss(TargetKind::Classes)
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        linalg::axpby(1.0, io.inputs[0], 0.0, io.inputs[0], io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        match io.input_gradients[0] {
            Some(into) => linalg::axpby(1.0, io.gradients[0], 0.0, io.gradients[0], into),
            None => Ok(()),
        }
    }

    fn loss<R: Real>(&self, task: &Task, io: LastLayer<'_>) -> Result<()> {
        let mut weights = vec![R::ONE; task.rows as usize];
        if self.fault != Fault::Unasked {
            if let Some(given) = given::row_weights()? {
                weights = given.read_rows(0, task.rows)?;
            }
        }
        match self.fault {
            Fault::Squared => weights.iter_mut().for_each(|w| *w *= *w),
            Fault::Shifted if task.rows > 0 => weights.rotate_left(1),
            _ => {}
        }
        let counting = io.rows.read(0, io.rows.len())?;
        let mut each = vec![R::ZERO; task.rows as usize];
        counting.iter().for_each(|&row| each[row as usize] = R::from_f32(io.weight) * weights[row as usize]);
        let c = self.columns as usize;
        let x: Vec<R> = io.inputs[0].read_rows(0, task.rows)?;
        let mut losses = vec![R::ZERO; task.rows as usize];
        for (at, &x) in x.iter().enumerate() {
            losses[at / c] += each[at / c] * x * x;
        }
        let losses = scratch(&[task.rows, 1], |into| into.write_rows(0, &losses))?;
        linalg::sum_rows(&losses, io.loss)?;
        let Some(into) = io.input_gradients[0] else { return Ok(()) };
        let slopes: Vec<R> = x.iter().enumerate().map(|(at, &x)| each[at / c] * (x + x)).collect();
        into.write_rows(0, &slopes)
    }
}

eciton_sdk::export_kernel!(Squares);
