//! Data sets without a graph.
use std::path::Path;

use eciton_formats::{is_rows, open};
use eciton_graph::dataset::{Dataset, Labels, VertexIds};

fn table(name: &str, text: &str) -> Result<Dataset, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    open(&path, None).map_err(|error| error.to_string())
}

fn classes(dataset: &Dataset) -> Vec<u32> {
    dataset.labels.as_classes().unwrap().to_vec()
}

#[test]
fn a_table_has_a_column_of_labels() {
    let named = table("t.csv", "id,label,a,split\nx,1,0.5,train\ny,0,2,val\nz,,-3,\n").unwrap();
    assert_eq!((named.vertices(), named.graph.edges(), named.features.columns()), (3, 0, 1));
    assert_eq!(classes(&named), [1, 0, u32::MAX]);
    assert_eq!(named.ids, VertexIds::Words(["x", "y", "z"].map(str::to_owned).to_vec()));
    assert_eq!((&named.split.train[..], &named.split.validation[..]), (&[0][..], &[1][..]));
    // Without a name the last column is the labels'; words are classes in alphabetical order.
    let last = table("t.csv", "1,2,pear\n3,4,apple\n").unwrap();
    assert_eq!((last.features.columns(), classes(&last)), (2, vec![1, 0]));
    let dense = table("t.tsv", "id\ttarget\ta\n0\t1.5\t2\n1\t-2\t3\n").unwrap();
    assert!(matches!(dense.labels, Labels::Numbers(_)) && dense.ids == VertexIds::Dense);
    assert_eq!(dense.features.columns(), 1);
}

#[test]
fn an_edge_list_stays_one() {
    let edges = table("t.tsv", "0\t1\n1\t2\n").unwrap();
    assert_eq!(edges.graph.edges(), 4);
    let text = table("edges.csv", "source,target\n0,1\n1,2\n").unwrap_err();
    assert!(text.contains("a table of edges") && text.contains("give the folder"), "{text}");
}

#[test]
fn what_is_wrong_in_a_table_is_named() {
    for (text, words) in [
        ("a,b,label\n1,2,0\n1,x,0\n", "line 3: expected a number in column b"),
        ("a,b,label\n1,2,0\n1,0\n", "3 fields"),
        ("a,b,label\n1,inf,0\n", "line 2"),
        ("label\n1\n", "fields"),
        ("id,label\n1,1\n", "a column of features"),
        ("id,a,label\n1,1,1\n1,2,0\n", "twice"),
        ("a,split,label\n1,some,1\n", "train, val, test or an empty field"),
        ("a,label\n", "at least"),
        ("a,label\n1,x\n2,y,z\n", "line 3: expected 2 fields, as in line 1"),
        ("", "at least one record"),
    ] {
        let found = table("t.csv", text).unwrap_err();
        assert!(found.contains(words), "{text:?}: {found}");
    }
}

/// A `.npy` of version 1.0.
pub(crate) fn npy(element: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn archive(path: &Path, entries: &[(&str, Vec<u8>)]) {
    use std::io::Write as _;
    let mut writer = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (key, bytes) in entries {
        writer.start_file(format!("{key}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn archives_and_folders_of_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let x = npy("<f4", "(3, 2)", &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let y = npy("|i1", "(3,)", &[0, 1, 0]);
    let mask = |flags: [u8; 3]| npy("|b1", "(3,)", &flags);
    let path = dir.path().join("d.npz");
    archive(&path, &[("data", x.clone()), ("target", y.clone()), ("images", x.clone())]);
    let read = open(&path, None).unwrap();
    assert_eq!((read.vertices(), read.graph.edges(), classes(&read)), (3, 0, vec![0, 1, 0]));
    assert!(is_rows(&path));
    let masks =
        [("x", x.clone()), ("y", y.clone()), ("train_mask", mask([1, 1, 0])), ("test_mask", mask([0, 0, 1]))];
    archive(&path, &masks);
    let read = open(&path, None).unwrap();
    assert_eq!((&read.split.train[..], &read.split.test[..]), (&[0, 1][..], &[2][..]));
    archive(&path, &[("x", x.clone()), ("y", npy("|i1", "(2,)", &[0, 1]))]);
    assert!(open(&path, None).is_err(), "fewer labels than rows");
    archive(&path, &[("x", x.clone()), ("y", y.clone()), ("edge_index", y.clone())]);
    assert!(open(&path, None).is_err() && !is_rows(&path));
    std::fs::remove_file(&path).unwrap();

    std::fs::write(dir.path().join("x.npy"), &x).unwrap();
    std::fs::write(dir.path().join("y.npy"), &y).unwrap();
    assert!(is_rows(dir.path()));
    assert_eq!(classes(&open(dir.path(), None).unwrap()), [0, 1, 0]);

    let plain = tempfile::tempdir().unwrap();
    std::fs::write(plain.path().join("features.csv"), "id,a\np,1\nq,2\n").unwrap();
    std::fs::write(plain.path().join("labels.csv"), "id,label\nq,1\np,0\n").unwrap();
    let read = open(plain.path(), None).unwrap();
    assert_eq!((read.graph.edges(), classes(&read)), (0, vec![0, 1]));
    assert!(is_rows(plain.path()));
}
