//! The store: what is written is read back, and what is damaged or foreign is refused.
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::corrections::{Correction, Corrections};
use eciton_graph::dataset::{
    Dataset, EdgeFeatures, Features, Labels, NO_LABEL, Names, SparseBuilder, Split, Values, VertexIds,
};
use eciton_graph::error::Error;
use eciton_graph::graphs::Graphs;
use eciton_graph::random::SplitMix64;
use eciton_graph::store;

/// A random data set of any shape.
fn random_set(random: &mut SplitMix64) -> Dataset {
    let vertices = 1 + random.below(60);
    let below = |random: &mut SplitMix64| random.below(vertices) as u32;
    // Many graphs in a third of the cases.
    let many = if random.below(3) == 0 { 1 + random.below(vertices) } else { 0 };
    let of: Vec<u64> = (0..vertices).map(|_| random.below(many) * 3).collect();
    let graphs = (many > 0).then(|| Graphs::new(&of).unwrap());
    let standing = |v: u64| {
        graphs.as_ref().is_none_or(|graphs| u64::from(graphs.standing_of_vertices()[v as usize]) == v)
    };
    let edges = (0..random.below(200)).map(|_| (below(random), below(random)));
    let edges: Vec<_> = edges.filter(|&(s, t)| of[s as usize] == of[t as usize]).collect();
    let options = Options { symmetric: random.below(2) == 0, keep_self_loops: random.below(2) == 0 };
    let columns = [1, 2, 7, 8, 9, 16, 33][random.below(7) as usize];
    let value = |random: &mut SplitMix64| (random.below(2001) as f32 - 1000.0) / 8.0;
    let features = match random.below(3) {
        0 => {
            let mut rows = SparseBuilder::new(columns);
            for _ in 0..vertices {
                let stored = random.below(4);
                let mut row: Vec<_> =
                    (0..stored).map(|_| (random.below(u64::from(columns)) as u32, value(random))).collect();
                rows.push_row(&mut row);
            }
            Features::Sparse(rows.finish())
        }
        _ => {
            let values: Vec<f32> = (0..vertices * u64::from(columns)).map(|_| value(random)).collect();
            Features::dense(columns, &values).unwrap()
        }
    };
    let mut corrections = Vec::new();
    for row in 0..vertices as u32 {
        if random.below(8) == 0 {
            let residual = random.below(1 << 40) as f64 / 7.0 - 1e9;
            corrections.push(Correction { row, column: random.below(columns.into()) as u32, residual });
        }
    }
    let features = features.with_corrections(Corrections::new(corrections));
    let classes = random.below(4) as u32;
    let of: Vec<u32> = (0..vertices)
        .map(|v| {
            if classes == 0 || !standing(v) || random.below(5) == 0 {
                NO_LABEL
            } else {
                random.below(classes.into()) as u32
            }
        })
        .collect();
    let wide = 1 + random.below(5) as u32;
    let mut cells = |of: &[f32]| {
        let of = (0..vertices * u64::from(wide)).map(|at| match standing(at / u64::from(wide)) {
            true => of[random.below(of.len() as u64) as usize],
            false => f32::NAN,
        });
        Values::new(wide, of.collect()).unwrap()
    };
    let labels = match classes {
        2 => Labels::Flags(cells(&[0.0, 1.0, f32::NAN])),
        3 => Labels::Numbers(cells(&[0.0, -0.0, 1.0, -1.5, f32::NAN, f32::NAN, f32::MAX])),
        _ => Labels::classes(of, classes),
    };
    let split = Split::random(&labels, [0.5, 0.2], random.next_u64());
    let ids = match random.below(3) {
        0 => VertexIds::Dense,
        1 => VertexIds::Numbers((0..vertices).map(|v| v * 7 + random.below(7)).collect()),
        _ => VertexIds::Words((0..vertices).map(|v| format!("ü{v}\n")).collect()),
    };
    let graph = Graph::from_edges(vertices, edges.into_iter(), options).unwrap();
    let edge_features = (random.below(2) == 0).then(|| {
        let columns = 1 + random.below(3);
        let values: Vec<f32> = (0..graph.edges() * columns).map(|_| value(random)).collect();
        EdgeFeatures::new(columns as u32, values).unwrap()
    });
    let mut called = |what: &str, count: u32| -> Vec<String> {
        match random.below(2) {
            0 => (0..count).map(|at| format!("{what} \"{at}\"")).collect(),
            _ => Vec::new(),
        }
    };
    let names = Names {
        labels: called("klasse ü", labels.width()),
        features: called("feature", features.columns()),
        edge_features: called("edge", edge_features.as_ref().map_or(0, EdgeFeatures::columns)),
        target: called("target", 1),
        split: called("drawn", 1).concat(),
    };
    let set = Dataset {
        edge_features,
        graphs,
        ids,
        names,
        ..Dataset::new("random \"set\"".to_owned(), graph, features, labels, split)
    };
    set.validate().unwrap();
    set
}

