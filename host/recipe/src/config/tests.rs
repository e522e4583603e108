#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::testing::Random;
use crate::{Algorithm, FunctionCount, Layers, Schedule, WeightDecay};

fn refused(text: &str) -> String {
    Config::parse(text, "r.toml").unwrap_err().to_string()
}

#[test]
fn defaults_write_and_read_back() {
    let config = Config::default();
    let text = config.to_toml().unwrap();
    assert!(text.contains("lr = 0.01") && text.contains("weight_decay = [0.0005, 0.0]"), "{text}");
    assert_eq!(Config::parse(&text, "run").unwrap(), config);
    assert_eq!(Config::parse("", "empty").unwrap(), config);
}

#[test]
fn a_full_recipe_writes_and_reads_back() {
    let text = r#"
        [run]
        seed = 7
        epochs = 0x10
        intervals = 4
        threads = 2
        eval_every = 0
        [data]
        source = "../data/planetoid"
        name = "pubmed"
        normalise_features = false
        [optimiser]
        momentum = 0.9
        nesterov = true
        weight_decay = 1e-3
        lr = 1
        kind = "sgd"
        [model]
        dropout = 0
        [[model.layers]]
        kernel = "gcn"
        width = 32
        [[model.layers]]
        kernel = "gcn"
        bias = false
        [kernels]
        linear = "./mine.wasm"
        "odd name" = "x.wasm"
        [limits]
        attempts = 2
        task_ms = 500
    "#;
    let config = Config::parse(text, "r.toml").unwrap();
    assert_eq!(
        config.run,
        Run {
            seed: 7,
            epochs: 16,
            eval_every: Every::Epochs(0),
            intervals: Some(4),
            threads: Some(2),
            ..Run::default()
        }
    );
    assert_eq!(config.optimiser.algorithm, Algorithm::Sgd { momentum: 0.9, nesterov: true });
    assert_eq!(config.optimiser.weight_decay, WeightDecay::All(1e-3));
    assert!(matches!(&config.model.layers, Layers::List(list) if list.len() == 2));
    assert_eq!(config.kernels["linear"], "./mine.wasm");
    assert_eq!(config.limits.attempts, Some(2));
    assert_eq!(Config::parse(&config.to_toml().unwrap(), "again").unwrap(), config);
}

#[test]
fn unknown_keys_name_the_nearest_and_show_the_line() {
    let found = refused("[run]\nepochs = 5\n\n[optimiser]\nlearning_rate = 0.1\n");
    let wanted = "unknown key `optimiser.learning_rate`; did you mean `optimiser.lr`?\n  \
                  at r.toml:5:1\n  5 | learning_rate = 0.1\n    | ^^^^^^^^^^^^^";
    assert_eq!(found, wanted);
    let nearest = [
        ("[run]\nepoch = 5", "run.epochs"),
        ("[run]\neval-every = 5", "run.eval_every"),
        ("[optimiser]\nepochs = 5", "run.epochs"),
        ("[optimizer]\nlr = 5", "optimiser"),
        ("[modle]\nlayers = 5", "model"),
        ("lr = 0.1", "optimiser.lr"),
        ("optimizer.lr = 0.1", "optimiser"),
        ("[model]\nhidden_channels = 5", "model.hidden"),
        ("[model]\nlr = 5", "optimiser.lr"),
        ("[[model.layers]]\nkernel = \"gcn\"\nwidht = 5", "width"),
    ];
    for (text, key) in nearest {
        let found = refused(text);
        assert!(found.contains(&format!("did you mean `{key}`?")), "{text}: {found}");
    }
    let found = refused("[run]\nzzzzzzzz = 1");
    assert!(
        found.contains(
            "keys that exist here: seed, epochs, steps, eval_every, eval_split, eval_rows, log_every, metric, patience, until, min_delta, keep, init, init_fresh, init_digest, intervals, threads, tune_threads, numeric_class, memory_bytes, gather_features, labelled_gathers, order, row_storage"
        ),
        "{found}"
    );
}

