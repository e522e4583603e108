//! File formats that only Python programs read. The error messages contain Python code that
//! converts such a file.

use std::path::Path;

use eciton_graph::error::{Error, Place};

use crate::file;

/// Known formats, as tuples of file name extensions, description of the format, and Python code
/// that converts a file.
const FORMATS: [(&[&str], &str, &str); 5] = [
    (
        &["mat"],
        "a MATLAB file",
        "convert it with Python, with the names of its arrays in place of A, X and y:\n  \
         import scipy.io, eciton; m = scipy.io.loadmat(\"FILE.mat\")\n  \
         eciton.graph(m[\"A\"], x=m[\"X\"], y=m[\"y\"].ravel()).save(\"FOLDER\")",
    ),
    (
        &["pt", "pth"],
        "a file of PyTorch",
        "convert it with Python:\n  \
         import torch, eciton\n  \
         eciton.graph(torch.load(\"FILE.pt\", weights_only=False)).save(\"FOLDER\")",
    ),
    (
        &["pkl", "pickle", "gpickle", "p"],
        "a pickle",
        "convert it with Python, if you trust the file (for a table: pandas.read_pickle(\"FILE.pkl\").to_csv(...)):\n  \
         import pickle, networkx\n  \
         networkx.write_graphml(pickle.load(open(\"FILE.pkl\", \"rb\")), \"graph.graphml\")",
    ),
    (
        &["parquet", "pq"],
        "a Parquet file",
        "use a build that reads it (pip install eciton, or cargo build --release --features parquet), or convert it with \
         Python:\n  \
         import pandas\n  \
         pandas.read_parquet(\"FILE.parquet\").to_csv(\"FILE.csv\", index=False)",
    ),
    (
        &["feather", "arrow", "ipc"],
        "an Arrow file",
        "use a build that reads it (pip install eciton, or cargo build --release --features parquet), or convert it with \
         Python:\n  \
         import pandas\n  \
         pandas.read_feather(\"FILE.feather\").to_csv(\"FILE.csv\", index=False)",
    ),
];

/// Returns the error for a file in one of these formats, or `None` if its extension belongs to
/// another format.
pub(crate) fn error(path: &Path) -> Option<Error> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let (_, found, remedy) = FORMATS.iter().find(|(endings, ..)| endings.contains(&ending.as_str()))?;
    Some(Error::Malformed {
        place: Place::whole(file::name(path)),
        expected: "a table as .csv or .tsv, a graph as .graphml, .gml, .mtx or .json, or a folder".to_owned(),
        found: (*found).to_owned(),
        remedy,
    })
}
