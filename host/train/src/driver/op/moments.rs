//! Norms that depend on the moments of all rows, such as batch normalisation. The arithmetic of
//! each norm implements [`Arithmetic`].
//!
//! An interval is a contiguous range of rows that is scheduled as one unit. The first interval that
//! needs the moments of a set of rows computes them, and all intervals that read the same rows
//! share the result. Rows are added one after another in f64, so the moments do not depend on the
//! division into intervals. The backward step of an interval uses the moments of its forward step.
//!
//! If rounds overlap, an interval may read rows of other intervals from earlier rounds, up to the
//! staleness bound. Each interval then computes its own moments.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use eciton_exec::Work;
use eciton_program::Phase;
use eciton_tensor::{View, ViewMut};
use eciton_types::{IntervalId, Round, Task};

use crate::driver::operator::{On, Operator, host};
use crate::driver::rows::Lease;
use crate::error::{Error, Result};

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

/// Values that intervals share, keyed by [`Which`]. The first interval that needs a value computes
/// it. A value is dropped once no step uses it.
#[derive(Debug)]
struct Shared<T>(RefCell<Vec<(Which, Weak<OnceLock<T>>)>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Shared<T> {
    /// Returns the cell for the value of `which`. Steps with an equal `which` get the same cell.
    fn cell(&self, which: Which) -> Arc<OnceLock<T>> {
        let mut all = self.0.borrow_mut();
        all.retain(|(_, known)| known.strong_count() > 0);
        let known = all.iter().find(|(of, _)| *of == which).and_then(|(_, known)| known.upgrade());
        known.unwrap_or_else(|| {
            let new = Arc::new(OnceLock::new());
            all.push((which, Arc::downgrade(&new)));
            new
        })
    }
}

/// Moments that the forward step of an interval used in a round. Intervals may use different
/// moments.
type Own<M> = ((Round, IntervalId), Arc<OnceLock<M>>);

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

/// Returns an iterator over the rows of all pieces in order.
fn all<'v>(views: &'v [(usize, View<'v>)]) -> impl Iterator<Item = &'v [f32]> {
    views.iter().flat_map(|(_, view)| (0..view.rows()).map(move |i| view.row(i)))
}

/// Arithmetic of a norm that depends on the moments of all rows. `eciton_tensor::ops` implements
/// it.
pub(super) trait Arithmetic: std::fmt::Debug + 'static {
    /// Moments of all rows, which the forward step reads.
    type Moments: std::fmt::Debug + Send + Sync;
    /// Means of the rows that [`Arithmetic::turn`] writes, which the second backward step reads.
    type Means: std::fmt::Debug + Send + Sync;

    /// Computes the moments of all rows. `rows` may be called several times.
    fn moments<'a, I: Iterator<Item = &'a [f32]>>(columns: usize, rows: impl Fn() -> I) -> Self::Moments;

    /// Computes the output rows of an interval from its input rows (the forward step).
    fn normalise(moments: &Self::Moments, input: View<'_>, output: &mut ViewMut<'_>);

    /// Writes for each row its gradient and further values, whose means over all rows the second
    /// backward step needs (the first backward step).
    fn turn(output: View<'_>, gradient: View<'_>, turned: &mut ViewMut<'_>);

    /// Computes the means of all rows that [`Arithmetic::turn`] wrote.
    fn means<'a>(columns: usize, turned: impl Iterator<Item = &'a [f32]>) -> Self::Means;

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
    moments: Shared<A::Moments>,
    means: Shared<A::Means>,
    /// Moments that the forward step of each interval used. The backward step of the same interval
    /// removes its entry.
    own: RefCell<Vec<Own<A::Moments>>>,
}

/// Opens the operator of a norm with the arithmetic `A`.
pub(super) fn open<A: Arithmetic>() -> Result<Box<dyn Operator>> {
    Ok(Box::new(OverRows::<A> {
        moments: Shared::default(),
        means: Shared::default(),
        own: RefCell::default(),
    }))
}

impl<A: Arithmetic> Operator for OverRows<A> {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        let rows = on.rows()?;
        let Task { round, stage, interval, .. } = on.task;
        let apart = on.part.is_some().then_some(interval);
        let ages = || on.ages.map(<[u8]>::to_vec);
        let which = || Which { pass: on.pass, stage: stage.0, round, ages: ages(), part: apart };
        match on.stage.phase {
            Phase::BackwardTargets => {
                let (output, gradient, mut turned) = (on.own(0)?, on.own(1)?, on.write_f32(0)?);
                host(move || {
                    A::turn(output.view(), gradient.view(), &mut turned.view_mut());
                    Ok(())
                })
            }
            Phase::BackwardSources => {
                let mut own = self.own.borrow_mut();
                let at = own.iter().position(|(known, _)| *known == (round, interval));
                let missing = || Error::Internal(format!("{}: forward stored no moments", on.step()));
                let (_, moments) = own.swap_remove(at.ok_or_else(missing)?);
                let means = self.means.cell(which());
                let (pieces, output, mut gradient) = (on.all()?, on.own(0)?, on.write_f32(0)?);
                host(move || {
                    let moments = moments.get().ok_or("the moments were never computed")?;
                    let views = views(&pieces)?;
                    let own = part(&views, &rows)?;
                    let means = means.get_or_init(|| A::means(own.columns(), all(&views)));
                    A::backward((moments, means), output.view(), own, &mut gradient.view_mut());
                    Ok(())
                })
            }
            _ => {
                let moments = self.moments.cell(which());
                if on.stages.training {
                    let mut own = self.own.borrow_mut();
                    // Without a trained layer before this one, no backward step removes the moments
                    // of earlier rounds.
                    own.retain(|((_, known), _)| *known != interval);
                    own.push(((round, interval), moments.clone()));
                }
                let (pieces, mut output) = (on.all()?, on.write_f32(0)?);
                host(move || {
                    let views = views(&pieces)?;
                    let columns = output.view_mut().columns();
                    let moments = moments.get_or_init(|| A::moments(columns, || all(&views)));
                    A::normalise(moments, part(&views, &rows)?, &mut output.view_mut());
                    Ok(())
                })
            }
        }
    }
}
