//! Generated graphs: their law of degrees, what is planted on them, and that nothing depends on how
//! they are read.
use eciton_graph::adjacency::{Graph, MAX_VERTICES, Options};
use eciton_graph::edges::{EdgeSource as _, MAX_CHUNK_EDGES};
use eciton_graph::error::Error;
use eciton_graph::generate::{BLOCK_PAIRS, BlockModel, Division, Generated, MAX_PAIRS, Rmat, Shape, Target};
use eciton_graph::labels::Labels;
use eciton_graph::metrics::root_mean_squared_error;

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

/// The exponent of the density of degrees of at least `least`, by maximum likelihood (Clauset, Shalizi
/// and Newman 2009, equation 3.7).
fn exponent(graph: &Graph, least: u32) -> f64 {
    let logarithms: Vec<f64> = (0..graph.vertices())
        .map(|v| graph.in_degree(v))
        .filter(|&d| d >= least)
        .map(|d| (f64::from(d) / (f64::from(least) - 0.5)).ln())
        .collect();
    println!("{} vertices of degree {least} and more", logarithms.len());
    1.0 + logarithms.len() as f64 / logarithms.iter().sum::<f64>()
}

#[test]
fn block_model_degrees_follow_their_exponent() {
    for wanted in [2.2, 3.0] {
        let shape = Shape { vertices: 50_000, pairs: 1_000_000, p_in: 0.5, ..Shape::default() };
        // A cap that cuts nothing off within the range.
        let made = BlockModel { shape, exponent: wanted, cap: 1e4 }.generate().unwrap();
        let found = exponent(&graph(&made), 60);
        println!("{wanted}: {found}");
        assert!((found - wanted).abs() < 0.15, "{found} for {wanted}");
    }
}

#[test]
fn block_model_caps_degrees_and_treats_classes_alike() {
    let shape = Shape { vertices: 20_000, pairs: 500_000, ..Shape::default() };
    let made = BlockModel { shape, cap: 20.0, ..BlockModel::default() }.generate().unwrap();
    let graph = graph(&made);
    let mut degrees: Vec<u32> = (0..20_000).map(|v| graph.in_degree(v)).collect();
    let mut by_class = [0u64; 8];
    for (vertex, &degree) in (0u32..).zip(&degrees) {
        by_class[made.planted().class(vertex) as usize] += u64::from(degree);
    }
    for sum in by_class {
        assert!((sum as f64 * 8.0 / graph.edges() as f64 - 1.0).abs() < 0.01, "{by_class:?}");
    }
    degrees.sort_unstable();
    // 20 times the lowest weight, six deviations of its degree aside.
    let (low, high) = (f64::from(degrees[2000]), f64::from(degrees[19_999]));
    assert!(high < low * 20.0 * 1.5 && high > low * 10.0, "{low} to {high}");
}

#[test]
fn rmat_degrees_are_skewed_and_unplanted_ones_are_its_law() {
    let shape = Shape { vertices: 1 << 15, pairs: 500_000, scramble: false, p_in: 0.0, ..Shape::default() };
    // Rank 0 is where each of 15 levels chooses the upper or left half, of chance 0.76.
    let plain = pairs(&rmat(shape));
    let expected = 500_000.0 * 0.76f64.powi(15);
    for end in [|&&(s, _): &&(u32, u32)| s == 0, |&&(_, t): &&(u32, u32)| t == 0] {
        let found = plain.iter().filter(end).count() as f64;
        assert!((found - expected).abs() < 6.0 * expected.sqrt(), "{found} for {expected}");
    }
    // Skew: the top hundredth of all vertices has over a third of all edges, with classes as well.
    for p_in in [0.0, 0.6] {
        let graph = graph(&rmat(Shape { p_in, ..shape }));
        let mut degrees: Vec<u32> = (0..graph.vertices()).map(|v| graph.in_degree(v)).collect();
        degrees.sort_unstable();
        let top: u64 = degrees[degrees.len() * 99 / 100..].iter().map(|&d| u64::from(d)).sum();
        let share = top as f64 / graph.edges() as f64;
        println!("p_in {p_in}: the top hundredth has {share}");
        assert!(share > 0.25, "{share}");
    }
}