#[test]
fn ranges_are_checked_at_their_ends() {
    let good = [
        "model.dropout=0",
        "model.dropout=0.999",
        "model.layers=1",
        "model.layers=256",
        "model.hidden=1",
        "model.hidden=65536",
        "run.epochs=1",
        "run.intervals=1",
        "run.seed=9223372036854775807",
        "run.order=natural",
        "run.order=degree",
        "run.order=rcm",
        "run.order=rabbit",
        "optimiser.lr=1e-30",
        "optimiser.weight_decay=0",
        "optimiser.weight_decay=[0.1, 0, 3]",
        "model.activation=tanh",
        "data.source=../a b/c",
        "kernels.linear=./a.wasm",
        "model.layers=[{kernel=\"gcn\", width=3}, {}]",
        "model.class_weights=balanced",
        "model.class_weights=[1, 0.25, 0]",
        "model.focal=0",
        "model.focal=100",
        "optimiser.beta1=0",
        "data.name=\"quoted\"",
        "run.patience=1",
        "run.patience=1000000000",
        "run.until=test_acc=0.94",
        "run.until=\"val=0\"",
        "data.self_loops=keep",
        "data.self_loops=drop",
        "data.split=random:0.6/0.2/0.2",
        "data.split=stratified-folds:5/4",
        "data.split_seed=9223372036854775807",
        "run.init=a/model.safetensors",
        "run.init_fresh=1",
        "optimiser.freeze=[0, 63]",
        "optimiser.freeze=0,1",
        "run.min_delta=0",
        "run.min_delta=0.999",
        "run.keep=best",
        "checkpoint.every=0",
        "checkpoint.every=1000000000",
        "checkpoint.seconds=0",
        "checkpoint.seconds=1000000",
        "checkpoint.keep=1",
        "checkpoint.keep=1000",
        "checkpoint.keep_after=true",
        "run.keep=last",
        "optimiser.clip_norm=1e-30",
        "optimiser.clip_value=3e38",
        "optimiser.warmup=0",
        "optimiser.warmup=1000000000",
        "optimiser.schedule=constant",
        "optimiser.schedule=linear",
        "optimiser.schedule=cosine",
        "optimiser.schedule=step",
        "optimiser.schedule=exponential",
    ];
    for argument in good {
        let mut config = Config::default();
        config.set(argument).unwrap_or_else(|error| panic!("{argument}: {error}"));
        assert_eq!(Config::parse(&config.to_toml().unwrap(), "x").unwrap(), config);
    }
    let bad = [
        "model.dropout=1",
        "model.dropout=-0.1",
        "model.dropout=nan",
        "model.dropout=0.99999999999",
        "model.dropout=half",
        "model.layers=0",
        "model.layers=257",
        "model.layers=2.0",
        "model.layers=[]",
        "model.layers=[1]",
        "model.hidden=0",
        "model.hidden=65537",
        "run.epochs=0",
        "run.epochs=-1",
        "run.epochs=99999999999999999999",
        "run.intervals=0",
        "run.seed=-1",
        "run.threads=0",
        "run.order=rabit",
        "run.order=3",
        "optimiser.lr=0",
        "optimiser.lr=inf",
        "optimiser.lr=1e-60",
        "optimiser.lr=-1",
        "optimiser.weight_decay=-1",
        "optimiser.weight_decay=[]",
        "optimiser.weight_decay=[1, true]",
        "optimiser.kind=lamb",
        "optimiser.momentum=0.9",
        "run.patience=0",
        "run.patience=1000000001",
        "run.patience=\"never\"",
        "run.until=0.94",
        "data.self_loops=true",
        "data.split=half",
        "data.split=folds:5/5",
        "run.init_digest=abc",
        "optimiser.freeze=256",
        "optimiser.freeze=first",
        "optimiser.freeze=[0.5]",
        "run.until=best=0.94",
        "run.until=test_acc=94",
        "run.min_delta=1",
        "run.min_delta=-0.1",
        "run.keep=first",
        "checkpoint.every=1000000001",
        "checkpoint.every=-1",
        "checkpoint.seconds=1000001",
        "checkpoint.seconds=0.5",
        "checkpoint.keep=0",
        "checkpoint.keep=1001",
        "checkpoint.keep_after=1",
        "run.keep=true",
        "optimiser.clip_norm=0",
        "optimiser.clip_norm=inf",
        "optimiser.clip_norm=1e-60",
        "optimiser.clip_value=-1",
        "optimiser.clip_value=nan",
        "optimiser.warmup=-1",
        "optimiser.warmup=1000000001",
        "optimiser.warmup=0.5",
        "optimiser.schedule=triangle",
        "optimiser.final_lr=0.1",
        "optimiser.step_every=10",
        "optimiser.gamma=0.5",
        "model.activation=swish",
        "model.class_weights=balance",
        "model.class_weights=[]",
        "model.class_weights=[1, -1]",
        "model.class_weights=[1, nan]",
        "model.class_weights=[1, \"a\"]",
        "model.class_weights=2",
        "model.focal=-0.5",
        "model.focal=101",
        "model.bias=1",
        "data.source=",
        "data.source=3",
        "run.epochs=2024-01-01",
        "limits.attempts=0",
        "kernels.linear=7",
        "model.layers=[{kernel=\"mpn\"}]",
    ];
    for argument in bad {
        let mut config = Config::default();
        let error = config.set(argument).unwrap_err();
        assert!(matches!(error, Error::Value { .. }), "{argument}: {error}");
        assert!(error.to_string().contains(argument), "{argument}: {error}");
        assert_eq!(config, Config::default());
    }
    let found = refused("[run]\norder = \"RCM\"");
    assert!(found.contains(r#"must be one of "natural", "degree", "rcm", "rabbit""#), "{found}");
    let found = refused("[model]\ndropout = 1.5");
    let wanted = "`model.dropout` is 1.5, but must be a number with 0 <= dropout < 1\n  \
                  at r.toml:2:11\n  2 | dropout = 1.5\n    |           ^^^";
    assert_eq!(found, wanted);
}

#[test]
fn overrides_that_are_none_are_refused() {
    for argument in ["", "=", "lr", "optimiser.=1", "a b=1", " =3"] {
        let error = Config::default().set(argument).unwrap_err();
        assert!(matches!(error, Error::Override { .. }), "{argument}: {error}");
    }
    for argument in ["lr=1", "optimiser=1", "optimiser.lr.x=1", "optimizer.lr=1", ".=1."] {
        let error = Config::default().set(argument).unwrap_err();
        let typed = matches!(error, Error::UnknownKey { .. } | Error::Override { .. });
        assert!(typed, "{argument}: {error}");
    }
    let error = Config::default().set("run.epochs=1\nseed = 4").unwrap_err();
    assert!(matches!(error, Error::Value { .. }), "{error}");
}

#[test]
fn kind_first_then_its_own_keys() {
    let mut config = Config::default();
    config.set("optimiser.beta1=0.8").unwrap();
    config.set("optimiser.kind=adam").unwrap();
    assert_eq!(config.optimiser.algorithm, Algorithm::Adam { beta1: 0.8, beta2: 0.999, epsilon: 1e-8 });
    config.set("optimiser.kind=sgd").unwrap();
    config.set("optimiser.momentum=0.9").unwrap();
    let error = config.set("optimiser.beta1=0.8").unwrap_err().to_string();
    assert!(error.contains("belongs to adam and adamw"), "{error}");
}

#[test]
fn schedule_first_then_its_own_keys() {
    let text = "[optimiser]\ngamma = 0.5\nstep_every = 30\nwarmup = 5\nschedule = \"step\"\nclip_norm = 1\n";
    let mut config = Config::parse(text, "r.toml").unwrap();
    assert_eq!(config.optimiser.schedule, Schedule::Step { step_every: 30, gamma: 0.5 });
    assert_eq!((config.optimiser.warmup, config.optimiser.clip_norm), (5, Some(1.0)));
    assert_eq!(Config::parse(&config.to_toml().unwrap(), "again").unwrap(), config);
    let error = config.set("optimiser.final_lr=0.1").unwrap_err().to_string();
    assert!(error.contains("linear and cosine, and optimiser.schedule is step"), "{error}");
    // The same schedule again keeps what was set.
    config.set("optimiser.schedule=step").unwrap();
    assert_eq!(config.optimiser.schedule, Schedule::Step { step_every: 30, gamma: 0.5 });
    config.set("optimiser.schedule=cosine").unwrap();
    for (good, bad) in [("final_lr=0", "final_lr=-1"), ("final_lr=1e3", "final_lr=nan")] {
        config.set(&format!("optimiser.{good}")).unwrap();
        assert_eq!(Config::parse(&config.to_toml().unwrap(), "again").unwrap(), config);
        assert!(matches!(config.set(&format!("optimiser.{bad}")), Err(Error::Value { .. })));
    }
    config.set("optimiser.schedule=exponential").unwrap();
    for (good, bad) in
        [("gamma=1", "gamma=1.0001"), ("gamma=1e-30", "gamma=0"), ("gamma=0.5", "step_every=1")]
    {
        config.set(&format!("optimiser.{good}")).unwrap();
        assert!(matches!(config.set(&format!("optimiser.{bad}")), Err(Error::Value { .. })));
    }
    config.set("optimiser.schedule=step").unwrap();
    for (good, bad) in [("step_every=1", "step_every=0"), ("step_every=1000000000", "step_every=1000000001")]
    {
        config.set(&format!("optimiser.{good}")).unwrap();
        assert!(matches!(config.set(&format!("optimiser.{bad}")), Err(Error::Value { .. })));
    }
}

#[test]
fn splits_and_first_weights_have_what_they_belong_to() {
    for (settings, words) in [
        (&["data.split=folds:5/0", "data.task=link-prediction"][..], "links.validation"),
        (&["data.split_seed=3"], "`data.split` is left out"),
        (&["run.init_fresh=1"], "`run.init` is left out"),
    ] {
        let mut config = Config::default();
        settings.iter().for_each(|setting| config.set(setting).unwrap());
        let found = config.check().unwrap_err().to_string();
        assert!(found.contains(words), "{settings:?}: {found}");
    }
    // A run folder's recipe has them all, and reads them back.
    let mut config = Config::default();
    let digest = format!("run.init_digest={}", "0a".repeat(32));
    for setting in [
        "data.split=per-class:20/30/rest",
        "data.split_seed=4",
        "run.init=m",
        "run.init_fresh=[1]",
        "optimiser.freeze=0",
        "run.until=val=0.5",
        &digest,
    ] {
        config.set(setting).unwrap();
    }
    config.check().unwrap();
    assert_eq!(Config::parse(&config.to_toml().unwrap(), "config.toml").unwrap(), config);
}

#[test]
fn patience_needs_evaluations() {
    for (argument, found) in [
        ("run.patience=20", "`run.patience` is 20"),
        ("run.until=val=0.5", "`run.until` is validation=0.5"),
        ("run.keep=best", "`run.keep` is \"best\""),
    ] {
        let mut config = Config::default();
        config.set(argument).unwrap();
        config.check().unwrap();
        config.set("run.eval_every=0").unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(found) && error.contains("`run.eval_every` is 0"), "{error}");
        assert!(error.contains("run.eval_every = 1"), "{error}");
    }
}

#[test]
fn functions_are_a_number_or_auto() {
    for (text, count) in [
        ("0", FunctionCount::Fixed(0)),
        ("10000", FunctionCount::Fixed(10_000)),
        ("auto", FunctionCount::Auto),
        ("\"auto\"", FunctionCount::Auto),
    ] {
        let mut config = Config::default();
        config.set(&format!("executor.functions={text}")).unwrap();
        assert_eq!(config.executor.functions, count);
        assert_eq!(Config::parse(&config.to_toml().unwrap(), "again").unwrap(), config);
    }
    for text in ["-1", "10001", "many", "1.5", "true"] {
        let error = Config::default().set(&format!("executor.functions={text}")).unwrap_err();
        assert!(matches!(error, Error::Value { .. }), "{text}: {error}");
    }
    let error = Config::default().set("executor.concurrency=3").unwrap_err().to_string();
    assert!(error.contains("did you mean `executor.functions`?"), "{error}");
}

#[test]
fn settings_of_another_executor_are_refused() {
    let both = "set executor.kind = \"emulated\" or \"lambda\", or remove the key";
    let three = "set executor.kind = \"emulated\" or \"lambda\" or \"workers\", or remove the key";
    let cases = [
        ("local", "workers.count=2", "`workers.count` is 2", "set executor.kind = \"workers\","),
        ("local", "executor.functions=3", "`executor.functions` is 3, which the local executor", both),
        ("local", "executor.functions=auto", "is \"auto\"", "it has no functions"),
        ("local", "executor.transport=s3", "`executor.transport` is \"s3\"", both),
        ("local", "executor.rows=bf16", "`executor.rows` is \"bf16\"", three),
        ("local", "executor.stream=false", "`executor.stream` is false", both),
        ("local", "executor.memory_mb=512", "`executor.memory_mb` is 512", both),
        ("local", "executor.timeout_s=5", "`executor.timeout_s` is 5", both),
        ("local", "executor.deadline_ms=5", "`executor.deadline_ms` is 5", three),
        ("local", "executor.host=zone", "`executor.host` is \"zone\"", "set executor.kind = \"emulated\""),
        ("loopback", "executor.host=home", "the loopback executor", "set executor.kind = \"emulated\""),
        ("local", "executor.deadline_ratio=2", "`executor.deadline_ratio` is 2", three),
        (
            "local",
            "executor.deployment=x",
            "`executor.deployment` is \"x\"",
            "set executor.kind = \"lambda\",",
        ),
        ("emulated", "executor.deployment=x", "the emulated executor", "set executor.kind = \"lambda\","),
        ("local", "emulator.crash=0.5", "`emulator.crash` is 0.5", "set executor.kind = \"emulated\","),
        ("lambda", "emulator.worker=w", "the lambda executor", "set executor.kind = \"emulated\","),
        ("emulated", "run.tune_threads=true", "`run.tune_threads` is true", "set executor.kind = \"local\","),
    ];
    for (kind, setting, found, remedy) in cases {
        let mut config = Config::default();
        config.set(&format!("executor.kind={kind}")).unwrap();
        config.set(setting).unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(found) && error.contains(remedy), "{kind}, {setting}: {error}");
    }
    for setting in ["executor.host_hour_usd=2", "run.tune_threads=true", "executor.functions=16"] {
        let mut config = Config::default();
        config.set(setting).unwrap();
        config.check().unwrap();
    }
    assert!(Config::default().check_read("executor.functions", "16").is_err(), "whatever its value");
}

