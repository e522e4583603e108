//! Kernel `embedding`: y[i] = weight[ids[i]], a row of a table for each number; and, if asked for, a row for its place
//! in its sequence.
//!
//! Input `ids` [n, 1], whole numbers from 0 below `entries`, as f32; y [n, width], weight [entries, width]. With
//! `positions`, y[i] = weight[ids[i]] + positions[i mod group], positions [group, width]: `group` rows that follow each
//! other are a sequence (Vaswani et al. 2017, section 3.5, with places that are learned).
//! dweight[v] = the sum of dy[i] over the rows with ids[i] = v, dpositions[p] that over the rows at place p; numbers have
//! no gradient.

use eciton_sdk::prelude::*;

/// Entries that an f32 tells apart.
const MOST_ENTRIES: u32 = 1 << 24;
/// Bound of the uniform first weights, of standard deviation 0.02 (Radford et al. 2019).
const BOUND: f32 = 0.034_641;

/// The configured layer.
#[derive(Debug)]
pub struct Embedding {
    entries: u32,
    width: u32,
    positions: bool,
    group: u32,
}

impl Embedding {
    /// The numbers of the task's rows.
    fn ids(&self, x: &Matrix) -> Result<Ids> {
        let values: Vec<f32> = x.read_rows(0, x.row_count())?;
        let number = |(row, v): (usize, f32)| {
            let id = v as u32;
            if id < self.entries && id as f32 == v {
                return Ok(id);
            }
            let entries = self.entries;
            let found = if v.is_finite() { (v as i64).to_string() } else { "no number".to_owned() };
            Err(Error::Argument(format!(
                "embedding: row {row} has the id {found}; whole numbers from 0 to {} are needed, for {entries} entries",
                entries - 1
            )))
        };
        Ids::create(&values.into_iter().enumerate().map(number).collect::<Result<Vec<u32>>>()?)
    }

    /// The place of each row in its sequence.
    fn places(&self, rows: u32) -> Result<Ids> {
        if rows % self.group != 0 {
            let text =
                format!("embedding: {rows} rows are no whole sequences of `group` = {} rows", self.group);
            return Err(Error::Argument(text));
        }
        Ids::create(&(0..rows).map(|row| row % self.group).collect::<Vec<u32>>())
    }
}

impl Kernel for Embedding {
    fn attributes() -> Vec<AttributeSpec> {
        vec![
            AttributeSpec::new("entries", "rows of the table: ids are below it; at most 2^24", None),
            AttributeSpec::new("width", "values in a row of the table", None),
            AttributeSpec::new(
                "positions",
                "whether a learned row for the place in the sequence is added",
                Some(Value::Flag(false)),
            ),
            AttributeSpec::new("group", "rows of a sequence", Some(Value::Integer(1))),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("embedding takes one input, not {}", inputs.len())));
        };
        if input[..] != [1] {
            return Err(Error::Shape {
                operation: "embedding".to_owned(),
                operand: "one row of ids".to_owned(),
                expected: vec![1],
                found: input.clone(),
            });
        }
        let entries = attributes.size("entries")?;
        if entries > MOST_ENTRIES {
            let text =
                format!("attribute `entries` is {entries}; at most {MOST_ENTRIES} are told apart by an f32");
            return Err(Error::Argument(text));
        }
        Ok(Self {
            entries,
            width: attributes.size("width")?,
            positions: attributes.flag("positions")?,
            group: attributes.size("group")?,
        })
    }

    fn signature(&self) -> Signature {
        let uniform = Initialiser::Uniform(BOUND);
        let s = Signature::new().input("ids", &[1]).output("y", &[self.width]).needing_inputs();
        let s = s.parameter("weight", &[self.entries, self.width], uniform);
        if self.positions { s.parameter("positions", &[self.group, self.width], uniform) } else { s }
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let (ids, into) = (self.ids(io.inputs[0])?, io.outputs[0]);
        let &[weight, ref rest @ ..] = io.parameters else {
            return Err(Error::Argument("embedding: no weight was given".to_owned()));
        };
        let Some(positions) = rest.first() else { return linalg::gather_rows(weight, &ids, into) };
        let shape = [task.rows, self.width];
        let places = self.places(task.rows)?;
        let rows = scratch(&shape, |into| linalg::gather_rows(weight, &ids, into))?;
        let at = scratch(&shape, |into| linalg::gather_rows(positions, &places, into))?;
        linalg::axpby(1.0, &rows, 1.0, &at, into)
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        if let Some(into) = io.input_gradients[0] {
            into.write_rows(0, &vec![0.0f32; task.rows as usize])?;
        }
        dense::scatter_sum(io.gradients[0], &self.ids(io.inputs[0])?, io.parameter_gradients[0])?;
        match io.parameter_gradients.get(1) {
            Some(into) => dense::scatter_sum(io.gradients[0], &self.places(task.rows)?, into),
            None => Ok(()),
        }
    }
}

eciton_sdk::export_kernel!(Embedding);
