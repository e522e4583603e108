//! Random faults of the emulated cloud. Invocations may crash, lose their answer, run twice or be
//! slow.
//!
//! A fault depends on the seed, the bytes of the event, and the number of earlier events with the
//! same bytes. It does not depend on time or on the order of arrival. Two runs that send the same
//! events therefore have the same faults, whatever the order of their threads.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::time::Duration;

/// Probabilities of the faults of one invocation, each from 0.0 to 1.0.
///
/// An invocation has at most one crash or lost answer, which is the first one drawn in the order of
/// the fields. The other faults may happen in addition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Probability that the process is killed before it receives the event. The client gets
    /// `Runtime.ExitError`.
    pub crash_before: f64,
    /// Probability that the process is killed while it works on the event. The client gets
    /// `Runtime.ExitError`. Objects that the process has already written to S3 remain.
    pub crash_during: f64,
    /// Probability that the process is killed after the client has got the answer. The next event
    /// needs another process.
    pub crash_after: f64,
    /// Probability that the connection is closed without a response, after the event was processed
    /// and billed.
    pub lose_answer: f64,
    /// Probability that one byte of the answer is changed on its way to the client.
    pub corrupt_answer: f64,
    /// Probability that the event is run a second time, as with at-least-once delivery. The client
    /// gets the answer of the first run.
    pub double: f64,
    /// Probability that the answer is delayed by [`Faults::straggle_delay`]. The delay is billed.
    pub straggle: f64,
    /// Delay of the answers that [`Faults::straggle`] selects. It is serialised in milliseconds.
    #[serde(with = "millis")]
    pub straggle_delay: Duration,
    /// Probability that the call is refused with the HTTP status 429 before the event is run.
    pub throttle: f64,
}

impl Default for Faults {
    /// Returns faults that never happen.
    fn default() -> Self {
        Faults {
            seed: 0,
            crash_before: 0.0,
            crash_during: 0.0,
            crash_after: 0.0,
            lose_answer: 0.0,
            corrupt_answer: 0.0,
            double: 0.0,
            straggle: 0.0,
            straggle_delay: Duration::from_millis(500),
            throttle: 0.0,
        }
    }
}

impl Faults {
    /// Returns the names and the values of all probabilities.
    pub(crate) fn probabilities(&self) -> [(&'static str, f64); 8] {
        [
            ("faults.crash_before", self.crash_before),
            ("faults.crash_during", self.crash_during),
            ("faults.crash_after", self.crash_after),
            ("faults.lose_answer", self.lose_answer),
            ("faults.corrupt_answer", self.corrupt_answer),
            ("faults.double", self.double),
            ("faults.straggle", self.straggle),
            ("faults.throttle", self.throttle),
        ]
    }
}

/// Serialisation of durations as whole milliseconds.
mod millis {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// Time of an invocation at which its process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    Before,
    /// The process is killed after this time of work on the event, or at its answer if that is
    /// earlier.
    During(Duration),
    After,
}

/// Faults of one invocation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fate {
    pub(crate) throttle: bool,
    pub(crate) crash: Option<Crash>,
    pub(crate) lose_answer: bool,
    /// Position of the changed byte, as a fraction of the answer's length. `None` if no byte is
    /// changed.
    pub(crate) corrupt_answer: Option<f64>,
    pub(crate) double: bool,
    pub(crate) straggle: Option<Duration>,
}

/// Maximum number of different events whose occurrences are counted. Beyond it, all counts restart
/// at zero.
pub(crate) const SEEN_EVENTS: usize = 1 << 20;

/// Random generator of faults. It counts how often each event has occurred.
#[derive(Debug)]
pub(crate) struct Draw {
    faults: Faults,
    active: bool,
    seen: HashMap<[u8; 16], u32>,
}

impl Draw {
    pub(crate) fn new(faults: Faults) -> Self {
        let active = faults.probabilities().iter().any(|(_, probability)| *probability > 0.0);
        Draw { faults, active, seen: HashMap::new() }
    }

    /// Returns the identity of an event, or `None` if no fault is `active`. The caller should hold
    /// no lock, because the whole payload is hashed.
    pub(crate) fn identity(active: bool, function: &str, payload: &[u8]) -> Option<[u8; 16]> {
        active.then(|| {
            let mut hash = Sha256::new();
            hash.update((function.len() as u64).to_le_bytes());
            hash.update(function.as_bytes());
            hash.update(payload);
            head(&hash.finalize())
        })
    }

    pub(crate) fn active(&self) -> bool {
        self.active
    }

    /// Returns the faults of the next occurrence of the event `identity`.
    pub(crate) fn next(&mut self, identity: Option<[u8; 16]>) -> Fate {
        let Some(identity) = identity else { return Fate::default() };
        if self.seen.len() >= SEEN_EVENTS && !self.seen.contains_key(&identity) {
            self.seen.clear();
        }
        let seen = self.seen.entry(identity).or_default();
        let sighting = *seen;
        *seen = seen.saturating_add(1);
        self.fate(&identity, sighting)
    }

