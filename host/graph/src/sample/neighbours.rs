//! Sampling methods that start at target vertices, which are GraphSAGE's neighbour sampling and the
//! ShaDow k-hop sampler.

use super::room::{Lists, Room, ask_ahead};
use super::{SampleKey, Subgraph, refused};
use crate::adjacency::Graph;
use crate::error::Result;

/// Numbers of incoming edges that are drawn for a row.
#[derive(Debug)]
pub(super) struct FanOut {
    /// Maximum number of edges. The index is the row's distance from the targets, in hops.
    most: Vec<u32>,
    /// True if edges are drawn with replacement.
    replace: bool,
}

impl FanOut {
    pub(super) fn new(most: Vec<u32>, replace: bool) -> Result<Self> {
        if most.is_empty() {
            return Err(refused("the number of fan-outs", 0, "at least 1, one per hop"));
        }
        if most.contains(&0) {
            return Err(refused("a fan-out", 0, "at least 1"));
        }
        Ok(Self { most, replace })
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
                match self.replace {
                    true => {
                        chosen.clear();
                        let draws = if list.is_empty() { 0 } else { fan_out };
                        chosen.extend((0..draws).map(|_| random.below(u64::from(length)) as u32));
                    }
                    false => room.choose(&mut random, fan_out, length, &mut chosen),
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