#[test]
fn ends_of_one_class_are_as_many_as_asked() {
    for (name, model) in MODELS {
        for (classes, p_in) in [(8, 0.6), (7, 0.6), (41, 0.25), (2, 1.0), (1, 0.0)] {
            let shape = Shape { vertices: 30_011, pairs: 200_000, classes, p_in, ..Shape::default() };
            let made = model(shape);
            let planted = made.planted();
            let pairs = pairs(&made);
            let same = pairs.iter().filter(|&&(s, t)| planted.class(s) == planted.class(t)).count();
            let share = same as f64 / pairs.len() as f64;
            let expected = p_in + (1.0 - p_in) / f64::from(classes);
            println!("{name}, {classes} classes: {share} for {expected}");
            // R-MAT's few hubs make up for unequal classes by chance.
            assert!((share - expected).abs() < 0.02, "{name}: {share} for {expected}");
        }
    }
}

#[test]
fn any_thread_any_order_any_chunk_the_same_pairs() {
    for (name, model) in MODELS {
        // The last block is not full.
        let shape = Shape { vertices: 5003, pairs: 10 * BLOCK_PAIRS + 17, seed: 5, ..Shape::default() };
        let whole = pairs(&model(shape));
        assert_eq!(whole.len() as u64, shape.pairs);
        for chunk_pairs in [0, 1, BLOCK_PAIRS, 3 * BLOCK_PAIRS, u64::MAX] {
            let made = model(shape).with_chunk_pairs(chunk_pairs);
            let mut parts: Vec<Vec<(u32, u32)>> = vec![Vec::new(); made.chunks() as usize];
            std::thread::scope(|scope| {
                for (chunk, part) in parts.iter_mut().enumerate().rev() {
                    let made = &made;
                    scope.spawn(move || made.read(chunk as u64, part).unwrap());
                }
            });
            assert!(parts.iter().all(|part| part.len() <= MAX_CHUNK_EDGES));
            assert_eq!(parts.concat(), whole, "{name}, chunks of {chunk_pairs}");
        }
        let mut beyond = Vec::new();
        model(shape).read(u64::MAX, &mut beyond).unwrap();
        assert!(beyond.is_empty());
        assert_ne!(pairs(&model(Shape { seed: 6, ..shape })), whole);
        // More pairs go on where fewer end.
        let longer = pairs(&model(Shape { pairs: shape.pairs * 2, ..shape }));
        assert_eq!(longer[..whole.len()], whole);
    }
}

#[test]
fn the_number_of_edges_is_foreseen() {
    for (name, model) in MODELS {
        for (vertices, pairs, classes, p_in) in [
            (1 << 12, 200_000, 8, 0.6),
            (1 << 14, 100_000, 4, 0.3),
            (3000, 300_000, 5, 0.6),
            (10_000, 300_000, 41, 0.8),
            (100, 20_000, 2, 0.5),
            (2, 3, 1, 0.0),
        ] {
            let made = model(Shape { vertices, pairs, classes, p_in, ..Shape::default() });
            let (expected, found) = (made.expected_edges(), graph(&made).edges() as f64);
            println!("{name} {vertices} {pairs} {classes} {p_in}: {found} for {expected}");
            // Three deviations of the estimate.
            let bound = 3.0 * 0.002 * 2.0 * pairs as f64 + 6.0;
            assert!((found - expected).abs() <= bound, "{name}: {found} for {expected}");
        }
    }
}

#[test]
fn an_aim_is_met_or_refused() {
    for (name, model) in MODELS {
        let shape = Shape { vertices: 1 << 12, ..Shape::default() };
        for wanted in [0, 2, 1000, 200_000, 1_000_000] {
            let found = graph(&model(shape).aim(wanted).unwrap()).edges();
            println!("{name}: {found} for {wanted}");
            assert!(found.abs_diff(wanted) <= 4 + wanted / 100, "{name}: {found} for {wanted}");
        }
        for wanted in [4096 * 4096, u64::MAX] {
            let text = model(shape).aim(wanted).unwrap_err().to_string();
            assert!(text.contains("edges is") && text.contains("up to about"), "{text}");
        }
    }
}

