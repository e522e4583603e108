//! What a contender's process says of itself: epoch times and accuracy, from either side's JSON.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Middle and ends of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) count: u64,
}

impl Spread {
    /// None of no numbers.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Self { median, min, max, count: values.len() as u64 })
    }

    pub(crate) fn json(&self) -> Value {
        json!({"median": self.median, "min": self.min, "max": self.max, "n": self.count})
    }
}

/// The figures of one process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    /// Over the epochs of all seeds, each seed's warm-up left out; seconds.
    pub(crate) epoch_s: Spread,
    /// On the test vertices after the last epoch: mean over seeds.
    pub(crate) accuracy: f64,
    /// Standard deviation over seeds, of the population (as the peers' scripts compute it).
    pub(crate) accuracy_std: f64,
    /// How many were trained.
    pub(crate) seeds: u64,
    /// What the peer calls its versions.
    pub(crate) version: Option<String>,
    /// When it came to its target; none where it had none, or never did.
    pub(crate) reached: Option<Reached>,
}

/// The first epoch that came to a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reached {
    pub(crate) epochs: u64,
    /// Training until then, evaluations apart; seconds.
    pub(crate) train_s: f64,
    /// From the process's start until then, as a peer tells it; ours ends there.
    pub(crate) since_start_s: Option<f64>,
}

impl Reached {
    pub(crate) fn json(&self) -> Value {
        json!({"epochs": self.epochs, "train_s": self.train_s, "since_start_s": self.since_start_s})
    }

    /// From a peer's `reached`, or the `target` of a seed of ours.
    fn of(value: &Value, epochs: &str, seconds: &str) -> Option<Self> {
        let since_start_s = value["since_start_s"].as_f64();
        Some(Self { epochs: value[epochs].as_u64()?, train_s: value[seconds].as_f64()?, since_start_s })
    }
}

/// A key's number.
fn number(value: &Value, key: &str) -> Result<f64, String> {
    value[key].as_f64().ok_or_else(|| format!("its output has no number `{key}`"))
}

/// The objects of the lines that hold one. Python writes numbers that JSON lacks.
fn objects(stdout: &str) -> impl Iterator<Item = Value> {
    stdout.lines().filter(|line| line.starts_with('{')).filter_map(|line| {
        serde_json::from_str(line)
            .or_else(|_| {
                let plain = line
                    .replace(": NaN", ": null")
                    .replace(": Infinity", ": null")
                    .replace(": -Infinity", ": null");
                serde_json::from_str(&plain)
            })
            .ok()
    })
}

impl Figures {
    /// From the last line of a peer's script.
    pub(crate) fn of_peer(stdout: &str) -> Result<Self, String> {
        let line = objects(stdout).last().ok_or("it printed no JSON line")?;
        let epoch = &line["epoch_s"];
        let epoch_s = Spread {
            median: number(epoch, "median")?,
            min: number(epoch, "min")?,
            max: number(epoch, "max")?,
            count: epoch["n"].as_u64().unwrap_or(0),
        };
        Ok(Self {
            epoch_s,
            accuracy: number(&line, "test_acc")?,
            accuracy_std: number(&line, "test_acc_std")?,
            seeds: line["seeds"].as_u64().ok_or("its output has no number `seeds`")?,
            version: line["version"].as_str().map(str::to_owned),
            reached: Reached::of(&line["reached"], "epochs", "train_s"),
        })
    }

