//! Learning task of a generated graph, which consists of classes, labels, features and splits. Each
//! of them is a function of the seed and the vertex.
//!
//! Features of vertex v of class c are `mean[c] * scale + noise`. Mean and noise are standard
//! normal. A single vertex is ambiguous if `scale * sqrt(columns)` is about 1. The mean over k
//! neighbours has 1/k of the noise's variance, and a fraction `p_in` of the neighbours has the mean
//! of the same class. A fraction `flip` of the labels is drawn again from all classes, so that no
//! classifier exceeds [`Planted::ceiling`].
//!
//! The target may be flags or numbers instead of classes ([`Target`]). They are a function of the
//! vertex's class. A model that learns the class from features and neighbours predicts them up to
//! their noise.

use std::borrow::Cow;
use std::ops::Range;

use super::Shape;
use super::keyed::{self, Purpose, fill_normal, stream, unit};
use super::layout::Layout;
use crate::error::Result;
use crate::labels::{Labels, Values};
use crate::split::Split;

/// Maximum number of multiplications in one call of [`Planted::own_accuracy`].
const MAX_PRODUCTS: u64 = 1 << 28;
/// Maximum number of vertices on which [`Planted::own_accuracy`] is measured.
const MAX_SAMPLE: u64 = 8192;

/// Approximate size of the features that a thread generates at a time, in bytes.
const PIECE_BYTES: usize = 4 << 20;

/// Sizes of the training, validation and test sets into which vertices or graphs are divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Division {
    /// Fractions of all vertices for training and for validation. The remaining vertices are for
    /// test.
    Fractions([f64; 2]),
    /// Numbers of vertices of each class for training and for validation. The remaining vertices
    /// are for test. If labels are flags or numbers, the planted classes are used.
    PerClass([usize; 2]),
}

/// Kind of labels that a generated graph's vertices have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// Classes. A fraction `flip` of the labels is drawn again from all classes.
    Classes,
    /// Flags. Each flag is true for a random half of the classes, and is inverted for a fraction
    /// `flip` of the vertices.
    Flags {
        /// Number of flags per vertex, from 1 to
        /// [`MAX_LABEL_COLUMNS`](crate::labels::MAX_LABEL_COLUMNS).
        columns: u32,
    },
    /// Numbers. Each number is a standard normal value of the vertex's class, with noise added.
    Numbers {
        /// Number of values per vertex, from 1 to
        /// [`MAX_LABEL_COLUMNS`](crate::labels::MAX_LABEL_COLUMNS).
        columns: u32,
        /// Standard deviation of the normally distributed noise.
        noise: f32,
    },
}

impl Target {
    /// Returns the number of flags or numbers per vertex, or `None` for classes.
    pub fn columns(self) -> Option<u32> {
        match self {
            Self::Classes => None,
            Self::Flags { columns } | Self::Numbers { columns, .. } => Some(columns),
        }
    }
}

/// Planted task of a generated graph, with the classes, labels and features of its vertices.
#[derive(Debug, Clone)]
pub struct Planted {
    shape: Shape,
    pub(super) layout: Layout,
    /// Mean features of each class, one row per class. They are already scaled.
    means: Vec<f32>,
    /// Flags or numbers of each class, one row per class. Empty if labels are classes.
    targets: Vec<f32>,
}

impl Planted {
    /// Checks the specification `shape`, and creates its task.
    pub(super) fn new(shape: &Shape) -> Result<Self> {
        let vertices = shape.check()?;
        let width = shape.features as usize;
        let mut means = vec![0.0; shape.classes as usize * width];
        if width > 0 {
            for (class, row) in means.chunks_exact_mut(width).enumerate() {
                fill_normal(stream(shape.seed, Purpose::Mean, class as u64), row);
                row.iter_mut().for_each(|value| *value *= shape.feature_scale);
            }
        }
        let layout = Layout::new(vertices, shape.classes, shape.scramble, shape.seed);
        Ok(Self { shape: *shape, layout, means, targets: targets(shape) })
    }

