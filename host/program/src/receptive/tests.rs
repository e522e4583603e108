#![allow(clippy::unwrap_used, clippy::disallowed_macros)]
use super::*;
use crate::testing::Random;
use eciton_recipe::model::{Conv2d, Image, Pool2d, PoolBy};
use std::collections::BTreeSet;

mod strips;

/// Returns a random chain of up to `most` layers, whose windows have all kinds of strides, paddings
/// and dilations.
fn drawn(draws: &mut Random, most: u32) -> Chain {
    let mut image = Image(20 + draws.below32(80), 4 + draws.below32(40), 1 + draws.below32(4));
    let (layers, mut steps) = (1 + draws.below32(most), Vec::new());
    while steps.len() < layers as usize {
        let step = if draws.below32(4) == 0 {
            let window = 1 + draws.below32(3);
            Step::Pool(Pool2d { image, window, stride: 1 + draws.below32(3), by: PoolBy::Max })
        } else {
            Step::Conv(Conv2d {
                image,
                channels: 1 + draws.below32(16),
                size: 1 + draws.below32(5),
                stride: 1 + draws.below32(2),
                padding: draws.below32(3),
                dilation: 1 + draws.below32(2),
            })
        };
        // What does not fit any more ends the chain.
        let Ok(chain) = Chain::new(vec![step]) else { break };
        steps.push(step);
        image = chain.image(1);
    }
    match Chain::new(steps) {
        Ok(chain) => chain,
        Err(_) => drawn(draws, most),
    }
}

fn workers(draws: &mut Random) -> Workers {
    let count = 1 + draws.below32(5);
    Workers {
        flops_per_s: (0..count).map(|_| f64::from(1 + draws.below32(4)) * 1e9).collect(),
        bytes_per_s: 10f64.powi(6 + draws.below32(5) as i32),
        latency_s: f64::from(draws.below32(3)) * 1e-5,
        share_image: draws.below32(2) == 0,
    }
}

/// Returns the division with this number: if bit i is 1, a block ends after layer i.
fn cut_of(number: u32, layers: usize) -> Vec<Range<usize>> {
    let ends = (0..layers).filter(|&at| at + 1 == layers || number >> at & 1 == 1).map(|at| at + 1);
    let mut from = 0;
    ends.map(|to| std::mem::replace(&mut from, to)..to).collect()
}

#[test]
fn dynamic_programming_is_exhaustive_search() {
    let seed = 7;
    println!("seed {seed}");
    let mut draws = Random::new(seed);
    let mut lengths = BTreeSet::new();
    for case in 0..1000 {
        let (chain, workers) = (drawn(&mut draws, 9), workers(&mut draws));
        lengths.insert(chain.len());
        let found = fuse(&chain, &workers);
        let all = (0..1 << (chain.len() - 1)).map(|number| cut_of(number, chain.len()));
        let least = all.map(|blocks| timed(&chain, &workers, blocks).seconds).fold(f64::INFINITY, f64::min);
        assert!((found.seconds - least).abs() <= 1e-12 * least, "case {case}: {found:?}, but {least}");
        assert_eq!(found, timed(&chain, &workers, found.blocks.clone()));
        assert!(each(&chain, &workers).seconds >= found.seconds * (1.0 - 1e-12));
    }
    assert!(lengths.len() >= 7, "{lengths:?}");
}

/// Returns the input rows that output rows of a layer read, computed row by row.
fn read_by(step: &Step, rows: &BTreeSet<u32>) -> BTreeSet<u32> {
    let (reach, stride, padding) = step.window();
    let spaced = match step {
        Step::Conv(conv) => conv.dilation,
        Step::Pool(_) => 1,
    };
    let each = |&row: &u32| (0..reach).step_by(spaced as usize).map(move |at| row * stride + at);
    let inside = |at: u32| at.checked_sub(padding).filter(|&at| at < step.image().0);
    rows.iter().flat_map(each).filter_map(inside).collect()
}