#[test]
fn a_recipe_for_functions_runs_on_this_machine() {
    let text = "[executor]\nkind = \"emulated\"\nfunctions = 3\nrows = \"bf16\"\nhost_hour_usd = 2\n[emulator]\ncrash = 0.5\n";
    let recipe = Config::parse(text, "r.toml").unwrap();
    recipe.check().unwrap();
    for (kind, functions, crash) in [("local", 16, 0.0), ("lambda", 3, 0.0), ("loopback", 3, 0.5)] {
        let mut config = recipe.clone();
        config.set(&format!("executor.kind={kind}")).unwrap();
        config.check().unwrap();
        assert_eq!(config.executor.functions, FunctionCount::Fixed(functions), "{kind}");
        assert_eq!((config.emulator.crash, config.executor.host_hour_usd), (crash, Some(2.0)), "{kind}");
    }
    // Where nothing changes nothing is forgotten, so that order does not matter.
    let mut config = Config::default();
    for setting in ["executor.functions=3", "executor.kind=emulated", "executor.kind=emulated"] {
        config.set(setting).unwrap();
    }
    assert_eq!(config.executor.functions, FunctionCount::Fixed(3));
}

#[test]
fn hostile_texts_end_in_errors() {
    let deep = format!("a = {}{}", "[".repeat(20_000), "]".repeat(20_000));
    let many = "[".repeat(crate::document::MAX_BYTES + 1);
    for text in ["[run", "run = 3", "[run]\nepochs = 1\nepochs = 2", "\u{0}", "[[run]]", &deep, &many] {
        assert!(Config::parse(text, "r.toml").is_err(), "{:.40}", text);
    }
    let long = format!("[run]\n{} = 1", "k".repeat(500_000));
    assert!(refused(&long).contains("unknown key"));
    let text = Config::default().to_toml().unwrap();
    for seed in 0..3000 {
        let random = &mut Random::new(seed);
        let mut bytes = text.clone().into_bytes();
        bytes.push(b'\n');
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        // Any answer is right but a panic.
        if let Err(error) = Config::parse(&String::from_utf8_lossy(&bytes), "r.toml") {
            assert!(error.to_string().contains("r.toml"), "seed {seed}: {error}");
        }
    }
}

