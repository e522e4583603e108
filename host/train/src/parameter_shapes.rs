//! Names and extents of a program's parameters, as model files and checkpoints list them.

use eciton_program::Program;

/// Returns the name and the extents of each parameter, in the order of the program.
pub(crate) fn parameter_shapes(program: &Program) -> Vec<(String, Vec<usize>)> {
    let shape = |p: &eciton_program::Parameter| p.shape.iter().map(|&e| e as usize).collect();
    program.parameters.iter().map(|p| (p.name.clone(), shape(p))).collect()
}
