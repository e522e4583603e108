//! Likely causes of a model that is not better than always predicting the same class.

use eciton_runs::report::Summary;

use crate::resolved_settings::NOT_SCALED;

/// Returns the likely causes, most likely first, if the models of a run are on average worse than
/// always predicting the majority class. Returns no cause for a run above this baseline, and for a
/// run without a baseline.
#[must_use]
pub fn causes(summary: &Summary) -> Vec<String> {
    let judged: Vec<(f64, f64)> = summary
        .seeds
        .iter()
        .filter_map(|seed| {
            let quality = seed.quality.as_ref()?;
            Some((quality.accuracy?, quality.majority.as_ref()?.share))
        })
        .collect();
    let sum = |value: fn(&(f64, f64)) -> f64| judged.iter().map(value).sum::<f64>();
    if judged.is_empty() || sum(|of| of.0) >= sum(|of| of.1) {
        return Vec::new();
    }
    let setting = |key: &str| summary.settings.iter().find(|setting| setting.key == key);
    let mut found = Vec::new();
    if summary.seeds.iter().any(|seed| !seed.loss.is_finite()) {
        found.push("the loss is not a finite number; reduce optimiser.lr".to_owned());
    }
    if setting("data.normalise_features").is_some_and(|scale| scale.value == NOT_SCALED) {
        found.push(
            "the features are not scaled; scale columns of different units with --set \
             data.normalise_features=columns"
                .to_owned(),
        );
    }
    let better = |seed: &eciton_runs::report::SeedReport| {
        let best = seed.best.as_ref()?;
        (seed.kept_epoch.is_none() && best.epoch < seed.epochs).then_some(best.epoch)
    };
    if let Some(epoch) = summary.seeds.iter().find_map(better) {
        found.push(format!(
            "the model of epoch {epoch} was best on the validation rows, but the model of the last epoch was \
             written; use --set run.keep=best"
        ));
    }
    let train = summary.seeds.iter().filter_map(|seed| seed.metrics.train).sum::<f64>();
    let test = summary.seeds.iter().filter_map(|seed| seed.metrics.test).sum::<f64>();
    match train > 1.5 * test && test > 0.0 {
        true => found.push(
            "the model fits the training rows but not the test rows (overfitting); use fewer columns or more \
             training rows, or raise model.dropout"
                .to_owned(),
        ),
        false => found.push(
            "the model does not fit the training rows either (underfitting); raise optimiser.lr or \
             run.epochs, or reduce model.dropout"
                .to_owned(),
        ),
    }
    found.push(
        "the largest class may dominate the loss; use --class-weights balanced, and compare the balanced \
         accuracy"
            .to_owned(),
    );
    found
}
