//! MatrixMarket, METIS, edge lists and OGB's folders: what they mean, packed or plain, in memory or
//! streamed, and what is said of bad ones.
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use eciton_formats::{metis, open, snap, stream};
use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::dataset::{Dataset, Features, Labels, NO_LABEL, Values, VertexIds};
use eciton_graph::error::Error;
use eciton_graph::random::SplitMix64;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, bytes)| folder.write(name, bytes));
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, name: &str) -> Result<Dataset, Error> {
        open(&self.path(name), None)
    }
}

fn read(name: &str, text: &str) -> Dataset {
    Folder::new(&[(name, text.as_bytes())]).open(name).unwrap()
}

fn refusal(name: &str, text: &str) -> String {
    Folder::new(&[(name, text.as_bytes())]).open(name).unwrap_err().to_string()
}

fn lists(graph: &Graph) -> Vec<Vec<u32>> {
    (0..graph.vertices()).map(|v| graph.in_neighbours(v).to_vec()).collect()
}

const PATTERN: &str = "%%MatrixMarket matrix coordinate pattern symmetric\n% hello\n\n4 4 3\n2 1\n3 2\n3 3\n";

#[test]
fn matrix_market_entries_are_edges() {
    let set = read("a.mtx", PATTERN);
    assert_eq!(set.name, "a");
    assert_eq!(lists(&set.graph), [vec![1], vec![0, 2], vec![1], vec![]]);
    assert_eq!(set.ids, VertexIds::Numbers(vec![1, 2, 3, 4]));
    assert_eq!(set.labels, Labels::none(4));
    assert_eq!(set.features, Features::identity(4));
    for text in [
        "%%MatrixMarket matrix coordinate real general\n4 4 3\n1 2 0.5\n3 2 -1e3\n 3\t3 0\n",
        "%%matrixmarket MATRIX Coordinate INTEGER Symmetric\r\n4 4 3\r\n1 2 7\r\n3 2 8\r\n3 3 1\r\n",
        "%%MatrixMarket matrix coordinate pattern general\n4 4 5\n2 1\n1 2\n1 2\n2 3\n3 3",
    ] {
        // The name does not matter where the banner tells.
        let other = read("whatever.dat", text);
        assert_eq!(other.graph, set.graph, "{text}");
    }
}

/// Found by fuzzing: the size line as the last line, without its end.
#[test]
fn a_matrix_without_entries_and_without_a_last_line_end() {
    let text = "%%MatrixMarket matrix coordinate pattern general\n3 3 0";
    let folder = Folder::new(&[("a.mtx", text.as_bytes()), ("b.mtx.gz", &gzip(text.as_bytes()))]);
    assert_eq!(folder.open("a.mtx").unwrap().graph, folder.open("b.mtx.gz").unwrap().graph);
}

#[test]
fn matrix_market_refuses_with_a_remedy() {
    let head = "%%MatrixMarket matrix coordinate pattern general\n";
    let cases = [
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n".to_owned(), "line 1", "coo_array"),
        ("%%MatrixMarket matrix coordinate complex general\n1 1 0\n".to_owned(), "line 1", "as pattern"),
        ("%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n".to_owned(), "line 1", "as general"),
        ("%%MatrixMarket vector coordinate real general\n1 1 0\n".to_owned(), "line 1", "only matrices"),
        ("%%MatrixMarket matrix\n1 1 0\n".to_owned(), "line 1", "FIELD SYMMETRY"),
        (head.to_owned(), "a size line", "end of the header"),
        (format!("{head}2 2\n"), "line 2", "rows, columns, entries"),
        (format!("{head}2 3 1\n1 2\n"), "line 2", "bipartite"),
        (format!("{head}0 0 0\n"), "line 2", "no vertices"),
        (format!("{head}2 2 1\n"), "0 entries", "has 1"),
        (format!("{head}2 2 1\n1 2\n2 1\n"), "2 entries", "has 1"),
        (format!("{head}2 2 1\n0 1\n"), "line 3", "ids from 1 to 2"),
        (format!("{head}2 2 1\n% x\n1 3\n"), "line 4", "ids from 1 to 2"),
        (format!("{head}2 2 1\n1 x\n"), "line 3", "two vertex ids"),
        (format!("{head}4294967290 4294967290 0\n"), "line 2", "limit vertices of a file of this length"),
        (format!("{head}5000000000 5000000000 0\n"), "line 2", "limit vertices of 4294967294"),
        (head.replace("pattern", "real") + "2 2 1\n1 2\n", "line 3", "expected 3 fields"),
    ];
    for (text, first, second) in cases {
        let folder = Folder::new(&[("a.mtx", text.as_bytes()), ("b.mtx.gz", &gzip(text.as_bytes()))]);
        for name in ["a.mtx", "b.mtx.gz"] {
            let said = folder.open(name).unwrap_err().to_string();
            assert!(said.contains(first) && said.contains(second) && said.contains(name), "{said}");
        }
    }
}

const METIS: &str = "% seven vertices\n7 11\n5 3 2\n1 3 4\n5 4 2 1\n2 3 6 7\n% within\n1 3 6\n5 4 7\n6 4\n";

