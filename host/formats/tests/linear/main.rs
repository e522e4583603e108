//! Work that is linear in the input: each reader, in each dimension that an input can grow in.
//!
//! The program is one of its own, because [`harness`] measures the processor time of the process:
//! some readers have threads.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::io::{Cursor, Write as _};
use std::path::Path;

use eciton_formats::{metis, open, pairs::PairTable, pickle::Pickle, sequence};
use eciton_graph::dataset::VertexIds;
use eciton_graph::store;

mod harness;

use harness::{Case, Clock, Files};

/// Declares cases: name, modules of the crate that it reads with, sizes, files by size, reading.
macro_rules! cases {
    ($($name:ident [$($module:ident),+] $sizes:expr, $make:expr, $read:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let clock = Clock::Process;
                Case { clock, sizes: $sizes, make: $make, read: $read }.check(stringify!($name));
            }
        )*
        const MODULES: &[&str] = &[$($(stringify!($module)),+),*];
    };
}

/// Modules of the crate that read no input by themselves.
const OTHERS: [&str; 20] = [
    "array",
    "column_names",
    "columnar",
    "columns",
    "cora",
    "digits",
    "edge_graph",
    "edge_rows",
    "file",
    "header",
    "indices",
    "labels",
    "missing",
    "csr",
    "numbers",
    "request",
    "settings",
    "similar_name",
    "conversions",
    "sniff",
];

#[test]
fn every_module_of_the_crate_has_a_case() {
    let library = include_str!("../../src/lib.rs");
    let modules = library.lines().filter_map(|line| {
        line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "))?.strip_suffix(';')
    });
    let without: Vec<&str> =
        modules.filter(|module| !MODULES.contains(module) && !OTHERS.contains(module)).collect();
    assert!(without.is_empty(), "no case of this file reads with {without:?}; add one for each dimension");
}

/// Reads a data set, which must be one.
fn reads(path: &Path) {
    open(path, None).unwrap();
}

fn parses(path: &Path) {
    Pickle::parse(&fs::read(path.join("p")).unwrap(), "p").unwrap();
}

/// `each` of 0 to `count`, one after the other.
fn repeat(count: usize, each: impl Fn(usize, &mut String)) -> String {
    let mut text = String::new();
    (0..count).for_each(|at| each(at, &mut text));
    text
}

/// A ring of vertices with these names: a line an edge.
fn ring(count: usize, separator: char, from: usize) -> String {
    repeat(count, |v, text| {
        writeln!(text, "{}{separator}{}", v + from, (v + 1) % count + from).unwrap();
    })
}

fn words(count: usize) -> String {
    "source,target\n".to_owned() + &repeat(count, |v, text| writeln!(text, "v{v},v{}", v / 2).unwrap())
}

fn npy(descr: &str, shape: &str, data: Vec<u8>) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn numbers(shape: &str, values: impl Iterator<Item = u64>) -> Vec<u8> {
    npy("<i8", shape, values.flat_map(u64::to_le_bytes).collect())
}

fn floats(shape: &str, count: usize) -> Vec<u8> {
    npy("<f4", shape, (0..count).flat_map(|at| (1.0 + (at % 7) as f32).to_le_bytes()).collect())
}

