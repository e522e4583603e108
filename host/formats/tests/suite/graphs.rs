//! Data sets of many graphs: TU's files, OGB's and folders of one's own, what they mean and what is said of
//! bad ones.
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use eciton_formats::{open, stream};
use eciton_graph::dataset::{Dataset, Features, Labels, NO_LABEL, Split, Values, VertexIds};
use eciton_graph::error::Error;
use eciton_graph::random::SplitMix64;
use eciton_graph::stat::{GraphStatistics, Statistics};
use eciton_graph::store;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Files by name.
#[derive(Clone)]
struct Files(Vec<(String, String)>);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    /// The same with another text for a file; none removes it.
    fn with(&self, name: &str, text: Option<&str>) -> Self {
        let mut files = self.clone();
        files.0.retain(|file| file.0 != name);
        files.0.extend(text.map(|text| (name.to_owned(), text.to_owned())));
        files
    }

    /// Writes them to a folder `set`.
    fn write(&self, packed: bool) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let set = folder.path().join("set");
        fs::create_dir(&set).unwrap();
        for (name, text) in &self.0 {
            let (path, bytes) = match packed {
                true => (set.join(format!("{name}.gz")), gzip(text.as_bytes())),
                false => (set.join(name), text.clone().into_bytes()),
            };
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        (folder, set)
    }

    fn open(&self) -> Result<Dataset, Error> {
        open(&self.write(false).1.clone(), None)
    }

    /// What is said of them, plain and packed.
    fn refusal(&self) -> String {
        let [plain, packed] = [false, true].map(|packed| {
            let (_folder, path) = self.write(packed);
            open(&path, None).unwrap_err().to_string()
        });
        assert_eq!(plain.is_empty(), packed.is_empty());
        plain
    }
}

/// A triangle (1, 2, 4), an edge (5, 3) and a vertex (6).
fn tu() -> Files {
    Files::new(&[
        ("set_A.txt", "1, 2\n2, 1\n2, 4\n4, 1\n5, 3\n"),
        ("set_graph_indicator.txt", "1\n1\n2\n1\n2\n3\n"),
        ("set_graph_labels.txt", "1\n-1\n1\n"),
    ])
}

#[test]
fn tu_files_are_read_plain_and_packed() {
    let files = tu();
    for packed in [false, true] {
        let (_folder, path) = files.write(packed);
        let set = open(&path, None).unwrap();
        assert_eq!((set.name.as_str(), set.vertices(), set.graph.edges()), ("set", 6, 8));
        let graphs = set.graphs.as_ref().unwrap();
        assert_eq!((graphs.count(), graphs.standing()), (3, vec![0, 2, 5]));
        assert_eq!(*graphs.ids(), VertexIds::Numbers(vec![1, 2, 3]));
        assert_eq!(graphs.lists().in_neighbours(0), [0, 1, 3]);
        assert_eq!(set.ids.name(0), "1");
        let none = NO_LABEL;
        assert_eq!(set.labels, Labels::classes(vec![1, none, 0, none, none, 1], 2));
        assert_eq!(set.features, Features::dense(1, &[1.0; 6]).unwrap());
        // 80, 10 and 10 % of three graphs, rounded down.
        assert_eq!([&set.split.train, &set.split.validation, &set.split.test].map(Vec::len), [2, 0, 1]);
        assert_eq!(set.split, Split::random(&set.labels, [0.8, 0.1], 0));
        assert_eq!(
            Statistics::from_dataset(&set).graphs,
            Some(GraphStatistics {
                count: 3,
                vertices_min: 1,
                vertices_median: 2,
                vertices_max: 3,
                edges_median: 2
            })
        );
    }
}

