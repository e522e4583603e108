//! Features of edges as each reader finds them, and what is said of bad ones.
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use eciton_formats::{open, stream};
use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::dataset::{Dataset, EdgeFeatures};
use eciton_graph::edge_rule::SelfLoops;
use eciton_graph::error::Error;
use eciton_graph::random::SplitMix64;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, bytes) in files {
            let path = folder.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self) -> Result<Dataset, Error> {
        open(self.0.path(), None)
    }

    fn refusal(&self) -> String {
        self.open().unwrap_err().to_string()
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn i64s(shape: &str, values: &[i64]) -> Vec<u8> {
    npy("<i8", shape, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
}

fn f32s(shape: &str, values: &[f32]) -> Vec<u8> {
    npy("<f4", shape, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
}

fn zip(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (key, bytes) in entries {
        writer.start_file(format!("{key}.npy"), options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Columns and values of a data set's edges.
fn found(set: &Dataset) -> Option<(u32, &[f32])> {
    set.edge_features.as_ref().map(|rows| (rows.columns(), rows.values()))
}

fn table(name: &str, text: &str) -> Dataset {
    Folder::new(&[(name, text.as_bytes())]).open().unwrap()
}

#[test]
fn columns_of_numbers_are_edge_features() {
    // A path a - b - c: into a from b, into b from a and c, into c from b.
    let set = table("edges.csv", "source,target,weight\nann,bob,0.5\nbob,cyn,4\n");
    assert_eq!(set.vertices(), 3);
    assert_eq!(found(&set), Some((1, &[0.5, 0.5, 4.0, 4.0][..])));
    // Words are passed over, wherever they stand; so is a column of words whose first field is empty.
    let set = table("edges.csv", "source,target,kind,weight,note,time\na,b,x,1,,-2\nb,c,7,2,old,1e3\n");
    assert_eq!(found(&set), Some((2, &[1.0, -2.0, 1.0, -2.0, 2.0, 1e3, 2.0, 1e3][..])));
    // Without a header; separated by blanks; numbers with a header of any words.
    assert_eq!(found(&table("edges.txt", "0 1 0.5\n1\t2 4\n")), Some((1, &[0.5, 0.5, 4.0, 4.0][..])));
    let set = table("edges.tsv", "this\tthat\tw\n0\t1\t0.5\n1\t2\t4\n");
    assert_eq!(found(&set), Some((1, &[0.5, 0.5, 4.0, 4.0][..])));
    // None.
    for text in ["source,target\n0,1\n", "0,1\n", "source,target,weight\n0,1,high\n1,2,low\n"] {
        assert_eq!(found(&table("edges.csv", text)), None, "{text}");
    }
}

#[test]
fn repeats_are_added_up_and_directions_have_their_mean() {
    let text = "0,1,1\n1,0,2\n1,2,7\n2,1,7\n2,2,100\n0,1,6\n";
    let set = table("edges.csv", text);
    assert_eq!(found(&set), Some((1, &[4.5, 4.5, 7.0, 7.0][..])));
    assert_eq!(found(&table("edges.csv", "0,1,4.5\n1,2,7\n")), found(&set));
}

#[test]
fn faults_in_the_table_name_the_line() {
    for (text, line, what) in [
        ("source,target,weight\n0,1,1\n1,2,\n", "edges.csv, line 3", "finite number in column 3"),
        ("0,1,1,a\n\n1,2,b,2\n", "edges.csv, line 3", "found \"b\""),
        ("0,1,1\n1,2\n", "edges.csv, line 2", "expected 3 fields, as in line 1, found 2 fields"),
        ("0,1,\n1,2,3\n", "edges.csv, line 1", "finite number in column 3"),
        ("0,1,1\n1,2,nan\n", "edges.csv, line 2", "found \"nan\""),
        ("0,1,1e99\n", "edges.csv, line 1", "found \"1e99\""),
    ] {
        let said = Folder::new(&[("edges.csv", text.as_bytes())]).refusal();
        assert!(said.contains(line) && said.contains(what), "{said}");
    }
}

#[test]
fn an_array_beside_the_table_has_a_row_a_record() {
    let edges = b"source,target\nbob,ann\nann,ann\ncyn,bob\n";
    let rows = f32s("(3, 2)", &[1., 2., 9., 9., 3., 4.]);
    for name in ["edge_features.npy", "edge_features.npy.gz"] {
        let bytes = if name.ends_with("gz") { gzip(&rows) } else { rows.clone() };
        let set = Folder::new(&[("edges.csv", edges), (name, &bytes)]).open().unwrap();
        // Into bob from ann and cyn, into ann from bob, into cyn from bob.
        assert_eq!(found(&set), Some((2, &[1., 2., 3., 4., 1., 2., 3., 4.][..])));
    }
    let said = |edges: &[u8], rows: &[u8]| {
        Folder::new(&[("edges.csv", edges), ("edge_features.npy", rows)]).refusal()
    };
    let short = said(edges, &f32s("(2,)", &[1., 2.]));
    assert!(short.contains("edge_features.npy: 2 rows") && short.contains("edges.csv has 3"), "{short}");
    let nan = said(edges, &f32s("(3, 2)", &[1., 2., 9., f32::NAN, 3., 4.]));
    assert!(nan.contains("edge_features.npy, row 1: feature column 1 is NaN"), "{nan}");
    let both = said(b"0,1,0.5\n", &f32s("(1,)", &[1.]));
    assert!(both.contains("in a single file") && both.contains("edges.csv as well"), "{both}");
}

const OGB: [(&str, &[u8]); 4] = [
    ("raw/edge.csv", b"0,1\n1,2\n2,3\n"),
    ("raw/num-node-list.csv", b"4\n"),
    ("raw/num-edge-list.csv", b"3\n"),
    ("raw/node-label.csv", b"0\n1\n0\n1\n"),
];

#[test]
fn ogb_tables_and_arrays_have_edge_features() {
    let expected = [1., 2., 1., 2., 3., 4., 3., 4., 5., 0.5, 5., 0.5];
    let of_table = |name: &str, rows: &[u8]| Folder::new(&[&OGB[..], &[(name, rows)]].concat());
    let rows = b"1,2\n3,4\n5,5e-1\n";
    assert_eq!(found(&of_table("raw/edge-feat.csv", rows).open().unwrap()), Some((2, &expected[..])));
    let packed = of_table("raw/edge-feat.csv.gz", &gzip(rows)).open().unwrap();
    assert_eq!(found(&packed), Some((2, &expected[..])));
    assert_eq!(found(&of_table("README", b"").open().unwrap()), None);
    for (rows, expected) in [
        (&b"1,2\n3,4\n"[..], "2 rows, but num-edge-list has 3"),
        (b"1\n2\n3\n4\n", "line 4: expected 3 rows (num-edge-list)"),
        (b"1\n2,3\n4\n", "line 2: expected 1 fields"),
        (b"1\n\"\"\n3\n", "edge-feat.csv, row 1: feature column 0 is NaN"),
    ] {
        let said = of_table("raw/edge-feat.csv", rows).refusal();
        assert!(said.contains(expected), "{said}");
    }
    let of_array = |rows: Option<Vec<u8>>| {
        let mut arrays = vec![
            ("edge_index", i64s("(2, 3)", &[0, 1, 2, 1, 2, 3])),
            ("num_nodes_list", i64s("(1,)", &[4])),
            ("num_edges_list", i64s("(1,)", &[3])),
        ];
        arrays.extend(rows.map(|rows| ("edge_feat", rows)));
        Folder::new(&[("raw/data.npz", &zip(&arrays))])
    };
    let rows = f32s("(3, 2)", &[1., 2., 3., 4., 5., 0.5]);
    assert_eq!(found(&of_array(Some(rows)).open().unwrap()), Some((2, &expected[..])));
    assert_eq!(found(&of_array(None).open().unwrap()), None);
    // As NumPy stores None.
    let none = npy("|O", "()", b"\x80\x04N.");
    assert_eq!(found(&of_array(Some(none)).open().unwrap()), None);
    let said = of_array(Some(f32s("(2, 1)", &[1., 2.]))).refusal();
    assert!(said.contains("edge_feat: 2 rows, but num_edges_list has 3"), "{said}");
    let said = of_array(Some(npy("|O", "(3,)", b"\x80\x04N."))).refusal();
    assert!(said.contains("pickled Python objects"), "{said}");
}

/// Lists as they are, and lists that have to be sorted and rid of repeats.
#[test]
fn prepared_rows_are_in_the_order_of_indices() {
    let folder = |indptr: &[i64], indices: &[i64], rows: &[u8]| {
        let shape = |values: &[i64]| format!("({},)", values.len());
        Folder::new(&[
            ("indptr.npy", &i64s(&shape(indptr), indptr)),
            ("indices.npy", &i64s(&shape(indices), indices)),
            ("label.npy", &i64s("(3,)", &[0, 1, 0])),
            ("edge_feat.npy", rows),
        ])
    };
    let ascending = folder(&[0, 2, 3, 3], &[0, 2, 0], &f32s("(3, 2)", &[1., 2., 3., 4., 5., 6.]));
    // The loop of vertex 0 is dropped, with its row.
    assert_eq!(found(&ascending.open().unwrap()), Some((2, &[3., 4., 5., 6.][..])));
    let kept = eciton_formats::open_with(
        ascending.0.path(),
        None,
        eciton_formats::Request { self_loops: Some(SelfLoops::Keep), ..eciton_formats::Request::default() },
    )
    .unwrap();
    assert_eq!(found(&kept), Some((2, &[1., 2., 3., 4., 5., 6.][..])));
    let list = folder(&[0, 2, 3, 3], &[1, 2, 0], &f32s("(3,)", &[1., 2., 3.]));
    assert_eq!(found(&list.open().unwrap()), Some((1, &[1., 2., 3.][..])));
    let mixed = folder(&[0, 4, 5, 5], &[2, 0, 2, 2, 0], &f32s("(5,)", &[3., 1., 4., 5., 7.]));
    let mixed = mixed.open().unwrap();
    assert_eq!(mixed.graph.in_neighbours(0), [2]);
    assert_eq!(found(&mixed), Some((1, &[12., 7.][..])));
    let said = folder(&[0, 2, 3, 3], &[1, 2, 0], &f32s("(2,)", &[1., 2.])).refusal();
    assert!(said.contains("edge_feat.npy: 2 rows, but indices.npy has 3"), "{said}");
    let said = folder(&[0, 2, 3, 3], &[1, 2, 0], &f32s("(3,)", &[1., 2., f32::INFINITY])).refusal();
    assert!(said.contains("edge_feat.npy, row 2: feature column 0 is inf"), "{said}");
}

#[test]
fn values_of_an_adjacency_are_a_column() {
    let open = |values: &[f32]| {
        let bundle = zip(&[
            ("adj_data", f32s("(4,)", values)),
            ("adj_indices", i64s("(4,)", &[1, 0, 2, 2])),
            ("adj_indptr", i64s("(4,)", &[0, 1, 3, 4])),
            ("adj_shape", i64s("(2,)", &[3, 3])),
            ("labels", i64s("(3,)", &[0, 1, 1])),
        ]);
        Folder::new(&[("a.npz", &bundle)]).open()
    };
    // 0 - 1 both ways, 1 - 2 one way, and the diagonal.
    assert_eq!(found(&open(&[2.0, 4.0, 0.5, 9.0]).unwrap()), Some((1, &[3.0, 3.0, 0.5, 0.5][..])));
    assert_eq!(found(&open(&[1.0, 1.0, 1.0, 9.0]).unwrap()), None);
    let said = open(&[1.0, 1.0, f32::NAN, 1.0]).unwrap_err().to_string();
    assert!(
        said.contains(
            "a.npz!adj_data, row 1: expected a finite value of the adjacency in column 2, found NaN"
        ),
        "{said}"
    );
}

fn file(name: &str, text: &str) -> Result<Dataset, Error> {
    let folder = Folder::new(&[(name, text.as_bytes()), ("packed.gz", &gzip(text.as_bytes()))]);
    let plain = open(&folder.path(name), None);
    let packed = folder.path(&format!("b-{name}.gz"));
    fs::rename(folder.path("packed.gz"), &packed).unwrap();
    match (&plain, open(&packed, None)) {
        (Ok(plain), Ok(packed)) => {
            assert_eq!((&plain.graph, &plain.edge_features), (&packed.graph, &packed.edge_features));
        }
        (plain, packed) => assert!(plain.is_err() && packed.is_err(), "{text}"),
    }
    plain
}

#[test]
fn values_of_a_matrix_are_a_column() {
    for (field, symmetry, entries) in [
        ("real", "symmetric", "2 1 0.5\n3 2 -1.5e1\n3 3 7"),
        ("real", "general", "1 2 0.25\n2 1 0.75\n% x\n2\t3, -15\n3 3 7"),
        ("integer", "general", "3 2 -15\n1 2 -1\n2 1 2\n3 3 7\n"),
    ] {
        let count = entries.lines().filter(|line| !line.starts_with('%')).count();
        let text = format!("%%MatrixMarket matrix coordinate {field} {symmetry}\n3 3 {count}\n{entries}");
        let set = file("a.mtx", &text).unwrap();
        assert_eq!(found(&set), Some((1, &[0.5, 0.5, -15.0, -15.0][..])), "{text}");
    }
    let pattern = "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n";
    assert_eq!(found(&file("a.mtx", pattern).unwrap()), None);
    for (field, entry, fields) in [("pattern", "1 2 7", "2 fields"), ("real", "1 2 7 8", "3 fields")] {
        let text = format!("%%MatrixMarket matrix coordinate {field} general\n2 2 1\n{entry}\n");
        let said = file("a.mtx", &text).unwrap_err().to_string();
        assert!(said.contains("a.mtx, line 3") && said.contains(fields), "{said}");
    }
    for value in ["x", "nan", "1e99", ","] {
        let text = format!("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 {value}\n");
        let said = file("a.mtx", &text).unwrap_err().to_string();
        assert!(said.contains("a.mtx, line 3: expected"), "{said}");
    }
}

#[test]
fn numbers_of_an_edge_list_are_columns() {
    // By the first edge: the third and the fifth field.
    let text = "# a comment 1 2 3\n5 7 0.5 road 3\n7\t9,-1e1 street 4\n9 9 1 2 3\n7 5 1.5 road 5\n";
    let set = file("a.txt", text).unwrap();
    assert_eq!(found(&set), Some((2, &[1.0, 4.0, 1.0, 4.0, -10.0, 4.0, -10.0, 4.0][..])));
    assert_eq!(found(&file("a.txt", "0 1 road 2x\n1 2 3 4\n").unwrap()), None);
    for line in ["1 2", "1 2 x", "1 2 nan", "1 2 1e99"] {
        let said = file("a.txt", &format!("0 1 0.5\n{line}\n")).unwrap_err().to_string();
        assert!(said.contains("a.txt, line 2: expected a finite number in field 3"), "{said}");
    }
}

#[test]
fn streams_have_values() {
    let matrix = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 0.5\n";
    for (name, text, columns, expected) in [
        ("a.mtx", matrix, 1, &[0.5][..]),
        ("a.txt", "0 1 0.5 2\n", 2, &[0.5, 2.0]),
        ("a.el", "0 1\n", 0, &[]),
    ] {
        let folder = Folder::new(&[(name, text.as_bytes())]);
        let streamed = stream(&folder.path(name)).unwrap().unwrap();
        let (mut edges, mut values) = (Vec::new(), Vec::new());
        streamed.edges.read_with_values(0, &mut edges, &mut values).unwrap();
        assert_eq!((edges, streamed.edges.columns(), &values[..]), (vec![(0, 1)], columns, expected));
    }
}

#[test]
fn metis_edge_weights_are_a_column() {
    let weighted = "3 2 001\n2 5\n1 5 3 8\n2 8\n";
    assert_eq!(found(&file("a.graph", weighted).unwrap()), Some((1, &[5.0, 5.0, 8.0, 8.0][..])));
    // With weights of vertices, a loop, and ends that disagree.
    let more = "3 3 011\n7 1 9 2 4 1 9\n7 1 6 3 8\n7 2 8\n";
    assert_eq!(found(&file("a.graph", more).unwrap()), Some((1, &[5.0, 5.0, 8.0, 8.0][..])));
    assert_eq!(found(&file("a.graph", "3 2\n2\n1 3\n2\n").unwrap()), None);
}

/// The same edges and values in every layout that keeps them undirected are the same data.
#[test]
fn layouts_agree() {
    let seed = 97;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for _ in 0..20 {
        let vertices = 2 + random.below(30) as u32;
        let mut edges: Vec<(u32, u32)> = (0..1 + random.below(80))
            .map(|_| (random.below(vertices.into()) as u32, random.below(vertices.into()) as u32))
            .collect();
        // So that every vertex occurs.
        edges.extend((1..vertices).map(|v| (v - 1, v)));
        let rows: Vec<f32> = edges.iter().map(|_| 1.0 + random.below(1001) as f32 / 8.0).collect();
        let graph = Graph::from_edges(vertices.into(), edges.iter().copied(), Options::default()).unwrap();
        let expected = EdgeFeatures::placed(&graph, &edges, 1, &rows, Options::default()).unwrap();
        let lines = |separator: &str, first: u32| -> String {
            let ends = edges.iter().map(|&(s, t)| (s + first, t + first)).zip(&rows);
            ends.map(|((s, t), row)| format!("{s}{separator}{t}{separator}{row}\n")).collect()
        };
        let pairs: String = edges.iter().map(|(s, t)| format!("{s},{t}\n")).collect();
        let shape = format!("({}, 1)", rows.len());
        let values: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let (nodes, count) = (format!("{vertices}"), format!("{}", edges.len()));
        let matrix = format!(
            "%%MatrixMarket matrix coordinate real general\n{nodes} {nodes} {count}\n{}",
            lines(" ", 1)
        );
        let sets = [
            table("edges.csv", &lines(",", 0)),
            table("edges.txt", &lines("  ", 0)),
            Folder::new(&[("edges.csv", pairs.as_bytes()), ("edge_features.npy", &f32s(&shape, &rows))])
                .open()
                .unwrap(),
            Folder::new(&[
                ("raw/edge.csv", pairs.as_bytes()),
                ("raw/edge-feat.csv", values.as_bytes()),
                ("raw/num-node-list.csv", nodes.as_bytes()),
                ("raw/num-edge-list.csv", count.as_bytes()),
            ])
            .open()
            .unwrap(),
            file("a.mtx", &matrix).unwrap(),
        ];
        for set in sets {
            assert_eq!((&set.graph, set.edge_features.as_ref()), (&graph, Some(&expected)), "{}", set.name);
        }
    }
}

/// Published bundles whose adjacency is of ones have no edge features.
#[test]
fn carried_data_has_none() {
    assert_eq!(eciton_formats::builtin("cora").unwrap().edge_features, None);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/bundle/gnn_benchmark");
    assert_eq!(open(&corpus, None).unwrap().edge_features, None);
}