#[test]
fn metis_with_and_without_weights() {
    let plain = read("manual.graph", METIS);
    assert_eq!((plain.graph.edges(), plain.graph.symmetric()), (22, true));
    assert_eq!(plain.graph.in_neighbours(3), [1, 2, 5, 6]);
    assert_eq!(plain.ids.name(0), "1");
    // The manual's example with edge weights, with vertex weights, and with all there is.
    let edges = "7 11 001\n5 1 3 2 2 1\n1 1 3 2 4 1\n5 3 4 2 2 2 1 2\n2 1 3 2 6 2 7 5\n1 1 3 3 6 2\n5 2 4 2 7 6\n6 6 4 5\n";
    let both = "7 11 11\n4 5 1 3 2 2 1\n2 1 1 3 2 4 1\n5 5 3 4 2 2 2 1 2\n3 2 1 3 2 6 2 7 5\n1 1 1 3 3 6 2\n6 5 2 4 2 7 6\n2 6 6 4 5\n";
    let several = "7 11 010 3\n1 2 0 5 3 2\n0 2 2 1 3 4\n4 1 1 5 4 2 1\n2 2 3 2 3 6 7\n1 1 1 1 3 6\n2 2 1 5 4 7\n1 2 1 6 4\n";
    let sizes = "7 11 100\n1 5 3 2\n1 1 3 4\n1 5 4 2 1\n1 2 3 6 7\n1 1 3 6\n1 5 4 7\n1 6 4\n";
    for text in [edges, both, several, sizes] {
        assert_eq!(read("a.metis", text).graph, plain.graph, "{text}");
    }
    // A blank line is a vertex without neighbours.
    let isolated = read("a.graph", "3 1\n2\n1\n\n");
    assert_eq!(lists(&isolated.graph), [vec![1], vec![0], vec![]]);
    assert_eq!(read("a.graph", "4 1\n\n3\n2\n\n\n\n").graph.edges(), 2);
}

#[test]
fn metis_faults_name_the_line() {
    for (text, expected) in [
        ("", "expected a first line"),
        ("% only\n\n", "expected a first line"),
        ("2\n2\n1\n", "line 1: expected the first line: vertices, edges"),
        ("2 1 2\n2\n1\n", "line 1: expected the first line"),
        ("2 1 0001\n2\n1\n", "line 1: expected the first line"),
        ("2 1 001 2\n2 1\n1 1\n", "line 1: expected the first line"),
        ("2 1 010 65\n2 1\n1 1\n", "line 1: expected the first line"),
        ("0 0\n", "line 1: the graph has no vertices"),
        ("4000000000 0\n", "4000000000 lines, one per vertex"),
        ("3 1\n2\n1", "expected 3 lines, one per vertex, found 2"),
        ("2 1\n2\n1\n1\n", "line 4: expected no more than 2 lines"),
        ("2 1\n2\n3\n", "line 3: an edge names vertex 3, but vertices are 1 to 2"),
        ("2 1\n2\n0\n", "line 3: an edge names vertex 0"),
        ("2 1\n2\n-1\n", "line 3: expected a neighbour"),
        ("2 1 1\n2 5\n1\n", "line 3: expected a weight after each neighbour"),
        ("2 1 10\n\n1 1\n", "line 2: expected the vertex's sizes and weights"),
        ("2 2\n2\n1\n", "2 neighbours (two for each edge), but the first line has 4"),
        ("3 1\n2\n3\n\n", "each edge at both its ends"),
    ] {
        let said = refusal("a.graph", text);
        assert!(said.contains(expected), "{said} does not contain {expected}");
    }
}

#[test]
fn partitions_are_one_part_a_line() {
    let folder = Folder::new(&[("a.part", b"0\n1\n\n 1\r\n0"), ("b.gz", &gzip(b"3\n"))]);
    assert_eq!(metis::partition(&folder.path("a.part"), Some(4)).unwrap(), [0, 1, 1, 0]);
    assert_eq!(metis::partition(&folder.path("b.gz"), None).unwrap(), [3]);
    let said = |name: &str, bytes: &[u8]| {
        folder.write(name, bytes);
        metis::partition(&folder.path(name), Some(2)).unwrap_err().to_string()
    };
    assert!(said("c", b"0\n").contains("c: 1 vertices, but the graph has 2"));
    assert!(said("c", b"0\n1 1\n").contains("c, line 2: expected the vertex's part"));
    assert!(said("c", b"0\n4294967295\n").contains("c, line 2"));
    assert!(said("c", b"\n").contains("no vertices"));
}