#[test]
fn what_is_written_is_read_back() {
    let seed = 31;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let folder = tempfile::tempdir().unwrap();
    for case in 0..150 {
        let set = random_set(&mut random);
        let path = folder.path().join(format!("{case}"));
        store::write(&path, &set).unwrap();
        let read = store::open(&path).unwrap();
        assert_eq!(read, set, "case {case}");
        if let Features::Dense(rows) = &read.features {
            assert!(rows.buffer().is_lent(), "features are not copied");
        }
        // The same data set again gives the same bytes.
        let again = folder.path().join(format!("{case} again"));
        store::write(&again, &read).unwrap();
        for entry in fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(fs::read(entry.path()).unwrap(), fs::read(again.join(entry.file_name())).unwrap());
        }
        drop(read);
        fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn names_beyond_their_limit_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut set = tiny(false, false, false);
    set.names.labels = vec!["x".repeat(store::MAX_NAMES_BYTES); set.labels.width() as usize];
    set.names.features = vec!["short".to_owned(), "names".to_owned()];
    store::write(&folder.path().join("s"), &set).unwrap();
    let read = store::open(&folder.path().join("s")).unwrap();
    assert_eq!((read.names.labels.len(), &read.names.features), (0, &set.names.features));
    set.names.features.pop();
    let refused = store::write(&folder.path().join("t"), &set).unwrap_err().to_string();
    assert!(refused.contains("names of features"), "{refused}");
}

fn tiny(words: bool, directed: bool, sparse: bool) -> Dataset {
    let options = Options { symmetric: !directed, keep_self_loops: false };
    let features = [0.5, 1.0, 0.0, -2.0, 3.0, 0.25];
    Dataset {
        ids: match words {
            true => VertexIds::Words(vec!["a".into(), String::new(), "cc".into()]),
            false => VertexIds::Numbers(vec![7, 9, 8]),
        },
        ..Dataset::new(
            "tiny".to_owned(),
            Graph::from_edges(3, [(0, 1), (1, 2)].into_iter(), options).unwrap(),
            if sparse { Features::identity(3) } else { Features::dense(2, &features).unwrap() },
            Labels::classes(vec![0, 1, NO_LABEL], 2),
            Split { train: vec![0], validation: vec![], test: vec![1] },
        )
    }
}

/// The same with one column of flags.
fn flagged(of: &[f32]) -> Dataset {
    Dataset { labels: Labels::Flags(Values::new(1, of.to_vec()).unwrap()), ..tiny(false, false, false) }
}

/// The same with two numbers an edge.
fn weighted(set: Dataset) -> Dataset {
    let values: Vec<f32> = (0..set.graph.edges() * 2).map(|at| at as f32 * 0.5 - 1.0).collect();
    Dataset { edge_features: Some(EdgeFeatures::new(2, values).unwrap()), ..set }
}

