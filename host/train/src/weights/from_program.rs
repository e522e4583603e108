//! Creation of a program's parameters, with the settings of the optimiser.

use eciton_program::Program;
use eciton_recipe::Optimiser;

use super::parameters::{Parameter, use_number};

/// Returns the number of rows and columns of the buffer for a parameter of this shape. A vector is
/// stored as one column.
pub(crate) fn extent(shape: &[u32]) -> (usize, usize) {
    let rows = shape.first().map_or(1, |&r| r as usize);
    (rows, shape.iter().skip(1).map(|&e| e as usize).product())
}

/// Returns an iterator over the parameters of a program, with their numbers and without values.
pub(crate) fn parameters<'a>(
    program: &'a Program,
    optimiser: &'a Optimiser,
) -> impl Iterator<Item = (u32, Parameter)> + 'a {
    let count = program.parameters.len();
    program.parameters.iter().enumerate().map(move |(number, p)| {
        let further = (count..).zip(&program.uses).filter(move |(_, of)| of.index() == number);
        let uses = std::iter::once(number).chain(further.map(|(number, _)| number)).map(use_number).collect();
        let is_trained = !p.is_statistic && !optimiser.freezes(p.layer);
        let decay = is_trained.then(|| optimiser.weight_decay.for_layer(p.layer) as f32);
        let extents = p.shape.get(1..).unwrap_or_default().to_vec();
        (use_number(number), Parameter::new(extent(&p.shape), extents, uses, decay))
    })
}
