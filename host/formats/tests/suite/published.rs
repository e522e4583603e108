//! Every published data set reads as its README says. The files are not in the repository: set
//! `ECITON_DATA` to the folder that holds `planetoid/` and the others, or put it at `../shared/data`
//! beside the workspace; without it these tests say so and pass.
//!
//! `ECITON_PREPARED`, if set, names the folder that `peers/prepare.py` wrote: then each data set is
//! compared with it value by value.
use std::path::{Path, PathBuf};
use std::time::Instant;

use eciton_formats::{builtin, builtins, open};
use eciton_graph::dataset::{Dataset, Features, NO_LABEL};
use eciton_graph::error::Error;
use eciton_graph::stat::Statistics;

fn data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let found = std::env::var_os("ECITON_DATA").map_or(beside, PathBuf::from);
    if found.join("planetoid").is_dir() {
        return Some(found);
    }
    println!("skipped: no data at {}; set ECITON_DATA", found.display());
    None
}

/// Folder or file, name, V, E, columns, classes, train / validation / test, name in prepare.py.
type Row = (&'static str, Option<&'static str>, u32, u64, u32, u32, [usize; 3], &'static str);

const TABLE: [Row; 9] = [
    ("planetoid", Some("cora"), 2708, 10556, 1433, 7, [140, 500, 1000], "cora"),
    ("planetoid", Some("citeseer"), 3327, 9104, 3703, 6, [120, 500, 1000], "citeseer"),
    ("planetoid", Some("pubmed"), 19717, 88648, 500, 3, [60, 500, 1000], "pubmed"),
    ("gnn-benchmark-npz/cora.npz", None, 2708, 10556, 1433, 7, [140, 210, 2358], ""),
    // The published file has the 3,312 vertices that have features.
    ("gnn-benchmark-npz", Some("citeseer"), 3312, 9072, 3703, 6, [120, 180, 3012], ""),
    ("graphdata-npz", Some("amazon_photo"), 7650, 238162, 745, 8, [160, 240, 7250], "amazon_photo"),
    ("graphdata-npz/coauthor_cs.npz", None, 18333, 163788, 6805, 15, [300, 450, 17583], "coauthor_cs"),
    ("musae-facebook", None, 22470, 341646, 4714, 4, [13482, 4494, 4494], "musae_facebook"),
    ("heterophilous", None, 10000, 78804, 7, 2, [5000, 2500, 2500], ""),
];

#[test]
fn every_set_has_its_published_extents() {
    let Some(data) = data() else { return };
    for (path, name, vertices, edges, columns, classes, split, prepared) in TABLE {
        let start = Instant::now();
        let set = open(&data.join(path), name).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let stat = Statistics::from_dataset(&set);
        println!("{path} {name:?}: {seconds:.3} s, {stat:?}");
        let found = (stat.vertices, stat.edges, stat.features, set.labels.width(), stat.split);
        assert_eq!(found, (vertices, edges, columns, classes, split), "{path} {name:?}");
        assert!(stat.symmetric);
        assert_eq!(stat.class_counts.iter().sum::<u64>() + stat.unlabelled, u64::from(vertices));
        let folder = std::env::var_os("ECITON_PREPARED").map(PathBuf::from);
        if let Some(folder) = folder.filter(|_| !prepared.is_empty()) {
            same(&set, &open(&folder.join(prepared), None).unwrap());
            println!("  equals {prepared} of prepare.py");
        }
    }
}

#[test]
fn builtin_cora_is_planetoids_cora() {
    let start = Instant::now();
    let carried = builtin("Cora").unwrap();
    println!("builtin cora: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    let Some(data) = data() else { return };
    let mut published = open(&data.join("planetoid"), Some("cora")).unwrap();
    // Its files have no names of classes.
    assert!(published.names.labels.is_empty() && carried.names.labels.len() == 7);
    published.names = carried.names.clone();
    assert!(carried == published, "they differ");
}

#[test]
fn citeseers_isolated_vertices_have_nothing() {
    let Some(data) = data() else { return };
    let set = open(&data.join("planetoid"), Some("citeseer")).unwrap();
    let Features::Sparse(rows) = &set.features else { panic!("dense") };
    let empty: Vec<u32> = (2312..3327).filter(|&v| rows.row(v as usize).0.is_empty()).collect();
    assert_eq!(empty.len(), 15);
    for vertex in empty {
        assert_eq!(set.labels.as_classes().unwrap()[vertex as usize], 0);
        assert!(!set.split.test.contains(&vertex));
    }
}

#[test]
fn names_are_asked_for_and_proposed() {
    let Err(Error::UnknownDataset { nearest, known, .. }) = builtin("corra") else { panic!() };
    assert_eq!(nearest.as_deref(), Some("cora"));
    assert_eq!(known.len(), builtins().len());
    let Some(data) = data() else { return };
    let text = open(&data.join("planetoid"), None).unwrap_err().to_string();
    assert!(text.contains("citeseer, cora, pubmed"), "{text}");
    let text = open(&data.join("planetoid"), Some("pubmd")).unwrap_err().to_string();
    assert!(text.contains("did you mean \"pubmed\""), "{text}");
    let text = open(&data, None).unwrap_err().to_string();
    assert!(text.contains("planetoid") && text.contains("known"), "{text}");
}

/// Equal but for the name and for how features are kept.
fn same(a: &Dataset, b: &Dataset) {
    assert!(a.graph == b.graph, "{}: graphs differ", a.name);
    assert!(a.labels == b.labels, "{}: labels differ", a.name);
    assert!(a.split == b.split, "{}: splits differ", a.name);
    assert_eq!(a.features.columns(), b.features.columns());
    assert!(a.labels.as_classes().unwrap().iter().all(|&l| l != NO_LABEL));
    let width = a.features.columns() as usize;
    let (mut left, mut right) = (vec![0.0f32; width], vec![0.0f32; width]);
    for row in 0..a.features.rows() {
        a.features.copy_row(row, &mut left);
        b.features.copy_row(row, &mut right);
        assert!(left == right, "{}: features of {row} differ", a.name);
    }
}