/// Writes `bytes` in place of a file of a store, opens it, and puts the file back.
fn with_file(path: &Path, file: &Path, bytes: &[u8]) -> Result<Dataset, Error> {
    let before = fs::read(file).unwrap();
    fs::write(file, bytes).unwrap();
    let opened = store::open(path);
    fs::write(file, before).unwrap();
    opened
}

#[test]
fn every_flipped_byte_is_noticed_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let (mut refused, mut harmless) = (0, 0);
    let sets = [
        tiny(true, true, false),
        tiny(false, false, true),
        flagged(&[1.0, 0.0, f32::NAN]),
        weighted(tiny(false, true, true)),
    ];
    for (case, set) in sets.into_iter().enumerate() {
        let path = folder.path().join(format!("{case}"));
        store::write(&path, &set).unwrap();
        for entry in fs::read_dir(&path).unwrap() {
            let file = entry.unwrap().path();
            let bytes = fs::read(&file).unwrap();
            // In place: cutting a file to write it again waits for the disk.
            let mut open = fs::OpenOptions::new().write(true).open(&file).unwrap();
            let mut put = |at: usize, byte: u8| {
                open.seek(SeekFrom::Start(at as u64)).unwrap();
                open.write_all(&[byte]).unwrap();
            };
            for (at, &byte) in bytes.iter().enumerate() {
                for flip in [1, 0x20, 0x80, 0xff] {
                    put(at, byte ^ flip);
                    match store::open(&path) {
                        Err(_) => refused += 1,
                        Ok(read) => {
                            harmless += 1;
                            assert_eq!(read, set, "{}, byte {at}", file.display());
                        }
                    }
                }
                put(at, byte);
            }
        }
        assert_eq!(store::open(&path).unwrap(), set);
    }
    println!("{refused} refused, {harmless} harmless");
    // Only blanks of the JSON can change without a change of what it says.
    assert!(refused > 20 * harmless, "{refused} refused, {harmless} harmless");
}

#[test]
fn cut_grown_and_missing_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    store::write(&path, &weighted(tiny(true, true, false))).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        let bytes = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        for length in 0..bytes.len() {
            let error = with_file(&path, &file, &bytes[..length]);
            // The last byte of the description ends a line that has said everything.
            assert!(
                error.is_err() || (name == "store.json" && length + 1 == bytes.len()),
                "{name}, {length}"
            );
        }
        let mut grown = bytes.clone();
        grown.push(0);
        assert!(with_file(&path, &file, &grown).is_err(), "{name} grown");
        fs::remove_file(&file).unwrap();
        let error = store::open(&path).unwrap_err();
        assert!(matches!(error, Error::Read { .. }), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        fs::write(&file, bytes).unwrap();
    }
    store::open(&path).unwrap();
}

#[test]
fn foreign_folders_and_versions_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    store::write(&path, &tiny(true, false, false)).unwrap();
    let file = path.join("store.json");
    let text = fs::read_to_string(&file).unwrap();
    let refusal = |text: &str| with_file(&path, &file, text.as_bytes()).unwrap_err();
    let later = text.replace("\"version\": 1", "\"version\": 7");
    assert_ne!(later, text);
    let error = refusal(&later);
    assert!(matches!(error, Error::StoreVersion { found: 7, known: 6, .. }), "{error}");
    assert!(error.to_string().contains("convert the data again"), "{error}");
    for (from, to, expected) in [
        ("eciton-store", "other", "eciton-store"),
        ("\"tiny\"", "\"tinx\"", "checksum"),
        ("\"vertices\": 3", "\"vertices\": 4", "checksum"),
        ("\"crc32\"", "\"crc\"", "\"crc32\""),
        ("{", "[", "JSON"),
    ] {
        let changed = text.replacen(from, to, if from == "\"crc32\"" { 1 } else { usize::MAX });
        assert_ne!(changed, text);
        let found = refusal(&changed).to_string();
        assert!(found.contains(expected), "{found} does not contain {expected}");
    }
    assert_ne!(text.find("\"classes\": 2"), None, "classes are what they were in version 1");
    assert!(refusal(&text.replace("\"version\": 1", "\"version\": 0")).to_string().contains("version 0"));
    assert!(refusal("7").to_string().contains("an object"));
    assert!(refusal(&" ".repeat((1 << 20) + 1)).to_string().contains("MiB"));
    assert!(matches!(store::open(folder.path()), Err(Error::Read { .. })));
    assert!(matches!(store::open(&file), Err(Error::Read { .. })));
}

