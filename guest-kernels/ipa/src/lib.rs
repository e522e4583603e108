//! Kernel `ipa`: programs run by an instruction-pointer attention graph network (Bieber, Sutton, Larochelle and Tarlow
//! 2020, "Learning to execute programs with instruction pointer attention graph neural networks", section 4).
//!
//! A row is a program: input `ids` [n, nodes (L + 4)] has of each node its L tokens, its successors if true and if
//! false, the exit and the number of steps T (the last two are read of node 0), whole numbers as f32. y [n, 2 H] is the
//! state [c | h] of the exit after T steps, 0 if no pointer gets there. From states 0 and all mass at node 0, a step is
//!
//! ```text
//! a_n   = LSTM(s_n; tokens of n), of the exit s_n
//! b_n   = softmax(a_n W_b + c_b)
//! p'_m  = sum over t(n) = m of b_n,T p_n + sum over f(n) = m of b_n,F p_n
//! s'_m  = (sum over t(n) = m of b_n,T p_n a_n + sum over f(n) = m of b_n,F p_n a_n) / (p'_m + 1e-7)
//! ```
//!
//! Modules `lstm` and `pointer` have the formulas of the cell and of the pointer. What no pointer can have reached is
//! left out of a step, which changes no value: a program without branches runs one line a step. Products are the
//! host's, over all programs and places of a step; the cell's functions and the pointer are computed here. `backward`
//! runs the steps again and goes back over them, so that nothing is kept.
//!
//! Ablations and baselines, each with the same rows: `decisions = false` (b is 1), `pointer = false` (p is 1),
//! `normalise = false` (no division), `execute = "gru"` (module `gated`; y is [n, H]), and `order = "lines"`: an LSTM
//! over all lines in their order.

mod gated;
mod lstm;
mod pointer;
mod program;
mod sums;

use eciton_sdk::prelude::*;

use gated::{Gated, GatedSums};
use lstm::{Inputs, LineOuts, LineSums, Lstm};
use pointer::{BranchSums, Machine, Parts};
use program::{BESIDE, Layout, Level, MOST_ENTRIES, Programs};
use sums::{Products, Rows, sum_programs};

/// Programs at once.
const TILE_ROWS: u32 = 64;
const PLAIN: Prologue<'_> = Prologue { bias: None, activation: Activation::Identity, dropout: None };
/// Parameters that both ways to execute have: E, W_x, b, W_h.
const SHARED: usize = 4;

/// The configured layer.
#[derive(Debug)]
pub struct Ipa {
    layout: Layout,
    hidden: u32,
    parts: Parts,
    /// Whether messages and a gated unit take the place of execution.
    gated: bool,
    probe: bool,
}

impl Ipa {
    fn tiles(rows: u32) -> impl Iterator<Item = (u32, u32)> {
        (0..rows.div_ceil(TILE_ROWS))
            .map(move |tile| (tile * TILE_ROWS, TILE_ROWS.min(rows - tile * TILE_ROWS)))
    }

    /// T = E W_x + b
    fn table(&self, parameters: &[&Matrix]) -> Result<Matrix> {
        let after = Epilogue { bias: Some(parameters[2]), activation: Activation::Identity };
        scratch(&[self.layout.entries, 4 * self.hidden], |into| {
            linalg::linear(parameters[0], &PLAIN, parameters[1], &after, into)
        })
    }

