//! Counters of the emulated services, which correspond to the lines of a bill.

use serde::{Deserialize, Serialize};

/// Counters since the start of the emulator, as the services counted them. Counters never decrease,
/// so the bill of a period is a difference: [`Bill::minus`].
///
/// ```
/// let earlier = eciton_emulator::Bill { invocations: 2, billed_ms: 30, ..Default::default() };
/// let later = eciton_emulator::Bill { invocations: 5, billed_ms: 90, ..Default::default() };
/// assert_eq!(later.minus(&earlier).invocations, 3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bill {
    /// Number of invocations that an instance received, including failed ones. A throttled call
    /// counts as none, a doubled one as two.
    pub invocations: u64,
    /// Number of calls that were refused with status 429.
    pub throttled: u64,
    /// Number of invocations that were answered with a function error: errors of the worker,
    /// crashes, timeouts and answers that are too large.
    pub function_errors: u64,
    /// Number of invocations whose process ended before it answered.
    pub crashes: u64,
    /// Number of invocations that exceeded the function's timeout.
    pub timeouts: u64,
    /// Number of answers that were computed but not sent, because a fault closed the connection.
    pub lost_answers: u64,
    /// Number of additional runs of an event, because a fault doubled it.
    pub doubled: u64,
    /// Number of processes that were started.
    pub cold_starts: u64,
    /// Total time of cold starts, from the start of a process to its first request for work, in
    /// microseconds.
    pub init_us: u64,
    /// Total time of invocations, from the delivery of an event to its answer, in microseconds.
    pub duration_us: u64,
    /// Billed milliseconds: `ceil(init + duration)` of each invocation.
    pub billed_ms: u64,
    /// Billed milliseconds times the memory of the function in MB.
    pub billed_mb_ms: u64,
    /// Number of bytes in the events that were run.
    pub payload_bytes_in: u64,
    /// Number of bytes in the answers that were sent.
    pub payload_bytes_out: u64,
    /// Numbers and bytes of S3 requests, by kind.
    pub s3: S3Bill,
}

/// Counters of S3 in a [`Bill`]. Every request with a valid signature counts, including refused
/// ones, as AWS bills them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Bill {
    /// Number of PutObject, UploadPart, and of the requests that start and complete a multipart
    /// upload.
    pub puts: u64,
    /// Number of GetObject requests.
    pub gets: u64,
    /// Number of HeadObject and HeadBucket requests (priced as gets).
    pub heads: u64,
    /// Number of ListObjectsV2, ListBuckets and ListParts requests (priced as puts).
    pub lists: u64,
    /// Number of DeleteObject, DeleteObjects and AbortMultipartUpload requests (free on AWS).
    pub deletes: u64,
    /// Number of all these requests that were answered with an error, including failed conditions.
    pub refused: u64,
    /// Number of bytes of objects and parts that were received.
    pub bytes_in: u64,
    /// Number of bytes of objects that were sent.
    pub bytes_out: u64,
}

impl Bill {
    /// Returns the gigabyte-seconds that Lambda charges: memory in GB (1,024 MB) times billed
    /// seconds.
    pub fn gb_seconds(&self) -> f64 {
        self.billed_mb_ms as f64 / (1024.0 * 1000.0)
    }