    fn fate(&self, identity: &[u8; 16], sighting: u32) -> Fate {
        let faults = &self.faults;
        let draw = |name: &str| uniform(faults.seed, name, identity, sighting);
        let hit = |name: &str, probability: f64| draw(name) < probability;
        let crash = if hit("crash_before", faults.crash_before) {
            Some(Crash::Before)
        } else if hit("crash_during", faults.crash_during) {
            Some(Crash::During(Duration::from_micros((draw("crash_moment") * 5000.0) as u64)))
        } else if hit("crash_after", faults.crash_after) {
            Some(Crash::After)
        } else {
            None
        };
        Fate {
            throttle: hit("throttle", faults.throttle),
            crash,
            lose_answer: crash.is_none() && hit("lose_answer", faults.lose_answer),
            corrupt_answer: hit("corrupt_answer", faults.corrupt_answer).then(|| draw("corrupt_byte")),
            double: hit("double", faults.double),
            straggle: hit("straggle", faults.straggle).then_some(faults.straggle_delay),
        }
    }
}

/// Returns a pseudorandom number from 0.0 to below 1.0, which is a hash of all arguments.
fn uniform(seed: u64, name: &str, identity: &[u8; 16], sighting: u32) -> f64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(sighting.to_le_bytes());
    hash.update(identity);
    hash.update(name.as_bytes());
    let head: [u8; 8] = head(&hash.finalize());
    (u64::from_le_bytes(head) >> 11) as f64 / (1u64 << 53) as f64
}

fn head<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(digest) {
        *to = *from;
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn faulty() -> Faults {
        Faults {
            seed: 7,
            crash_before: 0.02,
            crash_during: 0.05,
            crash_after: 0.05,
            lose_answer: 0.05,
            corrupt_answer: 0.04,
            double: 0.05,
            straggle: 0.10,
            throttle: 0.03,
            ..Faults::default()
        }
    }

    #[test]
    fn nothing_happens_without_faults() {
        let mut draw = Draw::new(Faults::default());
        assert!(!draw.active());
        let identity = Draw::identity(draw.active(), "f", b"{}");
        assert_eq!(draw.next(identity), Fate::default());
        assert!(draw.seen.is_empty());
    }

    #[test]
    fn the_order_of_arrival_changes_nothing() {
        let events: Vec<Vec<u8>> = (0..500u32).map(|i| i.to_le_bytes().to_vec()).collect();
        let run = |order: &mut dyn Iterator<Item = usize>| {
            let mut draw = Draw::new(faulty());
            let mut fates: HashMap<usize, Vec<Fate>> = HashMap::new();
            for at in order {
                let identity = Draw::identity(true, "f", &events[at]);
                fates.entry(at).or_default().push(draw.next(identity));
            }
            fates
        };
        let forward = run(&mut (0..500).chain(0..500));
        let backward = run(&mut (0..500).rev().flat_map(|at| [at, at]));
        assert_eq!(forward, backward);
        assert!(forward.values().any(|fates| fates[0] != fates[1]), "a second sighting is drawn anew");
    }

    #[test]
    fn frequencies_are_the_probabilities() {
        let mut draw = Draw::new(faulty());
        let fates: Vec<Fate> =
            (0..20_000u32).map(|i| draw.next(Draw::identity(true, "f", &i.to_le_bytes()))).collect();
        let share = |test: &dyn Fn(&Fate) -> bool| {
            fates.iter().filter(|fate| test(fate)).count() as f64 / fates.len() as f64
        };
        for (found, expected) in [
            (share(&|fate| fate.crash == Some(Crash::Before)), 0.02),
            (share(&|fate| matches!(fate.crash, Some(Crash::During(_)))), 0.05 * 0.98),
            (share(&|fate| fate.corrupt_answer.is_some()), 0.04),
            (share(&|fate| fate.double), 0.05),
            (share(&|fate| fate.straggle.is_some()), 0.10),
            (share(&|fate| fate.throttle), 0.03),
        ] {
            assert!((found - expected).abs() < 0.008, "{found} against {expected}");
        }
        let other = Draw::new(Faults { seed: 8, ..faulty() });
        let identity = Draw::identity(true, "f", &1u32.to_le_bytes()).unwrap();
        assert!((0..50).any(|n| other.fate(&identity, n) != draw.fate(&identity, n)), "the seed matters");
    }

    #[test]
    fn the_table_of_sightings_is_bounded() {
        let mut draw = Draw::new(faulty());
        for i in 0..=SEEN_EVENTS as u64 {
            let mut identity = [0; 16];
            identity[..8].copy_from_slice(&i.to_le_bytes());
            *draw.seen.entry(identity).or_default() += 1;
            if draw.seen.len() >= SEEN_EVENTS {
                break;
            }
        }
        draw.next(Some([0xff; 16]));
        assert_eq!(draw.seen.len(), 1);
    }

    #[test]
    fn settings_survive_their_file_form() {
        let text = serde_json::to_string(&faulty()).unwrap();
        assert_eq!(serde_json::from_str::<Faults>(&text).unwrap(), faulty());
        assert_eq!(serde_json::from_str::<Faults>("{}").unwrap(), Faults::default());
        assert!(serde_json::from_str::<Faults>(r#"{"crash": 1}"#).is_err());
    }
}