fn zip(entries: Vec<(&str, Vec<u8>)>) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (key, bytes) in entries {
        writer.start_file(format!("{key}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn list(count: usize, value: &str) -> String {
    vec![value; count].join(",")
}

/// Compressed rows of a ring in an archive.
fn compressed(count: usize) -> Vec<u8> {
    let c = count as u64;
    let mut entries = Vec::new();
    for prefix in ["adj", "attr"] {
        let key = |part: &str| -> &'static str { format!("{prefix}_{part}").leak() };
        entries.push((key("data"), floats(&format!("({count},)"), count)));
        entries.push((key("indices"), numbers(&format!("({count},)"), (0..c).map(|v| (v + 1) % c))));
        entries.push((key("indptr"), numbers(&format!("({},)", count + 1), 0..=c)));
        entries.push((key("shape"), numbers("(2,)", [c, c].into_iter())));
    }
    entries.push(("labels", numbers(&format!("({count},)"), (0..c).map(|v| v % 3))));
    zip(entries)
}

/// A folder of arrays: a ring, or one vertex with all others as neighbours.
fn arrays(vertices: usize, edges: usize, columns: usize) -> Files {
    let (v, e) = (vertices as u64, edges as u64);
    let offset = move |at: u64| if v == e { at } else { e * at.min(1) };
    vec![
        ("indptr.npy", numbers(&format!("({},)", v + 1), (0..=v).map(offset))),
        ("indices.npy", numbers(&format!("({e},)"), (0..e).map(|at| (at * 7 + 1) % v))),
        ("feat.npy", floats(&format!("({v}, {columns})"), vertices * columns)),
        ("label.npy", numbers(&format!("({v},)"), (0..v).map(|at| at % 2))),
    ]
}

/// A folder of one graph in OGB's layout.
fn ogb(vertices: usize, columns: usize) -> Files {
    vec![
        ("raw/edge.csv", ring(vertices, ',', 0).into_bytes()),
        ("raw/num-node-list.csv", vertices.to_string().into_bytes()),
        ("raw/num-edge-list.csv", vertices.to_string().into_bytes()),
        ("raw/node-feat.csv", repeat(vertices, |_, t| *t += &(list(columns, "1.5") + "\n")).into_bytes()),
        ("raw/node-label.csv", "1\n".repeat(vertices).into_bytes()),
        ("split/time/train.csv", b"0\n".to_vec()),
        ("split/time/valid.csv", b"1\n".to_vec()),
        ("split/time/test.csv", b"2\n".to_vec()),
    ]
}

/// TU's files of graphs of two vertices.
fn tu(graphs: usize, columns: usize) -> Files {
    let edge = |g, t: &mut String| writeln!(t, "{}, {}", 2 * g + 1, 2 * g + 2).unwrap();
    let indicator = |v, t: &mut String| writeln!(t, "{}", v / 2 + 1).unwrap();
    let row = list(columns, "2") + "\n";
    vec![
        ("T_A.txt", repeat(graphs, edge).into_bytes()),
        ("T_graph_indicator.txt", repeat(2 * graphs, indicator).into_bytes()),
        ("T_graph_labels.txt", "1\n0\n".repeat(graphs.div_ceil(2))[..2 * graphs].into()),
        ("T_node_attributes.txt", row.repeat(2 * graphs).into_bytes()),
        ("T_edge_attributes.txt", row.repeat(graphs).into_bytes()),
    ]
}

/// MUSAE's files, the first vertex with `features` features.
fn musae(vertices: usize, features: usize) -> Files {
    let first: Vec<String> = (0..features).map(|f| f.to_string()).collect();
    let rest = repeat(vertices - 1, |v, t| write!(t, ",\"{}\":[{}]", v + 1, v % 9).unwrap());
    let target = repeat(vertices, |v, t| writeln!(t, "{v},n{v},{}", ["x", "y"][v % 2]).unwrap());
    vec![
        ("t_edges.csv", ("id_1,id_2\n".to_owned() + &ring(vertices, ',', 0)).into_bytes()),
        ("t_target.csv", ("id,page_name,page_type\n".to_owned() + &target).into_bytes()),
        ("t.json", format!("{{\"0\":[{}]{rest}}}", first.join(",")).into_bytes()),
    ]
}

/// The folder of words with one more file.
fn beside(name: &'static str, text: String) -> Files {
    vec![("edges.csv", words(4).into_bytes()), (name, text.into_bytes())]
}

fn one(name: &'static str, text: String) -> Files {
    vec![(name, text.into_bytes())]
}

/// A store of the folder's data set, in its folder `s`.
fn stored(files: Files) -> Files {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let path = folder.path().join("s");
    store::write(&path, &open(folder.path(), None).unwrap()).unwrap();
    let of = |entry: fs::DirEntry| {
        let name: &'static str = format!("s/{}", entry.file_name().into_string().unwrap()).leak();
        (name, fs::read(entry.path()).unwrap())
    };
    fs::read_dir(path).unwrap().map(|entry| of(entry.unwrap())).collect()
}

cases! {
    folder_edges [folder, table, lines] [2_000, 64_000], |n| one("edges.csv", words(n)), reads;
    folder_numbered_edges [folder, dictionary] [2_000, 64_000],
        |n| one("edges.csv", ring(n, ',', 0)), reads;
    folder_edge_columns [folder] [500, 16_000],
        |n| one("edges.csv", format!("0,1,{}\n1,2,{}\n", list(n, "1.5"), list(n, "2.5"))), |path| {
            let _ = open(path, None);
        };
    folder_edge_field [folder] [100_000, 500_000],
        |n| one("edges.csv", format!("source,target\n{},b\nb,c\n", "a".repeat(n))), reads;
    folder_comments [table] [5_000, 100_000],
        |n| one("edges.csv", "# a comment\n".repeat(n) + &words(4)), reads;
    folder_edge_extension [edge_text] [2_000, 64_000], |n| one("edges.txt", ring(n, ' ', 0)), reads;
    folder_feature_rows [folder] [1_000, 64_000],
        |n| {
            let rows = repeat(n, |v, t| writeln!(t, "v{v},1.5,2").unwrap());
            vec![
                ("edges.csv", words(4).into_bytes()),
                ("features.csv", ("id,x,y\n".to_owned() + &rows).into_bytes()),
            ]
        }, reads;
    folder_feature_columns [folder] [1_000, 64_000],
        |n| beside("features.csv", repeat(4, |v, t| writeln!(t, "v{v},{}", list(n, "1.5")).unwrap())), reads;
    folder_feature_header [folder] [1_000, 32_000],
        |n| {
            let header = "id".to_owned() + &repeat(n, |at, t| write!(t, ",column{at}").unwrap());
            let rows = repeat(4, |v, t| writeln!(t, "v{v},{}", list(n, "1")).unwrap());
            beside("features.csv", format!("{header}\n{rows}"))
        }, reads;
    folder_label_rows [folder] [2_000, 64_000],
        |n| vec![
            ("edges.csv", words(n).into_bytes()),
            ("labels.csv", repeat(n, |v, t| writeln!(t, "v{v},c{}", v % 5).unwrap()).into_bytes()),
        ], reads;
    folder_label_columns [folder] [1_000, 2_000],
        |n| beside("labels.csv", repeat(4, |v, t| writeln!(t, "v{v},{}", list(n, "1")).unwrap())), reads;
    folder_label_lines [folder, table] [5_000, 100_000],
        |n| {
            let rows = repeat(4, |v, t| {
                writeln!(t, "v{v},1,{},\"{}\"", list(1_000, "0"), "\n".repeat(n)).unwrap();
            });
            beside("labels.csv", rows)
        }, reads;
    folder_label_field [folder] [50_000, 500_000],
        |n| beside("labels.csv", format!("id,class\nv0,{}\nv1,b\n", "a".repeat(n))), reads;
    folder_split_rows [folder] [2_000, 64_000],
        |n| vec![
            ("edges.csv", words(n).into_bytes()),
            ("labels.csv", repeat(n, |v, t| writeln!(t, "v{v},c{}", v % 5).unwrap()).into_bytes()),
            ("split.csv", repeat(n, |v, t| writeln!(t, "v{v},train").unwrap()).into_bytes()),
        ], reads;
    folder_graphs [folder] [2_000, 64_000],
        |n| {
            let of = |v| v / 2;
            let edges = repeat(n, |g, t| writeln!(t, "{},{}", 2 * g, 2 * g + 1).unwrap());
            vec![
                ("edges.csv", edges.into_bytes()),
                ("graphs.csv", repeat(2 * n, |v, t| writeln!(t, "{v},{}", of(v)).unwrap()).into_bytes()),
                ("labels.csv", repeat(n, |g, t| writeln!(t, "{g},{}", g % 2).unwrap()).into_bytes()),
            ]
        }, reads;
    folder_files [folder] [200, 1_000],
        |n| {
            let mut files = beside("labels.csv", "v0,a\nv1,b\n".to_owned());
            files.extend((0..n).map(|at| -> (&'static str, Vec<u8>) {
                (format!("other{at}.txt").leak(), Vec::new())
            }));
            files
        }, reads;
    packed_rows [folder, gzip] [2_000, 64_000],
        |n| vec![("edges.csv.gz", gzip(words(n).as_bytes()))], reads;
    packed_members [gzip] [1_000, 32_000],
        |n| vec![("a.txt", gzip(b"0 1\n1 2\n").repeat(n))], |path| reads(&path.join("a.txt"));
    table_rows [rows, table] [1_000, 64_000],
        |n| one("t.csv", "x,y,label\n".to_owned() + &"1.5,2,a\n2,3,b\n".repeat(n)),
        |path| reads(&path.join("t.csv"));
    table_columns [rows] [1_000, 64_000],
        |n| {
            let header = repeat(n, |at, t| write!(t, "c{at},").unwrap());
            let row = list(n, "1.5");
            one("t.csv", format!("{header}label\n{row},a\n{row},b\n{row},a\n"))
        }, |path| reads(&path.join("t.csv"));
    table_field [rows] [50_000, 500_000],
        |n| one("t.csv", format!("x,label\n1,{}\n2,b\n3,b\n", "a".repeat(n))),
        |path| reads(&path.join("t.csv"));
    table_kinds [kinds, rows] [1_000, 64_000],
        |n| {
            let row = |at: usize, t: &mut String| {
                writeln!(t, "{},{},w{at},2020-01-{:02},{},{}", at % 7, ["a", ""][at % 2], at % 28 + 1, at.is_multiple_of(2), at % 3)
                    .unwrap();
            };
            one("t.csv", "x,few,many,day,yes,label\n".to_owned() + &repeat(n, row))
        }, |path| reads(&path.join("t.csv"));
    table_categories [kinds] [1_000, 64_000],
        |n| one("t.csv", "x,word,label\n".to_owned() + &repeat(n, |at, t| writeln!(t, "1,w{},a", at / 3).unwrap())),
        |path| reads(&path.join("t.csv"));
    table_kind_columns [kinds] [500, 16_000],
        |n| {
            let header = repeat(n, |at, t| write!(t, "c{at},").unwrap());
            let row = |word: &str| list(n, word);
            one("t.csv", format!("{header}label\n{},a\n{},b\n{},a\n", row("x"), row("y"), row("x")))
        }, |path| reads(&path.join("t.csv"));
    nodes_rows [folder, kinds] [1_000, 64_000],
        |n| {
            let rows = repeat(n, |v, t| writeln!(t, "v{v},1.5,c{},{}", v % 5, ["p", "q"][v % 2]).unwrap());
            vec![
                ("ties.csv", words(n).into_bytes()),
                ("people.csv", ("id,x,kind,group\n".to_owned() + &rows).into_bytes()),
            ]
        }, reads;
    document_gml [document] [1_000, 32_000],
        |n| {
            let nodes = repeat(n, |v, t| writeln!(t, "node [ id {v} label \"n{v}\" x {v}.5 ]").unwrap());
            let edges = repeat(n, |v, t| writeln!(t, "edge [ source {v} target {} ]", v / 2).unwrap());
            one("a.gml", format!("graph [\n{nodes}{edges}]\n"))
        }, |path| reads(&path.join("a.gml"));
    document_graphml [document] [1_000, 32_000],
        |n| {
            let nodes = repeat(n, |v, t| {
                let keys = format!("<data key=\"x\">{v}.5</data><data key=\"k\">{v}&amp;</data>");
                writeln!(t, "<node id=\"n{v}\">{keys}</node>").unwrap();
            });
            let edges = repeat(n, |v, t| writeln!(t, "<edge source=\"n{v}\" target=\"n{}\"/>", v / 2).unwrap());
            one("a.graphml", format!("<graphml><graph>{nodes}{edges}</graph></graphml>"))
        }, |path| reads(&path.join("a.graphml"));
    document_json [document] [1_000, 32_000],
        |n| {
            let x = |v: usize| if v.is_multiple_of(2) { "NaN" } else { "1.5" };
            let nodes: Vec<String> = (0..n).map(|v| format!("{{\"id\":{v},\"x\":{}}}", x(v))).collect();
            let links: Vec<String> =
                (0..n).map(|v| format!("{{\"source\":{v},\"target\":{}}}", v / 2)).collect();
            one("a.json", format!("{{\"nodes\":[{}],\"links\":[{}]}}", nodes.join(","), links.join(",")))
        }, |path| reads(&path.join("a.json"));
    cost_report_rows [cost_report] [1_000, 32_000],
        |n| {
            let header = "lineItem/UsageType,lineItem/UsageAmount,lineItem/UnblendedCost,lineItem/ResourceId\n";
            one("r.csv", header.to_owned() + &repeat(n, |at, t| writeln!(t, "Lambda-GB-Second,{at},0.5,f").unwrap()))
        }, |path| {
            let mut report = eciton_formats::cost_report::Report::open(&path.join("r.csv")).unwrap();
            while report.next_item().unwrap().is_some() {}
        };
    edge_list_rows [snap, edge_text, dictionary] [5_000, 100_000],
        |n| one("a.txt", ring(n, '\t', 1_000_000_000_000)), |path| reads(&path.join("a.txt"));
    edge_list_columns [snap] [5_000, 100_000],
        |n| one("a.txt", format!("0 1 {}\n", "1.5 ".repeat(n))), |path| {
            let _ = open(&path.join("a.txt"), None);
        };
    edge_list_field [snap] [200_000, 500_000],
        |n| one("a.txt", format!("{}0 1\n1 2\n", "0".repeat(n))), |path| {
            let _ = open(&path.join("a.txt"), None);
        };
    edge_list_comment [snap, lines] [200_000, 500_000],
        |n| one("a.txt", format!("# {}\n0 1\n1 2\n", "x".repeat(n))), |path| reads(&path.join("a.txt"));
    edge_list_packed [snap] [5_000, 100_000],
        |n| vec![("a.txt", gzip(ring(n, ' ', 7).as_bytes()))], |path| reads(&path.join("a.txt"));
    matrix_market_rows [matrix_market] [5_000, 100_000],
        |n| {
            let head = format!("%%MatrixMarket matrix coordinate pattern general\n{n} {n} {n}\n");
            one("a.mtx", head + &ring(n, ' ', 1))
        }, |path| reads(&path.join("a.mtx"));
    matrix_market_comments [matrix_market] [20_000, 200_000],
        |n| {
            let head = "%%MatrixMarket matrix coordinate pattern general\n".to_owned();
            one("a.mtx", head + &"% comment\n".repeat(n) + "2 2 1\n1 2\n")
        }, |path| {
            let _ = open(&path.join("a.mtx"), None);
        };
    metis_rows [metis] [5_000, 100_000],
        |n| {
            let row = |v: usize, t: &mut String| writeln!(t, "{} {}", (v + 1) % n + 1, (v + n - 1) % n + 1).unwrap();
            let mut text = format!("{n} {n}\n");
            (0..n).for_each(|v| row(v, &mut text));
            one("a.graph", text)
        }, |path| reads(&path.join("a.graph"));
    metis_row [metis] [10_000, 200_000],
        |n| {
            let hub = repeat(n, |v, t| write!(t, "{} ", v + 2).unwrap());
            one("a.graph", format!("{} {n}\n{hub}\n{}", n + 1, "1\n".repeat(n)))
        }, |path| reads(&path.join("a.graph"));
    partition_rows [metis] [20_000, 200_000],
        |n| one("a.part", "3\n".repeat(n)), |path| {
            metis::partition(&path.join("a.part"), None).unwrap();
        };
    archive_rows [bundle, npz, npy] [2_000, 64_000],
        |n| vec![("a.npz", compressed(n))], reads;
    archive_entries [npz] [100, 120],
        |n| {
            let mut entries = vec![("x", floats("(3, 2)", 6)), ("y", numbers("(3,)", 0..3))];
            entries.extend((0..n).map(|at| -> (&'static str, Vec<u8>) {
                (format!("entry{at}").leak(), Vec::new())
            }));
            vec![("a.npz", zip(entries))]
        }, |path| (0..4).for_each(|_| reads(&path.join("a.npz")));
    archive_of_rows [rows, npz] [10_000, 200_000],
        |n| {
            let (x, y) = (floats(&format!("({n}, 4)"), 4 * n), numbers(&format!("({n},)"), (0..n as u64).map(|v| v % 2)));
            vec![("a.npz", zip(vec![("x", x), ("y", y)]))]
        }, |path| reads(&path.join("a.npz"));
    arrays_rows [prepared, npy] [5_000, 100_000], |n| arrays(n, n, 2), reads;
    arrays_list [prepared] [20_000, 200_000], |n| arrays(n + 1, n, 1), reads;
    arrays_columns [prepared] [10_000, 10_000], |n| arrays(4, 4, n), reads;
    pickle_graph [planetoid, pickle] [5_000, 100_000],
        |n| one("p", "(d".to_owned() + &repeat(n, |v, t| write!(t, "I{v}\n(lI1\nas").unwrap()) + "."), parses;
    pickle_list [pickle] [20_000, 200_000], |n| one("p", "(l".to_owned() + &"I1\na".repeat(n) + "."), parses;
    pickle_nesting [pickle] [20_000, 200_000], |n| one("p", "(".repeat(n) + &"l".repeat(n) + "."), parses;
    pickle_memo [pickle] [10_000, 200_000],
        |n| one("p", "(l".to_owned() + &repeat(n, |at, t| write!(t, "I1\np{at}\na").unwrap()) + "."), parses;
    pickle_text [pickle] [400_000, 1_000_000], |n| one("p", format!("V{}\n.", "a".repeat(n))), parses;
    musae_vertices [musae, table] [2_000, 64_000], |n| musae(n, 3), reads;
    musae_features [musae] [5_000, 100_000], |n| musae(4, n), reads;
    musae_blanks [musae] [200_000, 500_000],
        |n| {
            let mut files = musae(4, 1);
            files[2].1.splice(1..1, vec![b' '; n]);
            files
        }, reads;
    tu_graphs [tu] [1_000, 32_000], |n| tu(n, 2), reads;
    tu_columns [tu] [1_000, 2_000], |n| tu(3, n), |path| {
            let _ = open(path, None);
        };
    ogb_rows [ogb] [2_000, 64_000], |n| ogb(n, 2), reads;
    ogb_columns [ogb] [2_000, 2_000], |n| ogb(3, n), reads;
    text_of_characters [sequence] [20_000, 200_000],
        |n| one("t.txt", "hello world, ".repeat(n / 10)), |path| {
            sequence::open(&path.join("t.txt"), sequence::Unit::Characters, 8, None).unwrap();
        };
    text_of_many_symbols [sequence] [2_000, 20_000],
        |n| one("t.txt", repeat(n, |at, t| t.push(char::from_u32(0x4e00 + at as u32 % 20_000).unwrap()))), |path| {
            sequence::open(&path.join("t.txt"), sequence::Unit::Characters, 8, None).unwrap();
        };
    list_of_tokens [sequence, npy] [20_000, 200_000],
        |n| vec![("t.npy", numbers(&format!("({n},)"), (0..n as u64).map(|at| at % 50)))], |path| {
            sequence::open(&path.join("t.npy"), sequence::Unit::Bytes, 8, None).unwrap();
        };
    pairs_rows [pairs] [5_000, 100_000],
        |n| one("p.csv", ring(n, ',', 0)), |path| {
            let table = PairTable::open(&path.join("p.csv")).unwrap();
            table.find(&VertexIds::Dense, u32::MAX - 1).unwrap();
        };
    store_rows [folder] [2_000, 32_000], |n| stored(one("edges.csv", words(n))), |path| reads(&path.join("s"));
    store_names [folder] [2_000, 4_000],
        |n| {
            let header = "id".to_owned() + &repeat(n, |at, t| write!(t, ",c{at}").unwrap());
            let rows = repeat(4, |v, t| writeln!(t, "v{v},{}", list(n, "1")).unwrap());
            stored(beside("features.csv", format!("{header}\n{rows}")))
        }, |path| reads(&path.join("s"));
}
