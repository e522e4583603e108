//! Cora, the carried data set: its statistics, and the orders of its vertices.

use eciton_formats::{builtin, open};
use eciton_graph::adjacency::Graph;
use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Labels, NO_LABEL, Split, Values, VertexIds};
use eciton_graph::graphs::Graphs;
use eciton_graph::order::{Order, Permutation, permute_dataset, rows_back};
use eciton_graph::stat::{FlagStatistics, GraphStatistics, NumberStatistics, Statistics};
use eciton_graph::store;

const NAN: f32 = f32::NAN;

#[test]
fn graphs_are_measured() {
    let mut data = builtin("cora").unwrap();
    assert_eq!(Statistics::from_dataset(&data).graphs, None);
    let edges = [(0, 1), (1, 2), (4, 3), (5, 6)];
    data.graph = Graph::from_edges(8, edges.into_iter(), Default::default()).unwrap();
    data.graphs = Some(Graphs::new(&[0, 0, 0, 1, 1, 2, 2, 3]).unwrap());
    let mut of = vec![NO_LABEL; 8];
    (of[0], of[5]) = (1, 0);
    data.labels = Labels::classes(of, 2);
    let found = Statistics::from_dataset(&data);
    let (count, edges_median) = (4, 2);
    let expected =
        GraphStatistics { count, vertices_min: 1, vertices_median: 2, vertices_max: 3, edges_median };
    assert_eq!((found.graphs, found.unlabelled, found.homophily), (Some(expected), 2, None));
}

#[test]
fn columns_are_counted() {
    let mut data = builtin("cora").unwrap();
    let classes = Statistics::from_dataset(&data);
    assert_eq!((classes.class_counts.len(), classes.unlabelled), (7, 0));
    assert!(classes.flags.is_empty() && classes.numbers.is_empty() && classes.homophily.is_some());
    assert!(classes.edge_features.is_empty());
    let rows = (0..data.graph.edges()).flat_map(|edge| [edge as f32, [1.0, -3.0][edge as usize % 2]]);
    data.edge_features = Some(EdgeFeatures::new(2, rows.collect::<Vec<_>>()).unwrap());
    let row = |v: u32| [if v < 3 { 1.0 } else { 0.0 }, NAN, [4.0, -2.0, NAN][v as usize % 3]];
    let rows = (0..data.vertices()).flat_map(|v| if v < 6 { row(v) } else { [NAN; 3] });
    let values = Values::new(3, rows.collect()).unwrap();
    data.labels = Labels::Numbers(values.clone());
    let numbers = Statistics::from_dataset(&data);
    assert_eq!((numbers.unlabelled, numbers.homophily), (2702, None));
    let (first, second) = (numbers.edge_features[0], numbers.edge_features[1]);
    assert_eq!((first.known, first.least, first.largest), (10556, 0.0, 10555.0));
    assert!((first.mean - 5277.5).abs() < 1e-6);
    assert_eq!((second.known, second.least, second.largest), (10556, -3.0, 1.0));
    assert!((second.mean + 1.0).abs() < 1e-9 && (second.deviation - 2.0).abs() < 1e-9);
    assert!(numbers.class_counts.is_empty() && numbers.flags.is_empty());
    let column = NumberStatistics { known: 6, mean: 0.5, deviation: 0.5, least: 0.0, largest: 1.0 };
    let near = |found: NumberStatistics, expected: NumberStatistics| {
        (found.mean - expected.mean).abs() < 1e-12
            && (found.deviation - expected.deviation).abs() < 1e-12
            && (found.known, found.least, found.largest) == (expected.known, expected.least, expected.largest)
    };
    assert!(near(numbers.numbers[0], column), "{:?}", numbers.numbers);
    assert_eq!(numbers.numbers[1], NumberStatistics::default());
    let column = NumberStatistics { known: 4, mean: 1.0, deviation: 3.0, least: -2.0, largest: 4.0 };
    assert!(near(numbers.numbers[2], column), "{:?}", numbers.numbers);
    let flags = values.as_slice().iter().map(|v| v.clamp(0.0, 1.0)).collect();
    data.labels = Labels::Flags(Values::new(3, flags).unwrap());
    let flags = Statistics::from_dataset(&data);
    let expected = [(6, 3), (0, 0), (4, 2)].map(|(known, holds)| FlagStatistics { known, holds });
    assert_eq!(flags.flags, expected);
    assert!(flags.numbers.is_empty());
}