/// Accuracy of the nearest mean on own features, and on the mean over neighbours and the vertex,
/// over vertices with neighbours.
fn accuracies(made: &Generated) -> (f64, f64) {
    let planted = made.planted();
    let graph = graph(made);
    let width = planted.columns() as usize;
    let mut features = vec![0.0; width * made.vertices() as usize];
    planted.features(0..made.vertices(), &mut features);
    let row = |v: u32| &features[v as usize * width..(v as usize + 1) * width];
    let (mut own, mut together, mut seen) = (0, 0, 0);
    for vertex in (0..graph.vertices()).filter(|&v| graph.in_degree(v) > 0) {
        let mut mean = row(vertex).to_vec();
        for &neighbour in graph.in_neighbours(vertex) {
            mean.iter_mut().zip(row(neighbour)).for_each(|(sum, value)| *sum += value);
        }
        // A class's mean shows in `p_in` of the neighbours.
        let scale = 1.0 / (1.0 + graph.in_degree(vertex) as f32 * made.shape().p_in as f32);
        mean.iter_mut().for_each(|value| *value *= scale);
        let label = planted.label(vertex);
        own += u32::from(planted.nearest_mean(row(vertex)) == label);
        together += u32::from(planted.nearest_mean(&mean) == label);
        seen += 1;
    }
    (f64::from(own) / f64::from(seen), f64::from(together) / f64::from(seen))
}

#[test]
fn a_neighbourhood_tells_what_a_vertex_does_not() {
    for (name, model) in MODELS {
        let shape = Shape { vertices: 1 << 13, pairs: 200_000, classes: 8, ..Shape::default() };
        let made = model(Shape { features: 128, flip: 0.1, ..shape });
        let (own, together) = accuracies(&made);
        let ceiling = made.planted().ceiling();
        println!(
            "{name}: own {own}, told {}, together {together}, at most {ceiling}",
            made.planted().own_accuracy()
        );
        assert!((made.planted().own_accuracy() - own).abs() < 0.02);
        assert!((ceiling - 0.9125).abs() < 1e-9);
        assert!(own > 0.25 && own < 0.5, "{own}");
        assert!(together > own + 0.2 && together < ceiling + 0.01, "{together}");
    }
}

#[test]
fn features_are_functions_of_the_row() {
    let made = block(Shape { vertices: 100, features: 7, feature_scale: 2.0, ..Shape::default() });
    let planted = made.planted();
    let mut all = vec![0.0; 700];
    planted.features(0..100, &mut all);
    let mut one = [0.0; 7];
    for row in [99u64, 0, 41] {
        planted.features(row..row + 1, &mut one);
        assert_eq!(one, all[row as usize * 7..][..7]);
    }
    // Class means show: noise averages out over the 12 or 13 vertices of a class.
    for class in 0..8 {
        let members: Vec<u32> = (0..100).filter(|&v| planted.class(v) == class).collect();
        for (column, &mean) in planted.mean(class).iter().enumerate() {
            let sum: f32 = members.iter().map(|&v| all[v as usize * 7 + column]).sum();
            assert!((sum / members.len() as f32 - mean).abs() < 6.0 / 12f32.sqrt());
        }
    }
    planted.features(98..200, &mut all[..21]);
    planted.features(0..0, &mut []);
}

