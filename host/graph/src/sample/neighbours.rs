//! Sampling methods that start at target vertices, which are GraphSAGE's neighbour sampling and the
//! ShaDow k-hop sampler.

use std::sync::Arc;

use super::room::{Lists, Room, ask_ahead};
use super::{SampleKey, Subgraph, refused};
use crate::adjacency::Graph;
use crate::error::Result;
use crate::random::SplitMix64;

/// Numbers of incoming edges that are drawn for a row.
#[derive(Debug)]
pub(super) struct FanOut {
    /// Maximum number of edges. The index is the row's distance from the targets, in hops.
    most: Vec<u32>,
    /// True if edges are drawn with replacement.
    replace: bool,
    /// Weight of each edge in the order of the in-lists, to which neighbours are drawn in proportion.
    /// `None` if they are drawn uniformly.
    weights: Option<Arc<Vec<f32>>>,
}

/// Draws up to `most` positions of a list in proportion to `weights`, which are finite and not
/// negative. Positions of weight 0 are never drawn. Without `replace`, the positions are drawn one after
/// the other from those that are left (Efraimidis and Spirakis, "Weighted random sampling with a
/// reservoir", 2006).
fn by_weight(random: &mut SplitMix64, (most, replace): (u32, bool), weights: &[f32], chosen: &mut Vec<u32>) {
    chosen.clear();
    // In (0, 1).
    let mut unit = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let positive = (0..).zip(weights).filter(|(_, weight)| **weight > 0.0);
    if replace {
        let (positions, sums): (Vec<u32>, Vec<f64>) = positive
            .scan(0.0, |sum, (at, &weight)| {
                *sum += f64::from(weight);
                Some((at, *sum))
            })
            .unzip();
        let Some(&all) = sums.last() else { return };
        chosen.extend((0..most).map(|_| {
            let wanted = unit() * all;
            positions[sums.partition_point(|&sum| sum <= wanted).min(sums.len() - 1)]
        }));
        return;
    }
    let mut keys: Vec<(f64, u32)> =
        positive.map(|(at, &weight)| (-unit().ln() / f64::from(weight), at)).collect();
    let most = most as usize;
    if most < keys.len() {
        keys.select_nth_unstable_by(most, |a, b| a.0.total_cmp(&b.0));
        keys.truncate(most);
    }
    chosen.extend(keys.into_iter().map(|(_, at)| at));
}

impl FanOut {
    pub(super) fn new(most: Vec<u32>, replace: bool) -> Result<Self> {
        if most.is_empty() {
            return Err(refused("the number of fan-outs", 0, "at least 1, one per hop"));
        }
        if most.contains(&0) {
            return Err(refused("a fan-out", 0, "at least 1"));
        }
        Ok(Self { most, replace, weights: None })
    }

    /// Changes the law so that neighbours are drawn in proportion to the weights of edges.
    pub(super) fn by_weight(self, weights: Arc<Vec<f32>>) -> Self {
        Self { weights: Some(weights), ..self }
    }

    /// Returns the maximum number of rows in a sample with `targets` targets.
    pub(super) fn most(&self, targets: u32) -> u32 {
        let (mut all, mut ring) = (targets, targets);
        for &fan_out in &self.most {
            ring = ring.saturating_mul(fan_out);
            all = all.saturating_add(ring);
        }
        all
    }

