//! Class weights, which give each training row a weight in the loss that depends on its class.

use std::sync::Arc;

use eciton_kernel::{Layer, Targets};
use eciton_program::Program;
use eciton_recipe::ClassWeights;
use eciton_tensor::{Buffer, Matrix};

use crate::data::{Inputs, Interval};
use crate::error::{Error, Result, at};

impl Inputs {
    /// Gives each training row the weight of its class in the loss. The loss remains a mean because
    /// it is divided by the sum of the row weights, as in PyTorch's `CrossEntropyLoss(weight=...)`.
    ///
    /// # Errors
    /// Returns [`eciton_recipe::Error::ClassWeights`] if the weights do not fit the classes of the
    /// data.
    pub(crate) fn with_class_weights(mut self, weights: Option<&ClassWeights>) -> Result<Self> {
        let Some(weights) = weights else { return Ok(self) };
        let (labels, split) = self.learnt();
        let Some(ids) = labels.as_classes() else {
            return Err(Error::Internal("the data has class weights, but no classes".to_owned()));
        };
        let mut counts = vec![0u64; self.shape.classes as usize];
        let class = |&row: &u32| ids.get(row as usize).map(|&class| class as usize);
        for class in split.train.iter().filter_map(class) {
            counts.get_mut(class).into_iter().for_each(|count| *count += 1);
        }
        let weights = weights.for_counts(&counts)?;
        let sum: f64 = weights.iter().zip(&counts).map(|(&w, &count)| f64::from(w) * count as f64).sum();
        // Without training rows the sum is 0, and the factor stays.
        self.weight = if sum > 0.0 { (1.0 / sum) as f32 } else { self.weight };
        self.intervals.iter_mut().chain(&mut self.read_out).for_each(|interval| interval.weigh(&weights));
        self.class_weights = Some(weights.into());
        Ok(self)
    }

    /// Checks that the loss kernel supports row weights, if rows have weights. Rows have weights if
    /// class weights are set, or if the sampler gives them weights (`weighed`).
    ///
    /// # Errors
    /// Returns the error of [`eciton_kernel::Kernel::must_weigh_rows`] if the loss kernel does not
    /// support them.
    pub(crate) fn check_loss(
        &self,
        program: &Program,
        layers: &[Option<Arc<Layer>>],
        weighed: bool,
    ) -> Result<()> {
        let weighed = weighed || self.class_weights.is_some();
        let loss = program.loss().and_then(|loss| program.stage(loss)).filter(|_| weighed);
        match loss.and_then(|stage| layers.get(stage.operation.index())).and_then(Option::as_ref) {
            Some(layer) => Ok(layer.kernel().must_weigh_rows()?),
            None => Ok(()),
        }
    }
}

impl Interval {
    /// Sets the loss weight of each training row in the interval to the weight of its class. Other
    /// rows get weight 0.
    fn weigh(&mut self, weights: &[f32]) {
        let Targets::Classes(classes) = &self.targets else { return };
        let mut of = vec![0.0; classes.len()];
        for &row in &*self.training {
            let class = classes.get(row as usize).map(|&class| class as usize);
            let weight = class.and_then(|class| weights.get(class));
            for (to, &weight) in of.get_mut(row as usize).into_iter().zip(weight) {
                *to = weight;
            }
        }
        self.row_weights = Some(of.into());
    }

    /// Returns the loss weights of the interval's rows as a `[rows, 1]` matrix that a task can
    /// read. Returns `None` if the rows have no weights.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(crate) fn weights(&self) -> Result<Option<Matrix>> {
        let matrix = |weights: &Arc<[f32]>| {
            let rows = weights.len();
            let buffer = Buffer::from_rows(rows, 1, weights)?;
            Ok(Matrix::from(buffer.read(0..rows)?))
        };
        self.row_weights.as_ref().map(matrix).transpose().map_err(at("row weights"))
    }
}
