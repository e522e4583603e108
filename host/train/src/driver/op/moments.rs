//! Norms that depend on the moments of all rows, such as batch normalisation. The arithmetic of
//! each norm implements [`Arithmetic`].
//!
//! An interval is a contiguous range of rows that is scheduled as one unit. The steps of all intervals
//! that read the same rows compute the moments together: each takes the next block of rows until none
//! is left, and then waits for the blocks of the others. Blocks are fixed and merged in their order, so
//! that the moments do not depend on the division into intervals. The backward step of an interval
//! uses the moments of its forward step.
//!
//! If rounds overlap, an interval may read rows of other intervals from earlier rounds, up to the
//! staleness bound. Each interval then computes its own moments.
//!
//! Batch normalisation has running moments. The update of a round moves them towards the moments of
//! all rows of the round, and evaluations use them.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};

use eciton_exec::Work;
use eciton_program::{Operation, Phase};
use eciton_tensor::ops::statistics::{BLOCK, ColumnSums, Statistics};
use eciton_tensor::{View, ViewMut};
use eciton_types::{IntervalId, Round, Task};

use crate::driver::operator::{On, Operator, host};
use crate::driver::rows::Lease;
use crate::error::{Error, Result};

/// Momentum of running moments, which is PyTorch's default. It is the weight of a new batch.
const MOMENTUM: f64 = 0.1;

/// Identifies a set of rows whose moments are computed. It consists of the pass, the stage, the
/// round, and the age in rounds of each interval's rows.
#[derive(Debug, PartialEq, Eq)]
struct Which {
    pass: u32,
    stage: u16,
    round: Round,
    ages: Option<Vec<u8>>,
    /// Micro-batch whose rows are reduced. If `None`, the rows of all intervals are reduced.
    part: Option<IntervalId>,
}

/// A value over all rows, which several steps compute together from the values of blocks.
#[derive(Debug)]
struct Reduction<P, T> {
    blocks: OnceLock<Vec<OnceLock<P>>>,
    /// Index of the first block that no step has taken.
    next: AtomicUsize,
    /// Number of blocks that are computed.
    computed: Mutex<usize>,
    /// Notified when all blocks are computed.
    all: Condvar,
    whole: OnceLock<(P, T)>,
}

impl<P, T> Default for Reduction<P, T> {
    fn default() -> Self {
        let (blocks, whole) = (OnceLock::new(), OnceLock::new());
        Self { blocks, next: AtomicUsize::new(0), computed: Mutex::new(0), all: Condvar::new(), whole }
    }
}

impl<P, T> Reduction<P, T> {
    /// Returns the value over `rows` rows. Computes the blocks that no other step has taken, and waits
    /// for the rest. `block` computes the value of a row range, and `merge` that of all blocks.
    fn value(
        &self,
        rows: usize,
        block: impl Fn(Range<usize>) -> P,
        merge: impl FnOnce(&mut dyn Iterator<Item = &P>) -> (P, T),
    ) -> &T {
        let count = rows.div_ceil(BLOCK);
        let blocks = self.blocks.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect());
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = blocks.get(at) else { break };
            place.get_or_init(|| block(at * BLOCK..((at + 1) * BLOCK).min(rows)));
            *self.computed.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.all.notify_all();
        }
        let computed = self.computed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.all.wait_while(computed, |computed| *computed < blocks.len()));
        let (_, value) = self.whole.get_or_init(|| merge(&mut blocks.iter().filter_map(OnceLock::get)));
        value
    }
}

