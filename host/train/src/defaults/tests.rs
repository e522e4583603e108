#![allow(clippy::unwrap_used)]
use super::*;
use eciton_recipe::{Activation, NormaliseFeatures};

fn rows(kind: DataKind) -> Statistics {
    Statistics {
        kind,
        task: TaskType::Classification,
        rows: 400,
        columns: 64,
        outputs: 4,
        training: 240,
        is_validated: true,
        filled: 1.0,
        values: ValueKind::Numbers,
        largest: 16.0,
        homophily: None,
        degree: 0.0,
    }
}

fn asked(settings: &[&str]) -> Config {
    let mut config = Config::default();
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config.choices.open = true;
    config
}

fn reason(config: &Config, key: &str) -> String {
    let made = config.choices.made.iter().find(|made| made.key == key);
    made.map_or(String::new(), |made| made.reason.clone())
}

#[test]
fn each_kind_of_data_has_its_model() {
    let of = |statistics| settle_by(&asked(&[]), &statistics).unwrap();
    let table = of(rows(DataKind::Table));
    assert_eq!((table.model.kind, table.model.hidden), (ModelKind::Mlp, 64));
    assert_eq!(table.data.normalise_features, Some(NormaliseFeatures::Columns));
    assert_eq!(table.run.keep, eciton_recipe::Keep::LastBest);
    assert_eq!(reason(&table, "model.hidden"), "240 training rows, 4 classes");
    let images = of(rows(DataKind::Images([8, 8, 1])));
    let Layers::List(layers) = &images.model.layers else { unreachable!() };
    let kernels: Vec<&str> = layers.iter().map(|layer| &layer.kernel[..]).collect();
    assert_eq!(kernels, ["conv2d", "conv2d", "pool2d", "linear", "linear"]);
    assert_eq!((images.batch.rows, images.optimiser.lr), (Some(64), 0.001));
    let graph =
        Statistics { homophily: Some(0.7), filled: 0.01, values: ValueKind::Flags, ..rows(DataKind::Graph) };
    let graph_config = of(graph.clone());
    assert_eq!(
        (graph_config.model.kind, graph_config.model.norm),
        (ModelKind::Gcn, eciton_recipe::Norm::None)
    );
    assert_eq!(graph_config.data.normalise_features, Some(NormaliseFeatures::Rows));
    let low = of(Statistics { homophily: Some(0.01), ..graph.clone() });
    assert_eq!(
        (low.model.kind, low.model.residual, low.model.layers),
        (ModelKind::Sage, true, Layers::Count(4))
    );
    let filled = of(Statistics { filled: 0.3, ..graph });
    assert_eq!(filled.data.normalise_features, Some(NormaliseFeatures::None));
}

#[test]
fn settings_that_were_asked_for_decide_the_others() {
    let images = rows(DataKind::Images([8, 8, 1]));
    let config = settle_by(&asked(&["model.kind=mlp", "run.epochs=3"]), &images).unwrap();
    assert_eq!((config.model.kind, &config.model.layers), (ModelKind::Mlp, &Layers::Count(2)));
    assert_eq!((config.run.epochs, config.run.patience), (3, None));
    // Model kind `sgc` has no layer with a width.
    let config = settle_by(&asked(&["model.kind=sgc"]), &rows(DataKind::Graph)).unwrap();
    assert_eq!((config.model.hidden, reason(&config, "model.hidden")), (16, String::new()));
    let config = settle_by(&asked(&["model.kind=gat"]), &rows(DataKind::Graph)).unwrap();
    assert_eq!((config.optimiser.lr, config.model.activation), (0.005, None::<Activation>));
    // A pipeline excludes batches.
    let config =
        settle_by(&asked(&["pipeline.mode=sync"]), &Statistics { training: 9000, ..rows(DataKind::Table) });
    assert_eq!(config.unwrap().batch.rows, None);
}

#[test]
fn a_known_name_and_a_recipe_decide_themselves() {
    let mut config = asked(&[]);
    assert!(!is_open(&config), "cora");
    config.data.source = "citeseer".to_owned();
    assert!(!is_open(&config));
    config.data.source = data::IN_MEMORY.to_owned();
    assert!(is_open(&config));
    config.choices.open = false;
    assert!(!is_open(&config));
}
