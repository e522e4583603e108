//! Audit of answers: the host computes a share of all tasks a second time. The engine gets an
//! audited answer only if it equals the host's result bit for bit.
//!
//! If the two results differ, the host computes the task once more. If both results of the host are
//! equal, the process that answered computed wrongly. The audit then excludes this process and
//! ignores its later answers.
//!
//! The comparison is exact because the sums within a task have a fixed order. Two computations of a
//! task therefore give the same bits on all machines of one numeric class.

mod draw;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use eciton_kernel::Error;
use eciton_kernel::wire::Answer;
use eciton_types::TaskKey;

use crate::completion::{Answered, Completion, Timing, WorkError};
use crate::executor::Executor;
use crate::framed::{Framed, Framing};
use crate::job::Order;
use crate::local::LocalPool;
use crate::process::Process;

pub use draw::{Audited, Draw, Verdict};

/// A submitted task whose answer the audit may have to compare.
struct Open {
    /// Copy of the task as a frame (a binary message), from which the host computes the task.
    twin: Arc<Framed>,
    /// True if the task was selected at random for comparison.
    chosen: bool,
    /// True if the worker stores result rows of the task for later tasks. The host's result then
    /// cannot replace the worker's answer.
    stays: bool,
    state: State,
}

/// Progress of the audit of one task.
enum State {
    /// The executor has not received an answer yet.
    Asked,
    /// The audit withholds the answer while the host computes the task for the first time.
    Second(Withheld),
    /// The answer and the host's first result (the second field) differ. The host is computing the
    /// task again to find out which of the two is wrong.
    Third(Withheld, Box<Answer>),
    /// The answer came from an excluded process and is ignored. The engine gets the host's result
    /// instead.
    Alone,
}

/// Answer that the audit withholds from the engine, with its sender and timing.
struct Withheld {
    answer: Box<Answer>,
    by: Process,
    timing: Timing,
}

/// Audit of the answers that an executor receives from other processes. It compares them with
/// results of the host, and records tasks in flight and excluded processes.
pub struct Audit {
    draw: Draw,
    framing: Framing,
    open: BTreeMap<(u32, TaskKey), Open>,
    /// Number of tasks that the host is computing for a comparison.
    comparing: usize,
    excluded: BTreeSet<Process>,
    /// Processes that gave a wrong answer and that the executor still has to exclude.
    caught: Vec<Process>,
    counts: Audited,
}

impl Audit {
    /// Creates an audit that compares the fraction `share` of all tasks, from 0.0 (none) to 1.0
    /// (all). `framing` sets how a task is copied to a frame for the host.
    pub fn new(share: f64, framing: Framing) -> Self {
        Self {
            draw: Draw { share, key: RandomState::new() },
            framing,
            open: BTreeMap::new(),
            comparing: 0,
            excluded: BTreeSet::new(),
            caught: Vec::new(),
            counts: Audited::default(),
        }
    }

    /// Returns the random selection of tasks to compare, or `None` if no task is audited.
    pub fn draw(&self) -> Option<&Draw> {
        Some(&self.draw).filter(|draw| draw.share > 0.0)
    }

    /// Returns the numbers of answers received and compared so far, or `None` if no task is
    /// audited.
    pub fn counts(&self) -> Option<&Audited> {
        self.draw().map(|_| &self.counts)
    }

    /// Removes and returns the processes that gave a wrong answer and that the executor has to
    /// exclude.
    pub fn take_caught(&mut self) -> Vec<Process> {
        std::mem::take(&mut self.caught)
    }

    /// Records that the executor has submitted `order`. Stores a copy of its task if the answer may
    /// have to be compared.
    ///
    /// # Errors
    /// Returns an [`Error`] if the task needs a copy and its frame cannot be written.
    pub fn submitted(&mut self, order: &Order) -> Result<(), Error> {
        let Some(draw) = self.draw() else { return Ok(()) };
        let (id, call) = ((order.pass, order.task.key()), &order.work.call);
        let of_lane = order.affinity.is_bound();
        let chosen = match of_lane {
            true => draw.takes_round(order.task.round),
            false => draw.takes(id),
        };
        let stays = !call.keeps.is_empty();
        // Answers of an excluded process may still arrive, and the host then computes their tasks.
        // Another worker repeats the tasks of a lane.
        if chosen || !self.excluded.is_empty() && !of_lane {
            let twin = self.framing.write_call(order, order.work.twin.as_deref().unwrap_or(call))?;
            self.open.insert(id, Open { twin: Arc::new(twin), chosen, stays, state: State::Asked });
        }
        Ok(())
    }

