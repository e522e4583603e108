//! Norms that depend on the moments of all rows, such as batch normalisation. The arithmetic of
//! each norm implements [`Arithmetic`].
//!
//! A step computes the moments of each atom (block of consecutive rows) of its interval. The step that
//! normalises an interval merges those of all atoms, in their order, so that moments do not depend on
//! the division into intervals or hosts. The backward step of an interval uses the moments of its
//! forward step.
//!
//! If rounds overlap, an interval may read moments of other intervals from earlier rounds, up to the
//! staleness bound. Each interval then has its own moments.
//!
//! Batch normalisation has running moments. The update of a round moves them towards the moments of
//! all rows of the round, and evaluations use them.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use eciton_exec::Work;
use eciton_gather::Rows;
use eciton_program::{Domain, Operation, Phase};
use eciton_tensor::ops::statistics::{ColumnSums, Statistics};
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

/// Moments of a norm with the statistics of the rows, once a step has merged them.
type Moments<A> = OnceLock<(Statistics, <A as Arithmetic>::Moments)>;

/// Moments that the forward step of an interval used in a round.
type Used<A> = ((Round, IntervalId), Arc<Moments<A>>);

/// Returns the rows of all atoms in their order. They are stored as f32, which
/// [`eciton_program::Buffers::format`] ensures.
fn rows_of(pieces: &[(Range<usize>, Lease)]) -> std::result::Result<Vec<&[f32]>, String> {
    let mut rows = Vec::new();
    for (_, lease) in pieces {
        match lease.rows() {
            Rows::F32(view) => rows.extend((0..view.rows()).map(|row| view.row(row))),
            Rows::Bf16(_) => return Err("rows of atoms are not stored as f32".to_owned()),
        }
    }
    Ok(rows)
}

/// Writes a row for each atom of `rows`, and zeros to the other rows.
fn by_atom(atoms: &[Range<usize>], to: &mut ViewMut<'_>, store: impl Fn(Range<usize>, &mut [f32])) {
    for row in 0..to.rows() {
        match atoms.get(row) {
            Some(atom) => store(atom.clone(), to.row_mut(row)),
            None => to.row_mut(row).fill(0.0),
        }
    }
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
    means: Shared<OnceLock<A::Means>>,
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
        let Task { round, stage, interval, .. } = on.task;
        let apart = on.part.is_some().then_some(interval);
        let ages = || on.ages.map(<[u8]>::to_vec);
        let which = || Which { pass: on.pass, stage: stage.0, round, ages: ages(), part: apart };
        let is_of_atoms = on.stage.domain == Domain::ATOMS;
        match (on.stage.phase, &self.running[..]) {
            (Phase::Forward, _) if is_of_atoms => {
                let (input, mut output, atoms) = (on.own(0)?, on.write_f32(0)?, on.atoms()?);
                host(move || {
                    let view = input.view();
                    by_atom(&atoms, &mut output.view_mut(), |rows, to| {
                        Statistics::from_rows(view.columns(), rows.map(|row| view.row(row))).store(to);
                    });
                    Ok(())
                })
            }
            (Phase::BackwardTargets, _) if is_of_atoms => {
                let (turned, mut output, atoms) = (on.own(0)?, on.write_f32(0)?, on.atoms()?);
                host(move || {
                    let view = turned.view();
                    by_atom(&atoms, &mut output.view_mut(), |rows, to| {
                        ColumnSums::from_rows(view.columns(), rows.map(|row| view.row(row))).store(to);
                    });
                    Ok(())
                })
            }
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
                let (pieces, output, turned) = (on.all()?, on.own(0)?, on.own(1)?);
                let mut gradient = on.write_f32(0)?;
                host(move || {
                    let (_, moments) = moments.get().ok_or("the moments were never computed")?;
                    let (rows, turned) = (rows_of(&pieces)?, turned.view());
                    let means = means.get_or_init(|| {
                        let mut all = ColumnSums::empty(turned.columns());
                        rows.iter().for_each(|row| all.merge(&ColumnSums::load(turned.columns(), row)));
                        A::means(&all)
                    });
                    A::backward((moments, means), output.view(), turned, &mut gradient.view_mut());
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
                let (pieces, input, mut output) = (on.all()?, on.own(0)?, on.write_f32(0)?);
                host(move || {
                    let (rows, view) = (rows_of(&pieces)?, input.view());
                    let (_, moments) = moments.get_or_init(|| {
                        let mut all = Statistics::empty(view.columns());
                        rows.iter().for_each(|row| all.merge(&Statistics::load(view.columns(), row)));
                        let moments = A::moments(&all);
                        (all, moments)
                    });
                    A::normalise(moments, view, &mut output.view_mut());
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
            let Some((statistics, _)) = moments.get() else { continue };
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
