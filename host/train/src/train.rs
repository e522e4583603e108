//! A whole run: seeds, reports, the run folder.

use std::collections::BTreeMap;
use std::time::Instant;

use eciton_plan::{Config, Keep, LayerKind, Program};

use crate::driver::Trained;
use crate::error::{Error, Result};
use crate::picture;
use crate::report::{EpochReport, Observer, SeedReport, Started, Summary};
use crate::run_folder::{NamedTensor, RunFolder, model_digest};
use crate::session::{Options, Session};

/// Trains as the configuration says, for each seed, and writes the run folder.
///
/// # Errors
/// Bad data, configuration or kernels; a kernel that fails; a run folder that cannot be written
/// (found out before the first epoch). Nothing is left half-written.
pub fn train(config: &Config, options: &Options, observer: &mut dyn Observer) -> Result<Summary> {
    let begun = Instant::now();
    let folder = options.out.as_deref().map(RunFolder::create).transpose()?;
    let mut session = Session::new(config, options, None)?;
    if session.prepared.dataset.split.train.is_empty() {
        return Err(Error::NoTraining { dataset: session.prepared.dataset.name.clone() });
    }
    if session.prepared.dataset.split.validation.is_empty() {
        let key = match (config.run.patience, config.run.keep) {
            (Some(_), _) => Some("run.patience"),
            (None, Keep::Best) => Some("run.keep = \"best\""),
            (None, Keep::Last) => None,
        };
        if let Some(key) = key {
            return Err(Error::NoValidation { dataset: session.prepared.dataset.name.clone(), key });
        }
    }
    let mut run = Run { config, options, folder, epoch_seconds: Vec::new(), digests: Vec::new() };
    if let Some(folder) = &mut run.folder {
        folder.check_ids(&session.prepared.vertices.ids)?;
        folder.write_config(&session.resolved(config))?;
        folder.write_versions(&session.kernels.digests(), eciton_tensor::simd::numeric_class())?;
    }
    let seeds: Vec<u64> =
        (0..u64::from(options.seeds.max(1))).map(|n| config.run.seed.wrapping_add(n)).collect();
    let dataset = &session.prepared.dataset;
    observer.started(&Started {
        dataset: dataset.name.clone(),
        vertices: u64::from(dataset.graph.vertices()),
        edges: dataset.graph.edges(),
        features: u64::from(session.prepared.shape.features),
        classes: u64::from(dataset.classes),
        model: model_name(&session.program),
        parameters: session.program.parameters.iter().map(|p| p.len() as u64).sum(),
        intervals: session.prepared.intervals.len() as u32,
        threads: session.threads,
        epochs: config.run.epochs,
        seeds: seeds.clone(),
        setup_seconds: begun.elapsed().as_secs_f64(),
    });
    let mut reports = Vec::new();
    let mut stopped = false;
    for (n, &seed) in seeds.iter().enumerate() {
        let mut watch = Watch { inner: observer, folder: run.folder.as_mut(), failed: None };
        let trained = session.train(config, seed, &mut watch)?;
        if let Some(error) = watch.failed {
            return Err(error.into());
        }
        reports.push(run.finish_seed(&mut session, n, seed, &trained, observer)?);
        stopped |= trained.stopped;
        if n == 0
            && let Some(folder) = &mut run.folder
        {
            let (dataset, model) = (&session.prepared.dataset.name, model_name(&session.program));
            let caption = picture::Caption { dataset, model: &model, seed };
            folder.write_curve(&picture::svg(&caption, &trained.epochs))?;
        }
        if stopped {
            break;
        }
    }
    session.records.finish()?;
    let mut summary = summarise(config, &session, reports, &mut run.epoch_seconds);
    summary.stopped = stopped;
    summary.run_dir = options.out.clone();
    summary.total_seconds = begun.elapsed().as_secs_f64();
    if let Some(mut folder) = run.folder {
        folder.write_summary(&summary)?;
        summary.run_dir = Some(folder.finish()?);
    }
    Ok(summary)
}

/// Passes an observer's news on, and epochs to `metrics.jsonl`.
struct Watch<'a> {
    inner: &'a mut dyn Observer,
    folder: Option<&'a mut RunFolder>,
    failed: Option<crate::run_folder::Error>,
}

impl Observer for Watch<'_> {
    fn epoch(&mut self, report: &EpochReport) {
        if let (Some(folder), None) = (&mut self.folder, &self.failed) {
            self.failed = folder.append_metrics(report).err();
        }
        self.inner.epoch(report);
    }

    fn stalled(&mut self, seconds: u64, waits_for: &[String]) {
        self.inner.stalled(seconds, waits_for);
    }

    fn log(&mut self, kernel: &str, line: &str) {
        self.inner.log(kernel, line);
    }
}

struct Run<'a> {
    config: &'a Config,
    options: &'a Options,
    folder: Option<RunFolder>,
    epoch_seconds: Vec<f64>,
    digests: Vec<String>,
}

