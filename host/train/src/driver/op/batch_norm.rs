//! Batch normalisation on its way: the host's work, like gathers.
//!
//! Moments over all rows are computed once for all intervals that read the same rows, by the first of
//! them, row by row in f64: they have one value for any cut. An interval's backward uses the moments that
//! its forward used. Where rounds run apart, other intervals' rows are as old as the bound allows, and
//! each interval has moments of its own.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use eciton_exec::Work;
use eciton_plan::{IntervalId, Operation, Phase, Round, Task};
use eciton_tensor::View;
use eciton_tensor::ops::batch_norm::{Means, Moments, turn};

use super::{On, Operator, host};
use crate::driver::rows::Lease;
use crate::error::{Error, Result};

/// Which rows are reduced: of which pass, by which step of which round, and how old by interval.
#[derive(Debug, PartialEq, Eq)]
struct Which {
    pass: u32,
    stage: u16,
    round: Round,
    ages: Option<Vec<u8>>,
}

/// What is known of a step's rows once somebody has computed it. It lives as long as someone needs it.
#[derive(Debug)]
struct Shared<T>(RefCell<Vec<(Which, Weak<OnceLock<T>>)>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Shared<T> {
    fn of(&self, which: Which) -> Arc<OnceLock<T>> {
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

/// The moments of an interval's round.
type Own = ((Round, IntervalId), Arc<OnceLock<Moments>>);

/// The pieces' rows as f32, which is how they are stored ([`eciton_plan::Buffers::format`]).
fn views(pieces: &[(Range<usize>, Lease)]) -> std::result::Result<Vec<(usize, View<'_>)>, String> {
    let mut views = Vec::with_capacity(pieces.len());
    for (rows, lease) in pieces {
        match lease {
            Lease::F32(lease) => views.push((rows.start, lease.view())),
            Lease::Bf16(_) => return Err("rows of a batch normalisation are not stored as f32".to_owned()),
        }
    }
    Ok(views)
}

/// Rows of one interval, which lie in one piece.
fn part<'a>(views: &[(usize, View<'a>)], rows: &Range<usize>) -> std::result::Result<View<'a>, String> {
    let inside = |(start, view): &&(usize, View<'a>)| *start <= rows.start && rows.end <= start + view.rows();
    let (start, view) = views.iter().find(inside).ok_or("an interval's rows are not in one piece")?;
    Ok(view.slice(rows.start - start, rows.len()))
}

/// The rows of all pieces, in order.
fn all<'v>(views: &'v [(usize, View<'v>)]) -> impl Iterator<Item = &'v [f32]> {
    views.iter().flat_map(|(_, view)| (0..view.rows()).map(move |i| view.row(i)))
}

#[derive(Debug)]
struct BatchNorm {
    moments: Shared<Moments>,
    means: Shared<Means>,
    /// The moments that an interval used forward: its backward uses them as well.
    own: RefCell<Vec<Own>>,
}

pub(super) fn open(_: &Operation) -> Result<Box<dyn Operator>> {
    Ok(Box::new(BatchNorm { moments: Shared::default(), means: Shared::default(), own: RefCell::default() }))
}

impl Operator for BatchNorm {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        let rows = on.rows()?;
        let Task { round, stage, interval, .. } = on.task;
        let which = || Which { pass: on.pass, stage: stage.0, round, ages: on.ages.map(<[u8]>::to_vec) };
        match on.stage.phase {
            Phase::BackwardTargets => {
                let (output, gradient, mut turned) = (on.own(0)?, on.own(1)?, on.write_f32(0)?);
                host(move || {
                    turn(output.view(), gradient.view(), &mut turned.view_mut());
                    Ok(())
                })
            }
            Phase::BackwardSources => {
                let mut own = self.own.borrow_mut();
                let at = own.iter().position(|(known, _)| *known == (round, interval));
                let missing = || Error::Internal(format!("{}: no moments from forward", on.step()));
                let (_, moments) = own.swap_remove(at.ok_or_else(missing)?);
                let means = self.means.of(which());
                let count = on.count()?;
                let (pieces, output, mut gradient) = (on.all()?, on.own(0)?, on.write_f32(0)?);
                host(move || {
                    let moments = moments.get().ok_or("moments were never computed")?;
                    let views = views(&pieces)?;
                    let own = part(&views, &rows)?;
                    let means = means.get_or_init(|| Means::of(own.columns(), all(&views), count));
                    means.backward(moments, output.view(), own, |_| true, &mut gradient.view_mut());
                    Ok(())
                })
            }
            _ => {
                let moments = self.moments.of(which());
                if on.stages.training {
                    let mut own = self.own.borrow_mut();
                    // A layer with nothing trained before it has no backward stage to take the moments of
                    // the round before, so they are dropped here.
                    own.retain(|((_, known), _)| *known != interval);
                    own.push(((round, interval), moments.clone()));
                }
                let (pieces, mut output) = (on.all()?, on.write_f32(0)?);
                host(move || {
                    let views = views(&pieces)?;
                    let columns = output.view_mut().columns();
                    let moments = moments.get_or_init(|| Moments::of(columns, || all(&views)));
                    moments.standardise(part(&views, &rows)?, &mut output.view_mut());
                    Ok(())
                })
            }
        }
    }
}
