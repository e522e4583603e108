//! Readers of published and plain formats, and the one door to them: [`open`] recognises what lies
//! at a path, [`builtin`] knows what the crate carries itself.

pub mod array;
pub mod bundle;
mod cora;
pub(crate) mod csr;
mod file;
pub mod folder;
mod labels;
pub mod musae;
pub mod npy;
pub mod npz;
pub mod pickle;
pub mod planetoid;
pub mod prepared;
mod table;

pub use file::MAX_FILE_BYTES;
pub use labels::MAX_CLASSES;

use std::path::Path;

use crate::dataset::Dataset;
use crate::error::{Error, Result};

const KNOWN: &str = "a .npz of a known layout; a folder with edges.csv (and features, labels, \
     split), with indptr.npy and indices.npy, with ind.NAME.graph (Planetoid), with NAME_edges.csv \
     and NAME_target.csv (MUSAE), or with .npz files";

/// Reads one of several data sets of a folder by its name.
type Reader = fn(&Path, &str) -> Result<Dataset>;

/// A data set that the crate carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// What [`builtin`] takes.
    pub name: &'static str,
    /// What it is, in one line.
    pub description: &'static str,
}

/// The data sets that the crate carries.
pub fn builtins() -> &'static [Builtin] {
    &[Builtin {
        name: "cora",
        description: "2,708 papers of machine learning, 5,278 citations, 1,433 words, 7 fields; \
             public split 140 / 500 / 1,000",
    }]
}

/// A data set that the crate carries, by name, whatever its case.
///
/// # Errors
/// [`Error::UnknownDataset`] with the most similar name.
pub fn builtin(name: &str) -> Result<Dataset> {
    match name.to_lowercase().as_str() {
        "cora" => cora::load(),
        other => {
            let known: Vec<String> = builtins().iter().map(|b| b.name.to_owned()).collect();
            let nearest = nearest(other, &known);
            Err(Error::UnknownDataset { name: name.to_owned(), nearest, known })
        }
    }
}

/// Reads whatever lies at `path`; `name` chooses where a folder holds several data sets.
///
/// # Errors
/// [`Error::ChooseName`] where a name is missing or unknown, [`Error::UnknownLayout`] with what was
/// found, and those of the reader.
pub fn open(path: &Path, name: Option<&str>) -> Result<Dataset> {
    let metadata = std::fs::metadata(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    if !metadata.is_dir() {
        return match path.extension().and_then(|e| e.to_str()) {
            Some("npz") => bundle::open(path),
            _ => {
                let found = vec![file::name(path)];
                Err(Error::UnknownLayout { path: path.to_owned(), found, known: KNOWN })
            }
        };
    }
    let files = file::list(path)?;
    let has = |name: &str| files.iter().any(|f| f == name);
    if has("indptr.npy") && has("indices.npy") {
        return prepared::open(path);
    }
    if folder::EDGES.iter().any(|e| has(e)) {
        return folder::open(path);
    }
    let several: [(Vec<String>, Reader); 3] = [
        (planetoid::names(&files), planetoid::open),
        (musae::names(&files), musae::open),
        (bundle_names(&files), |folder, name| bundle::open(&folder.join(format!("{name}.npz")))),
    ];
    let names: Vec<String> = several.iter().flat_map(|(names, _)| names.iter().cloned()).collect();
    let wanted = match (name, names.as_slice()) {
        (_, []) => {
            let found = files.into_iter().take(20).collect();
            return Err(Error::UnknownLayout { path: path.to_owned(), found, known: KNOWN });
        }
        (Some(name), _) => name,
        (None, [one]) => one,
        (None, _) => "",
    };
    for (names, open) in several {
        if let Some(name) = names.iter().find(|n| n.eq_ignore_ascii_case(wanted)) {
            return open(path, name);
        }
    }
    Err(Error::ChooseName {
        path: path.to_owned(),
        name: name.map(str::to_owned),
        nearest: name.and_then(|n| nearest(n, &names)),
        names,
    })
}

fn bundle_names(files: &[String]) -> Vec<String> {
    files.iter().filter_map(|f| f.strip_suffix(".npz")).map(str::to_owned).collect()
}

/// The most similar of `known`, if it is similar at all.
fn nearest(name: &str, known: &[String]) -> Option<String> {
    let likeness = |k: &String| strsim::jaro_winkler(&name.to_lowercase(), &k.to_lowercase());
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > 0.6).then(|| best.clone())
}
