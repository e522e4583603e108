//! The rule for repeated edges, weights of zero and self-loops gives one graph in every layout.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use eciton_formats::{Request, open_with, stream};
use eciton_graph::adjacency::Options;
use eciton_graph::build;
use eciton_graph::dataset::Dataset;
use eciton_graph::edge_rule::SelfLoops;
use eciton_graph::random::SplitMix64;
use eciton_graph::store;
use eciton_input::notes::{self, Note};

/// An entry of a list: source, target, weight.
type Entry = (u32, u32, f32);

/// Expected rows, by (target, source).
type Wanted = BTreeMap<(u32, u32), f32>;

/// The rule of docs/reference/data-formats.md, written with maps.
fn wanted(entries: &[Entry], symmetric: bool, loops: SelfLoops) -> Wanted {
    let mut sums: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for &(source, target, weight) in entries {
        *sums.entry((source, target)).or_default() += f64::from(weight);
    }
    sums.retain(|&(source, target), sum| *sum != 0.0 && (source != target || loops == SelfLoops::Keep));
    let mut found = Wanted::new();
    for (&(source, target), &sum) in &sums {
        let other = sums.get(&(target, source)).filter(|_| symmetric);
        let row = other.map_or(sum, |other| (sum + other) / 2.0) as f32;
        if row != 0.0 {
            found.insert((target, source), row);
            if symmetric {
                found.insert((source, target), row);
            }
        }
    }
    found
}

fn rows(data: &Dataset) -> Wanted {
    let keys = data.graph.edge_list().map(|(source, target)| (target, source));
    match &data.edge_features {
        Some(rows) => keys.zip(rows.values().iter().copied()).collect(),
        None => keys.map(|key| (key, 1.0)).collect(),
    }
}

fn random_entries(random: &mut SplitMix64, vertices: u32) -> Vec<Entry> {
    let below = |random: &mut SplitMix64, most: u32| random.below(most.into()) as u32;
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..random.below(60) {
        let (source, target) = (below(random, vertices), below(random, vertices));
        // Sums of these are 0 at times, and exact in any width.
        let weight = random.below(9) as f32 * 0.25 - 1.0;
        entries.push(match (random.below(6), entries.last()) {
            (0, Some(&(s, t, _))) => (s, t, weight),
            (1, Some(&(s, t, _))) => (t, s, weight),
            (2, Some(&(s, t, _))) => (s, t, -entries[entries.len() - 1].2),
            (3, _) => (source, source, weight),
            _ => (source, target, weight),
        });
    }
    // So that every vertex occurs.
    entries.extend((1..vertices).map(|v| (v - 1, v, 1.5)));
    entries
}

struct Written {
    folder: tempfile::TempDir,
}