/// Makes the description's checksum right again after a change.
fn describe(path: &Path, change: impl Fn(&mut serde_json::Value)) {
    let file = path.join("store.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    json.as_object_mut().unwrap().remove("crc32");
    change(&mut json);
    json["crc32"] = crc32(json.to_string().as_bytes()).into();
    fs::write(file, json.to_string()).unwrap();
}

#[test]
fn labels_other_than_classes_are_version_2() {
    let folder = tempfile::tempdir().unwrap();
    let set = flagged(&[1.0, 0.0, f32::NAN]);
    let path = folder.path().join("flags");
    store::write(&path, &set).unwrap();
    let text = fs::read_to_string(path.join("store.json")).unwrap();
    assert!(text.contains("\"version\": 2") && text.contains("\"kind\": \"flags\""), "{text}");
    assert!(!text.contains("classes") && !path.join("labels.u32").exists());
    type Change = fn(&mut serde_json::Value);
    let changes: [(Change, &str); 6] = [
        (|json| json["labels"]["kind"] = "ranks".into(), "labels: flags or numbers, found ranks"),
        (|json| json["labels"]["columns"] = 0.into(), "1 to 65536 columns of labels, found 0"),
        (|json| json["labels"]["columns"] = (1 << 17).into(), "columns of labels, found 131072"),
        (|json| json["labels"]["columns"] = 2.into(), "label-values.f32 of Some(6)"),
        (|json| json["labels"] = 1.into(), "\"labels\" with an object, found 1"),
        (|json| json["version"] = 1.into(), "\"classes\" with a number below 2^32"),
    ];
    for (change, expected) in changes {
        describe(&path, change);
        let said = store::open(&path).unwrap_err().to_string();
        assert!(said.contains(expected), "{said} does not contain {expected}");
        fs::write(path.join("store.json"), &text).unwrap();
    }
    for (value, expected) in [(f32::INFINITY, "label-values.f32, row 0: expected a finite"), (2.0, "flags")] {
        let values: Vec<u8> = [value, 0.0, f32::NAN].iter().flat_map(|v| v.to_le_bytes()).collect();
        let before = fs::read(path.join("label-values.f32")).unwrap();
        fs::write(path.join("label-values.f32"), &values).unwrap();
        describe(&path, |json| {
            let sections = json["sections"].as_array_mut().unwrap();
            let labels = sections.iter_mut().find(|s| s["file"] == "label-values.f32").unwrap();
            labels["crc32"] = crc32(&values).into();
        });
        let said = store::open(&path).unwrap_err().to_string();
        assert!(said.contains(expected), "{said} does not contain {expected}");
        fs::write(path.join("label-values.f32"), before).unwrap();
        fs::write(path.join("store.json"), &text).unwrap();
    }
    assert_eq!(store::open(&path).unwrap(), set);
}

#[test]
fn features_of_edges_are_version_3() {
    let folder = tempfile::tempdir().unwrap();
    let sets = [weighted(tiny(false, false, false)), weighted(flagged(&[1.0, 0.0, f32::NAN]))];
    for (case, set) in sets.into_iter().enumerate() {
        let path = folder.path().join(format!("{case}"));
        store::write(&path, &set).unwrap();
        let text = fs::read_to_string(path.join("store.json")).unwrap();
        assert!(text.contains("\"version\": 3") && text.contains("\"edge_features\""), "{text}");
        assert_eq!(text.contains("\"classes\""), case == 0, "{text}");
        // 4 directed edges of 2 columns.
        assert_eq!(fs::metadata(path.join("edge-features.f32")).unwrap().len(), 32);
        type Change = fn(&mut serde_json::Value);
        let changes: [(Change, &str); 7] = [
            (|json| json["edge_features"]["columns"] = 1.into(), "edge-features.f32 of Some(4)"),
            (|json| json["edge_features"]["columns"] = 0.into(), "1 to 1048576 columns of edge features"),
            (|json| json["edge_features"]["columns"] = (1 << 21).into(), "edge features, found 2097152"),
            (|json| json["edge_features"] = 2.into(), "\"edge_features\" with an object, found 2"),
            (|json| json["edges"] = 3.into(), "edge-features.f32 of Some(6)"),
            (|json| json["version"] = 1.into(), "found "),
            (|json| json["version"] = 2.into(), "found "),
        ];
        for (change, expected) in changes {
            describe(&path, change);
            let said = store::open(&path).unwrap_err().to_string();
            assert!(said.contains(expected), "{said} does not contain {expected}");
            fs::write(path.join("store.json"), &text).unwrap();
        }
        let file = path.join("edge-features.f32");
        let before = fs::read(&file).unwrap();
        let mut infinite = before.clone();
        infinite[12..16].copy_from_slice(&f32::INFINITY.to_le_bytes());
        let cases = [
            (infinite, 8, "edge features, row 1: feature column 1 is inf"),
            (before[..24].to_vec(), 6, "Some(8)"),
        ];
        for (bytes, values, expected) in cases {
            describe(&path, |json| {
                let sections = json["sections"].as_array_mut().unwrap();
                let section = sections.iter_mut().find(|s| s["file"] == "edge-features.f32").unwrap();
                (section["crc32"], section["values"]) = (crc32(&bytes).into(), values.into());
            });
            let said = with_file(&path, &file, &bytes).unwrap_err().to_string();
            assert!(said.contains(expected), "{said} does not contain {expected}");
            fs::write(path.join("store.json"), &text).unwrap();
        }
        assert_eq!(store::open(&path).unwrap(), set);
        // Rows of another graph are noticed when the store is written.
        let mut writer = store::Writer::create(&folder.path().join("other")).unwrap();
        writer.graph(&set.graph).unwrap();
        writer.edge_features(&EdgeFeatures::new(2, vec![0.0; 6]).unwrap()).unwrap();
        writer.labels(&set.labels).unwrap();
        writer.split(&set.split).unwrap();
        let said = writer.finish("other").unwrap_err().to_string();
        assert!(said.contains("edge-features.f32: 6 values, but the graph has 8"), "{said}");
    }
}

/// A store whose checksums are right and whose numbers are not: what was meant to break memory.
#[test]
fn forged_numbers_are_refused_by_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    store::write(&path, &tiny(false, true, false)).unwrap();
    let text = fs::read_to_string(path.join("store.json")).unwrap();
    type Change = fn(&mut [u8]);
    let cases: [(&str, Change, &str); 8] = [
        ("neighbours.u32", |b| b[0] = 3, "vertex 3"),
        ("neighbours.u32", |b| b[3] = 0x80, "names vertex"),
        ("offsets.u64", |b| b[8] = 2, "offsets that ascend"),
        ("offsets.u64", |b| b[31] = 0x80, "offsets that ascend"),
        ("out-neighbours.u32", |b| b[0] = 9, "vertex 9"),
        ("features.f32", |b| b[2..4].copy_from_slice(&[0xc0, 0x7f]), "row 0: feature column 0 is NaN"),
        ("features.f32", |b| b[8] = 1, "zeros after the last column"),
        ("labels.u32", |b| b[0] = 2, "label 2"),
    ];
    for (name, change, expected) in cases {
        let file = path.join(name);
        let bytes = fs::read(&file).unwrap();
        let mut changed = bytes.clone();
        change(&mut changed);
        assert_ne!(bytes, changed, "{name}");
        let crc = |bytes: &[u8]| crc32(bytes).to_string();
        let forged = text.replace(&crc(&bytes), &crc(&changed));
        let mut json: serde_json::Value = serde_json::from_str(&forged).unwrap();
        json.as_object_mut().unwrap().remove("crc32");
        let whole = crc32(json.to_string().as_bytes());
        json["crc32"] = whole.into();
        fs::write(path.join("store.json"), json.to_string()).unwrap();
        let text = with_file(&path, &file, &changed).unwrap_err().to_string();
        assert!(text.contains(expected), "{name}: {text} does not contain {expected}");
    }
}