    /// From the lines of `eciton train --json`, without the first `warmup` epochs of each seed.
    pub(crate) fn of_eciton(stdout: &str, warmup: u32) -> Result<Self, String> {
        let (mut seconds, mut seeds, mut summary) = (Vec::new(), BTreeSet::new(), None);
        for line in objects(stdout) {
            match line["event"].as_str() {
                // Epochs count from 1.
                Some("epoch") if number(&line, "epoch")? > f64::from(warmup) => {
                    seconds.push(number(&line, "seconds")?);
                    seeds.insert(line["seed"].as_u64());
                }
                Some("summary") => summary = Some(line),
                _ => {}
            }
        }
        let summary = summary.ok_or("it printed no summary")?;
        if summary["stopped"].as_bool() == Some(true) {
            return Err("it was stopped early".to_owned());
        }
        let epoch_s = Spread::of(seconds).ok_or("it printed no epoch past the warm-up")?;
        let trained = summary["seeds"].as_array().map_or(0, Vec::len);
        if trained != seeds.len() {
            return Err(format!("its summary is of {trained} seeds, its epochs are of {}", seeds.len()));
        }
        Ok(Self {
            epoch_s,
            accuracy: number(&summary, "test_metric")?,
            accuracy_std: number(&summary, "test_metric_std")?,
            seeds: trained as u64,
            version: None,
            reached: Reached::of(&summary["seeds"][0]["target"], "epoch", "seconds"),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const PEER: &str = r#"{"peer": "dgl", "version": "DGL 2.1.0, torch 2.2.1", "epoch_s": {"median": 0.02, "min": 0.01, "max": 0.5, "p10": 0.01, "n": 97}, "test_acc": 0.9, "test_acc_std": 0.01, "seeds": 3, "loss": NaN}"#;

    fn epoch(seed: u32, epoch: u32, seconds: f64) -> String {
        format!(
            "{{\"event\":\"epoch\",\"seed\":{seed},\"epoch\":{epoch},\"loss\":1.5,\"seconds\":{seconds}}}\n"
        )
    }

    const SUMMARY: &str = r#"{"event":"summary","seeds":[{"seed":0},{"seed":1}],"test_metric":0.8,"test_metric_std":0.02,"stopped":false}"#;

    #[test]
    fn a_peers_line_is_read() {
        let found = Figures::of_peer(&format!("warning\n{{broken\n{PEER}\n")).unwrap();
        assert_eq!(found.epoch_s, Spread { median: 0.02, min: 0.01, max: 0.5, count: 97 });
        assert_eq!((found.accuracy, found.accuracy_std), (0.9, 0.01));
        assert_eq!(found.version.as_deref(), Some("DGL 2.1.0, torch 2.2.1"));
    }

    #[test]
    fn a_peer_without_figures_is_refused() {
        assert_eq!(Figures::of_peer("text\n").unwrap_err(), "it printed no JSON line");
        let none = PEER.replace("0.02", "NaN");
        assert_eq!(Figures::of_peer(&none).unwrap_err(), "its output has no number `median`");
    }

    #[test]
    fn ecitons_lines_are_read_without_the_warm_up_of_each_seed() {
        let mut text = String::new();
        for seed in 0..2 {
            // The first two of each seed are far off.
            for (at, seconds) in [9.0, 8.0, 0.25, 0.5].into_iter().enumerate() {
                text += &epoch(seed, at as u32 + 1, seconds + f64::from(seed));
            }
        }
        let found = Figures::of_eciton(&(text.clone() + SUMMARY), 2).unwrap();
        assert_eq!(found.epoch_s, Spread { median: 0.875, min: 0.25, max: 1.5, count: 4 });
        assert_eq!((found.accuracy, found.accuracy_std, found.version), (0.8, 0.02, None));
        assert_eq!(
            Figures::of_eciton(&(text.clone() + SUMMARY), 4).unwrap_err(),
            "it printed no epoch past the warm-up"
        );
        assert_eq!(Figures::of_eciton(&text, 0).unwrap_err(), "it printed no summary");
        let one = epoch(0, 1, 1.0) + SUMMARY;
        assert_eq!(
            Figures::of_eciton(&one, 0).unwrap_err(),
            "its summary is of 2 seeds, its epochs are of 1"
        );
        let stopped = text + &SUMMARY.replace("false", "true");
        assert_eq!(Figures::of_eciton(&stopped, 0).unwrap_err(), "it was stopped early");
    }

    #[test]
    fn medians_of_even_odd_and_none() {
        assert_eq!(
            Spread::of(vec![3.0, 1.0, 2.0]),
            Some(Spread { median: 2.0, min: 1.0, max: 3.0, count: 3 })
        );
        assert_eq!(Spread::of(vec![4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