#[test]
fn tu_attributes_and_labels_are_features() {
    let files = tu()
        .with("set_node_labels.txt", Some("3, 0\n3, 0\n5, 1\n3, 0\n4, 1\n3, 1\n"))
        .with("set_node_attributes.txt", Some("0.5\n1\n1.5\n2\n2.5\n-3e0\n"))
        .with("set_edge_labels.txt", Some("1\n1\n0\n2\n0\n"))
        .with("set_edge_attributes.txt", Some("0.5, 1\n1.5, 1\n2, 1\n3, 1\n4, 1\n"));
    let set = files.open().unwrap();
    let rows = [
        [0.5, 1.0, 0.0, 0.0, 1.0, 0.0],
        [1.0, 1.0, 0.0, 0.0, 1.0, 0.0],
        [1.5, 0.0, 0.0, 1.0, 0.0, 1.0],
        [2.0, 1.0, 0.0, 0.0, 1.0, 0.0],
        [2.5, 0.0, 1.0, 0.0, 0.0, 1.0],
        [-3.0, 1.0, 0.0, 0.0, 0.0, 1.0],
    ];
    assert_eq!(set.features, Features::dense(6, rows.as_flattened()).unwrap());
    let of_edges = set.edge_features.unwrap();
    assert_eq!(of_edges.columns(), 5);
    // Into 0 from 1 (two lines: the mean) and from 3.
    assert_eq!(of_edges.values()[..10], [1.0, 1.0, 0.0, 1.0, 0.0, 3.0, 1.0, 0.0, 0.0, 1.0]);
    // Many labels of few vertices are sparse; one column of attributes stays.
    let wide = tu().with("set_node_labels.txt", Some("0\n0\n900\n0\n1\n0\n")).open().unwrap();
    assert!(matches!(&wide.features, Features::Sparse(rows) if rows.columns == 901 && rows.rows() == 6));
    let plain = tu().with("set_node_attributes.txt", Some("1\n2\n3\n4\n5\n6\n")).open().unwrap();
    assert_eq!(plain.features.columns(), 1);
}

#[test]
fn tu_numbers_of_graphs_are_a_regression() {
    let files = tu().with("set_graph_labels.txt", None);
    let set = files.with("set_graph_attributes.txt", Some("1.0, 2\n3, 4\n5, 6.5\n")).open().unwrap();
    let nan = f32::NAN;
    let of = vec![1.0, 2.0, nan, nan, 3.0, 4.0, nan, nan, nan, nan, 5.0, 6.5];
    assert_eq!(set.labels, Labels::Numbers(Values::new(2, of).unwrap()));
    // Classes are read where there are both; without either nothing can be trained.
    let both = tu().with("set_graph_attributes.txt", Some("1\n2\n3\n")).open().unwrap();
    assert!(both.labels.as_classes().is_some());
    assert_eq!(files.open().unwrap().labels, Labels::none(6));
    // Some of the published files have labels as `1.0`.
    let floats = tu().with("set_graph_labels.txt", Some("7.0\n2.00\n7\n")).open().unwrap();
    assert_eq!(floats.labels, tu().open().unwrap().labels);
}

