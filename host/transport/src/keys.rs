//! Keys of the objects that a run writes to a store. The writer and the reader of an object derive
//! the same key from its identity.
//!
//! ```text
//! runs/{run}/p{pass}/r{round}/s{stage}/i{interval}/a{attempt}.task    request frame of one attempt
//! runs/{run}/p{pass}/r{round}/s{stage}/i{interval}/answer             answer to the step
//! runs/{run}/weights/v{version}/o{operation}                          parameters of an operation
//! runs/{run}/features/...                                             constant inputs
//! kernels/{digest}.{baseline}.cwasm                                   compiled kernels of all runs
//! ```
//!
//! The key of an answer does not contain the attempt, because the first attempt that answers wins.
//! A *pass* is one start of an engine. Each seed and each evaluation of a run is a pass, and counts
//! rounds and stages from the beginning. The pass in the key distinguishes their answers.
//!
//! Numbers are padded with zeros, so that listings are in chronological order. All keys of a run
//! start with [`RunKeys::prefix`], with which `eciton clean` deletes the objects.

use eciton_types::{Attempt, IntervalId, OperationId, Round, StageId, Step, TaskKey, Version};

use crate::error::{Error, Result, shortened};
use crate::key::Key;

/// Prefix of the object keys of all runs.
pub const RUNS: &str = "runs/";

/// Prefix of the object keys of compiled kernels.
pub const KERNELS: &str = "kernels/";

/// Maximum length of a run name, in bytes.
pub const MAX_RUN_BYTES: usize = 100;

/// Generator of the object keys of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKeys {
    prefix: String,
}

/// Components of an object key, as [`parse`] returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Name {
    /// Frame of the request for one attempt at a task.
    Task {
        /// Name of the run.
        run: String,
        /// Number of the pass. Each start of an engine is a pass.
        pass: u32,
        /// The task and its attempt number.
        key: TaskKey,
    },
    /// Frame of the answer to a step.
    Answer {
        /// Name of the run.
        run: String,
        /// Number of the pass. Each start of an engine is a pass.
        pass: u32,
        /// The step: a stage on an interval in a round.
        step: Step,
    },
    /// Parameters of one operation.
    Weights {
        /// Name of the run.
        run: String,
        /// Version of the parameters, which counts the updates.
        version: Version,
        /// The operation to which the parameters belong.
        operation: OperationId,
    },
    /// An input that does not change during a run.
    Features {
        /// Name of the run.
        run: String,
        /// Rest of the key after `features/`.
        name: String,
    },
    /// A compiled kernel, which all runs share.
    Kernel {
        /// SHA-256 digest of the kernel's WebAssembly component, as 64 hexadecimal digits.
        digest: String,
        /// Name of the processor level for which the kernel was compiled.
        baseline: String,
    },
}

impl RunKeys {
    /// Creates the generator for the run named `run`. The name must be a valid part of a key, with
    /// at most [`MAX_RUN_BYTES`] bytes.
    ///
    /// Two runs must not have the same name, because an answer is written only once and is never
    /// replaced.
    pub fn new(run: &str) -> Result<Self> {
        let refused = |reason: String| Err(Error::Key { key: shortened(run), reason });
        if run.contains('/') {
            return refused("the name of a run must not contain `/`".into());
        }
        if run.len() > MAX_RUN_BYTES {
            let found = run.len();
            return refused(format!(
                "the name of a run has {found} bytes, but the maximum is {MAX_RUN_BYTES}"
            ));
        }
        Key::new(run)?;
        Ok(Self { prefix: format!("{RUNS}{run}/") })
    }

    /// Returns the prefix of all object keys of the run, including the final `/`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the key of the request frame for one attempt at a task.
    pub fn task(&self, pass: u32, key: &TaskKey) -> Result<Key> {
        Key::new(format!("{}a{:02}.task", self.step(pass, &key.step()), key.attempt.0))
    }

    /// Returns the key of the answer to a step, which is the same for all attempts.
    pub fn answer(&self, pass: u32, step: &Step) -> Result<Key> {
        Key::new(format!("{}answer", self.step(pass, step)))
    }