#[test]
fn edge_lists_keep_the_users_ids() {
    let text = "# Directed graph: x.txt\n# FromNodeId\tToNodeId\n18446744073709551615\t7\n7\t30\n30\t30\n";
    let set = read("wiki.txt", text);
    assert_eq!(set.ids, VertexIds::Numbers(vec![7, 30, u64::MAX]));
    assert_eq!(lists(&set.graph), [vec![1, 2], vec![0], vec![0]]);
    // A third column, commas and KONECT's comments.
    let other = read("out.edges", "% sym\n7,30,1.5\n18446744073709551615,7,2\n30,30,3");
    assert_eq!((other.graph, other.ids), (set.graph, set.ids));
    assert_eq!(read("a.el", "0 1\n2 1\n").ids, VertexIds::Dense);
    for (text, expected) in [
        ("", "a.txt: the graph has no vertices"),
        ("# none\n", "a.txt: the graph has no vertices"),
        ("FromNodeId ToNodeId\n1 2\n", "a.txt, line 1: expected two vertex ids"),
        ("1 2\n\n3\n", "a.txt, line 3: expected two vertex ids"),
        ("1 2\n3 -4\n", "a.txt, line 2"),
        ("1 18446744073709551616\n", "from 0 to 2^64 - 1"),
        ("1 2\n1 \u{e9}\n", "a.txt, line 2"),
    ] {
        let said = refusal("a.txt", text);
        assert!(said.contains(expected), "{said} does not contain {expected}");
        let packed = Folder::new(&[("a.txt", &gzip(text.as_bytes()))]).open("a.txt").unwrap_err();
        assert!(packed.to_string().contains(expected), "{packed}");
    }
}

#[test]
fn what_is_beside_a_graph_is_in_its_ids() {
    let beside: [(&str, &[u8]); 3] = [
        ("labels.csv", b"id,class\n30,b\n7,a\n"),
        ("features.csv", b"30,3\n7,1\n900,9\n"),
        ("split.csv", b"7,train\n30,test\n"),
    ];
    let folder = Folder::new(&beside);
    folder.write("g.txt", b"7 30\n30 900\n");
    folder.write("g.txt.gz", &gzip(b"7 30\n30 900\n"));
    for name in ["g.txt", "g.txt.gz"] {
        let set = folder.open(name).unwrap();
        assert_eq!((set.name.as_str(), set.ids.name(2)), ("g", "900".to_owned()));
        assert_eq!(set.labels, Labels::classes(vec![0, 1, NO_LABEL], 2));
        assert_eq!(set.features, Features::from_dense(1, &[1., 3., 9.]).unwrap());
        assert_eq!((set.split.train, set.split.test), (vec![0], vec![1]));
    }
    folder.write("features.csv", b"30,3\n7,1\n");
    let said = folder.open("g.txt").unwrap_err().to_string();
    assert!(said.contains("a row for each of 3 vertices, found none for vertex 900"), "{said}");
    folder.write("labels.csv", b"8,a\n");
    fs::remove_file(folder.path("features.csv")).unwrap();
    let said = folder.open("g.txt").unwrap_err().to_string();
    assert!(said.contains("labels.csv, line 1: expected"), "{said}");
    // The ids of a matrix are from 1.
    let folder = Folder::new(&[("a.mtx", PATTERN.as_bytes()), ("labels.csv.gz", &gzip(b"1,5\n4,0\n"))]);
    let set = folder.open("a.mtx").unwrap();
    assert_eq!(set.labels, Labels::classes(vec![5, NO_LABEL, NO_LABEL, 0], 6));
    // And the folder itself is the data set, if it holds one graph.
    assert_eq!(folder.open("").unwrap().graph, set.graph);
    folder.write("b.graph", METIS.as_bytes());
    let said = folder.open("").unwrap_err().to_string();
    assert!(said.contains("a.mtx, b.graph"), "{said}");
}

#[test]
fn packed_or_plain_is_the_same() {
    for (name, text) in
        [("a.mtx", PATTERN), ("a.graph", METIS), ("a.txt", "5 6\n6 90\n"), ("a.tsv", "0\t1\n")]
    {
        let plain = read(name, text);
        for packed in [name.to_owned(), format!("{name}.gz")] {
            let folder = Folder::new(&[(&packed, &gzip(text.as_bytes()))]);
            assert_eq!(folder.open(&packed).unwrap(), plain, "{packed}");
        }
    }
    let edges: &[u8] = b"source,target\na,b\nb,c\n";
    let (plain, named, unnamed) = (
        Folder::new(&[("edges.csv", edges), ("labels.csv", b"a,0\nb,1\nc,1\n")]),
        Folder::new(&[("edges.csv.gz", &gzip(edges)), ("labels.csv.gz", &gzip(b"a,0\nb,1\nc,1\n"))]),
        Folder::new(&[("edges.csv", &gzip(edges)), ("labels.csv", &gzip(b"a,0\nb,1\nc,1\n"))]),
    );
    let expected = plain.open("").unwrap();
    for folder in [named, unnamed] {
        let found = folder.open("").unwrap();
        assert_eq!(
            (&found.graph, &found.labels, &found.ids),
            (&expected.graph, &expected.labels, &expected.ids)
        );
    }
}