    pub(super) fn neighbours(
        &self,
        graph: &Graph,
        key: SampleKey,
        targets: &[u32],
        room: &mut Room,
    ) -> Subgraph {
        let mut ids: Vec<u32> = Vec::with_capacity(targets.len());
        ids.extend(targets.iter().filter(|&&row| row < graph.vertices() && room.enter(row)));
        room.leave(&ids);
        for (&row, next) in ids.iter().zip(0..) {
            room.place(row, next);
        }
        let mut lists = Lists::new(ids.len());
        let mut hops = vec![ids.len() as u32];
        let mut ring = 0..ids.len();
        for &fan_out in &self.most {
            for at in ring.clone() {
                ask_ahead(graph, &ids, at);
                let row = ids[at];
                let list = graph.in_neighbours(row);
                let from = graph.offsets()[row as usize];
                let mut keys = std::mem::take(&mut room.keys);
                keys.clear();
                let mut chosen = std::mem::take(&mut room.chosen);
                let (mut random, length) = (key.stream_of(row), list.len() as u32);
                match (&self.weights, self.replace) {
                    (Some(weights), replace) => {
                        let own = &weights[from as usize..from as usize + list.len()];
                        by_weight(&mut random, (fan_out, replace), own, &mut chosen);
                    }
                    (None, true) => {
                        chosen.clear();
                        let draws = if list.is_empty() { 0 } else { fan_out };
                        chosen.extend((0..draws).map(|_| random.below(u64::from(length)) as u32));
                    }
                    (None, false) => room.choose(&mut random, fan_out, length, &mut chosen),
                }
                for &position in &chosen {
                    let source = list[position as usize];
                    let local = room.place(source, ids.len() as u32);
                    if local as usize == ids.len() {
                        ids.push(source);
                    }
                    keys.push(u64::from(local) << 32 | u64::from(position));
                }
                keys.sort_unstable();
                keys.iter().for_each(|key| lists.push((key >> 32) as u32, from + (key & 0xffff_ffff)));
                lists.end();
                (room.keys, room.chosen) = (keys, chosen);
            }
            ring = ring.end..ids.len();
            hops.push(ids.len() as u32);
        }
        ring.for_each(|_| lists.end());
        room.leave(&ids);
        let (incoming, edges) = lists.finish();
        let targets = Some((0..hops[0]).collect());
        Subgraph { ids, hops, incoming, edges, targets }
    }

    pub(super) fn shadow_khop(
        &self,
        graph: &Graph,
        key: SampleKey,
        targets: &[u32],
        room: &mut Room,
    ) -> Subgraph {
        let (mut ids, mut lists) = (Vec::new(), Lists::new(targets.len()));
        let mut places = Vec::with_capacity(targets.len());
        let mut chosen = std::mem::take(&mut room.chosen);
        for &target in targets.iter().filter(|&&target| target < graph.vertices()) {
            let mut random = key.stream_of(target);
            let first = ids.len();
            room.enter(target);
            ids.push(target);
            let mut ring = first..ids.len();
            for &fan_out in &self.most {
                for at in ring.clone() {
                    ask_ahead(graph, &ids, at);
                    let list = graph.in_neighbours(ids[at]);
                    room.choose(&mut random, fan_out, list.len() as u32, &mut chosen);
                    let sources = chosen.iter().map(|&position| list[position as usize]);
                    ids.extend(sources.filter(|&source| room.enter(source)));
                }
                ring = ring.end..ids.len();
            }
            let own = &mut ids[first..];
            own.sort_unstable();
            places.push((first + own.partition_point(|&id| id < target)) as u32);
            room.induce(graph, own, first as u32, &mut lists);
        }
        room.chosen = chosen;
        let hops = vec![ids.len() as u32];
        let (incoming, edges) = lists.finish();
        Subgraph { ids, hops, incoming, edges, targets: Some(places) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_drawn_in_proportion_to_weights() {
        let seed = 47;
        println!("seed {seed}");
        let (mut random, mut chosen) = (SplitMix64::new(seed), Vec::new());
        let weights = [1.0, 0.0, 3.0, 4.0, 2.0];
        let share = |at: usize| f64::from(weights[at]) / 10.0;
        let draws = 40_000;
        let mut counts = [[0.0; 5]; 2];
        for _ in 0..draws {
            for (replace, counts) in [true, false].into_iter().zip(&mut counts) {
                by_weight(&mut random, (2, replace), &weights, &mut chosen);
                assert_eq!(chosen.len(), 2);
                assert!(replace || chosen[0] != chosen[1]);
                chosen.iter().for_each(|&at| counts[at as usize] += 1.0);
            }
        }
        for at in 0..5 {
            // The second of two draws without replacement is from those that are left.
            let later: f64 =
                (0..5).filter(|&of| of != at).map(|of| share(of) * share(at) / (1.0 - share(of))).sum();
            for (counts, expected) in counts.iter().zip([2.0 * share(at), share(at) + later]) {
                let away = (counts[at] / f64::from(draws) - expected).abs();
                assert!(
                    away < 5.0 * (expected / f64::from(draws)).sqrt() + 1e-12,
                    "{at}: {counts:?}, {expected}"
                );
            }
        }
        by_weight(&mut random, (9, false), &weights, &mut chosen);
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 2, 3, 4], "all that can be drawn");
        for replace in [true, false] {
            by_weight(&mut random, (9, replace), &[0.0; 3], &mut chosen);
            assert!(chosen.is_empty());
        }
    }
}