#[test]
fn a_data_set_comes_back() {
    let sparse = builtin("cora").unwrap();
    let n = sparse.vertices();
    let mut dense = sparse.clone();
    let values: Vec<f32> = (0..n * 3).map(|v| v as f32).collect();
    dense.features = Features::dense(3, &values).unwrap();
    dense.ids = VertexIds::Words((0..n).map(|v| format!("paper {v}")).collect());
    let mut classes = dense.labels.as_classes().unwrap().to_vec();
    classes[7] = NO_LABEL;
    dense.labels = Labels::classes(classes, 7);
    dense.split = Split { train: vec![0, 5, 9], validation: vec![1], test: vec![2, 2707] };
    let mut numbered = dense.clone();
    numbered.ids = VertexIds::Numbers((0..u64::from(n)).map(|v| v * v).collect());
    let mut flagged = numbered.clone();
    let flags = (0..2 * n).map(|at| if at % 3 == 0 { f32::NAN } else { (at % 5 % 2) as f32 });
    flagged.set_labels(Labels::Flags(Values::new(2, flags.collect()).unwrap()));
    let mut weighted = flagged.clone();
    let weights: Vec<f32> = (0..weighted.graph.edges() * 3).map(|at| at as f32).collect();
    weighted.edge_features = Some(EdgeFeatures::new(3, weights).unwrap());
    for dataset in [sparse, dense, numbered, flagged, weighted] {
        dataset.validate().unwrap();
        for order in Order::ALL {
            let permutation = Permutation::compute(&dataset.graph, order);
            let there = permute_dataset(dataset.clone(), permutation.clone()).unwrap();
            there.dataset.validate().unwrap();
            assert_eq!(there.permutation, permutation);
            for v in 0..n {
                let new = permutation.new_of_old()[v as usize];
                assert_eq!(there.dataset.ids.name(new), dataset.ids.name(v));
            }
            // Results by the user's order.
            let rows = |labels: &Labels| match labels {
                Labels::Classes { of, .. } => (1, of.clone()),
                Labels::Flags(values) | Labels::Numbers(values) => {
                    (2, values.as_slice().iter().map(|v| v.to_bits()).collect())
                }
            };
            let (width, there_rows) = rows(&there.dataset.labels);
            assert_eq!(rows_back(&permutation, &there_rows, width).unwrap(), rows(&dataset.labels).1);
            let pairs: Vec<u32> = permutation.old_of_new().iter().flat_map(|&v| [v, v + 1]).collect();
            let pairs = rows_back(&permutation, &pairs, 2).unwrap();
            assert!(pairs.chunks_exact(2).enumerate().all(|(v, p)| p == [v as u32, v as u32 + 1]));
            let back = permute_dataset(there.dataset, permutation.inverse()).unwrap().dataset;
            let ids = back.ids.clone();
            assert_eq!(Dataset { ids: dataset.ids.clone(), ..back }, dataset, "{order}");
            assert!((0..n).all(|v| ids.name(v) == dataset.ids.name(v)));
        }
    }
}

#[test]
fn a_data_set_that_does_not_fit_is_refused() {
    let cora = builtin("cora").unwrap();
    let order = Permutation::compute(&cora.graph, Order::Degree);
    type Change = fn(&mut Dataset);
    let faults: [(Change, &str); 6] = [
        (|d| d.labels = Labels::none(9), "labels: 9 labels, but the vertex order has 2708"),
        (|d| d.features = Features::identity(4), "features: 4 feature rows, but the vertex order has 2708"),
        (
            |d| d.edge_features = Some(EdgeFeatures::new(1, vec![1.0]).unwrap()),
            "edge features: 1 edges, but the graph has 10556",
        ),
        (|d| d.ids = VertexIds::Numbers(vec![1]), "ids: 1 ids, but the vertex order has 2708"),
        (|d| d.ids = VertexIds::Words(vec![]), "ids: 0 ids"),
        (|d| d.split.test.push(2708), "test split: 2709 vertices or more, but the vertex order has 2708"),
    ];
    for (change, expected) in faults {
        let mut data = cora.clone();
        change(&mut data);
        let text = permute_dataset(data, order.clone()).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    let small = Permutation::identity(3).unwrap();
    assert!(permute_dataset(cora, small).is_err());
}

/// A store is one of the layouts.
#[test]
fn a_store_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cora) = (folder.path().join("cora"), builtin("cora").unwrap());
    store::write(&path, &cora).unwrap();
    assert_eq!(open(&path, None).unwrap(), cora);
}
