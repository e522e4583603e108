//! Counters of the emulated services, from which costs can be computed.

use serde::{Deserialize, Serialize};

/// Counters of the emulated services since the start of the emulator. They never decrease, so the
/// difference of two bills ([`Bill::minus`]) is the usage between them.
///
/// ```
/// let earlier = eciton_emulator::Bill { invocations: 2, billed_ms: 30, ..Default::default() };
/// let later = eciton_emulator::Bill { invocations: 5, billed_ms: 90, ..Default::default() };
/// assert_eq!(later.minus(&earlier).invocations, 3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bill {
    /// Number of invocations that ran, including failed ones. A throttled call does not count, and
    /// a call that a fault doubled counts twice.
    pub invocations: u64,
    /// Number of calls that were refused with the HTTP status 429.
    pub throttled: u64,
    /// Number of invocations that were answered with a function error. Such errors are errors of
    /// the worker, crashes, timeouts and answers that are too large.
    pub function_errors: u64,
    /// Number of invocations whose process ended before it had answered.
    pub crashes: u64,
    /// Number of invocations that exceeded the time limit of their function.
    pub timeouts: u64,
    /// Number of computed answers that were not sent, because a fault closed the connection.
    pub lost_answers: u64,
    /// Number of additional runs of an event that a fault caused.
    pub doubled: u64,
    /// Number of processes that were started.
    pub cold_starts: u64,
    /// Total time of cold starts in microseconds. A cold start is the time from the start of a
    /// process to its first request for work.
    pub init_us: u64,
    /// Total time from the delivery of an event to its answer, over all invocations, in
    /// microseconds.
    pub duration_us: u64,
    /// Total billed time in milliseconds. Each invocation is billed for its cold start and its
    /// duration, rounded up to a millisecond.
    pub billed_ms: u64,
    /// Sum over all invocations of billed milliseconds times the memory of the function in MB.
    pub billed_mb_ms: u64,
    /// Total size of the events that were run, in bytes.
    pub payload_bytes_in: u64,
    /// Total size of the answers that were sent, in bytes.
    pub payload_bytes_out: u64,
    /// Counters of S3 requests and bytes.
    pub s3: S3Bill,
}

/// Counters of S3 requests and bytes in a [`Bill`]. Every request with a valid signature counts,
/// even if it is refused, because AWS bills these requests as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Bill {
    /// Number of PutObject and UploadPart requests, and of requests that start and complete
    /// multipart uploads.
    pub puts: u64,
    /// Number of GetObject requests.
    pub gets: u64,
    /// Number of HeadObject and HeadBucket requests, which cost as much as GetObject requests.
    pub heads: u64,
    /// Number of ListObjectsV2, ListBuckets and ListParts requests, which cost as much as PutObject
    /// requests.
    pub lists: u64,
    /// Number of DeleteObject, DeleteObjects and AbortMultipartUpload requests, which are free on
    /// AWS.
    pub deletes: u64,
    /// Number of requests that were answered with an error, including failed conditions.
    pub refused: u64,
    /// Total size of the objects and parts that were received, in bytes.
    pub bytes_in: u64,
    /// Total size of the objects and parts of objects that were sent, in bytes.
    pub bytes_out: u64,
}

impl Bill {
    /// Returns the GB-seconds that Lambda charges: the memory in GB (1,024 MB) times the billed
    /// seconds.
    pub fn gb_seconds(&self) -> f64 {
        self.billed_mb_ms as f64 / (1024.0 * 1000.0)
    }

    /// Returns the difference between this bill and `earlier`, a bill of the same emulator. A
    /// negative difference becomes zero.
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

    /// Adds the time of one invocation of a function with `memory_mb`. `init_us` is the time of its
    /// cold start, or 0. Returns the billed milliseconds.
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
