//! Tests of key declarations: help texts, values and defaults.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn help_texts_are_noun_phrases_with_values_and_a_default() {
    let mut faults = Vec::new();
    for info in keys().into_iter().chain(layer_keys()) {
        let KeyInfo { key, help, .. } = &info;
        let first = help.split(' ').next().unwrap();
        assert!(first.starts_with(char::is_uppercase), "{key}: {help}");
        let relative = ["What", "Whether", "How", "Who", "Where", "When", "Which", "Most"];
        assert!(!relative.contains(&first), "{key}: {help}");
        assert!(!help.ends_with('.') && !help.contains("left out"), "{key}: {help}");
        let optional = info.default.is_none() && info.absent.is_empty();
        let required = ["source", "name", "kernel", "width", "count", "cut"].contains(&info.name());
        if optional && !required {
            faults.push(format!("{key} has neither a default nor a text for its absence"));
        }
        if info.default.is_some() && !info.absent.is_empty() {
            faults.push(format!("{key} has the default {:?} and {:?}", info.default, info.absent));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn defaults_are_allowed_values() {
    for info in keys().iter().filter(|info| info.default.is_some()) {
        let text = info.default.as_deref().unwrap();
        let mut config = Config::default();
        if let Err(error) = config.set(&format!("{}={text}", info.key)) {
            // A list that is empty by default means that the key is left out.
            assert_eq!(text, "[]", "{error}");
        }
    }
}

#[test]
fn texts_for_absent_keys_that_are_values_are_the_defaults() {
    // Settings that are `None` by default. Their text names the value that the model then uses.
    let optional = ["model.", "lanes.chunks", "workers.replicas", "workers.fail_at", "executor.deployment"];
    let mut compared = 0;
    for info in keys().iter().filter(|info| info.default.is_none()) {
        let mut config = Config::default();
        // Most of these texts describe an effect and are no values.
        let is_value = config.set(&format!("{}={}", info.key, info.absent)).is_ok();
        if is_value
            && !matches!(info.kind, Kind::Text(_))
            && !optional.iter().any(|key| info.key.starts_with(key))
        {
            assert!(config == Config::default(), "{} = {} is not the default", info.key, info.absent);
            compared += 1;
        }
    }
    assert!(compared >= 15, "{compared}");
}

#[test]
fn earlier_names_are_read_and_reported() {
    let text = "[workers]\nshadows = true\nlog_every = 4\n[batch]\nsampler = \"shadow\"\nrows = 8\n[executor]\nspans = \"auto\"\n";
    let mut config = Config::parse_asked(text, "r.toml").unwrap();
    assert!(config.workers.redundant && config.workers.snapshot_every == 4);
    assert_eq!(config.batch.sampler.name(), "shadow-khop");
    config.set("workers.vanish_at=3").unwrap();
    let reported: Vec<String> = config.choices.deprecated.iter().map(ToString::to_string).collect();
    assert_eq!(reported.len(), 5, "{reported:?}");
    let sampler =
        "`batch.sampler = \"shadow\"` is now `batch.sampler = \"shadow-khop\"`; the next version will";
    assert!(reported.iter().any(|text| text.starts_with(sampler)), "{reported:?}");
    for key in ["workers.redundant", "workers.snapshot_every", "executor.fuse", "workers.fail_at"] {
        assert!(config.choices.is_asked(key), "{key}");
    }
    // The present names are written, and no suggestion has an earlier one.
    let written = config.to_toml().unwrap();
    assert!(written.contains("redundant = true") && !written.contains("shadows"), "{written}");
    assert_eq!(Config::parse(&written, "again").unwrap(), config);
}

#[test]
fn values_are_short() {
    let text = |key: &str| {
        let all = keys();
        all.iter().find(|info| info.key == key).unwrap().text()
    };
    assert_eq!(text("run.seed"), "Random seed: 0 to 2^63 - 1");
    assert_eq!(text("run.epochs"), "Number of passes over the training data: 1 to 10^9");
    assert_eq!(text("optimiser.lr"), "Learning rate: above 0");
    assert_eq!(text("model.dropout"), "Dropout probability of every layer's input: 0 <= dropout < 1");
    assert_eq!(text("model.bias"), "Bias of layers: true or false");
    assert_eq!(text("executor.audit").rsplit(": ").next().unwrap(), "0 to 1");
    assert_eq!(text("optimiser.kind"), "Algorithm of the weight update: sgd, adam, adamw");
}