/// The checksum's definition (ISO 3309), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

#[test]
fn a_writer_wants_all_parts_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let set = tiny(false, false, false);
    let writer = || store::Writer::create(&path).unwrap();
    assert!(writer().finish("x").is_err());
    let mut some = writer();
    some.graph(&set.graph).unwrap();
    assert_eq!(some.edges(), Some(4));
    assert!(some.rows(0).is_err());
    some.split(&set.split).unwrap();
    let text = some.finish("x").unwrap_err().to_string();
    assert!(text.contains("labels.u32: 0 values, but the graph has 3"), "{text}");
    let mut short = writer();
    short.graph(&set.graph).unwrap();
    let mut rows = short.rows(2).unwrap();
    rows.write(&[1.0; 4]).unwrap();
    assert!(rows.write(&[1.0; 3]).is_err());
    rows.finish().unwrap();
    short.labels(&set.labels).unwrap();
    short.split(&set.split).unwrap();
    let text = short.finish("x").unwrap_err().to_string();
    assert!(text.contains("features.f32: 16 values, but the graph has 24"), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    store::write(&path, &set).unwrap();
    assert!(matches!(store::write(&path, &set), Err(Error::Exists { .. })));
    assert_eq!(store::open(&path).unwrap(), set);
    // Without features each vertex has one of its own, as in other formats.
    let path = folder.path().join("bare");
    let mut bare = store::Writer::create(&path).unwrap();
    bare.graph(&set.graph).unwrap();
    bare.labels(&set.labels).unwrap();
    bare.split(&set.split).unwrap();
    bare.finish("bare").unwrap();
    assert_eq!(store::open(&path).unwrap().features, Features::identity(3));
}