    fn lstm<'a>(&self, table: &'a Matrix, parameters: &[&'a Matrix]) -> Lstm<'a> {
        let (hidden, tokens) = (self.hidden as usize, self.layout.tokens);
        Lstm { hidden, tokens, table, recurrent: parameters[3] }
    }

    fn machine<'a, R: Real>(&self, table: &'a Matrix, parameters: &[&'a Matrix]) -> Result<Machine<'a, R>> {
        Ok(Machine {
            lstm: self.lstm(table, parameters),
            parts: self.parts,
            branch: lstm::read(parameters[SHARED])?,
            branch_bias: lstm::read(parameters[SHARED + 1])?,
        })
    }

    fn gated<'a>(&self, table: &'a Matrix, parameters: &[&'a Matrix]) -> Gated<'a> {
        let [messages, input, bias, recurrent] = std::array::from_fn(|at| parameters[SHARED + at]);
        Gated { lstm: self.lstm(table, parameters), messages, input, bias, recurrent }
    }

    fn levels(&self, programs: &Programs) -> Vec<Level> {
        program::levels(programs, !self.parts.pointer)
    }
}

/// Scratch matrices with a row, or rows, a program, that gradients are sums of.
struct Places<'a> {
    outs: Vec<(Out, &'a Out)>,
}

impl<'a> Places<'a> {
    fn add(&mut self, shape: &[u32], into: &'a Out) -> Result<()> {
        self.outs.push((Out::create(shape)?, into));
        Ok(())
    }

    /// Those of a tile, each program having so many rows in the first and one in the others.
    fn rows(&self, start: u32, count: u32, first: u32) -> Result<Vec<Out>> {
        let by = |at: usize| if at == 0 { first } else { 1 };
        let rows = self.outs.iter().enumerate();
        rows.map(|(at, (out, _))| out.rows(start * by(at), count * by(at))).collect()
    }
}

impl Kernel for Ipa {
    fn attributes() -> Vec<AttributeSpec> {
        let flag = |v: bool| Some(Value::Flag(v));
        let text = |v: &str| Some(Value::Text(v.to_owned()));
        vec![
            AttributeSpec::new("entries", "tokens that there are: ids are below it; at most 2^24", None),
            AttributeSpec::new("hidden", "values of h, of c and of a token's vector", None),
            AttributeSpec::new("tokens", "tokens of a node", Some(Value::Integer(4))),
            AttributeSpec::new(
                "decisions",
                "whether branches are decided; else each has the share 1",
                flag(true),
            ),
            AttributeSpec::new("pointer", "whether nodes have a mass; else each has the mass 1", flag(true)),
            AttributeSpec::new("normalise", "whether states are divided by the mass", flag(true)),
            AttributeSpec::new(
                "execute",
                "`lstm`, or `gru`: a gated graph network in its place",
                text("lstm"),
            ),
            AttributeSpec::new(
                "order",
                "`flow`: as successors say; or `lines`: one after the other",
                text("flow"),
            ),
            AttributeSpec::new(
                "probe",
                "whether an evaluation logs the pointer's mass at the exit",
                flag(false),
            ),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("ipa takes one input, not {}", inputs.len())));
        };
        let tokens = attributes.size("tokens")?;
        let each = tokens.saturating_add(BESIDE);
        let nodes = match input[..] {
            [all] if all > 0 && all % each == 0 => all / each,
            _ => {
                return Err(Error::Argument(format!(
                    "ipa: rows of extents {input:?} are no programs of `tokens` = {tokens}; one extent is needed, a multiple of tokens + {BESIDE}"
                )));
            }
        };
        let entries = attributes.size("entries")?;
        if entries > MOST_ENTRIES {
            let text =
                format!("attribute `entries` is {entries}; at most {MOST_ENTRIES} are told apart by an f32");
            return Err(Error::Argument(text));
        }
        let hidden = attributes.size("hidden")?;
        if u64::from(hidden) * u64::from(hidden) * 4 > u64::from(u32::MAX) {
            return Err(Error::Argument("attribute `hidden` must be at most 32767".to_owned()));
        }
        let one_of = |name: &str, usual: &str, other: &str| match attributes.text(name)? {
            text if text == usual => Ok(false),
            text if text == other => Ok(true),
            text => {
                Err(Error::Argument(format!("attribute `{name}` is `{text}`; it is `{usual}` or `{other}`")))
            }
        };
        let parts = Parts {
            decisions: attributes.flag("decisions")?,
            pointer: attributes.flag("pointer")?,
            normalise: attributes.flag("normalise")?,
        };
        let gated = one_of("execute", "lstm", "gru")?;
        let in_order = one_of("order", "flow", "lines")?;
        let whole = parts == Parts { decisions: true, pointer: true, normalise: true };
        if gated && !whole {
            let text =
                "ipa: with `execute` = `gru` there are no decisions, pointer and normalisation to leave out";
            return Err(Error::Argument(text.to_owned()));
        }
        let layout = Layout { nodes: nodes as usize, tokens: tokens as usize, entries, in_order };
        Ok(Self { layout, hidden, parts, gated, probe: attributes.flag("probe")? })
    }

    fn signature(&self) -> Signature {
        let (nodes, tokens, h) = (self.layout.nodes as u32, self.layout.tokens as u32, self.hidden);
        // Glorot and Bengio's bound of one gate, as the source has it.
        let gate = Initialiser::Uniform((3.0 / h as f32).sqrt());
        let s = Signature::new()
            .input("ids", &[nodes * (tokens + BESIDE)])
            .output("y", &[if self.gated { h } else { 2 * h }])
            .needing_inputs()
            .parameter("embedding", &[self.layout.entries, h], Initialiser::Uniform(1.0))
            .parameter("input", &[h, 4 * h], gate)
            .parameter("bias", &[4 * h], Initialiser::Zeros)
            .parameter("recurrent", &[h, 4 * h], gate);
        match self.gated {
            true => s
                .parameter("messages", &[4 * h, h], gate)
                .parameter("gru-input", &[h, 3 * h], gate)
                .parameter("gru-bias", &[3 * h], Initialiser::Zeros)
                .parameter("gru-recurrent", &[h, 3 * h], gate),
            false => s.parameter("branch", &[2 * h, 2], Initialiser::GlorotUniform).parameter(
                "branch-bias",
                &[2],
                Initialiser::Zeros,
            ),
        }
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let table = self.table(io.parameters)?;
        let mut mass = R::ZERO;
        for (start, count) in Self::tiles(task.rows) {
            let programs = Programs::read(io.inputs[0], start, count, self.layout)?;
            if self.gated {
                let y: Vec<R> = self.gated(&table, io.parameters).forward(&programs)?;
                io.outputs[0].write_rows(start, &y)?;
                continue;
            }
            let machine = self.machine::<R>(&table, io.parameters)?;
            let (y, at_exit) = machine.forward(&programs, &self.levels(&programs))?;
            io.outputs[0].write_rows(start, &y)?;
            at_exit.iter().for_each(|&p| mass += p);
        }
        if self.probe && !self.gated && !task.training && task.rows > 0 {
            // Numbers of this arithmetic are read as f32 through the host, and printed as whole ones: formatting floats
            // would add a third to the component.
            let mean = lstm::matrix(1, &[mass / R::from_f32(task.rows as f32)])?;
            let mean: Vec<f32> = lstm::read(&mean)?;
            let millionths = mean.iter().map(|&mean| (mean * 1e6 + 0.5) as u32).sum::<u32>();
            let (ones, rest) = (millionths / 1_000_000, millionths % 1_000_000);
            eciton_sdk::log(&format!(
                "ipa: pointer mass at the exit {ones}.{rest:06}, the mean of {} programs",
                task.rows
            ));
        }
        Ok(())
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        if let Some(into) = io.input_gradients[0] {
            let columns = self.layout.nodes * (self.layout.tokens + BESIDE as usize);
            into.write_rows(0, &vec![0.0f32; task.rows as usize * columns])?;
        }
        let table = self.table(io.parameters)?;
        let (n, h) = (task.rows, self.hidden);
        let (nodes, tokens) = (self.layout.nodes, self.layout.tokens);
        let positions = (nodes * tokens) as u32;
        let into = io.parameter_gradients;
        let mut places = Places { outs: Vec::new() };
        places.add(&[n * positions, h], into[0])?;
        for (shape, &into) in [&[n, h, 4 * h][..], &[n, 4 * h], &[n, h, 4 * h]].into_iter().zip(&into[1..]) {
            places.add(shape, into)?;
        }
        let own: &[&[u32]] = match self.gated {
            true => &[&[n, 4 * h, h], &[n, h, 3 * h], &[n, 3 * h], &[n, h, 3 * h]],
            false => &[&[n, 2 * h, 2], &[n, 2]],
        };
        for (shape, &into) in own.iter().zip(&into[SHARED..]) {
            places.add(shape, into)?;
        }
        let mut ids = Vec::new();
        let inputs = Inputs { embedding: io.parameters[0], weight: io.parameters[1] };
        for (start, count) in Self::tiles(n) {
            let programs = Programs::read(io.inputs[0], start, count, self.layout)?;
            programs.all_tokens(&mut ids);
            let grad: Vec<R> = io.gradients[0].read_rows(start, count)?;
            let outs = places.rows(start, count, positions)?;
            let (hidden, many) = (h as usize, count as usize);
            let lines = match self.gated {
                true => {
                    let gated = self.gated(&table, io.parameters);
                    let (runs, lines) = Gated::uses(&programs);
                    let mut lines = LineSums::new(&programs, nodes, &gated.lstm, lines)?;
                    let mut sums = GatedSums {
                        messages: Products::new(many, runs, 4 * hidden, hidden)?,
                        input: Products::new(many, runs, hidden, 3 * hidden)?,
                        recurrent: Products::new(many, runs, hidden, 3 * hidden)?,
                        bias: Rows::new(many, 3 * hidden),
                    };
                    gated.backward(&programs, &grad, &mut lines, &mut sums)?;
                    sums.messages.finish(&outs[SHARED])?;
                    sums.input.finish(&outs[SHARED + 1])?;
                    outs[SHARED + 2].write_rows(0, &sums.bias.values)?;
                    sums.recurrent.finish(&outs[SHARED + 3])?;
                    lines
                }
                false => {
                    let machine = self.machine::<R>(&table, io.parameters)?;
                    let levels = self.levels(&programs);
                    let runs = levels.iter().map(|level| level.running.len()).sum();
                    let mut lines = LineSums::new(&programs, nodes, &machine.lstm, runs)?;
                    let (weight, bias) = (Rows::new(many, 4 * hidden), Rows::new(many, 2));
                    let mut branches = BranchSums { weight, bias };
                    machine.backward(&programs, &levels, &grad, &mut lines, &mut branches)?;
                    outs[SHARED].write_rows(0, &branches.weight.values)?;
                    outs[SHARED + 1].write_rows(0, &branches.bias.values)?;
                    lines
                }
            };
            let to = LineOuts { embedded: &outs[0], inputs: &outs[1], bias: &outs[2], recurrent: &outs[3] };
            lines.finish(&programs, &inputs, to)?;
        }
        for (at, (each, into)) in places.outs.into_iter().enumerate() {
            let each = each.finish()?;
            match at {
                0 => dense::scatter_sum(&each, &Ids::create(&ids)?, into)?,
                _ => sum_programs(&each, into)?,
            }
        }
        Ok(())
    }
}

eciton_sdk::export_kernel!(Ipa);