#[test]
fn labels_are_wrong_as_often_as_asked_and_splits_are_seeded() {
    let made = rmat(Shape { vertices: 20_000, flip: 0.3, classes: 5, ..Shape::default() });
    let planted = made.planted();
    let labels = planted.labels();
    let of = labels.as_classes().unwrap();
    let wrong = (0..20_000).filter(|&v| of[v as usize] != planted.class(v)).count();
    assert!((wrong as f64 / 20_000.0 - 0.3 * 0.8).abs() < 0.02, "{wrong}");
    let split = planted.split(&labels, Division::Fractions([0.66, 0.1]));
    split.validate(&labels, "split").unwrap();
    assert_eq!((split.train.len(), split.validation.len(), split.test.len()), (13_200, 2000, 4800));
    assert_eq!(split, planted.split(&labels, Division::Fractions([0.66, 0.1])));
    let other = rmat(Shape { seed: 1, ..*made.shape() });
    assert_ne!(split, other.planted().split(&labels, Division::Fractions([0.66, 0.1])));
    let split = planted.split(&labels, Division::PerClass([20, 30]));
    assert_eq!((split.train.len(), split.validation.len()), (100, 150));
}

#[test]
fn flags_and_numbers_come_from_the_class() {
    let shape = Shape { vertices: 20_000, flip: 0.1, classes: 9, ..Shape::default() };
    let made = rmat(Shape { target: Target::Flags { columns: 6 }, ..shape });
    let planted = made.planted();
    let labels = planted.labels();
    let Labels::Flags(flags) = &labels else { panic!("{labels:?}") };
    assert_eq!((flags.rows(), flags.columns()), (20_000, 6));
    let mut turned = 0;
    for vertex in 0..20_000 {
        let target = planted.target(planted.class(vertex));
        turned += flags.row(vertex as usize).iter().zip(target).filter(|(a, b)| a != b).count();
    }
    let share = turned as f64 / 120_000.0;
    assert!((share - 0.1).abs() < 0.004, "{share}");
    assert_eq!(planted.ceiling(), 0.9);
    let all: Vec<&[f32]> = (0..9).map(|class| planted.target(class)).collect();
    for column in 0..6 {
        let holds = all.iter().filter(|row| row[column] == 1.0).count();
        assert!(holds == 4 || holds == 5, "{holds} of 9 classes");
        assert!((0..column).all(|other| all.iter().any(|row| row[column] != row[other])));
    }
    assert!(planted.target(9).is_empty());
    let split = planted.split(&labels, Division::PerClass([20, 30]));
    split.validate(&labels, "split").unwrap();
    for class in 0..9 {
        assert_eq!(split.train.iter().filter(|&&v| planted.class(v) == class).count(), 20);
    }
    assert_eq!(made.parameters()["target"]["flags"], 6);
    assert_eq!(labels, rmat(Shape { target: Target::Flags { columns: 6 }, ..shape }).planted().labels());

    let target = Target::Numbers { columns: 3, noise: 0.5 };
    let made = rmat(Shape { target, ..shape });
    let (planted, labels) = (made.planted(), made.planted().labels());
    assert!(matches!(labels, Labels::Numbers(_)));
    let known: Vec<f32> =
        (0..20_000).flat_map(|vertex| planted.target(planted.class(vertex)).to_vec()).collect();
    let ids: Vec<u32> = (0..20_000).collect();
    let error = root_mean_squared_error(&known, 3, &labels, &ids).unwrap();
    assert!((error - planted.ceiling()).abs() < 0.01, "{error}");
    assert_eq!(planted.ceiling(), 0.5);
    assert_ne!(planted.target(0), planted.target(1));
    let other = rmat(Shape { target, seed: 1, ..shape });
    assert_ne!(labels, other.planted().labels());
}

#[test]
fn one_vertex_more_classes_than_vertices_and_no_pairs() {
    for (_, model) in MODELS {
        for (vertices, classes) in [(1, 1), (1, 9), (2, 9), (9, 9), (10, 9), (17, 1)] {
            for p_in in [0.0, 0.5, 1.0] {
                for scramble in [true, false] {
                    let shape = Shape { vertices, classes, p_in, scramble, pairs: 500, ..Shape::default() };
                    let made = model(shape);
                    let pairs = pairs(&made);
                    assert_eq!(pairs.len(), 500);
                    assert!(pairs.iter().all(|&(s, t)| u64::from(s.max(t)) < vertices));
                    assert!(
                        made.planted().labels().as_classes().unwrap().iter().all(|&label| label < classes)
                    );
                    assert!(made.expected_edges() <= (vertices * (vertices - 1)) as f64 + 1e-9);
                    assert!((0.0..=1.0).contains(&made.planted().own_accuracy()));
                }
            }
        }
        let empty = model(Shape { pairs: 0, features: 0, ..Shape::default() });
        assert_eq!((empty.chunks(), pairs(&empty).len(), empty.expected_edges()), (0, 0, 0.0));
        empty.planted().features(0..10, &mut [1.0; 4]);
    }
}