#[test]
fn corrections_of_features_are_version_5() {
    let folder = tempfile::tempdir().unwrap();
    let many = |set: Dataset| {
        let labels = Labels::classes(vec![0, NO_LABEL, NO_LABEL], 2);
        let split = Split { train: vec![0], ..Split::default() };
        Dataset { labels, split, graphs: Some(Graphs::new(&[7, 7, 7]).unwrap()), ..set }
    };
    let sets = [tiny(true, false, false), weighted(tiny(false, false, false)), many(tiny(true, false, true))];
    for (case, set) in sets.into_iter().enumerate() {
        let all = vec![
            Correction { row: 2, column: 0, residual: -1.5 },
            Correction { row: 0, column: 1, residual: 29.0 },
        ];
        let features = set.features.clone().with_corrections(Corrections::new(all));
        let set = Dataset { features, ..set };
        let path = folder.path().join(format!("{case}"));
        store::write(&path, &set).unwrap();
        let read = store::open(&path).unwrap();
        assert_eq!(read, set);
        assert_eq!(read.features.corrections().of_row(2)[0].residual, -1.5);
        let text = fs::read_to_string(path.join("store.json")).unwrap();
        assert!(text.contains("\"version\": 5") && text.contains("\"corrections\": 2"), "{text}");
        type Change = fn(&mut serde_json::Value);
        let changes: [(Change, &str); 3] = [
            (|json| json["features"]["corrections"] = 3.into(), "feature-correction-rows.u32 of Some(3)"),
            (|json| json["features"]["corrections"] = "x".into(), "\"corrections\" with a whole number"),
            (|json| json["version"] = 4.into(), "found "),
        ];
        for (change, expected) in changes {
            describe(&path, change);
            let found = store::open(&path).unwrap_err().to_string();
            assert!(found.contains(expected), "{found} does not contain {expected}");
            fs::write(path.join("store.json"), &text).unwrap();
        }
        for (name, bytes) in [
            ("feature-correction-rows.u32", [[0u8, 0, 0, 0], [3, 0, 0, 0]].concat()),
            ("feature-correction-columns.u32", [[0u8, 0, 0, 0], [9, 0, 0, 0]].concat()),
            ("feature-corrections.f64", [1f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat()),
        ] {
            describe(&path, |json| {
                let sections = json["sections"].as_array_mut().unwrap();
                sections.iter_mut().find(|s| s["file"] == name).unwrap()["crc32"] = crc32(&bytes).into();
            });
            let found = with_file(&path, &path.join(name), &bytes).unwrap_err().to_string();
            assert!(found.contains("finite corrections of 3 rows"), "{name}: {found}");
            fs::write(path.join("store.json"), &text).unwrap();
        }
    }
}

#[test]
fn many_graphs_are_version_4() {
    let folder = tempfile::tempdir().unwrap();
    for (case, set) in [tiny(true, false, false), weighted(tiny(false, false, false))].into_iter().enumerate()
    {
        let labels = Labels::classes(vec![0, NO_LABEL, NO_LABEL], 2);
        let split = Split { train: vec![0], ..Split::default() };
        let set = Dataset { labels, split, graphs: Some(Graphs::new(&[7, 7, 7]).unwrap()), ..set };
        let path = folder.path().join(format!("{case}"));
        store::write(&path, &set).unwrap();
        assert_eq!(store::open(&path).unwrap(), set);
        let text = fs::read_to_string(path.join("store.json")).unwrap();
        assert!(text.contains("\"version\": 4") && text.contains("graph-ids.u64"), "{text}");
        assert_eq!(text.contains("\"edge_features\""), case == 1, "{text}");
        type Change = fn(&mut serde_json::Value);
        let changes: [(Change, &str); 5] = [
            (|json| json["graphs"]["ids"] = "words".into(), "graph-id-ends.u64"),
            (|json| json["graphs"]["ids"] = "x".into(), "ids that are dense, numbers or words, found x"),
            (|json| json["graphs"] = 2.into(), "\"graphs\" with an object, found 2"),
            (|json| json["version"] = 3.into(), "found "),
            (|json| json["version"] = 1.into(), "found "),
        ];
        for (change, expected) in changes {
            describe(&path, change);
            let said = store::open(&path).unwrap_err().to_string();
            assert!(said.contains(expected), "{said} does not contain {expected}");
            fs::write(path.join("store.json"), &text).unwrap();
        }
        let cases = [
            ([0u32, 3, 0], "graphs.u32, row 1: expected a vertex that represents its own graph, found 3"),
            ([1, 0, 0], "graphs.u32, row 0: expected a vertex that represents"),
            ([0, 1, 1], "graphs.u32: 2 graphs, but the ids of graphs has 1"),
            ([1, 1, 1], "labels, row 0: expected no label"),
        ];
        let file = path.join("graphs.u32");
        for (standing, expected) in cases {
            let bytes: Vec<u8> = standing.iter().flat_map(|v| v.to_le_bytes()).collect();
            describe(&path, |json| {
                let sections = json["sections"].as_array_mut().unwrap();
                let section = sections.iter_mut().find(|s| s["file"] == "graphs.u32").unwrap();
                section["crc32"] = crc32(&bytes).into();
            });
            let said = with_file(&path, &file, &bytes).unwrap_err().to_string();
            assert!(said.contains(expected), "{said} does not contain {expected}");
            fs::write(path.join("store.json"), &text).unwrap();
        }
    }
}
