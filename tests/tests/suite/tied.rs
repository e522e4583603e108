//! A weight that two layers have in common: its gradient is the sum over both, the same bits for any cut, and it is
//! stored once.
use eciton_recipe::{Config, Mode};
use eciton_tests::{cora, options, train};
use eciton_train::inspect::{FirstEpoch, first_epoch};
use eciton_train::{Options, Silent};

use crate::optimiser::dataset;

/// Layers 1 and 2 start with the same values, whether they have them in common or not.
fn config(tied: bool, epochs: u32) -> Config {
    let mut config = cora(epochs);
    let weights = if tied { ", weights_of = \"a\"" } else { "" };
    let layers = format!(
        "model.layers=[{{kernel=\"gcn\"}}, {{kernel=\"gcn\", name=\"a\"}}, {{kernel=\"linear\"{weights}}}, {{kernel=\"gcn\"}}]"
    );
    config.set("model.hidden=6").unwrap();
    config.set("model.dropout=0").unwrap();
    config.set("model.activation=\"tanh\"").unwrap();
    config.set("model.init={parameters={\"layers.1.weight\"={kind=\"constant\", value=0.25}}}").unwrap();
    if !tied {
        let both = "{kind=\"constant\", value=0.25}";
        let init =
            format!("model.init={{parameters={{\"layers.1.weight\"={both}, \"layers.2.weight\"={both}}}}}");
        config.set(&init).unwrap();
    }
    config.set(&layers).unwrap();
    config
}

fn first(tied: bool) -> FirstEpoch {
    first_epoch(&config(tied, 1), &options(), dataset(&cora(1))).unwrap()
}

#[test]
fn the_gradient_is_the_sum_of_both() {
    let (one, two) = (first(true), first(false));
    assert_eq!(one.losses, two.losses);
    let of = |found: &FirstEpoch, name: &str| {
        let tensor = found.gradients.iter().find(|tensor| tensor.name == name);
        tensor.map(|tensor| tensor.values.clone())
    };
    let (a, b) = (of(&two, "layers.1.weight").unwrap(), of(&two, "layers.2.weight").unwrap());
    let sum: Vec<u32> = a.iter().zip(&b).map(|(a, b)| (a + b).to_bits()).collect();
    assert!(b.iter().any(|value| *value != 0.0));
    let found: Vec<u32> = of(&one, "layers.1.weight").unwrap().iter().map(|value| value.to_bits()).collect();
    assert_eq!(found, sum);
    assert!(of(&one, "layers.2.weight").is_none(), "it is one parameter");
    assert_eq!(one.parameters.len() + 1, two.parameters.len());
}

/// A step by plain descent goes by the sum, clipped or not.
#[test]
fn a_step_goes_by_the_sum() {
    let folder = tempfile::tempdir().unwrap();
    for (name, clip) in [("plain", None), ("clipped", Some("optimiser.clip_value=1000"))] {
        let out = folder.path().join(name);
        let mut config = config(true, 1);
        for setting in
            ["optimiser.kind=sgd", "optimiser.lr=0.5", "optimiser.momentum=0", "optimiser.weight_decay=0"]
        {
            config.set(setting).unwrap();
        }
        clip.iter().for_each(|clip| config.set(clip).unwrap());
        let before = first_epoch(&config, &options(), dataset(&cora(1))).unwrap();
        eciton_train::train(&config, &Options { out: Some(out.clone()), ..options() }, &mut Silent).unwrap();
        config.set(&format!("run.init={:?}", out.to_str().unwrap())).unwrap();
        let after = first_epoch(&config, &options(), dataset(&cora(1))).unwrap();
        let at = before.parameters.iter().position(|tensor| tensor.name == "layers.1.weight").unwrap();
        let values = before.parameters[at].values.iter().zip(&before.gradients[at].values);
        for ((value, gradient), found) in values.zip(&after.parameters[at].values) {
            assert_eq!((value - 0.5 * gradient).to_bits(), found.to_bits(), "{name}");
        }
        assert!(before.gradients[at].values.iter().any(|&gradient| gradient != 0.0));
    }
}

#[test]
fn it_does_not_depend_on_the_cut() {
    let run = |intervals, threads, mode, clip: bool| {
        let mut config = config(true, 6);
        (config.run.intervals, config.run.threads) = (Some(intervals), Some(threads));
        config.pipeline.mode = mode;
        if clip {
            config.set("optimiser.clip_norm=0.01").unwrap();
        }
        let (summary, losses) = train(&config, &options()).unwrap();
        (summary.model_digest, losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>())
    };
    for clip in [false, true] {
        let wanted = run(1, 1, Mode::Pipe, clip);
        for (intervals, threads) in [(2, 1), (5, 2), (16, 2)] {
            for mode in [Mode::Sync, Mode::Pipe] {
                assert_eq!(run(intervals, threads, mode, clip), wanted, "{intervals}, {threads}, {mode:?}");
            }
        }
    }
}

#[test]
fn a_run_folder_has_it_once_and_another_run_begins_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let with_out = Options { out: Some(out.clone()), ..options() };
    let summary = eciton_train::train(&config(true, 4), &with_out, &mut Silent).unwrap();
    let mut further = config(true, 1);
    further.set(&format!("run.init={:?}", out.to_str().unwrap())).unwrap();
    // Frozen by the layer that it belongs to, in both places.
    further.set("optimiser.freeze=[0, 1, 2]").unwrap();
    let found = first_epoch(&further, &options(), dataset(&cora(1))).unwrap();
    assert_eq!(found.parameters.len(), 7);
    let text = String::from_utf8_lossy(&std::fs::read(out.join("model.safetensors")).unwrap()).into_owned();
    assert!(text.contains("layers.1.weight") && !text.contains("layers.2.weight"));
    assert!(summary.model_digest.len() > 8);
}
