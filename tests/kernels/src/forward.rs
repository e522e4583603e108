//! What each feature does in the place of `linear`'s forward.

use std::hint::black_box;

use eciton_sdk::prelude::*;

use crate::Linear;

/// Never returns; the optimiser cannot tell.
pub fn endless() {
    let mut n = 0u64;
    while black_box(n) < u64::MAX {
        n = black_box(n) % 1000 + 1;
    }
}

fn deeper(n: u64) -> u64 {
    if black_box(n) == u64::MAX { n } else { deeper(black_box(n) + 1) ^ black_box(n) }
}

/// The forward that the chosen feature asks for.
pub fn altered(layer: &Linear, task: &Task, io: &Forward<'_>) -> Result<()> {
    let (x, y) = (io.inputs[0], io.outputs[0]);
    let columns = y.shape()[1];
    if cfg!(feature = "doubled") {
        let once = Out::create(&y.shape())?;
        layer.plain(io, &once)?;
        let once = once.finish()?;
        return linalg::axpby(2.0, &once, 0.0, &once, y);
    }
    if cfg!(feature = "trapping") {
        panic!("the test kernel panics on {} rows", task.rows);
    }
    if cfg!(feature = "error") {
        return Err(Error::Kernel("the test kernel does not want to".to_owned()));
    }
    if cfg!(feature = "looping") {
        endless();
    }
    if cfg!(feature = "recursing") {
        black_box(deeper(black_box(0)));
    }
    if cfg!(feature = "allocating") {
        let mut all: Vec<Vec<u8>> = Vec::new();
        loop {
            all.push(black_box(vec![1; 1 << 20]));
        }
    }
    if cfg!(feature = "scratch") {
        let mut all = Vec::new();
        loop {
            all.push(Out::create(&[1 << 20, 4])?);
        }
    }
    if cfg!(feature = "handles") {
        let mut all = Vec::new();
        loop {
            all.push(x.rows(0, 1)?);
        }
    }
    if cfg!(feature = "logging") {
        loop {
            eciton_sdk::log(&"words ".repeat(500));
        }
    }
    if cfg!(feature = "wrong-shape") {
        let (_, w, _) = layer.parameters(io.parameters);
        return linalg::linear(w, &layer.prologue(None), w, &identity(), y);
    }
    if cfg!(feature = "unwritten") {
        let rows = task.rows - 1;
        return y.write_rows::<f32>(0, &vec![0.0; (rows * columns) as usize]);
    }
    if cfg!(feature = "keeping") {
        std::mem::forget(x.rows(0, 1)?);
    }
    if cfg!(feature = "nan") {
        return y.write_rows::<f32>(0, &vec![f32::NAN; (task.rows * columns) as usize]);
    }
    if cfg!(feature = "impatient") {
        // As much of the result as there is of the input when it begins.
        let share = x.arrived(0)? as f32 / task.rows as f32;
        let whole = Out::create(&y.shape())?;
        layer.plain(io, &whole)?;
        let whole = whole.finish()?;
        return linalg::axpby(share, &whole, 0.0, &whole, y);
    }
    if cfg!(feature = "leaking") {
        black_box(vec![1u8; 20_000].leak());
    }
    if cfg!(feature = "slow") {
        // Each block as it arrives, as often as makes the arithmetic as slow as a network.
        let (_, w, b) = layer.parameters(io.parameters);
        let after = Epilogue { bias: b, activation: layer.activation };
        for block in x.blocks() {
            let (start, block) = block?;
            let count = block.row_count();
            for _ in 1..SLOW {
                linalg::linear(&block, &layer.prologue(None), w, &after, &Out::create(&[count, columns])?)?;
            }
            linalg::linear(&block, &layer.prologue(None), w, &after, &y.rows(start, count)?)?;
        }
        return Ok(());
    }
    layer.plain(io, y)
}

/// How often `slow` does its work.
const SLOW: u32 = 40;

fn identity() -> Epilogue<'static> {
    Epilogue { bias: None, activation: Activation::Identity }
}
