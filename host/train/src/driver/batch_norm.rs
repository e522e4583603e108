//! Batch normalisation on its way: the host's work, like gathers. Moments over all rows are computed once for all intervals that
//! read the same rows, by the first of them.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use eciton_exec::Work;
use eciton_graph::dataset::Dataset;
use eciton_plan::{BatchNorm, BatchNormStep, IntervalId, Layer, Over, Round, Step};
use eciton_tensor::View;
use eciton_tensor::ops::batch_norm::{Means, Moments, turn};

use super::rows::Lease;
use super::stages::Stages;
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

/// What an interval went by, forward: backward goes by it as well.
type Own = ((Layer, Round, IntervalId), Arc<OnceLock<Moments>>);

/// Moments that are known.
#[derive(Debug, Default)]
pub(crate) struct BatchNorms {
    moments: Shared<Moments>,
    means: Shared<Means>,
    own: RefCell<Vec<Own>>,
}

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

/// Which rows count: all, or those of vertices that stand for graphs.
struct Counted(Option<Arc<Dataset>>);

impl Counted {
    fn counts(&self, row: usize) -> bool {
        let graphs = self.0.as_ref().and_then(|dataset| dataset.graphs.as_ref());
        let vertex = u32::try_from(row).unwrap_or(u32::MAX);
        graphs.is_none_or(|graphs| !graphs.lists().in_neighbours(vertex).is_empty())
    }

    fn number(&self, rows: usize) -> usize {
        (0..rows).filter(|&row| self.counts(row)).count()
    }
}

/// The rows of all pieces with their numbers, in order.
fn numbered<'v>(views: &'v [(usize, View<'v>)]) -> impl Iterator<Item = (usize, &'v [f32])> {
    views.iter().flat_map(|(start, view)| (0..view.rows()).map(move |i| (start + i, view.row(i))))
}

impl Stages<'_> {
    /// Does a step of a batch normalisation, from rows that are so many rounds old as `ages` says, by interval.
    pub(super) fn batch_norm(
        &self,
        (pass, step): (u32, Step),
        batch: &BatchNorm,
        ages: Option<&[u8]>,
    ) -> Result<Work> {
        let rows = self.interval(step.interval)?.rows.clone();
        let counted = Counted((batch.over == Over::Graphs).then(|| self.prepared.dataset.clone()));
        let which = || Which { pass, stage: step.stage.0, round: step.round, ages: ages.map(<[u8]>::to_vec) };
        let of = (batch.layer, step.round, step.interval);
        let read = |slot| self.rows.read_f32(slot, step.round, step.interval);
        let write = |slot| self.rows.write_f32(slot, step.round, step.interval);
        let work: Box<dyn FnOnce() -> std::result::Result<(), String> + Send> = match batch.step {
            BatchNormStep::Forward { input, output } => {
                let moments = self.batch_norms.moments.of(which());
                if self.training {
                    let mut own = self.batch_norms.own.borrow_mut();
                    // Where nothing trained stands before the layer no backward takes those of the round before.
                    own.retain(|((layer, _, interval), _)| (*layer, *interval) != (of.0, of.2));
                    own.push((of, moments.clone()));
                }
                let pieces = self.rows.read_all(input, step.round, ages)?;
                let mut output = write(output)?;
                Box::new(move || {
                    let views = views(&pieces)?;
                    let columns = output.view_mut().columns();
                    let rows_that_count =
                        || numbered(&views).filter(|(row, _)| counted.counts(*row)).map(|(_, x)| x);
                    let moments = moments.get_or_init(|| Moments::of(columns, rows_that_count));
                    moments.standardise(part(&views, &rows)?, &mut output.view_mut());
                    Ok(())
                })
            }
            BatchNormStep::Turn { output, gradient, turned } => {
                let (output, gradient, mut turned) = (read(output)?, read(gradient)?, write(turned)?);
                Box::new(move || {
                    turn(output.view(), gradient.view(), &mut turned.view_mut());
                    Ok(())
                })
            }
            BatchNormStep::Backward { turned, output, gradient } => {
                let mut own = self.batch_norms.own.borrow_mut();
                let at = own.iter().position(|(known, _)| *known == of);
                let at = at.ok_or_else(|| Error::Internal(format!("{step}: no moments from forward")))?;
                let (_, moments) = own.swap_remove(at);
                let means = self.batch_norms.means.of(which());
                let all = self.program.shape.rows as usize;
                let pieces = self.rows.read_all(turned, step.round, ages)?;
                let (output, mut gradient) = (read(output)?, write(gradient)?);
                Box::new(move || {
                    let moments = moments.get().ok_or("moments were never computed")?;
                    let views = views(&pieces)?;
                    let own = part(&views, &rows)?;
                    let means = means.get_or_init(|| {
                        let rows = numbered(&views).map(|(_, turned)| turned);
                        Means::of(own.columns(), rows, counted.number(all))
                    });
                    let counts = |row: usize| counted.counts(rows.start + row);
                    means.backward(moments, output.view(), own, counts, &mut gradient.view_mut());
                    Ok(())
                })
            }
        };
        Ok(Work::Host(work))
    }
}
