//! Likely causes of a model that is not better than always predicting the same class.

use eciton_runs::report::Summary;

/// Returns the likely causes, most likely first, if the models of a run have on average a lower
/// accuracy than always predicting the majority class. Otherwise returns an empty list.
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
    let setting = |key: &str| summary.settings.iter().find(|said| said.key == key);
    let mut found = Vec::new();
    if summary.seeds.iter().any(|seed| !seed.loss.is_finite()) {
        found.push("the loss is not a number: lower optimiser.lr".to_owned());
    }
    if let Some(scale) = setting("data.normalise_features").filter(|said| said.value == "as they are") {
        found.push(format!(
            "features are {}: --set data.normalise_features=columns scales columns of different units",
            scale.value
        ));
    }
    let better = |seed: &eciton_runs::report::SeedReport| {
        let best = seed.best.as_ref()?;
        (seed.kept_epoch.is_none() && best.epoch < seed.epochs).then_some(best.epoch)
    };
    if let Some(epoch) = summary.seeds.iter().find_map(better) {
        found.push(format!(
            "epoch {epoch} was best on the validation rows, and the last epoch was written: --set run.keep=best"
        ));
    }
    let train = summary.seeds.iter().filter_map(|seed| seed.metrics.train).sum::<f64>();
    let test = summary.seeds.iter().filter_map(|seed| seed.metrics.test).sum::<f64>();
    match train > 1.5 * test && test > 0.0 {
        true => found.push(
            "training rows are learnt and others are not: use fewer columns or more training rows, or raise \
             model.dropout"
                .to_owned(),
        ),
        false => found.push(
            "training rows are not learnt either: raise optimiser.lr or run.epochs, or lower model.dropout"
                .to_owned(),
        ),
    }
    found.push(
        "the largest class outweighs the others: --class-weights balanced, and look at the balanced accuracy"
            .to_owned(),
    );
    found
}