impl Run<'_> {
    fn finish_seed(
        &mut self,
        session: &mut Session,
        n: usize,
        seed: u64,
        trained: &Trained,
        observer: &mut dyn Observer,
    ) -> Result<SeedReport> {
        let epochs = trained.epochs.as_slice();
        self.epoch_seconds.extend(epochs.iter().map(|e| e.seconds));
        let last = epochs.last().ok_or(Error::Stopped)?;
        // The scores of the last epoch are still there if it was evaluated.
        let accuracy = match last.accuracy {
            Some(accuracy) => accuracy,
            None => session.evaluate(observer)?,
        };
        let best = epochs
            .iter()
            .filter_map(|e| Some((e.epoch, e.accuracy?)))
            .reduce(|best, e| if e.1.validation > best.1.validation { e } else { best });
        let kept = trained.best.as_ref().filter(|best| best.epoch != last.epoch);
        if let Some(kept) = kept {
            for (parameter, values) in kept.values.iter().enumerate() {
                session.weights.set(parameter, values)?;
            }
            // The scores that are written are this model's, not the last one's.
            session.evaluate(observer)?;
        }
        let tensors = tensors(session)?;
        let digest = model_digest(&tensors);
        let report = SeedReport {
            seed,
            epochs: last.epoch,
            loss: last.loss,
            accuracy,
            best,
            kept_epoch: kept.map(|kept| kept.epoch),
            stopped_early: trained.stopped_early,
            model_digest: digest.clone(),
        };
        if let Some(folder) = &mut self.folder {
            let dataset = &session.prepared.dataset;
            let metadata = BTreeMap::from([
                ("eciton".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
                ("model".to_owned(), model_name(&session.program)),
                ("dataset".to_owned(), dataset.name.clone()),
                ("seed".to_owned(), seed.to_string()),
                (
                    "epochs".to_owned(),
                    format!("{} of {}", kept.map_or(last.epoch, |kept| kept.epoch), self.config.run.epochs),
                ),
                ("digest".to_owned(), digest.clone()),
            ]);
            let embeddings = if self.options.embeddings { session.embeddings()? } else { None };
            let mut place = if n == 0 { folder.top() } else { folder.seed(seed)? };
            place.write_model(&tensors, &metadata)?;
            let embeddings = embeddings.as_ref().map(|(width, values)| (*width, values.as_slice()));
            let ids = &session.prepared.vertices.ids;
            place.write_predictions(ids, dataset.vertices(), &session.scores()?, embeddings)?;
        }
        self.digests.push(digest);
        observer.seed(&report);
        Ok(report)
    }
}

/// The parameters under their names.
pub(crate) fn tensors(session: &Session) -> Result<Vec<NamedTensor>> {
    let named = |(at, p): (usize, &eciton_plan::Parameter)| -> Result<NamedTensor> {
        Ok(NamedTensor {
            name: p.name.clone(),
            shape: p.shape.iter().map(|&e| e as usize).collect(),
            values: session.weights.values(at)?,
        })
    };
    session.program.parameters.iter().enumerate().map(named).collect()
}

/// For instance `gcn 1433-16-7`.
pub(crate) fn model_name(program: &Program) -> String {
    let widths = program.model.layers.iter().map(|l| {
        let LayerKind::Gcn(layer) = l;
        format!("-{}", layer.width)
    });
    format!("gcn {}{}", program.shape.features, widths.collect::<String>())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn summarise(
    config: &Config,
    session: &Session,
    seeds: Vec<SeedReport>,
    epoch_seconds: &mut [f64],
) -> Summary {
    let tests: Vec<f64> = seeds.iter().filter_map(|s| s.accuracy.test).collect();
    let best: Vec<f64> = seeds.iter().filter_map(|s| s.best?.1.test).collect();
    let test = mean(&tests);
    let spread = test.map(|m| {
        let squares: f64 = tests.iter().map(|t| (t - m) * (t - m)).sum();
        if tests.len() < 2 { 0.0 } else { (squares / (tests.len() - 1) as f64).sqrt() }
    });
    epoch_seconds.sort_by(f64::total_cmp);
    let middle = epoch_seconds.len() / 2;
    let median = match epoch_seconds.len() {
        0 => 0.0,
        n if n % 2 == 1 => epoch_seconds[middle],
        _ => f64::midpoint(epoch_seconds[middle - 1], epoch_seconds[middle]),
    };
    Summary {
        dataset: session.prepared.dataset.name.clone(),
        model: model_name(&session.program),
        test_accuracy: test,
        test_accuracy_std: spread,
        test_accuracy_at_best_validation: mean(&best),
        epoch_seconds_median: median,
        total_seconds: 0.0,
        peak_memory_bytes: peak_memory_bytes(),
        model_digest: seeds.first().map_or_else(String::new, |s| s.model_digest.clone()),
        numeric_class: session.numeric_class(),
        intervals: session.prepared.intervals.len() as u32,
        threads: session.threads,
        order: session.prepared.vertices.ordered.clone(),
        executor: config.executor.kind.name().to_owned(),
        tasks: session.counts.tasks,
        rows_by_age: session.records.rows_by_age(),
        attempts: session.attempts(),
        bill: session.bill(),
        cost: session.cost(),
        stopped: false,
        run_dir: None,
        seeds,
    }
}

/// The process's peak resident memory; 0 where the system does not tell.
fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")).and_then(|n| n.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
