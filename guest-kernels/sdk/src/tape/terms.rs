//! Gradients of parameters: sums over rows, which the host writes by a reduction only, and only once.

use super::refuse;
use super::walk::{filled, selection, sum, times};
use crate::compose::scratch;
use crate::handles::{Ids, Matrix, Out};
use crate::types::Result;
use crate::{dense, linalg};

/// A part of a parameter's gradient.
#[derive(Debug)]
pub(crate) enum Term {
    /// a^T d, a [n, k], d [n, m]; of k rows of m values.
    Product(Matrix, Matrix),
    /// The sum of the rows [n, len]; of len values, or of one row of them.
    Vector(Matrix),
    /// For each of so many rows the sum of the rows of the matrix that the list brings there.
    Scattered(Ids, u32, Matrix),
}

/// [n, values], each row of x [n, values] times the one value of `by` [n, 1].
fn scaled(x: &Matrix, by: &Matrix) -> Result<Matrix> {
    scratch(&x.shape(), |into| linalg::scale(x, by, into))
}

fn selected(x: &Matrix, start: u32, width: u32) -> Result<Matrix> {
    let (rows, count) = (x.row_count(), x.shape()[1]);
    let places = selection(start, count, width)?;
    scratch(&[rows, width], |into| linalg::matmul(x, false, &places, false, false, into))
}

impl Term {
    /// The sum of rows, for a parameter that is one row or a vector.
    fn vector(self) -> Result<Matrix> {
        match self {
            Self::Vector(rows) => Ok(rows),
            // One of them has one column.
            Self::Product(a, d) if a.shape()[1] == 1 => scaled(&d, &a),
            Self::Product(a, d) => scaled(&a, &d),
            Self::Scattered(ids, count, d) => Self::Product(one_hot(&ids, count)?, d).vector(),
        }
    }

    /// (a, d) of a parameter [k, m] with k or m 1 if this is a sum of rows.
    fn product(self, one_row: bool) -> Result<(Matrix, Matrix)> {
        match self {
            Self::Product(a, d) => Ok((a, d)),
            Self::Scattered(ids, count, d) => Ok((one_hot(&ids, count)?, d)),
            Self::Vector(rows) => {
                let ones = filled(&[rows.row_count(), 1], 1.0)?;
                Ok(if one_row { (ones, rows) } else { (rows, ones) })
            }
        }
    }

    /// The same, times alpha.
    pub(super) fn times(&self, alpha: f32) -> Result<Self> {
        Ok(match self {
            Self::Product(a, d) => Self::Product(a.shared(0), times(alpha, d)?),
            Self::Vector(rows) => Self::Vector(times(alpha, rows)?),
            Self::Scattered(ids, count, d) => Self::Scattered(ids.shared(), *count, times(alpha, d)?),
        })
    }

    /// Of `whole`, where this is of the rows of it from `start`.
    pub(super) fn of_rows(self, whole: &[u32], start: u32) -> Result<Self> {
        match whole {
            [len] => Ok(Self::Vector(selected(&self.vector()?, start, *len)?)),
            [k, _] => {
                let (a, d) = self.product(whole[1] != 1)?;
                Ok(Self::Product(selected(&a, start, *k)?, d))
            }
            _ => Err(refuse("rows", "of a parameter with more than two extents")),
        }
    }

    /// Of `whole`, where this is of the columns of it from `start`.
    pub(super) fn of_columns(self, whole: &[u32], start: u32) -> Result<Self> {
        let &[k, m] = whole else { return Err(refuse("columns", "of a parameter that is no matrix")) };
        let (a, d) = self.product(k == 1)?;
        Ok(Self::Product(a, selected(&d, start, m)?))
    }

    /// Of other extents.
    pub(super) fn reshaped(self, from: &[u32], to: &[u32]) -> Result<Self> {
        let one = |shape: &[u32]| shape.len() == 1 || shape[0] == 1 || (shape.len() == 2 && shape[1] == 1);
        if from == to {
            Ok(self)
        } else if one(from) && one(to) {
            Ok(Self::Vector(self.vector()?))
        } else {
            Err(refuse("reshape", "of a parameter that is neither a vector nor one row"))
        }
    }

    /// Writes the sum of `terms`, over `rows` rows, as the gradient of one parameter.
    pub(super) fn reduce(terms: Vec<Self>, rows: u32, into: &Out) -> Result<()> {
        match into.shape()[..] {
            [len] | [1, len] => {
                let mut terms = terms.into_iter();
                let mut total = match terms.next() {
                    Some(first) => first.vector()?,
                    None => filled(&[rows, len], 0.0)?,
                };
                for term in terms {
                    total = sum(&total, &term.vector()?)?;
                }
                linalg::sum_rows(&total, into)
            }
            [_, _] if matches!(terms[..], [Self::Scattered(..)]) => {
                for term in &terms {
                    if let Self::Scattered(ids, _, d) = term {
                        dense::scatter_sum(d, ids, into)?;
                    }
                }
                Ok(())
            }
            [k, m] => {
                let mut pairs = Vec::new();
                for term in terms {
                    if matches!(term, Self::Vector(_)) && m != 1 {
                        let why = "one row for all is a parameter of several rows; make it a vector";
                        return Err(refuse("inner, scale", why));
                    }
                    merge(&mut pairs, term.product(false)?)?;
                }
                match &pairs[..] {
                    [] => {
                        let (a, d) = (filled(&[rows, k], 0.0)?, filled(&[rows, m], 0.0)?);
                        linalg::matmul(&a, true, &d, false, false, into)
                    }
                    [(a, d)] => linalg::matmul(a, true, d, false, false, into),
                    _ => Err(refuse(
                        "linear, matmul",
                        "a parameter is the weight of several products, whose gradients cannot be one reduction",
                    )),
                }
            }
            _ => Err(refuse("reduce", "a parameter has more than two extents")),
        }
    }
}

/// Adds a pair to those that have nothing in common with each other: a^T d + a^T e = a^T (d + e).
fn merge(pairs: &mut Vec<(Matrix, Matrix)>, (a, d): (Matrix, Matrix)) -> Result<()> {
    for at in 0..pairs.len() {
        let (first, second) = (&pairs[at].0, &pairs[at].1);
        let merged = if first.is(&a) {
            (a, sum(second, &d)?)
        } else if second.is(&d) {
            (sum(first, &a)?, d)
        } else {
            continue;
        };
        pairs.swap_remove(at);
        return merge(pairs, merged);
    }
    pairs.push((a, d));
    Ok(())
}

/// [ids, count], a one in each row.
fn one_hot(ids: &Ids, count: u32) -> Result<Matrix> {
    let all = ids.read(0, ids.len())?;
    scratch(&[all.len() as u32, count], |into| {
        for (row, &id) in all.iter().enumerate() {
            let mut values = vec![0.0f32; count as usize];
            if let Some(value) = values.get_mut(id as usize) {
                *value = 1.0;
            }
            into.write_rows(row as u32, &values)?;
        }
        Ok(())
    })
}