impl Written {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn i64s(values: &[i64]) -> Vec<u8> {
    npy(
        "<i8",
        &format!("({},)", values.len()),
        &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>(),
    )
}

fn f32s(values: &[f32]) -> Vec<u8> {
    npy(
        "<f4",
        &format!("({},)", values.len()),
        &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>(),
    )
}

/// Compressed rows in the order of the entries: offsets, columns, values; `by` chooses row and column.
fn compressed(
    entries: &[Entry],
    vertices: u32,
    by: impl Fn(&Entry) -> (u32, u32),
) -> (Vec<i64>, Vec<i64>, Vec<f32>) {
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in 0..vertices {
        for entry in entries.iter().filter(|entry| by(entry).0 == row) {
            columns.push(by(entry).1.into());
            values.push(entry.2);
        }
        offsets.push(columns.len() as i64);
    }
    (offsets, columns, values)
}

fn npz(folder: &Written, name: &str, entries: &[Entry], vertices: u32) -> PathBuf {
    let (offsets, columns, values) = compressed(entries, vertices, |&(source, target, _)| (source, target));
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let labels: Vec<i64> = (0..i64::from(vertices)).map(|v| v % 2).collect();
    for (key, bytes) in [
        ("adj_data", f32s(&values)),
        ("adj_indices", i64s(&columns)),
        ("adj_indptr", i64s(&offsets)),
        ("adj_shape", i64s(&[vertices.into(), vertices.into()])),
        ("labels", i64s(&labels)),
    ] {
        writer.start_file(format!("{key}.npy"), options).unwrap();
        std::io::Write::write_all(&mut writer, &bytes).unwrap();
    }
    folder.write(name, writer.finish().unwrap().into_inner())
}

fn lines(entries: &[Entry], separator: &str, first: u32) -> String {
    let mut text = String::new();
    for (source, target, weight) in entries {
        writeln!(text, "{}{separator}{}{separator}{weight}", source + first, target + first).unwrap();
    }
    text
}

/// The undirected layouts that hold these entries.
fn layouts(written: &Written, entries: &[Entry], vertices: u32) -> Vec<PathBuf> {
    let count = entries.len();
    let matrix = format!(
        "%%MatrixMarket matrix coordinate real general\n{vertices} {vertices} {count}\n{}",
        lines(entries, " ", 1)
    );
    let pairs: String = entries.iter().map(|(s, t, _)| format!("{s},{t}\n")).collect();
    let weights: Vec<f32> = entries.iter().map(|entry| entry.2).collect();
    written.write("table/edges.csv", format!("source,target,Weight\n{}", lines(entries, ",", 0)));
    written.write("bare/edges.csv", lines(entries, ",", 0));
    written.write("array/edges.csv", pairs);
    written.write("array/edge_features.npy", f32s(&weights));
    vec![
        written.folder.path().join("table"),
        written.folder.path().join("bare"),
        written.folder.path().join("array"),
        written.write("matrix.mtx", matrix),
        written.write("list.txt", lines(entries, "\t", 0)),
        npz(written, "bundle.npz", entries, vertices),
    ]
}

fn report() -> Vec<String> {
    // Files are named by their paths, which differ between runs; counts of labels are another test's.
    let short = |note: Note| {
        let text = note.to_string();
        match text.split_once("edges.csv") {
            Some((before, after)) if before.contains('/') => {
                let label = before.split_once(": ").map_or("", |(label, _)| label);
                if label.is_empty() {
                    format!("edges.csv{after}")
                } else {
                    format!("{label}: edges.csv{after}")
                }
            }
            _ => text,
        }
    };
    notes::take().into_iter().map(short).filter(|text| !text.starts_with("labels: ")).collect()
}

#[test]
fn layouts_hold_one_graph() {
    let seed = 4301;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for case in 0..40 {
        let vertices = 2 + random.below(12) as u32;
        let entries = random_entries(&mut random, vertices);
        let written = Written::new();
        for loops in [SelfLoops::Drop, SelfLoops::Keep] {
            let expected = wanted(&entries, true, loops);
            for path in layouts(&written, &entries, vertices) {
                let read = open_with(&path, None, Request { self_loops: Some(loops), ..Request::default() })
                    .unwrap();
                assert_eq!(rows(&read), expected, "case {case}, {loops:?}, {}", path.display());
                assert!(read.graph.symmetric());
                let Some(streamed) = stream(&path).unwrap() else { continue };
                let converted = written.folder.path().join("store");
                let mut writer = store::Writer::create(&converted).unwrap();
                let options = Options { symmetric: true, keep_self_loops: loops == SelfLoops::Keep };
                build::external(&*streamed.edges, options, build::MIN_MEMORY_BYTES, 2, &mut writer).unwrap();
                let known = streamed.attributes().unwrap();
                writer.features(&known.features).unwrap();
                writer.labels(&known.labels).unwrap();
                writer.split(&known.split).unwrap();
                writer.finish("store").unwrap();
                let stored = open_with(&converted, None, Request::default()).unwrap();
                assert_eq!((&stored.graph, &stored.edge_features), (&read.graph, &read.edge_features));
                fs::remove_dir_all(&converted).unwrap();
            }
            // A folder of arrays is directed as it is stored.
            let (offsets, sources, values) = compressed(&entries, vertices, |&(s, t, _)| (t, s));
            written.write("arrays/indptr.npy", i64s(&offsets));
            written.write("arrays/indices.npy", i64s(&sources));
            written.write("arrays/edge_feat.npy", f32s(&values));
            written.write("arrays/label.npy", i64s(&vec![0; vertices as usize]));
            let read = open_with(
                &written.folder.path().join("arrays"),
                None,
                Request { self_loops: Some(loops), ..Request::default() },
            )
            .unwrap();
            assert_eq!(rows(&read), wanted(&entries, false, loops), "case {case}, {loops:?}, arrays");
        }
        drop(report());
    }
}

/// METIS names each edge at both its ends, with whole weights.
#[test]
fn metis_follows_the_rule() {
    let written = Written::new();
    // 1 - 2 twice (3 + 4), 2 - 3 of weight 0, and a loop at 3.
    let path = written.write("a.graph", "3 4 001\n2 3 2 4\n1 3 1 4 3 0\n2 0 3 5 3 5\n");
    let read = open_with(&path, None, Request::default()).unwrap();
    assert_eq!(rows(&read), Wanted::from([((0, 1), 7.0), ((1, 0), 7.0)]));
    let read =
        open_with(&path, None, Request { self_loops: Some(SelfLoops::Keep), ..Request::default() }).unwrap();
    assert_eq!(rows(&read), Wanted::from([((0, 1), 7.0), ((1, 0), 7.0), ((2, 2), 10.0)]));
}

#[test]
fn zeros_are_kept_with_other_features() {
    let written = Written::new();
    written.write("two/edges.csv", "source,target,weight,km\n0,1,0,2\n1,2,3,0\n");
    written.write("named/edges.csv", "source,target,km\n0,1,0\n1,2,3\n");
    drop(report());
    let two = open_with(&written.folder.path().join("two"), None, Request::default()).unwrap();
    assert_eq!(two.edge_features.unwrap().values(), [0.0, 2.0, 0.0, 2.0, 3.0, 0.0, 3.0, 0.0]);
    let kept = "edges.csv: 2 directed edges of weight 0 kept, with their edge features";
    assert!(report().iter().any(|line| line.ends_with(kept)));
    let named = open_with(&written.folder.path().join("named"), None, Request::default()).unwrap();
    assert_eq!(named.graph.edges(), 4);
    assert!(report().iter().any(|line| line.ends_with(kept)));
}

#[test]
fn the_report_counts_what_was_changed() {
    let written = Written::new();
    let text = "source,target,w\n0,1,1\n0,1,2\n1,2,3\n2,1,4\n2,2,9\n0,2,0\n";
    let path = written.write("own/edges.csv", text);
    drop(report());
    open_with(path.parent().unwrap(), None, Request::default()).unwrap();
    let notes: Vec<String> = report().into_iter().filter(|line| line.starts_with("note: ")).collect();
    assert_eq!(
        notes,
        [
            "note: edges.csv: 1 entry repeats an edge; their values were added up",
            "note: edges.csv: 1 edge of weight 0 left out, because a weight of 0 means that there is no edge",
            "note: edges.csv: 1 edge listed in both directions with different values; the mean of the two is used",
            "note: own: 1 self-loop dropped; data.self_loops = \"keep\" keeps them",
        ]
    );
    // A published layout without values is plain.
    let shared = std::env::var_os("ECITON_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    for (set, name) in
        [("planetoid", Some("citeseer")), ("musae-facebook", None), ("graphdata-npz", Some("amazon_photo"))]
    {
        let path = shared.join("data").join(set);
        if !path.exists() {
            println!("{} is absent: its report is not checked", path.display());
            continue;
        }
        open_with(&path, name, Request::default()).unwrap();
        let lines = report();
        assert!(lines.iter().all(|line| !line.starts_with("note: ")), "{set}: {lines:?}");
    }
}

/// A store keeps the loops that it was written with, unless the setting asks for other ones.
#[test]
fn stores_keep_their_loops() {
    let written = Written::new();
    let path = written.write("own/edges.csv", "0,1,2\n1,1,3\n");
    let kept = open_with(
        path.parent().unwrap(),
        None,
        Request { self_loops: Some(SelfLoops::Keep), ..Request::default() },
    )
    .unwrap();
    let stored = written.folder.path().join("store");
    store::write(&stored, &kept).unwrap();
    drop(report());
    let found = open_with(&stored, None, Request::default()).unwrap();
    assert_eq!((&found.graph, &found.edge_features), (&kept.graph, &kept.edge_features));
    assert_eq!(report(), ["own: 1 self-loop kept; data.self_loops = \"drop\" drops them"]);
    let dropped =
        open_with(&stored, None, Request { self_loops: Some(SelfLoops::Drop), ..Request::default() })
            .unwrap();
    assert_eq!(rows(&dropped), Wanted::from([((0, 1), 2.0), ((1, 0), 2.0)]));
}
