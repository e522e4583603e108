//! Arithmetic on views of rows, such as products, activations, sums over rows, softmax and
//! optimiser steps.

pub mod activation;
pub mod adam;
pub mod batch_norm;
pub mod function;
pub(crate) mod kept;
pub mod masked;
pub mod pair_norm;
pub mod patches;
pub mod permute;
pub mod pool;
pub mod product;
pub mod prologue;
pub mod row_scale;
pub mod rows;
pub mod smooth;
pub mod softmax;
pub mod sparse;
pub mod statistics;
