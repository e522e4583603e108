//! Reading report about the files of a folder that were not read.

use std::path::Path;

use crate::file;

/// File name extensions of graph files.
const GRAPHS: [&str; 11] =
    ["mtx", "graph", "metis", "edges", "edgelist", "el", "snap", "npz", "graphml", "gml", "gexf"];
/// File name extensions of other data files.
const DATA: [&str; 9] = ["csv", "tsv", "txt", "npy", "parquet", "feather", "json", "xlsx", "pkl"];

/// Reports the files of `folder` that were not read. Graph files and other data files are reported
/// as warnings, and all others as a fact. `used` has the names of the files that were read, without
/// `.gz`. `instead` says what was read instead of the graph files.
pub(crate) fn report(folder: &Path, used: &[&str], instead: &str) {
    let Ok(files) = file::list(folder) else { return };
    let (mut graphs, mut data, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for name in files {
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        if used.contains(&plain)
            || name == crate::settings::FILE
            || name.starts_with('.')
            || folder.join(&name).is_dir()
        {
            continue;
        }
        let (stem, ending) = plain.rsplit_once('.').unwrap_or((plain, ""));
        let ending = ending.to_ascii_lowercase();
        // Many programs use these names for the links of a graph.
        let edges = ["edges", "edge_list", "edge_index", "links", "adj", "indices"].contains(&stem);
        let text = ["readme", "license", "licence"].iter().any(|word| stem.to_lowercase().starts_with(word));
        if text {
            others.push(name);
        } else if GRAPHS.contains(&ending.as_str()) || (edges && DATA.contains(&ending.as_str())) {
            graphs.push(name);
        } else if DATA.contains(&ending.as_str()) {
            data.push(name);
        } else {
            others.push(name);
        }
    }
    let place = file::name(folder);
    let listed = |names: &[String]| eciton_input::text::listed(names);
    if !graphs.is_empty() {
        let files = match &graphs[..] {
            [one] => format!("the graph file {one} is"),
            _ => format!("the graph files {} are", listed(&graphs)),
        };
        eciton_input::notes::warn(format!(
            "{place}: {files} not used, because {instead}; to read a graph file, name it on the command line, or \
             move it to a folder of its own"
        ));
    }
    if !data.is_empty() {
        eciton_input::notes::warn(format!(
            "{place}: files not used: {}; a data.toml (`eciton data init`) can name the tables of nodes and edges",
            listed(&data)
        ));
    }
    if !others.is_empty() {
        eciton_input::notes::fact(format!("{place}: files not used: {}", listed(&others)));
    }
}