    /// Forgets all tasks without an answer. Called when the executor cancels its tasks.
    pub fn cancel(&mut self) {
        self.open.retain(|_, open| !matches!(open.state, State::Asked));
    }

    /// Drains `local` as [`Executor::drain`] does, but withholds answers until their comparison is
    /// done.
    pub fn drain(
        &mut self,
        local: &mut LocalPool,
        done: &mut Vec<Completion>,
        timeout: Option<Duration>,
    ) -> bool {
        if self.draw().is_none() {
            return local.drain(done, timeout);
        }
        let mut ended = Vec::new();
        let under_way = local.drain(&mut ended, timeout);
        for completion in ended {
            match completion {
                Completion::Ended { .. } => {
                    self.ended(completion, &mut |twin| local.submit_framed(twin), done);
                }
                other => done.push(other),
            }
        }
        under_way || self.comparing > 0
    }

    /// Handles the end of a task. If the host has to compute the task, this calls `compute` with
    /// the task's frame.
    fn ended(
        &mut self,
        completion: Completion,
        compute: &mut dyn FnMut(Arc<Framed>),
        done: &mut Vec<Completion>,
    ) {
        let Completion::Ended { pass, key, affinity, timing, by, result } = completion else { return };
        let id = (pass, key);
        let push = |done: &mut Vec<Completion>, timing, by, result| {
            done.push(Completion::Ended { pass, key, affinity, timing, by, result });
        };
        let elsewhere = by != Process::HOST;
        if elsewhere && matches!(result, Ok(Answered::Apart(_))) {
            self.counts.answers += 1;
        }
        let Some(mut open) = self.open.remove(&id) else {
            let result = match self.excluded.contains(&by) {
                true => Err(untrue(key)),
                false => result,
            };
            return push(done, timing, by, result);
        };
        match (open.state, result, by) {
            (State::Asked, Ok(Answered::Apart(answer)), by) if elsewhere => {
                let own = eciton_tensor::numeric_class();
                let found = &answer.meta().numeric_class;
                if found != own {
                    done.push(Completion::Audited {
                        step: key.step(),
                        verdict: Verdict::Class(found.clone()),
                    });
                }
                open.state = match self.excluded.contains(&by) {
                    true if open.stays => return push(done, timing, Process::HOST, Err(untrue(key))),
                    true => State::Alone,
                    false if open.chosen => State::Second(Withheld { answer, by, timing }),
                    false => return push(done, timing, by, Ok(Answered::Apart(answer))),
                };
                self.compare(id, open, compute);
            }
            // The host computed the task, or no process did.
            (State::Asked, result, by) => push(done, timing, by, result),
            (State::Alone, result, by) => {
                self.comparing -= 1;
                push(done, timing, by, result);
            }
            (State::Second(withheld), Ok(Answered::Apart(own)), _) => {
                self.comparing -= 1;
                self.counts.compared += 1;
                if own.has_values_of(&withheld.answer) {
                    let Withheld { answer, by, timing } = withheld;
                    return push(done, timing, by, Ok(Answered::Apart(answer)));
                }
                open.state = State::Third(withheld, own);
                self.compare(id, open, compute);
            }
            (State::Third(withheld, own), Ok(Answered::Apart(again)), _) => {
                self.comparing -= 1;
                let verdict = match own.has_values_of(&again) {
                    true => {
                        let by = withheld.by;
                        if self.excluded.insert(by) {
                            self.caught.push(by);
                        }
                        Verdict::Wrong(by)
                    }
                    false => Verdict::Host,
                };
                done.push(Completion::Audited { step: key.step(), verdict });
                let result = match open.stays {
                    true => Err(untrue(key)),
                    false => Ok(Answered::Apart(again)),
                };
                push(done, timing, Process::HOST, result);
            }
            // The host cannot compute the task, so its error is the result.
            (State::Second(_) | State::Third(..), result, _) => {
                self.comparing -= 1;
                push(done, timing, Process::HOST, result);
            }
        }
    }