/// Values that intervals share, keyed by [`Which`]. A value is dropped once no step uses it.
#[derive(Debug)]
struct Shared<T>(RefCell<Vec<(Which, Weak<T>)>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: Default> Shared<T> {
    /// Returns the cell for the value of `which`. Steps with an equal `which` get the same cell.
    fn cell(&self, which: Which) -> Arc<T> {
        let mut all = self.0.borrow_mut();
        all.retain(|(_, known)| known.strong_count() > 0);
        let known = all.iter().find(|(of, _)| *of == which).and_then(|(_, known)| known.upgrade());
        known.unwrap_or_else(|| {
            let new = Arc::new(T::default());
            all.push((which, Arc::downgrade(&new)));
            new
        })
    }
}

/// Moments of a norm, with the statistics of the rows.
type Moments<A> = Reduction<Statistics, <A as Arithmetic>::Moments>;

/// Moments that the forward step of an interval used in a round.
type Used<A> = ((Round, IntervalId), Arc<Moments<A>>);

/// Returns a view of each piece of rows, with the index of its first row. The rows must be stored
/// as f32, which [`eciton_program::Buffers::format`] ensures.
fn views(pieces: &[(Range<usize>, Lease)]) -> std::result::Result<Vec<(usize, View<'_>)>, String> {
    let mut views = Vec::with_capacity(pieces.len());
    for (rows, lease) in pieces {
        match lease {
            Lease::F32(lease) => views.push((rows.start, lease.view())),
            Lease::Bf16(_) => return Err("rows of a normalisation are not stored as f32".to_owned()),
        }
    }
    Ok(views)
}

/// Returns the view of the row range `rows`, which must lie within one of the pieces in `views`.
fn part<'a>(views: &[(usize, View<'a>)], rows: &Range<usize>) -> std::result::Result<View<'a>, String> {
    let inside = |(start, view): &&(usize, View<'a>)| *start <= rows.start && rows.end <= start + view.rows();
    let (start, view) = views.iter().find(inside).ok_or("the rows of an interval are not contiguous")?;
    Ok(view.slice(rows.start - start, rows.len()))
}