    /// Returns the number of vertices.
    pub fn vertices(&self) -> u64 {
        self.shape.vertices
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> u32 {
        self.shape.classes
    }

    /// Returns the number of feature columns.
    pub fn columns(&self) -> u32 {
        self.shape.features
    }

    /// Returns the class of a vertex, which determines its features and edges. Returns 0 if the
    /// vertex does not exist.
    pub fn class(&self, vertex: u32) -> u32 {
        if u64::from(vertex) < self.shape.vertices { self.layout.class(self.layout.rank(vertex)) } else { 0 }
    }

    /// Returns the label of a vertex if labels are classes. It is the vertex's class, or a random
    /// class for a fraction `flip` of the vertices.
    pub fn label(&self, vertex: u32) -> u32 {
        let mut random = stream(self.shape.seed, Purpose::Flip, u64::from(vertex));
        if unit(random.next_u64()) < self.shape.flip {
            return keyed::below((random.next_u64() >> 32) as u32, self.shape.classes);
        }
        self.class(vertex)
    }

    /// Returns the labels of all vertices.
    pub fn labels(&self) -> Labels {
        let Some(columns) = self.shape.target.columns() else {
            let of = (0..self.layout.vertices()).map(|vertex| self.label(vertex)).collect();
            return Labels::classes(of, self.shape.classes);
        };
        let width = columns as usize;
        let mut values = vec![0.0; self.layout.vertices() as usize * width];
        for (vertex, row) in (0..).zip(values.chunks_exact_mut(width)) {
            self.noisy_target(vertex, row);
        }
        let values = Values::of_finite(columns, values);
        match self.shape.target {
            Target::Numbers { .. } => Labels::Numbers(values),
            _ => Labels::Flags(values),
        }
    }

    /// Returns the flags or numbers of a class without noise. Returns an empty slice if the class
    /// does not exist or if labels are classes.
    pub fn target(&self, class: u32) -> &[f32] {
        let width = self.shape.target.columns().unwrap_or(0) as usize;
        self.targets.get(class as usize * width..(class as usize + 1) * width).unwrap_or(&[])
    }

    /// Writes the flags or numbers of a vertex to `row`, including their noise.
    fn noisy_target(&self, vertex: u32, row: &mut [f32]) {
        let mut random = stream(self.shape.seed, Purpose::TargetNoise, u64::from(vertex));
        let target = self.target(self.class(vertex));
        if let Target::Numbers { noise, .. } = self.shape.target {
            fill_normal(random, row);
            row.iter_mut().zip(target).for_each(|(value, of)| *value = *value * noise + of);
            return;
        }
        for (value, &of) in row.iter_mut().zip(target) {
            *value = if unit(random.next_u64()) < self.shape.flip { 1.0 - of } else { of };
        }
    }

    /// Writes the features of the vertices in `rows` to `out`, row by row. Vertices that do not
    /// exist and values beyond the last vertex are skipped.
    pub fn features(&self, rows: Range<u64>, out: &mut [f32]) {
        let width = self.columns() as usize;
        if width == 0 {
            return;
        }
        let rows = rows.start..rows.end.min(self.shape.vertices);
        for (vertex, row) in rows.zip(out.chunks_exact_mut(width)) {
            fill_normal(stream(self.shape.seed, Purpose::Noise, vertex), row);
            let from = self.class(vertex as u32) as usize * width;
            for (value, mean) in row.iter_mut().zip(&self.means[from..from + width]) {
                *value += mean;
            }
        }
    }

    /// Writes the same features as [`Planted::features`], with several threads.
    pub fn features_by(&self, threads: usize, rows: Range<u64>, out: &mut [f32]) {
        let width = self.columns() as usize;
        let count = rows.end.min(self.shape.vertices).saturating_sub(rows.start);
        let each = count.div_ceil(threads.max(1) as u64);
        if width == 0 || threads < 2 || each == 0 {
            return self.features(rows, out);
        }
        std::thread::scope(|scope| {
            for (part, out) in (0u64..).zip(out.chunks_mut(each as usize * width)) {
                let first = rows.start + part * each;
                let part = first..(first + each).min(rows.end);
                eciton_input::threads::spawn(scope, move || self.features(part, out));
            }
        });
    }

    /// Calls `piece` with all features, in pieces of whole rows from vertex 0 on, for instance to
    /// write a file. `threads` threads generate the pieces, with about 4 MiB of memory per thread.
    ///
    /// # Errors
    /// Returns the errors of `piece`.
    pub fn feature_pieces(&self, threads: usize, piece: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let columns = self.columns() as usize;
        if columns == 0 {
            return Ok(());
        }
        let rows = (PIECE_BYTES / 4 / columns).max(1) * threads.max(1);
        let rows = rows.min(self.shape.vertices as usize);
        let mut values = vec![0.0f32; rows * columns];
        for first in (0..self.shape.vertices).step_by(rows) {
            let count = (self.shape.vertices - first).min(rows as u64);
            let values = &mut values[..count as usize * columns];
            self.features_by(threads, first..first + count, values);
            piece(values)?;
        }
        Ok(())
    }

    /// Returns the mean features of a class, to which noise is added for each vertex. Returns an
    /// empty slice if the class does not exist.
    pub fn mean(&self, class: u32) -> &[f32] {
        let width = self.columns() as usize;
        self.means.get(class as usize * width..(class as usize + 1) * width).unwrap_or(&[])
    }

    /// Draws the split of the vertices, which the seed determines. `labels` are the labels that
    /// [`Planted::labels`] returns.
    pub fn split(&self, labels: &Labels, division: Division) -> Split {
        let seed = stream(self.shape.seed, Purpose::Split, 0).next_u64();
        match division {
            Division::Fractions(fractions) => Split::random(labels, fractions, seed),
            Division::PerClass([train, validation]) => {
                let vertices = 0..self.layout.vertices();
                let planted = || vertices.map(|vertex| self.class(vertex)).collect::<Vec<_>>();
                let classes = labels.as_classes().map_or_else(|| planted().into(), Cow::Borrowed);
                Split::stratified(&classes, train, validation, seed)
            }
        }
    }

    /// Returns the best score that is possible if every class is known. For classes it is the
    /// accuracy 1 - flip (1 - 1 / classes). For flags it is the accuracy 1 - flip or flip,
    /// whichever is higher. For numbers it is the root mean squared error, which equals the noise.
    pub fn ceiling(&self) -> f64 {
        let flip = self.shape.flip;
        match self.shape.target {
            Target::Classes => 1.0 - flip * (1.0 - 1.0 / f64::from(self.shape.classes)),
            Target::Flags { .. } => flip.max(1.0 - flip),
            Target::Numbers { noise, .. } => f64::from(noise),
        }
    }

    /// Returns the class whose mean is nearest to `features`. It is the best guess if all classes
    /// have the same size and the noise has the same variance in all directions.
    pub fn nearest_mean(&self, features: &[f32]) -> u32 {
        let width = self.columns() as usize;
        if width == 0 {
            return 0;
        }
        let distance =
            |mean: &[f32]| -> f32 { mean.iter().zip(features).map(|(m, x)| (m - 2.0 * x) * m).sum() };
        let mut best = (f32::INFINITY, 0);
        for (class, mean) in self.means.chunks_exact(width).enumerate() {
            let distance = distance(mean);
            if distance < best.0 {
                best = (distance, class as u32);
            }
        }
        best.1
    }

    /// Returns the best accuracy that is possible without the graph. It is the accuracy of
    /// [`Planted::nearest_mean`] on a vertex's own features as a prediction of [`Planted::label`].
    /// It is measured on up to 8,192 vertices, and on fewer if classes times features is large.
    pub fn own_accuracy(&self) -> f64 {
        let cells = u64::from(self.classes()) * u64::from(self.columns().max(1));
        let sample = (MAX_PRODUCTS / cells).clamp(64, MAX_SAMPLE);
        let mut random = stream(self.shape.seed, Purpose::Sample, 0);
        let mut row = vec![0.0; self.columns() as usize];
        let mut right = 0u64;
        for _ in 0..sample {
            let vertex = random.below(self.shape.vertices);
            self.features(vertex..vertex + 1, &mut row);
            right += u64::from(self.nearest_mean(&row) == self.label(vertex as u32));
        }
        right as f64 / sample as f64
    }
}

/// Returns the flags or numbers of each class, one row per class.
fn targets(shape: &Shape) -> Vec<f32> {
    let (classes, width) = (shape.classes as usize, shape.target.columns().unwrap_or(0) as usize);
    let mut targets = vec![0.0; classes * width];
    match shape.target {
        Target::Classes => {}
        Target::Flags { .. } => {
            let mut order: Vec<usize> = (0..classes).collect();
            for column in 0..width {
                let mut random = stream(shape.seed, Purpose::Target, column as u64);
                random.shuffle(&mut order);
                // With an odd number of classes, the half is rounded up or down at random.
                let half = (classes + random.below(2) as usize) / 2;
                order[..half].iter().for_each(|class| targets[class * width + column] = 1.0);
                order.sort_unstable();
            }
        }
        Target::Numbers { .. } => {
            for (class, row) in targets.chunks_exact_mut(width).enumerate() {
                fill_normal(stream(shape.seed, Purpose::Target, class as u64), row);
            }
        }
    }
    targets
}
