//! Generated graphs as arrays on disk: what was written is read back.

use eciton_formats::open;
use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::edges::EdgeSource as _;
use eciton_graph::error::Error;
use eciton_graph::generate::{Arrays, BlockModel, Division, Generated, Rmat, Shape, Target, write_arrays};

/// All pairs, chunk after chunk.
fn pairs(made: &Generated) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for chunk in 0..made.chunks() {
        made.read(chunk, &mut pairs).unwrap();
    }
    pairs
}

fn graph(made: &Generated) -> Graph {
    Graph::from_edges(made.vertices(), pairs(made).into_iter(), Options::default()).unwrap()
}

fn block(shape: Shape) -> Generated {
    BlockModel { shape, ..BlockModel::default() }.generate().unwrap()
}

fn rmat(shape: Shape) -> Generated {
    Rmat { shape, ..Rmat::default() }.generate().unwrap()
}

type Model = (&'static str, fn(Shape) -> Generated);
const MODELS: [Model; 2] = [("block model", block), ("R-MAT", rmat)];

#[test]
fn arrays_of_flags_and_numbers_are_read_back() {
    for target in [Target::Flags { columns: 3 }, Target::Numbers { columns: 1, noise: 0.1 }] {
        let made = rmat(Shape { vertices: 70, pairs: 300, features: 2, target, ..Shape::default() });
        let (graph, labels) = (graph(&made), made.planted().labels());
        let split = made.planted().split(&labels, Division::Fractions([0.5, 0.2]));
        let arrays = Arrays { name: "a", made: &made, graph: &graph, labels: &labels, split: &split };
        let folder = tempfile::tempdir().unwrap();
        write_arrays(folder.path(), &arrays, 1, &mut |_| Ok(())).unwrap();
        let read = open(folder.path(), None).unwrap();
        assert_eq!((read.labels, read.split), (labels.clone(), split));
        let meta = std::fs::read(folder.path().join("meta.json")).unwrap();
        let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap();
        assert_eq!(meta["c"], labels.width());
    }
}

#[test]
fn arrays_are_read_back_as_they_were_made() {
    for (name, model) in MODELS {
        // Rows of 5,000 columns come in several pieces.
        let made = model(Shape { vertices: 701, pairs: 3000, features: 5000, ..Shape::default() });
        let (graph, planted) = (graph(&made), made.planted());
        let labels = planted.labels();
        let split = planted.split(&labels, Division::Fractions([0.5, 0.2]));
        let arrays = Arrays { name, made: &made, graph: &graph, labels: &labels, split: &split };
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = 0;
        write_arrays(folder.path(), &arrays, 3, &mut |more| {
            bytes += more;
            Ok(())
        })
        .unwrap();
        assert_eq!(bytes, 702 * 8 + graph.edges() * 4 + 701 * 8 * 2 + 701 * 5000 * 4);
        let read = open(folder.path(), None).unwrap();
        assert_eq!((read.graph, read.labels, read.split), (graph.clone(), labels.clone(), split.clone()));
        let (mut expected, mut found) = (vec![0.0; 5000], vec![0.0; 5000]);
        for row in [0, 350, 700] {
            planted.features(row..row + 1, &mut expected);
            read.features.copy_row(row as usize, &mut found);
            assert_eq!(found, expected);
        }
        let meta = std::fs::read(folder.path().join("meta.json")).unwrap();
        let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap();
        assert_eq!(
            (&meta["v"], &meta["args"]["seed"], &meta["name"]),
            (&701.into(), &0.into(), &name.into())
        );
        assert_eq!(meta["e"], graph.edges());
        // The header fills units of 64 bytes, as NumPy's do.
        let header = std::fs::metadata(folder.path().join("label.npy")).unwrap().len() - 701 * 8;
        assert_eq!(header % 64, 0);

        let again = write_arrays(folder.path(), &arrays, 1, &mut |_| Ok(())).unwrap_err();
        assert!(matches!(again, Error::Write { .. }), "nothing is overwritten: {again}");
        let other = tempfile::tempdir().unwrap();
        let stopped = write_arrays(other.path(), &arrays, 1, &mut |_| Err(Error::Stopped)).unwrap_err();
        assert!(matches!(stopped, Error::Stopped));
    }
}