#[test]
fn the_largest_graph_needs_no_memory() {
    for (_, model) in MODELS {
        let made = model(Shape { vertices: MAX_VERTICES, pairs: MAX_PAIRS, ..Shape::default() });
        let mut pairs = Vec::new();
        made.read(made.chunks() - 1, &mut pairs).unwrap();
        assert!(pairs.iter().all(|&(s, t)| u64::from(s.max(t)) < MAX_VERTICES));
        assert!(made.planted().class(u32::MAX - 2) < 8);
    }
}

#[test]
fn what_is_outside_its_limits_is_named() {
    let with = |change: fn(&mut Shape)| {
        let mut shape = Shape::default();
        change(&mut shape);
        Rmat { shape, ..Rmat::default() }.generate().unwrap_err()
    };
    assert!(matches!(with(|s| s.vertices = 0), Error::EmptyGraph { .. }));
    assert!(matches!(with(|s| s.vertices = MAX_VERTICES + 1), Error::Limit { .. }));
    for (change, text) in [
        (
            |s: &mut Shape| s.target = Target::Flags { columns: 0 },
            "label columns is 0, but must be 1 to 65536",
        ),
        (
            |s: &mut Shape| (s.classes, s.target) = (1 << 20, Target::Flags { columns: 65 }),
            "classes times label columns is 68157440",
        ),
        (
            |s: &mut Shape| (s.vertices, s.target) = (1 << 30, Target::Flags { columns: 5 }),
            "vertices times label columns is 5368709120",
        ),
        (|s: &mut Shape| s.target = Target::Numbers { columns: 1, noise: f32::NAN }, "label noise is NaN"),
        (|s: &mut Shape| s.classes = 0, "classes is 0, but must be 1 to 1048576"),
        (|s: &mut Shape| s.pairs = MAX_PAIRS + 1, "pairs is 1099511627777"),
        (|s: &mut Shape| s.p_in = 1.5, "p_in is 1.5, but must be 0 to 1"),
        (|s: &mut Shape| s.flip = f64::NAN, "flip is NaN"),
        (|s: &mut Shape| s.feature_scale = f32::INFINITY, "feature scale is inf"),
        (|s: &mut Shape| s.features = 65_537, "features is 65537"),
        (|s: &mut Shape| (s.classes, s.features) = (1 << 20, 65), "classes times features is 68157440"),
    ] as [(fn(&mut Shape), &str); 11]
    {
        let found = with(change).to_string();
        assert!(found.contains(text), "{found}");
    }
    let quadrants = |quadrants| Rmat { quadrants, ..Rmat::default() }.generate().unwrap_err().to_string();
    assert!(quadrants([0.5, 0.2, 0.2, 0.2]).contains("chances that add up to 1"));
    assert!(quadrants([-0.5, 0.5, 0.5, 0.5]).contains("a is -0.5"));
    let block = |exponent, cap| {
        BlockModel { exponent, cap, ..BlockModel::default() }.generate().unwrap_err().to_string()
    };
    assert!(block(1.0, 60.0).contains("exponent is 1,"));
    assert!(block(2.2, 0.5).contains("cap is 0.5"));
}

#[test]
fn lopsided_quadrants_end() {
    // Nearly all pairs fall beyond the last vertex and are drawn again, in vain in the end.
    let shape = Shape { vertices: 513, pairs: 5000, ..Shape::default() };
    let made = Rmat { shape, quadrants: [0.0, 0.0, 0.0, 1.0] }.generate().unwrap();
    assert!(pairs(&made).iter().all(|&(s, t)| s < 513 && t < 513));
}
