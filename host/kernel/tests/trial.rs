//! Tests of the built-in kernels on random rows, with the functions of `eciton kernel check` and
//! `eciton kernel bench`.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eciton_kernel::cache::Cache;
use eciton_kernel::trial::{Found, Judgement, Trial};
use eciton_kernel::{Kernel, Layer, Limits, Runtime, Settings};
use eciton_types::{Attribute, On, Value};

/// Returns the cache of compiled kernels that all tests share, because each test may be a process.
fn cache() -> Option<Cache> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-tests");
    Some(Cache::open(&folder.join("code"), &folder.join("key")).unwrap())
}

fn open(name: &str, inputs: &[Vec<u32>], attributes: &[(&str, Value)]) -> Arc<Layer> {
    open_in("guest-kernels", name, inputs, attributes)
}

fn open_in(folder: &str, name: &str, inputs: &[Vec<u32>], attributes: &[(&str, Value)]) -> Arc<Layer> {
    open_under(Limits::default(), folder, name, inputs, attributes)
}

fn open_under(
    limits: Limits,
    folder: &str,
    name: &str,
    inputs: &[Vec<u32>],
    attributes: &[(&str, Value)],
) -> Arc<Layer> {
    // Each kernel is compiled once per process, because compilation takes longer than a trial.
    static KNOWN: Mutex<BTreeMap<String, Arc<Kernel>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    let load = || {
        let path = format!("{}/../../{folder}/prebuilt/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
        let runtime = Runtime::new(Settings { limits: limits.clone(), cache: cache() }).unwrap();
        runtime.load(name, &std::fs::read(path).unwrap()).unwrap()
    };
    let kernel = known.entry(format!("{folder} {name} {limits:?}")).or_insert_with(load);
    let attributes: Vec<Attribute> =
        attributes.iter().map(|(name, value)| Attribute::new(name, value.clone())).collect();
    kernel.open(inputs, &attributes).unwrap()
}

fn all() -> Vec<Arc<Layer>> {
    let text = |value: &str| Value::Text(value.to_owned());
    let attention = |average, known: &[Vec<u32>]| {
        let heads = [("heads", Value::Integer(3)), ("features", Value::Integer(5))];
        let rest = [("average", Value::Flag(average)), ("dropout", Value::Number(0.4))];
        open("gatv2", &[&[vec![15], vec![15]], known].concat(), &[heads, rest].concat())
    };
    let embedding = |positions, group| {
        let size = [("entries", Value::Integer(6)), ("width", Value::Integer(4))];
        let rest = [("positions", Value::Flag(positions)), ("group", Value::Integer(group))];
        open("embedding", &[vec![1]], &[size, rest].concat())
    };
    let self_attention = |columns, heads, causal, group| {
        let attributes = [("heads", Value::Integer(heads)), ("group", Value::Integer(group))];
        open(
            "self-attention",
            &[vec![columns]],
            &[&attributes[..], &[("causal", Value::Flag(causal))]].concat(),
        )
    };
    let conv = |whole: &[(&'static str, i64)], columns, activation| {
        let mut attributes: Vec<_> = whole.iter().map(|&(name, v)| (name, Value::Integer(v))).collect();
        attributes.push(("activation", text(activation)));
        open("conv2d", &[vec![columns]], &attributes)
    };
    let pool = |by| {
        let side = |name| (name, Value::Integer(4));
        let rest = [("window", Value::Integer(2)), ("by", text(by))];
        open("pool2d", &[vec![32]], &[&[side("height"), side("width")], &rest[..]].concat())
    };
    let ipa = |given: &[(&'static str, Value)]| {
        let size = [("entries", Value::Integer(5)), ("hidden", Value::Integer(6))];
        open("ipa", &[vec![5 * 8]], &[&size[..], given].concat())
    };
    let spiking = |given: &[(&'static str, Value)]| {
        let sizes =
            [("hidden", Value::Integer(7)), ("classes", Value::Integer(3)), ("steps", Value::Integer(4))];
        // The smooth form is used, with a threshold that no value reaches. A reset is a step, and
        // finite differences across a step are large.
        let smooth = [("smooth", Value::Flag(true)), ("threshold", Value::Number(16.0))];
        open("spiking", &[vec![5]], &[&sizes[..], &smooth, given].concat())
    };
    // Finite differences of signs are zero or infinite. The test uses the smooth function whose
    // gradients the kernel computes.
    let binary = |dropout| {
        let size = [("out-features", Value::Integer(4)), ("dropout", Value::Number(dropout))];
        open("binary", &[vec![9]], &[&size[..], &[("signs", text(""))]].concat())
    };
    vec![
        open(
            "linear",
            &[vec![7]],
            &[
                ("out-features", Value::Integer(4)),
                ("input-bias", Value::Flag(true)),
                ("input-activation", text("tanh")),
                ("dropout", Value::Number(0.3)),
            ],
        ),
        open("attention", &[vec![6]], &[("heads", Value::Integer(2)), ("features", Value::Integer(3))]),
        open("sum", &[vec![5], vec![5], vec![5]], &[("trained", Value::Flag(true))]),
        open("activate", &[vec![5]], &[("activation", text("elu")), ("input-bias", Value::Flag(true))]),
        open("normalise", &[vec![8]], &[("by", text("layer"))]),
        open("normalise", &[vec![8]], &[("by", text("batch"))]),
        open("normalise", &[vec![8]], &[("by", text("rms"))]),
        open("linear", &[vec![7]], &[("out-features", Value::Integer(4)), ("transposed", Value::Flag(true))]),
        open("activate", &[vec![5]], &[("activation", text("gelu")), ("dropout", Value::Number(0.3))]),
        open("activate", &[vec![5]], &[("activation", text("silu")), ("input-bias", Value::Flag(true))]),
        embedding(false, 1),
        embedding(true, 5),
        self_attention(12, 2, true, 4),
        self_attention(24, 4, false, 7),
        self_attention(96, 1, true, 32),
        conv(&[("height", 5), ("width", 4), ("channels", 3), ("kernel", 3), ("padding", 1)], 40, "identity"),
        conv(&[("height", 6), ("width", 6), ("channels", 16), ("kernel", 3), ("stride", 2)], 36, "tanh"),
        pool("max"),
        pool("mean"),
        open("concat", &[vec![3], vec![5], vec![1]], &[]),
        open("slice", &[vec![9]], &[("start", Value::Integer(2)), ("count", Value::Integer(4))]),
        open("product", &[vec![6], vec![6]], &[]),
        ipa(&[]),
        ipa(&[("decisions", Value::Flag(false)), ("pointer", Value::Flag(false))]),
        ipa(&[("execute", text("gru"))]),
        spiking(&[("slope", Value::Number(0.05))]),
        spiking(&[
            ("slope", Value::Number(0.05)),
            ("reset", text("zero")),
            ("population", Value::Integer(2)),
            ("output", text("rate")),
        ]),
        spiking(&[
            ("slope", Value::Number(1.0)),
            ("surrogate", text("fast-sigmoid")),
            ("output", text("steps")),
        ]),
        binary(0.0),
        binary(0.4),
        open("head", &[vec![6]], &[("bias", Value::Flag(true))]),
        open("head", &[vec![6]], &[("focal", Value::Number(2.0))]),
        open("head", &[vec![6]], &[("of", text("squared-error"))]),
        open_in("tests/kernels", "wrong-weights", &[vec![6]], &[]),
        attention(false, &[]),
        attention(true, &[]),
        attention(false, &[vec![3]]),
        open("maximum", &[vec![7], vec![3]], &[]),
        open_in(
            "tests/kernels",
            "derived",
            &[vec![7]],
            &[
                ("out-features", Value::Integer(4)),
                ("input-bias", Value::Flag(true)),
                ("activation", text("sigmoid")),
                ("dropout", Value::Number(0.3)),
            ],
        ),
        open_in("tests/kernels", "edge-derived", &[vec![6], vec![6]], &[]),
        open_in("tests/kernels", "edge-aggregates", &[vec![6], vec![6]], &[]),
        open_in("tests/kernels", "guest-product", &[vec![21]], &[("out-features", Value::Integer(13))]),
        open_in("tests/kernels", "guest-elementwise", &[vec![7]], &[]),
    ]
}

#[test]
fn the_built_in_kernels_hold_what_the_contract_asks() {
    for layer in all() {
        let name = layer.kernel().name().to_owned();
        for (rows, degree, seed) in [(1, 1, 1), (2, 1, 2), (40, 3, 3), (400, 2, 4)] {
            let trial = Trial::new(&layer, rows, degree, seed);
            let edges = layer.kernel().on() == On::Edges;
            assert_eq!(trial.edges() > 0, edges, "{name}");
            let judged = trial.check().unwrap_or_else(|error| panic!("{name}, {rows} rows: {error}"));
            let gradients = judged.iter().filter(|j| j.of == Found::Gradient).count();
            let signature = layer.signature();
            let ways = 1 + usize::from(signature.loss.is_some());
            let inputs = signature.inputs.iter().filter(|input| input.name != "ids").count();
            assert_eq!(gradients, ways * (inputs + signature.parameters.len()), "{name}");
            let streams = judged.iter().filter(|j| j.of == Found::Streams).count();
            assert_eq!(streams, if edges { 0 } else { ways }, "{name}");
            let weights = judged.iter().filter(|j| j.of == Found::Weights).count();
            assert_eq!(weights, usize::from(signature.loss.is_some()), "{name}");
            for judgement in judged {
                // By definition, e^x is not finite for large rows.
                let overflows = name == "edge-aggregates" && judgement.of == Found::Extremes;
                assert!(judgement.holds || overflows, "{name}, {rows} rows, seed {seed}: {judgement:?}");
            }
        }
    }
}

/// Checks that gradients which are five per cent too large are found.
#[test]
fn wrong_gradients_are_found() {
    let wrong =
        open_in("tests/kernels", "wrong-gradient", &[vec![6]], &[("out-features", Value::Integer(4))]);
    for (rows, seed) in [(1, 1), (2, 2), (37, 3), (300, 4)] {
        let judged = Trial::new(&wrong, rows, 1, seed).check().unwrap();
        let broken: Vec<&str> = judged.iter().filter(|j| !j.holds).map(|j| j.place.as_str()).collect();
        assert_eq!(broken, ["input `x`", "parameter `weight`", "parameter `bias`"], "{rows} rows");
    }
}

/// Finite differences of signs are meaningless, but the check that only signs and scales are read
/// is exact.
#[test]
fn a_layer_of_signs_reads_no_more() {
    for (columns, dropout) in [(1, 0.0), (33, 0.4), (200, 0.0)] {
        let given = [("out-features", Value::Integer(9)), ("dropout", Value::Number(dropout))];
        let layer = open("binary", &[vec![columns]], &given);
        assert!(layer.reads_signs("x") && layer.reads_signs("weight") && !layer.reads_signs("y"));
        let judged = Trial::new(&layer, 40, 1, 3).check().unwrap();
        let judgement = judged.iter().find(|j| j.of == Found::Signs).unwrap();
        assert!(judgement.holds, "{columns}: {judgement:?}");
    }
    let numbers = [("out-features", Value::Integer(9)), ("signs", Value::Text(String::new()))];
    let layer = open("binary", &[vec![33]], &numbers);
    assert!(!layer.reads_signs("x"));
    assert!(Trial::new(&layer, 40, 1, 3).check().unwrap().iter().all(|j| j.of != Found::Signs));
}

#[test]
fn losses_that_misuse_weights_are_found() {
    let of = |fault: &str| {
        let fault = [("fault", Value::Text(fault.to_owned()))];
        open_in("tests/kernels", "wrong-weights", &[vec![6]], &fault)
    };
    for (fault, worst) in [("squared", "weights of 2"), ("shifted", "weights of 0 in every other row")] {
        let layer = of(fault);
        for judgement in Trial::new(&layer, 40, 1, 3).check().unwrap() {
            assert_eq!(judgement.holds, judgement.of != Found::Weights, "{fault}: {judgement:?}");
            let place = &judgement.place;
            assert!(judgement.holds || place.starts_with(worst), "{fault}: {place}");
        }
    }
    // If the kernel never requests the weights, every task with rows fails.
    let text = Trial::new(&of("unasked"), 40, 1, 3).check().unwrap_err().to_string();
    assert!(
        text.contains("loss: the rows have different weights, but the kernel did not request them"),
        "{text}"
    );
    // A kernel of contract 0.1.1 cannot request weights, so the check is skipped.
    let old = format!("{}/../../tests/compatibility/0.1.1/head.wasm", env!("CARGO_MANIFEST_DIR"));
    let runtime = Runtime::new(Settings::default()).unwrap();
    let old = runtime.load("head", &std::fs::read(old).unwrap()).unwrap().open(&[vec![6]], &[]).unwrap();
    assert!(!old.kernel().weighs_rows());
    assert!(Trial::new(&old, 40, 1, 3).check().unwrap().iter().all(|j| j.holds && j.of != Found::Weights));
}

#[test]
fn weights_are_asked_for_in_a_task_alone() {
    let path = format!("{}/../../tests/kernels/prebuilt/wrong-weights.wasm", env!("CARGO_MANIFEST_DIR"));
    let runtime = Runtime::new(Settings::default()).unwrap();
    let kernel = runtime.load("wrong-weights", &std::fs::read(path).unwrap()).unwrap();
    let fault = Attribute::new("fault", Value::Text("in-open".to_owned()));
    let text = kernel.open(&[vec![6]], &[fault]).unwrap_err().to_string();
    assert!(text.contains("open: unsupported") && text.contains("row-weights: only a task"), "{text}");
}

/// With a single edge, attention is 1 for all vertices. The derivative consists of rounding errors,
/// which must not count as a defect.
#[test]
fn derivatives_that_vanish_are_not_held_against_a_kernel() {
    let attributes = [
        ("heads", Value::Integer(2)),
        ("features", Value::Integer(3)),
        ("average", Value::Flag(true)),
        ("dropout", Value::Number(0.4)),
    ];
    let layer = open("gatv2", &[vec![6], vec![6]], &attributes);
    for seed in 1..=8 {
        for judgement in Trial::new(&layer, 2, 1, seed).check().unwrap() {
            assert!(judgement.holds, "seed {seed}: {judgement:?}");
        }
    }
}

#[test]
fn every_function_is_timed() {
    for layer in all() {
        let bench = Trial::new(&layer, 100, 4, 1).bench(Duration::ZERO).unwrap();
        let found: Vec<&str> = bench.functions.iter().map(|timed| timed.function).collect();
        let wanted: &[&str] = match (layer.kernel().on(), layer.signature().loss.is_some()) {
            (On::Edges, _) => &["forward", "backward-targets", "backward-sources"],
            (On::Rows, true) => &["forward", "backward", "loss"],
            (On::Rows, false) => &["forward", "backward"],
        };
        assert_eq!(found, wanted);
        for timed in bench.functions {
            assert_eq!(timed.seconds.len(), 3);
            assert!(timed.quantile(0.0) <= timed.quantile(0.5) && timed.quantile(0.5) <= timed.quantile(1.0));
        }
    }
}

/// Returns a layer of an altered `linear` kernel, under these limits.
fn altered(name: &str, limits: Limits) -> Arc<Layer> {
    open_under(limits, "tests/kernels", name, &[vec![7]], &[("out-features", Value::Integer(4))])
}

#[test]
fn a_kernel_that_goes_by_what_has_arrived_is_found() {
    let layer = altered("impatient", Limits::default());
    for (rows, holds) in [(1, true), (2, false), (300, false)] {
        let judged = Trial::new(&layer, rows, 1, 1).check().unwrap();
        for Judgement { of, place, holds: held, .. } in judged {
            assert_eq!(held, holds || of != Found::Streams, "{rows} rows: {of:?}, {place}");
        }
    }
}

#[test]
fn limits_are_held_against_many_rows_and_many_calls() {
    let ample = Duration::from_secs(300);
    for layer in all() {
        let name = layer.kernel().name().to_owned();
        let usage = Trial::new(&layer, 600, 3, 1).usage(ample).unwrap();
        assert_eq!(usage.broken, None, "{name}");
        let (used, peak) = (usage.used, usage.used.peak);
        assert!(usage.rounds >= 20 && used.guest_memory_bytes >= 1 << 16 && used.seconds > 0.0, "{name}");
        assert!((3..100).contains(&peak.handles), "{name}: {peak:?}");
    }
    let once = Trial::new(&altered("doubled", Limits::default()), 5000, 1, 1).usage(Duration::ZERO).unwrap();
    // One scratch matrix with 5,000 rows of 4 values.
    assert_eq!((once.rounds, once.used.peak.matrix_bytes, once.broken), (1, 80_000, None));
    let little = altered("doubled", Limits { matrix_bytes: 79_999, ..Limits::default() });
    assert_eq!(Trial::new(&little, 300, 1, 1).usage(ample).unwrap().broken, None);
    let broken = Trial::new(&little, 5000, 1, 1).usage(ample).unwrap().broken.unwrap();
    assert!(broken.contains("matrix-bytes: 80000 bytes asked for, 79999 allowed"), "{broken}");
    let short = Limits { guest_memory_bytes: 4 << 20, ..Limits::default() };
    let (leaks, fails) = (altered("leaking", Limits::default()), altered("allocating", short));
    let broken = Trial::new(&leaks, 10, 1, 1).usage(ample).unwrap().broken.unwrap();
    assert!(broken.contains("use more bytes of guest memory from round to round"), "{broken}");
    let broken = Trial::new(&fails, 10, 1, 1).usage(ample).unwrap().broken.unwrap();
    assert!(broken.contains("limit guest-memory"), "{broken}");
    let fails = altered("trapping", Limits::default());
    assert!(Trial::new(&fails, 10, 1, 1).usage(ample).is_err(), "not a limit");
}