#[test]
fn tu_files_are_found_where_others_leave_them() {
    let (_folder, path) = tu().write(false);
    let root = tempfile::tempdir().unwrap();
    for name in ["one/raw/set", "two/set", "set/raw/set", "both/a", "both/b"] {
        let (at, new) = name.rsplit_once('/').unwrap();
        let to = root.path().join(at);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap().replace("set_", &format!("{new}_"));
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
    fs::create_dir_all(root.path().join("nested/two")).unwrap();
    let expected = open(&path, None).unwrap();
    for (at, name) in [("one", None), ("one/raw", None), ("two", None), ("two", Some("SET")), ("set", None)] {
        assert_eq!(open(&root.path().join(at), name).unwrap(), expected, "{at}");
    }
    // A folder that holds folders.
    assert_eq!(open(root.path(), Some("set")).unwrap(), expected);
    assert_eq!(open(root.path(), None).unwrap(), expected);
    let both = root.path().join("both");
    assert_eq!(open(&both, Some("b")).unwrap().name, "b");
    assert!(matches!(open(&both, None), Err(Error::ChooseName { names, .. }) if names == ["a", "b"]));
}

#[test]
fn tu_faults_name_file_and_line() {
    let cases = [
        ("set_A.txt", "1, 2\n0, 1\n", "set_A.txt, line 2: expected two vertices of 1 to 6"),
        ("set_A.txt", "1, 2\n1, 7\n", "set_A.txt, line 2: expected two vertices of 1 to 6"),
        ("set_A.txt", "1, x\n", "set_A.txt, line 1: expected two vertex ids"),
        (
            "set_A.txt",
            "1, 2\n\n2, 3\n",
            "set_A.txt, line 3: expected an edge within one graph, found 2 of graph 1 -> 3 of graph 2",
        ),
        ("set_graph_indicator.txt", "1\n1\n2\n3\n", "line 3: expected an edge within one graph"),
        (
            "set_graph_indicator.txt",
            "1\n1\n2\n1\n2\n0\n",
            "indicator.txt, line 6: expected the number of a graph, from 1, found \"0\"",
        ),
        ("set_graph_indicator.txt", "1\n1\n2\n1\n2\n1 3\n", "line 6: expected the number of a graph"),
        ("set_graph_indicator.txt", "1\n1\n2\n1\n2\n4\n", "line 6: expected a graph of 1 to 3, the lines of"),
        ("set_graph_indicator.txt", "1\n1\n2\n1\n2\n99999999999999\n", "line 6: expected a graph of 1 to 3"),
        ("set_graph_indicator.txt", "", "the graph has no vertices"),
        (
            "set_graph_labels.txt",
            "1\n2\n1\n1\n",
            "line 4: expected a graph that has vertices in set_graph_indicator.txt, found graph 4 without vertices; remove",
        ),
        ("set_graph_labels.txt", "1\n2\n", "line 6: expected a graph of 1 to 2"),
        (
            "set_graph_labels.txt",
            "1\n0.5\n1\n",
            "labels.txt, line 2: expected a class, which is one whole number, found \"0.5\"; rename the file to graph_attributes",
        ),
        ("set_graph_labels.txt", "1\n1, 2\n1\n", "labels.txt, line 2: expected a class"),
        ("set_node_labels.txt", "1\n2\n", "node_labels.txt: 2 lines, but set_graph_indicator.txt has 6"),
        ("set_node_labels.txt", "1\n2\nx\n4\n5\n6\n", "line 3: expected a label"),
        ("set_node_labels.txt", "1\n2, 2\n3\n4\n5\n6\n", "line 2: expected 1 fields, found 2 fields"),
        ("set_node_labels.txt", "1\n2\n3\n4\n5\n9999999\n", "above the limit labels as columns of 1048576"),
        (
            "set_node_labels.txt",
            "1\n2\n3\n-9223372036854775808\n5\n9223372036854775807\n",
            "labels as columns",
        ),
        (
            "set_node_attributes.txt",
            "1\n2\n3\nnan\n5\n6\n",
            "attributes.txt, line 4: feature column 0 is NaN",
        ),
        ("set_node_attributes.txt", "", "node_attributes.txt: expected a row of numbers"),
        ("set_edge_labels.txt", "1\n2\n", "edge_labels.txt: 2 lines, but set_A.txt has 5"),
        ("set_edge_labels.txt", "1\n2\n1\n1\n5000\n", "above the limit labels as columns of 4096"),
        ("set_edge_attributes.txt", "1\n2\n", "edge_attributes.txt: 2 lines, but set_A.txt has 5"),
    ];
    for (name, text, expected) in cases {
        let said = tu().with(name, Some(text)).refusal();
        assert!(said.contains(expected), "{said} does not contain {expected}");
    }
    let said = tu().with("set_A.txt", None).open().unwrap_err().to_string();
    assert!(said.contains("set_A.txt: cannot be read"), "{said}");
}

/// Both texts of a random data set of many graphs: TU's and a folder's own.
fn random_texts(random: &mut SplitMix64) -> (Files, Files) {
    let count = 1 + random.below(8);
    let vertices = count + random.below(30);
    // Every graph has a vertex, in any order.
    let mut of: Vec<u64> =
        (0..vertices).map(|v| if v < count { v } else { random.below(count) } + 1).collect();
    random.shuffle(&mut of);
    let mut tu: Vec<(&str, String)> = vec![("A", String::new()), ("graph_indicator", String::new())];
    let mut own = vec![("edges", "source,target\n".to_owned()), ("graphs", "id,graph\n".to_owned())];
    let number = |random: &mut SplitMix64| random.below(2001) as f32 / 8.0 - 100.0;
    for (v, graph) in (1..).zip(&of) {
        writeln!(tu[1].1, "{graph}").unwrap();
        writeln!(own[1].1, "{v},{graph}").unwrap();
    }
    let of_edges = random.below(3);
    let header = ["source,target", "source,target,v", "source,target,v,w"][of_edges as usize];
    own[0].1 = format!("{header}\n");
    let mut attributes = String::new();
    for _ in 0..random.below(90) {
        let (s, t) = (random.below(vertices), random.below(vertices));
        if of[s as usize] != of[t as usize] {
            continue;
        }
        let numbers: Vec<String> = (0..of_edges).map(|_| number(random).to_string()).collect();
        writeln!(tu[0].1, "{}, {}", s + 1, t + 1).unwrap();
        writeln!(own[0].1, "{},{}{}{}", s + 1, t + 1, if of_edges > 0 { "," } else { "" }, numbers.join(","))
            .unwrap();
        writeln!(attributes, "{}", numbers.join(", ")).unwrap();
    }
    if of_edges > 0 && !attributes.is_empty() {
        tu.push(("edge_attributes", attributes));
    }
    if random.below(3) > 0 {
        let columns = 1 + random.below(4);
        let names: String = (0..columns).map(|column| format!(",a{column}")).collect();
        let (mut rows, mut table) = (String::new(), format!("id{names}\n"));
        for v in 1..=vertices {
            let numbers: Vec<String> = (0..columns).map(|_| number(random).to_string()).collect();
            writeln!(rows, "{}", numbers.join(", ")).unwrap();
            writeln!(table, "{v},{}", numbers.join(",")).unwrap();
        }
        tu.push(("node_attributes", rows));
        own.push(("features", table));
    }
    let (mut labels, mut table) = (String::new(), "id,label\n".to_owned());
    let mut order: Vec<u64> = (1..=count).collect();
    let lines: Vec<String> = match random.below(2) {
        0 => {
            let names = [-3, 0, 7, 12];
            let classes: Vec<usize> = order.iter().map(|_| random.below(4) as usize).collect();
            let mut known = classes.clone();
            known.sort_unstable();
            known.dedup();
            for (graph, class) in order.iter().zip(&classes) {
                writeln!(table, "{graph},{}", known.binary_search(class).unwrap()).unwrap();
            }
            classes.iter().map(|&class| names[class].to_string()).collect()
        }
        _ => {
            let columns = 1 + random.below(3);
            let row = |random: &mut SplitMix64, separator: &str| {
                let numbers = (0..columns).map(|_| (random.below(100) as f32 + 0.5).to_string());
                numbers.collect::<Vec<_>>().join(separator)
            };
            let rows: Vec<String> = order.iter().map(|_| row(random, ",")).collect();
            for (graph, row) in order.iter().zip(&rows) {
                writeln!(table, "{graph},{row}").unwrap();
            }
            rows
        }
    };
    let part = if lines[0].contains('.') { "graph_attributes" } else { "graph_labels" };
    lines.iter().for_each(|line| writeln!(labels, "{line}").unwrap());
    tu.push((part, labels));
    // The lines of a table stand in any order.
    let mut shuffled: Vec<&str> = table.lines().skip(1).collect();
    random.shuffle(&mut shuffled);
    let columns = shuffled.first().map_or(1, |line| line.matches(',').count());
    let names: String = (0..columns).map(|column| format!(",label{column}")).collect();
    own.push(("labels", format!("id{names}\n{}\n", shuffled.join("\n"))));
    // The split that TU's reader draws.
    let mut standing: Vec<usize> = (1..=count).map(|g| of.iter().position(|&o| o == g).unwrap()).collect();
    standing.sort_unstable();
    let flags =
        Labels::classes((0..vertices).map(|v| u32::from(standing.contains(&(v as usize)))).collect(), 2);
    let known = |v: &u32| flags.as_classes().unwrap()[*v as usize] == 1;
    let mut classes = vec![NO_LABEL; vertices as usize];
    (0..vertices as u32).filter(known).for_each(|v| classes[v as usize] = 0);
    let drawn = Split::random(&Labels::classes(classes, 1), [0.8, 0.1], 0);
    let mut split = "id,part\n".to_owned();
    random.shuffle(&mut order);
    for (part, vertices) in drawn.parts() {
        let part = if part == "validation" { "val" } else { part };
        vertices.iter().for_each(|&v| writeln!(split, "{},{part}", of[v as usize]).unwrap());
    }
    own.push(("split", split));
    let tu = tu.into_iter().map(|(part, text)| (format!("set_{part}.txt"), text));
    let own = own.into_iter().map(|(part, text)| (format!("{part}.csv"), text));
    (Files(tu.collect()), Files(own.collect()))
}

#[test]
fn tu_and_a_folder_of_ones_own_hold_the_same() {
    let seed = 47;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let stores = tempfile::tempdir().unwrap();
    for case in 0..150 {
        let (tu, own) = random_texts(&mut random);
        let packed = case % 2 == 0;
        let [(_a, tu), (_b, own)] = [tu.write(packed), own.write(!packed)];
        let (tu, mut own) = (open(&tu, None).unwrap(), open(&own, None).unwrap());
        // A folder of one's own has headers, and a split of its own.
        own.names = tu.names.clone();
        assert_eq!(tu, own, "case {case}");
        assert!(tu.graphs.is_some());
        let path = stores.path().join(case.to_string());
        store::write(&path, &tu).unwrap();
        assert_eq!(store::open(&path).unwrap().graphs, tu.graphs);
    }
}

/// Two molecules by words.
fn own() -> Files {
    Files::new(&[
        ("edges.csv", "source,target\na,b\nc,d\nd,e\n"),
        ("graphs.csv", "id,graph\na,water\nb,water\nc,salt\nd,salt\ne,salt\n"),
        ("labels.csv", "id,class\nsalt,solid\nwater,liquid\n"),
        ("split.csv", "id,part\nsalt,test\nwater,train\n"),
    ])
}

#[test]
fn a_folder_of_many_graphs_is_read() {
    let set = own().open().unwrap();
    let graphs = set.graphs.as_ref().unwrap();
    assert_eq!(
        (graphs.standing(), graphs.ids().name(0), graphs.ids().name(1)),
        (vec![0, 2], "water".into(), "salt".into())
    );
    let none = NO_LABEL;
    assert_eq!(set.labels, Labels::classes(vec![0, none, 1, none, none], 2));
    assert_eq!(set.split, Split { train: vec![0], validation: vec![], test: vec![2] });
    assert_eq!(set.features, Features::dense(1, &[1.0; 5]).unwrap());
    // Several labels, and no split: of graphs all the same.
    let several = own().with("labels.csv", Some("id,a,b\nsalt,1,\nwater,0,1\n")).with("split.csv", None);
    let several = several.open().unwrap();
    let nan = f32::NAN;
    let of = vec![0.0, 1.0, nan, nan, 1.0, nan, nan, nan, nan, nan];
    assert_eq!(several.labels, Labels::Flags(Values::new(2, of).unwrap()));
    assert_eq!(several.split, Split::random(&several.labels, [0.6, 0.2], 0));
    // Words of graphs are kept in a store, and vertices may be of any order.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    store::write(&path, &set).unwrap();
    assert_eq!(store::open(&path).unwrap(), set);
    // Beside a graph file.
    let files = Files::new(&[
        ("set.txt", "1 2\n4 3\n"),
        ("graphs.csv", "1,9\n2,9\n4,5\n3,5\n"),
        ("labels.csv", "5,0\n9,1\n"),
    ]);
    let (_folder, path) = files.write(false);
    let beside = open(&path.join("set.txt"), None).unwrap();
    assert_eq!(beside.labels, Labels::classes(vec![1, none, 0, none], 2));
    assert_eq!(*beside.graphs.unwrap().ids(), VertexIds::Numbers(vec![9, 5]));
    assert!(stream(&path.join("set.txt")).unwrap().is_none());
}

#[test]
fn faults_of_a_folder_of_many_graphs() {
    let cases = [
        ("graphs.csv", "id,graph\na,water\nb,water\nc,salt\nd,salt\n", "line 4: an edge names vertex e"),
        (
            "features.csv",
            "id,x\na,1\nb,1\nc,1\nd,1\ne,1\nf,1\n",
            "graphs.csv: expected a graph for each of 6 vertices, found none for vertex f; add a line",
        ),
        (
            "graphs.csv",
            "id,graph\na,water\nb,water\nc,\nd,salt\ne,salt\n",
            "line 4: expected an id and its graph",
        ),
        (
            "graphs.csv",
            "id,graph\na,water\nb,water\nc,salt\nd,salt\ne,salt\na,salt\n",
            "line 7: expected each id once",
        ),
        (
            "edges.csv",
            "source,target\na,b\nb,c\n",
            "edges.csv, line 3: expected an edge within one graph, found b of graph water -> c of graph salt; remove the edge",
        ),
        (
            "labels.csv",
            "id,class\nsalt,solid\na,liquid\n",
            "labels.csv, line 3: expected one of the 2 graphs of graphs.csv, found \"a\"; correct the id",
        ),
        ("split.csv", "id,part\nsalt,test\nsugar,train\n", "split.csv, line 3: expected one of the 2 graphs"),
        ("split.csv", "id,part\nsalt,test\nsalt,train\n", "vertex 2 is in the train and in the test split"),
    ];
    for (name, text, expected) in cases {
        let said = own().with(name, Some(text)).refusal();
        assert!(said.contains(expected), "{said} does not contain {expected}");
    }
}

/// Edges of vertices beyond the indicator's lines.
#[test]
fn an_indicator_that_is_too_short_is_told_by_the_edge() {
    let files = tu().with("set_graph_indicator.txt", Some("1\n1\n2\n1\n")).with("set_graph_labels.txt", None);
    let said = files.refusal();
    assert!(said.contains("set_A.txt, line 5: expected two vertices of 1 to 4, the lines of"), "{said}");
}

/// Molecules of 3, 2 and 1 atoms.
fn ogb() -> Files {
    Files::new(&[
        ("raw/edge.csv", "0,1\n1,2\n0,1\n1,0\n"),
        ("raw/num-node-list.csv", "3\n2\n1\n"),
        ("raw/num-edge-list.csv", "2\n2\n0\n"),
        ("raw/node-feat.csv", "5,0\n6,1\n5,0\n7,0\n7,1\n1,1\n"),
        ("raw/edge-feat.csv", "0,1\n1,1\n2,1\n4,1\n"),
        ("raw/graph-label.csv", "1\n0\n1\n"),
        ("split/scaffold/train.csv", "2\n0\n"),
        ("split/scaffold/valid.csv", ""),
        ("split/scaffold/test.csv", "1\n"),
    ])
}

#[test]
fn ogb_sets_of_graphs_are_read_plain_and_packed() {
    let none = NO_LABEL;
    for packed in [false, true] {
        let (_folder, path) = ogb().write(packed);
        let set = open(&path, None).unwrap();
        let graphs = set.graphs.as_ref().unwrap();
        assert_eq!((graphs.standing(), graphs.ids()), (vec![0, 3, 5], &VertexIds::Dense));
        let lists: Vec<_> = (0..6).map(|v| set.graph.in_neighbours(v)).collect();
        assert_eq!(lists, [&[1][..], &[0, 2], &[1], &[4], &[3], &[]]);
        assert_eq!(set.labels, Labels::classes(vec![1, none, none, 0, none, 1], 2));
        assert_eq!(set.split, Split { train: vec![0, 5], validation: vec![], test: vec![3] });
        let rows = [5.0, 0.0, 6.0, 1.0, 5.0, 0.0, 7.0, 0.0, 7.0, 1.0, 1.0, 1.0];
        assert_eq!(set.features, Features::dense(2, &rows).unwrap());
        let of_edges = [0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 3.0, 1.0];
        assert_eq!(set.edge_features.as_ref().unwrap().values(), of_edges);
        assert!(open(&path, Some("random")).is_err() && open(&path, Some("scaffold")).is_ok());
    }
    let nan = f32::NAN;
    let several = ogb().with("raw/graph-label.csv", Some("1,\n0,nan\n,1\n")).open().unwrap();
    let of = vec![1.0, nan, nan, nan, nan, nan, 0.0, nan, nan, nan, nan, 1.0];
    assert_eq!(several.labels, Labels::Flags(Values::new(2, of).unwrap()));
    let numbers = ogb().with("raw/graph-label.csv", Some("1.5\n0\n-1\n")).open().unwrap();
    let of = vec![1.5, nan, nan, 0.0, nan, -1.0];
    assert_eq!(numbers.labels, Labels::Numbers(Values::new(1, of).unwrap()));
    let bare = ogb().with("raw/node-feat.csv", None).with("raw/graph-label.csv", None);
    let bare = ["train", "test"]
        .iter()
        .fold(bare, |files, part| files.with(&format!("split/scaffold/{part}.csv"), Some("")));
    let bare = bare.open().unwrap();
    assert_eq!(bare.features, Features::dense(1, &[1.0; 6]).unwrap());
    assert_eq!((bare.labels, bare.graphs.unwrap().count()), (Labels::none(6), 3));
    // A set of one graph is a set of graphs all the same.
    let one = Files::new(&[
        ("raw/edge.csv", "0,1\n"),
        ("raw/num-node-list.csv", "2\n"),
        ("raw/num-edge-list.csv", "1\n"),
        ("raw/graph-label.csv", "0\n"),
    ]);
    assert_eq!(one.open().unwrap().graphs.unwrap().count(), 1);
}

#[test]
fn ogb_faults_of_graphs_name_file_and_line() {
    let cases = [
        (
            "raw/edge.csv",
            "0,1\n1,3\n0,1\n1,0\n",
            "line 2: expected vertices of 0..3, those of graph 0, found \"1,3\"",
        ),
        ("raw/edge.csv", "0,1\n1,2\n0,1\n2,0\n", "line 4: expected vertices of 0..2, those of graph 1"),
        ("raw/edge.csv", "0,1\n1,2\n0,1\n", "3 edges, but num-edge-list has 4"),
        ("raw/edge.csv", "0,1\n1,2\n0,1\n1,0\n0,0\n", "5 edges, but num-edge-list has 4"),
        (
            "raw/num-node-list.csv",
            "3\n2\n0\n",
            "num-node-list.csv, line 3: expected graphs of at least one vertex, found none in graph 2; remove the graph",
        ),
        ("raw/num-node-list.csv", "3\n2\n", "num-edge-list.csv: 3 graphs, but num-node-list has 2"),
        ("raw/num-node-list.csv", "3\nx\n1\n", "num-node-list.csv, line 2: expected one number per line"),
        (
            "raw/num-node-list.csv",
            "3\n18446744073709551615\n1\n",
            "num-node-list.csv, line 2: 18446744073709551615 vertices, above the limit",
        ),
        (
            "raw/num-edge-list.csv",
            "18446744073709551615\n2\n0\n",
            "4 edges, but num-edge-list has 18446744073709551615",
        ),
        ("raw/graph-label.csv", "1\n0\n", "graph-label.csv: 2 rows, but num-node-list has 3"),
        ("raw/graph-label.csv", "1\ninf\n0.5\n", "graph-label.csv, row 1: expected a finite"),
        ("split/scaffold/test.csv", "3\n", "test.csv, line 1: expected a graph of 0..3"),
        ("split/scaffold/test.csv", "0\n", "vertex 0 is in the train and in the test split"),
    ];
    for (name, text, expected) in cases {
        let said = ogb().with(name, Some(text)).refusal();
        assert!(said.contains(expected), "{said} does not contain {expected}");
    }
    // Nothing but numbers stands for these vertices, labels of graphs neither.
    let files = ogb().with("raw/num-node-list.csv", Some("3\n2\n100000\n")).with("raw/node-feat.csv", None);
    let said = files.refusal();
    assert!(said.contains("limit vertices without features"), "{said}");
}