#[test]
fn every_key_can_be_described() {
    let keys = crate::keys();
    assert!(keys.len() > 25);
    assert!(keys.iter().any(|info| info.key == "run.eval_every" && !info.help.is_empty()));
}

#[test]
fn a_wrong_value_of_any_key_is_refused_with_the_key_and_what_it_takes() {
    let of_config = crate::keys().into_iter().map(|info| info.key).filter(|key| key != "kernels.NAME");
    let of_layers = crate::keys::layer_keys()
        .into_iter()
        .filter(|info| info.name() != "kernel")
        .map(|info| format!("layer {}", info.name()));
    for key in of_config.chain(of_layers) {
        // No key takes a list of lists of lists.
        let text = match key.strip_prefix("layer ") {
            Some(key) => format!("model.layers = [{{ kernel = \"linear\", {key} = [[[]]] }}]"),
            None => format!("{key} = [[[]]]"),
        };
        let error =
            Config::parse(&text, "r.toml").map_or_else(|e| e.to_string(), |_| panic!("{text} is taken"));
        let name = key.rsplit(['.', ' ']).next().unwrap();
        assert!(error.contains("r.toml:1:") && error.contains(name), "{text}: {error}");
        assert!(
            error.contains("must be") || error.contains("takes") || error.contains("has no"),
            "{text}: {error}"
        );
    }
}