/// Returns an iterator over the given rows of all pieces in order. The first piece starts with row 0.
fn rows_of<'v>(views: &'v [(usize, View<'v>)], of: Range<usize>) -> impl Iterator<Item = &'v [f32]> + Clone {
    views.iter().flat_map(move |(start, view)| {
        let own = of.start.max(*start)..of.end.min(start + view.rows());
        own.map(move |row| view.row(row - start))
    })
}

/// Returns the number of rows of all pieces.
fn count(views: &[(usize, View<'_>)]) -> usize {
    views.iter().map(|(_, view)| view.rows()).sum()
}

/// Arithmetic of a norm that depends on the moments of all rows. `eciton_tensor::ops` implements
/// it.
pub(super) trait Arithmetic: std::fmt::Debug + 'static {
    /// Moments of all rows, which the forward step reads.
    type Moments: std::fmt::Debug + Send + Sync;
    /// Means of the rows that [`Arithmetic::turn`] writes, which the second backward step reads.
    type Means: std::fmt::Debug + Send + Sync;

    /// Returns the moments of rows with the given statistics.
    fn moments(of: &Statistics) -> Self::Moments;

    /// Returns the moments that evaluations use, given running means and variances. Returns `None` for
    /// a norm without running moments.
    fn running(means: &[f32], variances: &[f32]) -> Option<Self::Moments>;

    /// Computes the output rows of an interval from its input rows (the forward step).
    fn normalise(moments: &Self::Moments, input: View<'_>, output: &mut ViewMut<'_>);

    /// Writes for each row its gradient and further values, whose means over all rows the second
    /// backward step needs (the first backward step).
    fn turn(output: View<'_>, gradient: View<'_>, turned: &mut ViewMut<'_>);

    /// Returns the means of the rows that [`Arithmetic::turn`] wrote, given their sums.
    fn means(of: &ColumnSums) -> Self::Means;

    /// Computes the gradient of an interval's input rows (the second backward step).
    fn backward(
        of: (&Self::Moments, &Self::Means),
        output: View<'_>,
        turned: View<'_>,
        gradient: &mut ViewMut<'_>,
    );
}

#[derive(Debug)]
struct OverRows<A: Arithmetic> {
    moments: Shared<Moments<A>>,
    means: Shared<Reduction<ColumnSums, A::Means>>,
    /// Moments that the forward step of each interval used, by round and interval. Intervals may use
    /// different moments. The update of the round removes them.
    used: RefCell<Vec<Used<A>>>,
    /// Numbers of the running means and variances among the parameters. It is empty for a norm without
    /// them.
    running: Vec<usize>,
}

/// Opens the operator of a norm with the arithmetic `A`.
pub(super) fn open<A: Arithmetic>(operation: &Operation) -> Result<Box<dyn Operator>> {
    Ok(Box::new(OverRows::<A> {
        moments: Shared::default(),
        means: Shared::default(),
        used: RefCell::default(),
        running: operation.parameters.iter().map(|id| id.index()).collect(),
    }))
}

impl<A: Arithmetic> OverRows<A> {
    /// Creates the work of an evaluation with running moments.
    fn evaluate(&self, on: &On<'_>, means: usize, variances: usize) -> Result<Work> {
        let values = |at| on.weights.values_of(at, on.task.weights);
        let moments = A::running(&values(means)?, &values(variances)?);
        let moments =
            moments.ok_or_else(|| Error::Internal(format!("{} has no running moments", on.step())))?;
        let (input, mut output) = (on.own(0)?, on.write_f32(0)?);
        host(move || {
            A::normalise(&moments, input.view(), &mut output.view_mut());
            Ok(())
        })
    }
}

impl<A: Arithmetic> Operator for OverRows<A> {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        let rows = on.rows()?;
        let Task { round, stage, interval, .. } = on.task;
        let apart = on.part.is_some().then_some(interval);
        let ages = || on.ages.map(<[u8]>::to_vec);
        let which = || Which { pass: on.pass, stage: stage.0, round, ages: ages(), part: apart };
        match (on.stage.phase, &self.running[..]) {
            (Phase::BackwardTargets, _) => {
                let (output, gradient, mut turned) = (on.own(0)?, on.own(1)?, on.write_f32(0)?);
                host(move || {
                    A::turn(output.view(), gradient.view(), &mut turned.view_mut());
                    Ok(())
                })
            }
            (Phase::BackwardSources, _) => {
                let used = self.used.borrow();
                let own = used.iter().find(|(known, _)| *known == (round, interval));
                let missing = || Error::Internal(format!("{}: forward stored no moments", on.step()));
                let (_, moments) = own.ok_or_else(missing)?;
                let (moments, means) = (moments.clone(), self.means.cell(which()));
                let (pieces, output, mut gradient) = (on.all()?, on.own(0)?, on.write_f32(0)?);
                host(move || {
                    let (_, moments) = moments.whole.get().ok_or("the moments were never computed")?;
                    let views = views(&pieces)?;
                    let own = part(&views, &rows)?;
                    let of = |block| ColumnSums::from_rows(own.columns(), rows_of(&views, block));
                    let means = means.value(count(&views), of, |blocks| {
                        let mut all = ColumnSums::empty(own.columns());
                        blocks.for_each(|block| all.merge(block));
                        let means = A::means(&all);
                        (all, means)
                    });
                    A::backward((moments, means), output.view(), own, &mut gradient.view_mut());
                    Ok(())
                })
            }
            (_, &[means, variances]) if !on.stages.training => self.evaluate(on, means, variances),
            _ => {
                let moments = self.moments.cell(which());
                if on.stages.training {
                    // A step that is repeated replaces its moments.
                    let mut used = self.used.borrow_mut();
                    used.retain(|(known, _)| *known != (round, interval));
                    used.push(((round, interval), moments.clone()));
                }
                let (pieces, mut output) = (on.all()?, on.write_f32(0)?);
                host(move || {
                    let views = views(&pieces)?;
                    let columns = output.view_mut().columns();
                    let of = |block| Statistics::from_rows(columns, rows_of(&views, block));
                    let moments = moments.value(count(&views), of, |blocks| {
                        let mut all = Statistics::empty(columns);
                        blocks.for_each(|block| all.merge(block));
                        let moments = A::moments(&all);
                        (all, moments)
                    });
                    A::normalise(moments, part(&views, &rows)?, &mut output.view_mut());
                    Ok(())
                })
            }
        }
    }

    fn updated(
        &self,
        round: Round,
        values: &dyn Fn(usize) -> Result<Vec<f32>>,
    ) -> Result<Vec<(usize, Vec<f32>)>> {
        let mut used = self.used.borrow_mut();
        used.sort_by_key(|(of, _)| *of);
        let mut all: Option<Statistics> = None;
        let mut known: Vec<*const Moments<A>> = Vec::new();
        for (_, moments) in used.iter().filter(|((of, _), _)| *of == round) {
            let Some((statistics, _)) = moments.whole.get() else { continue };
            // Intervals that read the same rows share their moments.
            if !known.contains(&Arc::as_ptr(moments)) {
                known.push(Arc::as_ptr(moments));
                let all = all.get_or_insert_with(|| Statistics::empty(statistics.means().len()));
                all.merge(statistics);
            }
        }
        used.retain(|((of, _), _)| *of > round);
        let (Some(all), &[means, variances]) = (all, &self.running[..]) else { return Ok(Vec::new()) };
        let (mut new_means, mut new_variances) = (values(means)?, values(variances)?);
        all.advance(MOMENTUM, &mut new_means, &mut new_variances);
        Ok(vec![(means, new_means), (variances, new_variances)])
    }
}