#[test]
fn streams_give_the_graph_that_memory_gives() {
    let seed = 3;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for round in 0..30 {
        let most = [5, 1 << 12, u64::MAX][round % 3];
        let count = 1 + random.below(200) as usize;
        let edges: Vec<(u64, u64)> = (0..count).map(|_| (random.below(most), random.below(most))).collect();
        let text: String = edges.iter().map(|(s, t)| format!("{s} {t}\n")).collect();
        let ids = 1 + edges.iter().flat_map(|&(s, t)| [s, t]).max().unwrap();
        let matrix = (most < 1 << 20).then(|| {
            let entries: String = edges.iter().map(|(s, t)| format!("{} {}\n", s + 1, t + 1)).collect();
            format!("%%MatrixMarket matrix coordinate pattern general\n{ids} {ids} {count}\n{entries}")
        });
        for (name, text) in [("a.txt", Some(text)), ("a.mtx", matrix)] {
            let Some(text) = text else { continue };
            let folder = Folder::new(&[(name, text.as_bytes()), ("b.gz", &gzip(text.as_bytes()))]);
            let whole = folder.open(name).unwrap();
            let parts = stream(&folder.path(name)).unwrap().unwrap();
            assert_eq!((&parts.ids, parts.edges.vertices()), (&whole.ids, u64::from(whole.vertices())));
            let mut found = Vec::new();
            for chunk in 0..parts.edges.chunks() {
                parts.edges.read(chunk, &mut found).unwrap();
            }
            assert_eq!(found.len(), count);
            let graph = Graph::from_edges(parts.edges.vertices(), found.into_iter(), Options::default());
            assert_eq!(graph.unwrap(), whole.graph);
            assert_eq!(parts.attributes().unwrap().labels, whole.labels);
            assert!(stream(&folder.path("b.gz")).unwrap().is_none());
        }
    }
}

#[test]
fn a_packed_file_cannot_be_streamed() {
    let folder = Folder::new(&[("a.txt", &gzip(b"1 2\n"))]);
    let said = snap::edges(&folder.path("a.txt"), 1).unwrap_err().to_string();
    assert!(said.contains("uncompress it with gunzip"), "{said}");
    assert!(stream(Path::new("no/such/file.txt")).unwrap().is_none());
}

/// A file that grew new ids after it was opened is a typed error.
#[test]
fn a_file_that_changes_is_noticed() {
    let folder = Folder::new(&[("a.txt", b"1 2\n2 3\n")]);
    let (edges, _) = snap::edges(&folder.path("a.txt"), 1).unwrap();
    folder.write("a.txt", b"1 2\n9 3\n");
    let said = eciton_graph::edges::EdgeSource::read(&edges, 0, &mut Vec::new()).unwrap_err().to_string();
    assert!(said.contains("line 2") && said.contains("when it was opened"), "{said}");
}

fn ogb() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("raw/edge.csv.gz", gzip(b"0,1\n1,2\n2,3\n")),
        ("raw/num-node-list.csv.gz", gzip(b"4\n")),
        ("raw/num-edge-list.csv.gz", gzip(b"3\n")),
        ("raw/node-feat.csv.gz", gzip(b"0.5,1\n-1,2e-1\n0,0\n3,4\n")),
        ("raw/node-label.csv.gz", gzip(b"0\n2.0\nnan\n1\n")),
        ("raw/node_year.csv.gz", gzip(b"2013\n2014\n2015\n2016\n")),
        ("split/time/train.csv.gz", gzip(b"3\n0\n")),
        ("split/time/valid.csv.gz", gzip(b"1\n")),
        ("split/time/test.csv.gz", gzip(b"")),
        ("mapping/README.md", b"hello".to_vec()),
        ("RELEASE_v1.txt", Vec::new()),
    ]
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

fn arrays() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("edge_index", i64s("(2, 3)", &[0, 1, 2, 1, 2, 3])),
        ("num_nodes_list", i64s("(1,)", &[4])),
        ("num_edges_list", i64s("(1,)", &[3])),
        ("node_feat", f32s("(4, 2)", &[0.5, 1., -1., 0.2, 0., 0., 3., 4.])),
        ("node_year", i64s("(4, 1)", &[2013, 2014, 2015, 2016])),
    ]
}

fn binary(arrays: &[(&str, Vec<u8>)], labels: &[(&str, Vec<u8>)]) -> Folder {
    let folder = Folder::new(&[("raw/data.npz", &zip(arrays)), ("raw/node-label.npz", &zip(labels))]);
    for (name, bytes) in ogb().iter().filter(|(name, _)| name.starts_with("split")) {
        folder.write(name, bytes);
    }
    folder
}