    /// Makes the host compute the task `id` through `compute`, for a comparison with its answer.
    fn compare(&mut self, id: (u32, TaskKey), open: Open, compute: &mut dyn FnMut(Arc<Framed>)) {
        compute(open.twin.clone());
        self.comparing += 1;
        self.open.insert(id, open);
    }
}

/// Returns the retryable error of a task whose answer is ignored because its process computed
/// wrongly.
fn untrue(key: TaskKey) -> WorkError {
    let reason = "this answer or an earlier answer of the same process was wrong".to_owned();
    Error::Host { place: key.to_string(), reason }.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Instant;

    use eciton_kernel::wire::AnswerMeta;
    use eciton_kernel::{Finished, Limits};
    use eciton_tensor::Buffer;
    use eciton_tensor::frame::{Encoding, Writer};
    use eciton_types::{Attempt, IntervalId, Location, Round, StageId};

    use super::*;

    const PASS: u32 = 3;
    const FUNCTION: Process = Process { at: Location::function(0), connection: 0 };

    fn key(round: u32) -> TaskKey {
        TaskKey { round: Round(round), stage: StageId(0), interval: IntervalId(0), attempt: Attempt(0) }
    }

    /// Returns the end of a task in round `round` whose answer is `value`. `by` names the function
    /// that answered, or is `None` for the host.
    fn end(round: u32, value: f32, by: Option<&str>) -> Completion {
        end_with(round, value, by, "")
    }

    /// Returns the end of a task as [`end`] does. `left` is the digest of the rows that the worker
    /// stores.
    fn end_with(round: u32, value: f32, by: Option<&str>, left: &str) -> Completion {
        let mut meta = AnswerMeta::new(key(round), &Ok(Finished::default()));
        if by == Some("foreign") {
            meta.numeric_class = "another-1".to_owned();
        }
        meta.left = vec![left.to_owned()];
        let mut writer = Writer::new(serde_json::to_vec(&meta).unwrap());
        let buffer = Buffer::from_rows(1, 1, &[value]).unwrap();
        let matrix = buffer.read(0..1).unwrap().into();
        writer.matrix(&matrix, Encoding::F32).unwrap();
        let answer = Answer::parse(writer.finish().unwrap()).unwrap();
        Completion::Ended {
            pass: PASS,
            key: key(round),
            affinity: crate::Affinity::Any,
            timing: Timing::since(Instant::now(), by.is_none().then_some(0)),
            by: by.map_or(Process::HOST, |_| FUNCTION),
            result: Ok(Answered::Apart(Box::new(answer))),
        }
    }

    /// An audit under test, the number of tasks that the host had to compute, and the reports so
    /// far.
    struct Audited {
        audit: Audit,
        computed: usize,
        done: Vec<Completion>,
    }

    impl Audited {
        fn new() -> Self {
            let rows = Encoding::F32;
            let audit = Audit::new(1.0, Framing { rows, limits: Limits::default() });
            Self { audit, computed: 0, done: Vec::new() }
        }

        fn submitted(&mut self, round: u32) {
            self.submitted_with(round, false);
        }

        fn submitted_with(&mut self, round: u32, stays: bool) {
            let twin = Arc::new(Framed::empty(PASS, key(round)));
            let open = Open { twin, chosen: true, stays, state: State::Asked };
            self.audit.open.insert((PASS, key(round)), open);
        }

        fn ended(&mut self, completion: Completion) {
            self.audit.ended(completion, &mut |_| self.computed += 1, &mut self.done);
        }

        /// Returns the value of the only answer since the last call, if any, and the verdicts.
        fn take(&mut self) -> (Option<f32>, Vec<Verdict>) {
            let (mut value, mut verdicts) = (None, Vec::new());
            for completion in self.done.drain(..) {
                match completion {
                    Completion::Audited { verdict, .. } => verdicts.push(verdict),
                    Completion::Ended { result: Ok(Answered::Apart(answer)), .. } => {
                        let buffer = Buffer::zeroed(1, 1).unwrap();
                        let rows = buffer.write(0..1).unwrap();
                        let target = eciton_kernel::Target::Rows { rows, extents: vec![1] };
                        answer.into_targets(vec![target], Vec::new()).unwrap();
                        assert_eq!(value.replace(buffer.read(0..1).unwrap().view().row(0)[0]), None);
                    }
                    other => assert!(matches!(other, Completion::Ended { result: Err(_), .. })),
                }
            }
            (value, verdicts)
        }
    }

    #[test]
    fn an_answer_counts_once_the_host_has_computed_the_same() {
        let mut all = Audited::new();
        all.submitted(1);
        all.ended(end(1, 0.5, Some("f")));
        assert_eq!((all.take(), all.computed, all.audit.comparing), ((None, vec![]), 1, 1));
        all.ended(end(1, 0.5, None));
        assert_eq!((all.take(), all.audit.comparing), ((Some(0.5), vec![]), 0));
        // Zeros of both signs are equal numbers with different bits.
        all.submitted(2);
        all.ended(end(2, 0.0, Some("f")));
        all.ended(end(2, -0.0, None));
        assert_eq!((all.take(), all.computed), ((None, vec![]), 3));
        all.ended(end(2, -0.0, None));
        let wrong = Verdict::Wrong(FUNCTION);
        assert_eq!(all.take(), (Some(-0.0), vec![wrong]));
        assert_eq!(all.audit.take_caught().len(), 1);
        // The process still answers: the host computes its tasks, and those that were handed out
        // before are tried again.
        all.submitted(3);
        all.ended(end(3, 7.0, Some("f")));
        assert_eq!(all.take(), (None, vec![]));
        all.ended(end(3, 8.0, None));
        assert_eq!(all.take(), (Some(8.0), vec![]));
        all.ended(end(4, 7.0, Some("f")));
        assert_eq!((all.take(), all.audit.comparing), ((None, vec![]), 0));
        // The host itself needs no audit.
        all.submitted(5);
        all.ended(end(5, 1.0, None));
        assert_eq!((all.take(), all.audit.open.len()), ((Some(1.0), vec![]), 0));
        let counts = all.audit.counts().unwrap();
        assert_eq!((counts.answers, counts.compared), (4, 2));
    }

    /// If a worker stores rows of a task, the host's answer cannot replace the worker's answer.
    /// After a wrong answer, the task is tried again.
    #[test]
    fn rows_that_stay_are_compared_and_made_again_by_another_worker() {
        let mut all = Audited::new();
        for (round, left) in [(1, "a"), (2, "b")] {
            all.submitted_with(round, true);
            all.ended(end_with(round, 0.5, Some("f"), left));
            all.ended(end_with(round, 0.5, None, "a"));
        }
        assert_eq!((all.take(), all.computed), ((Some(0.5), vec![]), 3));
        all.ended(end_with(2, 0.5, None, "a"));
        let wrong = Verdict::Wrong(FUNCTION);
        assert_eq!(all.take(), (None, vec![wrong]));
        all.submitted_with(3, true);
        all.ended(end_with(3, 0.5, Some("f"), "a"));
        assert_eq!((all.take(), all.computed, all.audit.comparing), ((None, vec![]), 3, 0));
    }

    #[test]
    fn a_host_that_differs_from_itself_and_another_class_are_told() {
        let mut all = Audited::new();
        all.submitted(1);
        all.ended(end(1, 1.0, Some("f")));
        all.ended(end(1, 2.0, None));
        all.ended(end(1, 1.0, None));
        assert_eq!(all.take().1, [Verdict::Host]);
        all.submitted(2);
        all.ended(end(2, 1.0, Some("foreign")));
        assert_eq!(all.take().1, [Verdict::Class("another-1".to_owned())]);
        // Tasks that were cancelled before their answer came are forgotten.
        all.submitted(3);
        all.audit.cancel();
        assert_eq!(all.audit.open.len(), 1);
        let none = Audit::new(0.0, Framing { rows: Encoding::F32, limits: Limits::default() });
        assert!(none.counts().is_none());
    }

    #[test]
    fn a_share_of_all_tasks_and_of_all_rounds_of_lanes_is_chosen() {
        let draw = Draw { share: 0.25, key: RandomState::new() };
        let tasks = (0..4000).filter(|round| draw.takes((PASS, key(*round)))).count();
        let rounds = (0..4000).filter(|round| draw.takes_round(Round(*round))).count();
        // Seven standard deviations of 27.
        assert!((810..1190).contains(&tasks) && (810..1190).contains(&rounds), "{tasks} {rounds}");
    }
}
