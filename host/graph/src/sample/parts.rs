//! TEMPORARY
use super::*;
#[derive(Debug)] pub struct Parts { sub: Subgraph, weights: Vec<f32> }
impl Parts {
    pub fn new(graph: &Graph, _parts: u32, _seed: u64, _masks: Option<(u32, f32)>) -> Result<Self> {
        let sub = Subgraph::whole(graph);
        Ok(Self { weights: vec![1.0; sub.ids.len()], sub })
    }
    pub fn capacity(&self) -> u32 { self.sub.ids.len() as u32 }
    pub fn sample(&self, _key: SampleKey) -> Subgraph { self.sub.clone() }
    pub fn weights(&self, _part: usize) -> &[f32] { &self.weights }
}