    /// Returns the difference from `earlier`, a bill of the same emulator. Counters stop at zero if
    /// the two bills are swapped.
    pub fn minus(&self, earlier: &Bill) -> Bill {
        let sub = |a: u64, b: u64| a.saturating_sub(b);
        Bill {
            invocations: sub(self.invocations, earlier.invocations),
            throttled: sub(self.throttled, earlier.throttled),
            function_errors: sub(self.function_errors, earlier.function_errors),
            crashes: sub(self.crashes, earlier.crashes),
            timeouts: sub(self.timeouts, earlier.timeouts),
            lost_answers: sub(self.lost_answers, earlier.lost_answers),
            doubled: sub(self.doubled, earlier.doubled),
            cold_starts: sub(self.cold_starts, earlier.cold_starts),
            init_us: sub(self.init_us, earlier.init_us),
            duration_us: sub(self.duration_us, earlier.duration_us),
            billed_ms: sub(self.billed_ms, earlier.billed_ms),
            billed_mb_ms: sub(self.billed_mb_ms, earlier.billed_mb_ms),
            payload_bytes_in: sub(self.payload_bytes_in, earlier.payload_bytes_in),
            payload_bytes_out: sub(self.payload_bytes_out, earlier.payload_bytes_out),
            s3: S3Bill {
                puts: sub(self.s3.puts, earlier.s3.puts),
                gets: sub(self.s3.gets, earlier.s3.gets),
                heads: sub(self.s3.heads, earlier.s3.heads),
                lists: sub(self.s3.lists, earlier.s3.lists),
                deletes: sub(self.s3.deletes, earlier.s3.deletes),
                refused: sub(self.s3.refused, earlier.s3.refused),
                bytes_in: sub(self.s3.bytes_in, earlier.s3.bytes_in),
                bytes_out: sub(self.s3.bytes_out, earlier.s3.bytes_out),
            },
        }
    }

    /// Adds the time of one invocation: `init_us` (0 for a warm instance) and `duration_us`, with
    /// `memory_mb`. Returns its billed milliseconds.
    pub(crate) fn charge(&mut self, init_us: u64, duration_us: u64, memory_mb: u32) -> u64 {
        let billed_ms = (init_us + duration_us).div_ceil(1000);
        self.init_us += init_us;
        self.duration_us += duration_us;
        self.billed_ms += billed_ms;
        self.billed_mb_ms += billed_ms * u64::from(memory_mb);
        billed_ms
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn billed_time_is_init_and_duration_rounded_up_together() {
        let mut bill = Bill::default();
        assert_eq!(bill.charge(20_400, 1_500, 1769), 22);
        assert_eq!(bill.charge(0, 1_000, 1769), 1);
        assert_eq!(bill.charge(0, 1_001, 1769), 2);
        assert_eq!(bill.charge(0, 0, 1769), 0);
        assert_eq!((bill.billed_ms, bill.billed_mb_ms), (25, 25 * 1769));
        assert_eq!((bill.init_us, bill.duration_us), (20_400, 3_501));
    }

    #[test]
    fn a_gigabyte_second_is_1024_mb_for_1000_ms() {
        let mut bill = Bill::default();
        bill.charge(0, 1_000_000, 1024);
        assert_eq!(bill.gb_seconds(), 1.0);
    }

    #[test]
    fn a_difference_covers_every_counter() {
        // Fills every field through JSON, so that the test finds a field that `minus` lacks.
        let fill = |by: u64| {
            let mut value = serde_json::to_value(Bill::default()).unwrap();
            let mut next = by;
            let set = |map: &mut serde_json::Map<String, serde_json::Value>, next: &mut u64| {
                for field in map.values_mut().filter(|field| field.is_number()) {
                    *field = (*next * by).into();
                    *next += 1;
                }
            };
            let map = value.as_object_mut().unwrap();
            set(map, &mut next);
            set(map["s3"].as_object_mut().unwrap(), &mut next);
            serde_json::from_value::<Bill>(value).unwrap()
        };
        let (small, large) = (fill(3), fill(7));
        let whole = serde_json::to_value(large).unwrap();
        let difference = serde_json::to_value(large.minus(&small)).unwrap();
        let part = serde_json::to_value(small).unwrap();
        for name in whole.as_object().unwrap().keys().filter(|name| *name != "s3") {
            assert_eq!(
                difference[name].as_u64(),
                Some(whole[name].as_u64().unwrap() - part[name].as_u64().unwrap()),
                "{name}"
            );
        }
        for name in whole["s3"].as_object().unwrap().keys() {
            let expected = whole["s3"][name].as_u64().unwrap() - part["s3"][name].as_u64().unwrap();
            assert_eq!(difference["s3"][name].as_u64(), Some(expected), "s3.{name}");
        }
    }
}