#[test]
fn needs_and_transfers_are_those_of_rows_one_by_one() {
    let seed = 8;
    println!("seed {seed}");
    let mut draws = Random::new(seed);
    for case in 0..500 {
        let (chain, workers) = (drawn(&mut draws, 6), workers(&mut draws));
        let end = 1 + draws.below32(chain.len() as u32) as usize;
        let block = draws.below32(end as u32) as usize..end;
        let shares = workers.shares(chain.rows(end));
        assert_eq!((shares[0].start, shares[shares.len() - 1].end), (0, chain.rows(end)));
        assert!(shares.windows(2).all(|two| two[0].end == two[1].start));
        let mut expected = BTreeSet::new();
        for (to, share) in shares.iter().enumerate() {
            let steps = chain.steps()[block.clone()].iter().rev();
            let read = steps.fold(share.clone().collect(), |rows: BTreeSet<u32>, step| read_by(step, &rows));
            let needs = chain.needs(&block, share.clone());
            // Between rows that are read lie rows that a dilation or a long stride passes over.
            assert!(read.iter().all(|row| needs.contains(row)), "case {case}");
            let ends = (read.first().copied(), read.last().copied());
            let most = needs.clone().next().zip(needs.clone().last()).unzip();
            assert!(chain.trail(&block, share.clone()).first() == Some(&needs));
            let plain = chain.steps()[block.clone()].iter().all(|step| {
                let (reach, stride, padding) = step.window();
                padding < reach && stride <= reach && !matches!(step, Step::Conv(conv) if conv.dilation > 1)
            });
            assert!(!plain || share.is_empty() || ends == most, "case {case}: {ends:?}, but {most:?}");
            let have = workers.shares(chain.rows(block.start));
            for row in needs {
                let from = match block.start {
                    0 if workers.share_image => continue,
                    0 => 0,
                    _ => have.iter().position(|have| have.contains(&row)).unwrap(),
                };
                if from != to {
                    expected.insert((from, to, row));
                }
            }
        }
        let found = exchange(&chain, &workers, &block);
        assert!(found.iter().all(|t| t.bytes == t.rows.len() as u64 * chain.row_bytes(block.start)));
        let rows = |t: &Transfer| t.rows.clone().map(|row| (t.from, t.to, row)).collect::<Vec<_>>();
        assert_eq!(found.iter().flat_map(rows).collect::<BTreeSet<_>>(), expected, "case {case}");
        let sum: u64 = found.iter().map(|t| t.bytes).sum();
        assert_eq!(sum, expected.len() as u64 * chain.row_bytes(block.start));
    }
}

#[test]
fn a_worker_alone_exchanges_nothing_and_computes_each_row_once() {
    let (vgg, one) = (vgg16(), Workers::alike(1, 1e11, 1e9));
    assert!((alone(&vgg, &one) - 0.307).abs() < 0.001, "{}", alone(&vgg, &one));
    for cut in [fuse(&vgg, &one), each(&vgg, &one)] {
        assert_eq!((cut.halo_bytes, cut.ends_bytes), (0, 0));
        assert!((cut.seconds - alone(&vgg, &one)).abs() < 1e-12);
    }
}

#[test]
fn vgg_on_four_workers_is_nearly_four_times_as_quick_and_fused_blocks_are_quicker_than_layers() {
    let vgg = vgg16();
    assert_eq!((vgg.len(), vgg.image(18)), (18, Image(7, 7, 512)));
    for flops in [5e10, 1e11, 2e11, 1e12, 1e13] {
        for gigabits in [1.0, 2.0, 5.0, 10.0] {
            for latency_s in [0.0, 1e-4, 1e-3] {
                let workers = Workers { latency_s, ..Workers::alike(4, flops, gigabits * 1.25e8) };
                let (fused, single) = (fuse(&vgg, &workers), each(&vgg, &workers));
                assert!(fused.seconds < single.seconds, "{flops} {gigabits} {latency_s}");
                let saved = 1.0 - fused.seconds / alone(&vgg, &workers);
                // The paper's 73 %, within 10 points, by workers of a processor's speed.
                assert!(flops > 1e11 || latency_s > 1e-4 || (0.63..0.75).contains(&saved), "{saved}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let image = Image(8, 8, 1);
    let conv =
        |image, size| Step::Conv(Conv2d { image, channels: 2, size, stride: 1, padding: 0, dilation: 1 });
    assert!(Chain::new(vec![conv(image, 3), conv(Image(6, 6, 2), 3)]).is_ok());
    let text = Chain::new(vec![conv(image, 3), conv(image, 3)]).unwrap_err().to_string();
    assert_eq!(
        text,
        "layer 1 of the chain reads [8, 8, 1], but it needs [6, 6, 2], the output of the layer before"
    );
    for size in [0, 9, u32::MAX] {
        assert!(Chain::new(vec![conv(image, size)]).is_err());
    }
    assert!(Chain::new(Vec::new()).is_err());
}