fn folder_of(files: &[(&'static str, Vec<u8>)]) -> Folder {
    Folder::new(&files.iter().map(|(n, b)| (*n, b.as_slice())).collect::<Vec<_>>())
}

#[test]
fn ogb_tables_and_arrays_hold_the_same() {
    let set = folder_of(&ogb()).open("").unwrap();
    assert_eq!(lists(&set.graph), [vec![1], vec![0, 2], vec![1, 3], vec![2]]);
    assert_eq!(set.labels, Labels::classes(vec![0, 2, NO_LABEL, 1], 3));
    assert_eq!(set.features, Features::from_dense(2, &[0.5, 1., -1., 0.2, 0., 0., 3., 4.]).unwrap());
    assert_eq!((set.split.train.as_slice(), set.split.validation.as_slice()), (&[0, 3][..], &[1][..]));
    assert_eq!(set.ids, VertexIds::Dense);
    let labels = [("node_label", f32s("(4, 1)", &[0., 2., f32::NAN, 1.]))];
    let other = binary(&arrays(), &labels).open("").unwrap();
    let parts = |set: Dataset| (set.graph, set.features, set.labels, set.split, set.ids);
    let expected = parts(set);
    assert_eq!(parts(other), expected);
    // Plain tables, and no tables that are not needed.
    let mut plain = ogb();
    for (name, bytes) in &mut plain {
        if let Some(short) = name.strip_suffix(".gz") {
            let mut text = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut text).unwrap();
            (*name, *bytes) = (short, text);
        }
    }
    assert_eq!(parts(folder_of(&plain).open("").unwrap()), expected);
    plain.retain(|(name, _)| name.starts_with("raw/num") || name.starts_with("raw/edge"));
    let bare = folder_of(&plain).open("").unwrap();
    assert_eq!((bare.features, bare.labels.width(), bare.split.train.len()), (Features::identity(4), 0, 0));
}

/// Features of four vertices that f32 rounds to one number.
const TIMES: [i64; 4] = [1_700_000_029, 1_700_000_001, 1_700_000_058, 1_700_000_007];

/// Column 0 with its corrections.
fn exact(set: &Dataset) -> Vec<i64> {
    let mut row_values = vec![0.0; set.features.columns() as usize];
    let mut exact = |row: u32| {
        set.features.copy_row(row as usize, &mut row_values);
        let correction = set.features.corrections().of_row(row).iter().find(|found| found.column == 0);
        row_values[0] as i64 + correction.map_or(0.0, |found| found.residual) as i64
    };
    (0..set.vertices()).map(&mut exact).collect()
}

#[test]
fn readers_keep_what_f32_rounds_from_features() {
    let lines = |order: [usize; 4], id: bool| -> Vec<u8> {
        let line = |v: &usize| match id {
            true => format!("{v},{}\n", TIMES[*v]),
            false => format!("{}\n", TIMES[*v]),
        };
        order.iter().map(line).collect::<String>().into_bytes()
    };
    let mut tables = ogb();
    tables.iter_mut().find(|(name, _)| name.contains("node-feat")).unwrap().1 =
        gzip(&lines([0, 1, 2, 3], false));
    assert_eq!(exact(&folder_of(&tables).open("").unwrap()), TIMES);

    let f64s: Vec<u8> = TIMES.iter().flat_map(|&time| (time as f64).to_le_bytes()).collect();
    for array in [i64s("(4, 1)", &TIMES), npy("<f8", "(4, 1)", &f64s)] {
        let mut data = arrays();
        data.iter_mut().find(|(name, _)| *name == "node_feat").unwrap().1 = array.clone();
        let labels = [("node_label", f32s("(4, 1)", &[0., 2., f32::NAN, 1.]))];
        assert_eq!(exact(&binary(&data, &labels).open("").unwrap()), TIMES);
        let folder = Folder::new(&[("edges.csv", b"0,1\n1,2\n2,3\n"), ("features.npy", &array)]);
        assert_eq!(exact(&folder.open("").unwrap()), TIMES);
    }

    let features = lines([2, 0, 3, 1], true);
    let folder = Folder::new(&[("edges.csv", b"0,1\n1,2\n2,3\n"), ("features.csv", &features)]);
    let set = folder.open("").unwrap();
    let ids: Vec<usize> = (0..4).map(|v| set.ids.name(v).parse().unwrap()).collect();
    assert_eq!(exact(&set), ids.iter().map(|&id| TIMES[id]).collect::<Vec<_>>());

    let attributes = lines([0, 1, 2, 3], false);
    let folder = Folder::new(&[
        ("set/set_A.txt", b"1, 2\n2, 1\n3, 4\n"),
        ("set/set_graph_indicator.txt", b"1\n1\n2\n2\n"),
        ("set/set_graph_labels.txt", b"1\n2\n"),
        ("set/set_node_attributes.txt", &attributes),
        ("set/set_node_labels.txt", b"0\n1\n0\n1\n"),
    ]);
    assert_eq!(exact(&folder.open("set").unwrap()), TIMES);

    // Compressed rows, of which one names its column twice: 1,700,000,000 and 7.
    let values: Vec<u8> = [1_700_000_029.0f64, 1_700_000_001.0, 1_700_000_058.0, 1_700_000_000.0, 7.0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let sparse = zip(&[
        ("adj_data", f32s("(2,)", &[1.0, 1.0])),
        ("adj_indices", i64s("(2,)", &[1, 3])),
        ("adj_indptr", i64s("(5,)", &[0, 1, 1, 2, 2])),
        ("adj_shape", i64s("(2,)", &[4, 4])),
        ("attr_data", npy("<f8", "(5,)", &values)),
        ("attr_indices", i64s("(5,)", &[0, 0, 0, 0, 0])),
        ("attr_indptr", i64s("(5,)", &[0, 1, 2, 3, 5])),
        ("attr_shape", i64s("(2,)", &[4, 2])),
        ("labels", i64s("(4,)", &[0, 1, 0, 1])),
    ]);
    assert_eq!(exact(&Folder::new(&[("set.npz", &sparse)]).open("set.npz").unwrap()), TIMES);
}

#[test]
fn ogb_splits_are_chosen_by_name() {
    let mut files = ogb();
    files.extend([("split/random/train.csv", b"1\n".to_vec()), ("split/random/valid.csv", b"0\n".to_vec())]);
    files.push(("split/random/test.csv", b"3,7\n".to_vec()));
    let folder = folder_of(&files);
    let said = folder.open("").unwrap_err().to_string();
    assert!(said.contains("random, time"), "{said}");
    let set = open(&folder.path(""), Some("random")).unwrap();
    assert_eq!((set.split.train, set.split.test), (vec![1], vec![3]));
    let said = open(&folder.path(""), Some("tyme")).unwrap_err().to_string();
    assert!(said.contains("did you mean \"time\""), "{said}");
}

#[test]
fn ogb_faults_name_file_and_line() {
    let cases: [(&str, &[u8], &str); 18] = [
        ("raw/num-node-list.csv.gz", b"4\n5\n", "num-edge-list.csv.gz: 1 graphs, but num-node-list has 2"),
        ("raw/num-node-list.csv.gz", b"", "num-node-list.csv.gz: expected one number"),
        ("raw/num-node-list.csv.gz", b"0\n", "no vertices"),
        ("raw/num-node-list.csv.gz", b"4294967290\n", "4 rows, but num-node-list has 4294967290"),
        ("raw/num-edge-list.csv.gz", b"4\n", "3 edges, but num-edge-list has 4"),
        ("raw/edge.csv.gz", b"0,1\n1,4\n2,3\n", "edge.csv.gz, line 2: expected vertices of 0..4"),
        ("raw/edge.csv.gz", b"0,1\n1,2\nx,3\n", "edge.csv.gz, line 3"),
        ("raw/node-feat.csv.gz", b"1\n2\n3\n", "3 rows, but num-node-list has 4"),
        ("raw/node-feat.csv.gz", b"1\n2\n3\n4\n5\n", "line 5: expected 4 rows"),
        ("raw/node-feat.csv.gz", b"1\n2,2\n3\n4\n", "line 2: expected 1 fields, found 2"),
        ("raw/node-feat.csv.gz", b"1\n\n2\nx\n4\n", "line 4: expected a number"),
        ("raw/node-feat.csv.gz", b"1\ninf\n3\n4\n", "row 1: feature column 0 is inf"),
        ("raw/node-label.csv.gz", b"0,1\n0,1\n0\n0,1\n", "line 3: expected 2 fields"),
        ("raw/node-label.csv.gz", b"0,1\n0,inf\n0,1\n0,1\n", "node-label.csv.gz, row 1: expected a finite"),
        ("raw/node-label.csv.gz", b"0\n1.5\n-inf\n0\n", "node-label.csv.gz, row 2: expected a finite"),
        ("raw/node-label.csv.gz", b"0,0\n1\n0,0\n0,0\n", "line 2: expected 2 fields"),
        ("split/time/valid.csv.gz", b"1\n4\n", "valid.csv.gz, line 2: expected a vertex of 0..4"),
        ("split/time/valid.csv.gz", b"2\n", "which has no label"),
    ];
    for (name, text, expected) in cases {
        let folder = folder_of(&ogb());
        folder.write(name, &gzip(text));
        let said = folder.open("").unwrap_err().to_string();
        assert!(said.contains(expected), "{said} does not contain {expected}");
    }
    for (removed, expected) in [
        ("raw/num-node-list.csv.gz", "num-node-list.csv.gz: cannot be read"),
        ("split/time/test.csv.gz", "test.csv.gz: cannot be read"),
    ] {
        let folder = folder_of(&ogb());
        fs::remove_file(folder.path(removed)).unwrap();
        let said = folder.open("").unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
    let said = Folder::new(&[("raw/relations/a/edge.csv", b"")]).open("").unwrap_err().to_string();
    assert!(said.contains("heterogeneous"), "{said}");
    // Nothing but a number stands for these vertices.
    let files: [(&str, &[u8]); 3] = [
        ("raw/edge.csv", b"0,1\n"),
        ("raw/num-node-list.csv", b"4294967290\n"),
        ("raw/num-edge-list.csv", b"1\n"),
    ];
    let said = Folder::new(&files).open("").unwrap_err().to_string();
    assert!(said.contains("limit vertices without features"), "{said}");
}

#[test]
fn ogb_arrays_that_do_not_fit_are_refused() {
    let labels = [("node_label", i64s("(4,)", &[0, 2, -1, 1]))];
    for (key, bytes, expected) in [
        ("edge_index", i64s("(3, 2)", &[0; 6]), "shape [2, 3]"),
        ("edge_index", i64s("(6,)", &[0; 6]), "2 axes"),
        ("edge_index", i64s("(2, 3)", &[0, 1, 2, 1, 2, 4]), "row 1: an edge names vertex 4"),
        ("edge_index", i64s("(2, 3)", &[0, 1, 2, 1, 2, -1]), "not negative"),
        ("num_nodes_list", i64s("(2,)", &[2, 2]), "found 2 numbers"),
        ("num_nodes_list", i64s("(1,)", &[4_000_000_000]), "4 rows"),
        ("num_edges_list", i64s("(1,)", &[4]), "shape [2, 4]"),
        ("node_feat", f32s("(3, 1)", &[0.; 3]), "3 rows, but num_nodes_list has 4"),
    ] {
        let mut entries = arrays();
        entries.iter_mut().filter(|e| e.0 == key).for_each(|e| e.1 = bytes.clone());
        let said = binary(&entries, &labels).open("").unwrap_err().to_string();
        assert!(said.contains(expected) && said.contains("data.npz"), "{said}");
    }
    let short = [("node_label", i64s("(3, 2)", &[0; 6]))];
    let said = binary(&arrays(), &short).open("").unwrap_err().to_string();
    assert!(said.contains("3 rows, but num_nodes_list has 4"), "{said}");
    assert_eq!(
        binary(&arrays(), &labels).open("").unwrap().labels,
        Labels::classes(vec![0, 2, NO_LABEL, 1], 3)
    );
}

fn flags(columns: u32, of: &[f32]) -> Labels {
    Labels::Flags(Values::new(columns, of.to_vec()).unwrap())
}

fn numbers(columns: u32, of: &[f32]) -> Labels {
    Labels::Numbers(Values::new(columns, of.to_vec()).unwrap())
}

/// What is read, which a store and the arrays of its values hold as well.
#[track_caller]
fn means(folder: &Folder, name: &str, expected: &Labels) -> Dataset {
    let set = folder.open(name).unwrap();
    assert_eq!(set.labels, *expected);
    let store = folder.path("as-a-store");
    eciton_graph::store::write(&store, &set).unwrap();
    assert_eq!(open(&store, None).unwrap(), set);
    fs::remove_dir_all(store).unwrap();
    set
}

#[test]
fn tables_of_labels_are_classes_flags_or_numbers() {
    const NAN: f32 = f32::NAN;
    let cases: [(&str, Labels); 14] = [
        ("id,chess,go\n0,1,0\n2,,1\n", flags(2, &[1., 0., NAN, NAN, NAN, 1.])),
        ("0,1,NaN\n1,1.0,0\n2,-0,0\n", flags(2, &[1., NAN, 1., 0., -0., 0.])),
        ("0,1,0\n1,-1,0\n2,0,0\n", numbers(2, &[1., 0., -1., 0., 0., 0.])),
        ("id,a,b,c\n0,1,0,2.5\n1,,,\n", numbers(3, &[1., 0., 2.5, NAN, NAN, NAN, NAN, NAN, NAN])),
        ("0,,1\n1,,0\n", flags(2, &[NAN, 1., NAN, 0., NAN, NAN])),
        ("0,1.5\n1,2\n", numbers(1, &[1.5, 2., NAN])),
        ("0,1e3\n1,\n2,nan\n", numbers(1, &[1000., NAN, NAN])),
        ("0,-7\n1,3\n2,-1\n", numbers(1, &[-7., 3., -1.])),
        // One class a vertex.
        ("0,1\n1,-1\n2,4\n", Labels::classes(vec![1, NO_LABEL, 4], 5)),
        ("0,1.0\n1,\n2,0.0\n", Labels::classes(vec![1, NO_LABEL, 0], 2)),
        ("0,1.5\n1,b\n", Labels::classes(vec![0, 1, NO_LABEL], 2)),
        ("0,nan\n1,b\n", Labels::classes(vec![NO_LABEL, 0, NO_LABEL], 1)),
        ("0,1,\n1,0,ann's\n", Labels::classes(vec![1, 0, NO_LABEL], 2)),
        ("0,red,0.5\n1,blue,2\n", Labels::classes(vec![1, 0, NO_LABEL], 2)),
    ];
    for (text, expected) in cases {
        let folder = Folder::new(&[("edges.csv", b"0,1\n1,2\n"), ("labels.csv", text.as_bytes())]);
        let set = means(&folder, "", &expected);
        set.split
            .parts()
            .iter()
            .flat_map(|(_, ids)| *ids)
            .for_each(|&v| assert!(set.labels.known(v as usize)));
    }
    // Beside a graph file, in its ids, and in tables of tabs and blanks.
    let folder = Folder::new(&[("a.txt", b"7 30\n30 900\n"), ("labels.tsv", b"900\t1\t0\n7\t\t1\n")]);
    means(&folder, "a.txt", &flags(2, &[NAN, 1., NAN, NAN, 1., 0.]));
    let folder = Folder::new(&[("edges.csv", b"a,b\n"), ("labels.txt", b"b 1 0\na nan 0.5\n")]);
    means(&folder, "", &numbers(2, &[1., 0., NAN, 0.5]));
}

#[test]
fn arrays_of_labels_are_classes_flags_or_numbers() {
    const NAN: f32 = f32::NAN;
    let f64s = |shape: &str, of: &[f64]| {
        npy("<f8", shape, &of.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    };
    let cases: [(Vec<u8>, Labels); 10] = [
        (i64s("(3, 2)", &[1, 0, 0, 0, 1, 1]), flags(2, &[1., 0., 0., 0., 1., 1.])),
        (npy("|b1", "(3, 2)", &[1, 0, 0, 0, 1, 1]), flags(2, &[1., 0., 0., 0., 1., 1.])),
        (f32s("(3, 2)", &[1., NAN, 0., 0., NAN, NAN]), flags(2, &[1., NAN, 0., 0., NAN, NAN])),
        (i64s("(3, 2)", &[1, 0, 0, 0, 1, -1]), numbers(2, &[1., 0., 0., 0., 1., -1.])),
        (f64s("(3,)", &[0.5, f64::NAN, -2.0]), numbers(1, &[0.5, NAN, -2.])),
        (f32s("(3, 1)", &[0.5, 1., 2.]), numbers(1, &[0.5, 1., 2.])),
        (f32s("(3,)", &[-7., 1., 2.]), numbers(1, &[-7., 1., 2.])),
        // As before there were others: one class a vertex.
        (f64s("(3,)", &[2.0, -1.0, 0.0]), Labels::classes(vec![2, NO_LABEL, 0], 3)),
        (f32s("(3, 1)", &[2., NAN, 0.]), Labels::classes(vec![2, NO_LABEL, 0], 3)),
        (i64s("(3, 1)", &[2, -1, 0]), Labels::classes(vec![2, NO_LABEL, 0], 3)),
    ];
    for (bytes, expected) in cases {
        let folder = Folder::new(&[("edges.csv", b"0,1\n1,2\n"), ("labels.npy", &bytes)]);
        means(&folder, "", &expected);
        let folder = Folder::new(&[
            ("indptr.npy", &i64s("(4,)", &[0, 1, 2, 2])),
            ("indices.npy", &i64s("(2,)", &[1, 0])),
            ("label.npy", &bytes),
        ]);
        means(&folder, "", &expected);
        let heterophilous = [
            ("edges", i64s("(2, 2)", &[0, 1, 1, 2])),
            ("node_features", f32s("(3, 1)", &[1., 2., 3.])),
            ("node_labels", bytes),
            ("train_masks", npy("|b1", "(1, 3)", &[1, 0, 0])),
            ("val_masks", npy("|b1", "(1, 3)", &[0, 0, 0])),
            ("test_masks", npy("|b1", "(1, 3)", &[0, 0, 0])),
        ];
        means(&Folder::new(&[("a.npz", &zip(&heterophilous))]), "a.npz", &expected);
    }
    // gnn-benchmark's layout has no split of such labels.
    let (ones, wide) = (f32s("(4,)", &[1.; 4]), f32s("(5, 2)", &[1., 0., NAN, NAN, 0., 1., 1., 1., 0., 0.]));
    let benchmark = [
        ("adj_data", ones),
        ("adj_indices", i64s("(4,)", &[1, 2, 3, 4])),
        ("adj_indptr", i64s("(6,)", &[0, 1, 2, 3, 4, 4])),
        ("adj_shape", i64s("(2,)", &[5, 5])),
        ("labels", wide),
    ];
    let folder = Folder::new(&[("a.npz", &zip(&benchmark))]);
    let set = means(&folder, "a.npz", &flags(2, &[1., 0., NAN, NAN, 0., 1., 1., 1., 0., 0.]));
    assert_eq!(set.split.parts().map(|(_, ids)| ids.len()), [2, 1, 1]);
}

#[test]
fn ogb_sets_of_several_tasks_are_read() {
    const NAN: f32 = f32::NAN;
    for (text, expected) in [
        ("0,1,1\n,0,nan\n1,1,1\n0,0,0\n", flags(3, &[0., 1., 1., NAN, 0., NAN, 1., 1., 1., 0., 0., 0.])),
        ("0,1\n-1,0\n1,1\n0,0\n", numbers(2, &[0., 1., -1., 0., 1., 1., 0., 0.])),
        ("0.5\n1\nnan\n-3\n", numbers(1, &[0.5, 1., NAN, -3.])),
        ("0\n-7\n0\n0\n", numbers(1, &[0., -7., 0., 0.])),
    ] {
        let folder = folder_of(&ogb());
        folder.write("raw/node-label.csv.gz", &gzip(text.as_bytes()));
        folder.write("split/time/valid.csv.gz", &gzip(b"1\n"));
        means(&folder, "", &expected);
    }
    let wide = [("node_label", i64s("(4, 2)", &[0, 1, 1, 1, 0, 0, 1, 0]))];
    means(&binary(&arrays(), &wide), "", &flags(2, &[0., 1., 1., 1., 0., 0., 1., 0.]));
}

/// Files of more than one chunk (8 MiB of text), by their sum over all threads.
#[test]
fn a_large_list_is_read_in_chunks() {
    let seed = 9;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let mut text = String::new();
    let (mut count, mut sum) = (0u64, 0u128);
    while text.len() < 20 << 20 {
        let (source, target) = (random.below(1 << 40), random.below(50_000));
        text.push_str(&format!("{source}\t{target}\n"));
        count += 1;
        sum += u128::from(source) + u128::from(target);
    }
    let folder = Folder::new(&[("large.txt", text.as_bytes())]);
    let mut first = None;
    for threads in [1, 3] {
        let (edges, ids) = snap::edges(&folder.path("large.txt"), threads).unwrap();
        let VertexIds::Numbers(numbers) = &ids else { panic!("{ids:?}") };
        let source: &dyn eciton_graph::edges::EdgeSource = &edges;
        assert_eq!((source.chunks(), numbers.len() as u64), (3, source.vertices()));
        let mut found = Vec::new();
        (0..3).rev().for_each(|chunk| source.read(chunk, &mut found).unwrap());
        let user = |id: u32| u128::from(numbers[id as usize]);
        assert_eq!(found.len() as u64, count);
        assert_eq!(found.iter().map(|&(s, t)| user(s) + user(t)).sum::<u128>(), sum);
        assert_eq!(*first.get_or_insert_with(|| found.clone()), found);
    }
}