    /// Returns the key of an operation's parameters after `version` updates.
    pub fn weights(&self, version: Version, operation: OperationId) -> Result<Key> {
        Key::new(format!("{}weights/v{:08}/o{:03}", self.prefix, version.0, operation.0))
    }

    /// Returns the key of an input that does not change during a run. The caller chooses `name`,
    /// for instance `s000/i00001` or a digest.
    pub fn features(&self, name: &str) -> Result<Key> {
        Key::new(format!("{}features/{name}", self.prefix))
    }

    fn step(&self, pass: u32, step: &Step) -> String {
        let Step { round, stage, interval } = step;
        format!("{}p{pass:06}/r{:06}/s{:03}/i{:05}/", self.prefix, round.0, stage.0, interval.0)
    }
}

/// Returns the key of a compiled kernel. `digest` is the SHA-256 digest of its WebAssembly
/// component, and `baseline` is the name of its processor level.
pub fn kernel(digest: &[u8; 32], baseline: &str) -> Result<Key> {
    use std::fmt::Write as _;
    if baseline.is_empty() || baseline.contains(['/', '.']) {
        let reason =
            "the name of a processor level must not be empty, and must not contain `/` or `.`".into();
        return Err(Error::Key { key: shortened(baseline), reason });
    }
    let mut hex = String::with_capacity(64);
    for byte in digest {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Key::new(format!("{KERNELS}{hex}.{baseline}.cwasm"))
}

/// Parses a key into its components. Returns `None` if the key does not have exactly the form that
/// this module generates. For instance, `r1` is not accepted instead of `r000001`.
#[must_use]
pub fn parse(key: &Key) -> Option<Name> {
    let text = key.as_str();
    if let Some(kernel) = text.strip_prefix(KERNELS) {
        let (digest, baseline) = kernel.strip_suffix(".cwasm")?.split_once('.')?;
        let hex = digest.len() == 64 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let plain = !baseline.is_empty() && !baseline.contains(['/', '.']);
        return (hex && plain).then(|| Name::Kernel { digest: digest.into(), baseline: baseline.into() });
    }
    let (run, rest) = text.strip_prefix(RUNS)?.split_once('/')?;
    let keys = RunKeys::new(run).ok()?;
    let run = run.to_owned();
    if let Some(name) = rest.strip_prefix("features/") {
        return Some(Name::Features { run, name: name.to_owned() });
    }
    let parts: Vec<&str> = rest.split('/').collect();
    let (name, written) = match parts[..] {
        ["weights", version, operation] => {
            let version = Version(number(version, "v")?);
            let operation = OperationId(number(operation, "o")?);
            (Name::Weights { run, version, operation }, keys.weights(version, operation))
        }
        [pass, round, stage, interval, last] => {
            let pass = number(pass, "p")?;
            let round = Round(number(round, "r")?);
            let step = Step {
                round,
                stage: StageId(number(stage, "s")?),
                interval: IntervalId(number(interval, "i")?),
            };
            if last == "answer" {
                (Name::Answer { run, pass, step }, keys.answer(pass, &step))
            } else {
                let attempt = Attempt(number(last.strip_suffix(".task")?, "a")?);
                let Step { round, stage, interval } = step;
                let key = TaskKey { round, stage, interval, attempt };
                (Name::Task { run, pass, key }, keys.task(pass, &key))
            }
        }
        _ => return None,
    };
    (written.ok()? == *key).then_some(name)
}

fn number<N: std::str::FromStr>(text: &str, letter: &str) -> Option<N> {
    text.strip_prefix(letter)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: TaskKey =
        TaskKey { round: Round(12), stage: StageId(3), interval: IntervalId(45), attempt: Attempt(1) };

    #[test]
    fn names_are_written_and_understood() {
        let keys = RunKeys::new("cora-1").unwrap();
        let run = || "cora-1".to_owned();
        let task = keys.task(2, &KEY).unwrap();
        assert_eq!(task.as_str(), "runs/cora-1/p000002/r000012/s003/i00045/a01.task");
        assert_eq!(parse(&task), Some(Name::Task { run: run(), pass: 2, key: KEY }));
        let answer = keys.answer(0, &KEY.step()).unwrap();
        assert_eq!(answer.as_str(), "runs/cora-1/p000000/r000012/s003/i00045/answer");
        assert_eq!(parse(&answer), Some(Name::Answer { run: run(), pass: 0, step: KEY.step() }));
        let weights = keys.weights(Version(7), OperationId(2)).unwrap();
        assert_eq!(weights.as_str(), "runs/cora-1/weights/v00000007/o002");
        assert_eq!(
            parse(&weights),
            Some(Name::Weights { run: run(), version: Version(7), operation: OperationId(2) })
        );
        let features = keys.features("s000/i00001").unwrap();
        assert_eq!(features.as_str(), "runs/cora-1/features/s000/i00001");
        assert_eq!(parse(&features), Some(Name::Features { run: run(), name: "s000/i00001".into() }));
        let object = kernel(&[0xab; 32], "x86-64-v3").unwrap();
        assert_eq!(object.as_str(), format!("kernels/{}.x86-64-v3.cwasm", "ab".repeat(32)));
        assert_eq!(
            parse(&object),
            Some(Name::Kernel { digest: "ab".repeat(32), baseline: "x86-64-v3".into() })
        );
        for key in [task, answer, weights, features] {
            assert!(key.as_str().starts_with(keys.prefix()));
        }
    }

    #[test]
    fn the_largest_numbers_still_fit_and_come_back() {
        let keys = RunKeys::new(&"r".repeat(MAX_RUN_BYTES)).unwrap();
        let key = TaskKey {
            round: Round(u32::MAX),
            stage: StageId(u16::MAX),
            interval: IntervalId(u32::MAX),
            attempt: Attempt(u32::MAX),
        };
        let task = keys.task(u32::MAX, &key).unwrap();
        assert!(matches!(parse(&task), Some(Name::Task { key: found, .. }) if found == key));
        let weights = keys.weights(Version(u64::MAX), OperationId(u16::MAX)).unwrap();
        assert!(matches!(parse(&weights), Some(Name::Weights { version: Version(u64::MAX), .. })));
    }

    #[test]
    fn a_run_cannot_be_named_out_of_its_folder() {
        for bad in ["", "a/b", "..", ".", "../a", "A", "a b", "a/", &"r".repeat(MAX_RUN_BYTES + 1)] {
            assert!(RunKeys::new(bad).is_err(), "{bad:?}");
        }
        let keys = RunKeys::new("r").unwrap();
        for bad in ["", "../weights", "a//b", "/a", "A"] {
            assert!(keys.features(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "../x", "a.b", "a/b", "A"] {
            assert!(kernel(&[0; 32], bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn there_is_one_name_for_each_thing() {
        for bad in [
            "runs/r/p000000/r1/s000/i00000/answer",
            "runs/r/p000000/r000001/s000/i00000/a1.task",
            "runs/r/p000000/r0000001/s000/i00000/answer",
            "runs/r/p000000/e-00001/s000/i00000/answer",
            "runs/r/p000000/r4294967296/s000/i00000/answer",
            "runs/r/p000000/r000001/s70000/i00000/answer",
            "runs/r/p000000/r000001/i00000/s000/answer",
            "runs/r/p000000/r000001/s000/i00000/answer/x",
            "runs/r/p000000/r000001/s000/answer",
            "runs/r/p000000/x000001/s000/i00000/answer",
            "runs/r/p0/r000001/s000/i00000/answer",
            "runs/r/r000001/s000/i00000/answer",
            "runs/r/weights/v1/o000",
            "runs/r",
            "kernels/ab.x86-64-v3.cwasm",
            "kernels/x.cwasm",
            "other",
        ] {
            assert_eq!(parse(&Key::new(bad).unwrap()), None, "{bad}");
        }
        let long = format!("kernels/{}.a.b.cwasm", "0".repeat(64));
        assert_eq!(parse(&Key::new(long).unwrap()), None);
    }
}
