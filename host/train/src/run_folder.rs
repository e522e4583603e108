//! STUB by the lead so that the crate compiles: replace it whole, but KEEP these signatures, which train.rs and predict.rs call.
#![allow(missing_docs)]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use eciton_graph::dataset::VertexIds;
use eciton_plan::Config;
use crate::report::{EpochReport, Summary};
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error { #[error("stub")] Stub }
pub type Result<T> = std::result::Result<T, Error>;
#[derive(Debug, Clone)]
pub struct NamedTensor { pub name: String, pub shape: Vec<usize>, pub values: Vec<f32> }
pub fn model_digest(tensors: &[NamedTensor]) -> String {
    use sha2::Digest;
    let mut h = sha2::Sha256::new();
    for t in tensors { h.update(t.name.as_bytes()); for v in &t.values { h.update(v.to_le_bytes()); } }
    h.finalize().iter().map(|b| format!("{b:02x}")).collect()
}
#[derive(Debug)]
pub struct RunFolder;
#[derive(Debug)]
pub struct Place<'a>(#[allow(dead_code)] &'a mut RunFolder);
impl RunFolder {
    pub fn create(_: &Path) -> Result<RunFolder> { Ok(RunFolder) }
    pub fn write_config(&mut self, _: &Config) -> Result<()> { Ok(()) }
    /// Kernel digests by name.
    pub fn write_versions(&mut self, _: &BTreeMap<String, String>, _numeric_class: &str) -> Result<()> { Ok(()) }
    pub fn append_metrics(&mut self, _: &EpochReport) -> Result<()> { Ok(()) }
    pub fn write_summary(&mut self, _: &Summary) -> Result<()> { Ok(()) }
    pub fn top(&mut self) -> Place<'_> { Place(self) }
    pub fn seed(&mut self, _: u64) -> Result<Place<'_>> { Ok(Place(self)) }
    pub fn finish(self) -> Result<PathBuf> { Ok(PathBuf::new()) }
}
impl Place<'_> {
    pub fn write_model(&mut self, _: &[NamedTensor], _metadata: &BTreeMap<String, String>) -> Result<()> { Ok(()) }
    /// scores: row-major [vertices, classes]; embeddings: (width, row-major values)
    pub fn write_predictions(&mut self, _: &VertexIds, _vertices: u32, _scores: &[f32], _embeddings: Option<(usize, &[f32])>) -> Result<()> { Ok(()) }
}
#[derive(Debug)]
pub struct Run { pub config: Config, pub summary: Summary, pub tensors: Vec<NamedTensor> }
impl Run { pub fn open(_: &Path) -> Result<Run> { Err(Error::Stub) } }
