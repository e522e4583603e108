//! One layer with everything that its functions work on: run as WebAssembly, and natively in f64.

use std::sync::Arc;

use eciton_kernel::{
    Call, Error, Instances, Kernel, Kind, Labelled, Layer, Limits, RowNumbers, Runtime, Settings, Target,
    Targets, VertexCall,
};
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Backward, Forward, LastLayer};
use eciton_tensor::{Atom, Buffer, Grid, Matrix, Part, SparseRows};

/// What relative difference by norm f32 may have from f64.
pub(crate) const CLOSE: f64 = 1e-5;

/// SplitMix64.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }

    pub(crate) fn value(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }

    pub(crate) fn tensor(&mut self, shape: Vec<u32>) -> Tensor {
        let count = shape.iter().map(|&e| e as usize).product();
        Tensor { shape, values: (0..count).map(|_| self.value()).collect() }
    }

    /// 1 to 8 atoms in parts of one level each, over `rows`.
    pub(crate) fn grid(&mut self, rows: u32) -> Arc<Grid> {
        let (mut parts, mut start) = (Vec::new(), 0);
        while start < rows || parts.is_empty() {
            let level = self.below(2) as u8;
            let mut atoms = Vec::new();
            for _ in 0..=u32::from(level) * self.below(4) {
                let end = (start + 1 + self.below(rows)).min(rows);
                atoms.push(Atom { rows: start..end, closes: 0 });
                start = end;
            }
            parts.push(Part { level, atoms });
        }
        Arc::new(Grid::new(parts))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<u32>,
    pub(crate) values: Vec<f32>,
}

impl Tensor {
    pub(crate) fn columns(&self) -> usize {
        self.shape[1..].iter().map(|&e| e as usize).product()
    }

    pub(crate) fn wide(&self) -> Vec<f64> {
        self.values.iter().map(|&v| f64::from(v)).collect()
    }

    pub(crate) fn matrix(&self) -> Matrix {
        let rows = self.shape[0] as usize;
        let buffer = Buffer::from_rows(rows, self.columns(), &self.values).unwrap();
        Matrix::from(buffer.read(0..rows).unwrap()).with_extents(&self.shape[1..]).unwrap()
    }
}

pub(crate) fn close(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut found.iter().zip(expected).map(|(&f, &e)| f64::from(f) - e));
    let size = norm(&mut expected.iter().copied());
    assert!(apart <= CLOSE * size.max(1e-2), "{what}: differs by {apart:e} of {size:e}");
}

pub(crate) fn load(name: &str, limits: Limits) -> Arc<Kernel> {
    let builtin = eciton_train::kernels::builtin().iter().find(|b| b.name == name).unwrap();
    Runtime::new(Settings { limits, ..Settings::default() }).unwrap().load(name, builtin.component).unwrap()
}

/// A layer with everything that its functions work on.
pub(crate) struct Case {
    pub(crate) layer: Arc<Layer>,
    pub(crate) context: Context,
    pub(crate) grid: Arc<Grid>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) parameters: Vec<Tensor>,
    pub(crate) up: Vec<Tensor>,
    pub(crate) labels: Vec<u32>,
    pub(crate) labelled: Vec<u32>,
    pub(crate) weight: f32,
}

/// What a function wrote: outputs and kept rows or gradients of inputs; then sums, all parts added.
#[derive(Debug, PartialEq, Clone)]
pub(crate) struct Written<T> {
    pub(crate) rows: Vec<Vec<T>>,
    pub(crate) sums: Vec<Vec<T>>,
}

impl Case {
    pub(crate) fn new(numbers: &mut Numbers, layer: &Arc<Layer>, rows: u32, training: bool) -> Self {
        let s = layer.signature();
        let of_rows = |extents: &Vec<u32>| [&[rows], &extents[..]].concat();
        let context = Context {
            seed: numbers.next(),
            epoch: numbers.below(300),
            layer: numbers.below(3),
            training,
            first_row: u64::from(numbers.below(2)) * numbers.next(),
            rows,
        };
        let classes = s.outputs[0].extents[0];
        let labelled: Vec<u32> = (0..rows).filter(|_| numbers.below(3) > 0).collect();
        Self {
            context,
            grid: numbers.grid(rows),
            inputs: s.inputs.iter().map(|i| numbers.tensor(of_rows(&i.extents))).collect(),
            parameters: s.parameters.iter().map(|p| numbers.tensor(p.shape.clone())).collect(),
            up: s.outputs.iter().map(|o| numbers.tensor(of_rows(&o.extents))).collect(),
            labels: (0..rows).map(|_| numbers.below(classes)).collect(),
            weight: 1.0 / labelled.len().max(1) as f32,
            labelled,
            layer: layer.clone(),
        }
    }

    /// Runs one function as WebAssembly; `passed` is what forward wrote.
    pub(crate) fn wasm(
        &self,
        instances: &mut Instances,
        kind: Kind,
        inputs: Vec<Matrix>,
        passed: &[Tensor],
        wanted: bool,
    ) -> Result<Written<f32>, Error> {
        let s = self.layer.signature();
        let rows = self.context.rows as usize;
        let row_specs: Vec<_> = match kind {
            Kind::Forward => s.outputs.iter().chain(&s.kept).collect(),
            _ => s.inputs.iter().collect(),
        };
        let shapes: Vec<Vec<u32>> = match kind {
            Kind::Forward => vec![],
            Kind::Backward => s.parameters.iter().map(|p| p.shape.clone()).collect(),
            Kind::Loss => s.parameters.iter().map(|p| p.shape.clone()).chain([vec![1]]).collect(),
        };
        let width = |extents: &[u32]| extents.iter().map(|&e| e as usize).product::<usize>();
        let row_buffers: Vec<Buffer> =
            row_specs.iter().map(|s| Buffer::zeroed(rows, width(&s.extents)).unwrap()).collect();
        let part = |shape: &Vec<u32>| Buffer::zeroed(shape[0] as usize, width(&shape[1..])).unwrap();
        let sum_buffers: Vec<Vec<Buffer>> =
            shapes.iter().map(|shape| self.grid.parts().iter().map(|_| part(shape)).collect()).collect();
        let target = |(b, s): (&Buffer, &&eciton_types::RowsSpec)| {
            Some(Target::Rows { rows: b.write(0..rows).unwrap(), extents: s.extents.clone() })
        };
        let no_rows = kind != Kind::Forward && !wanted;
        let rows_out = if no_rows {
            row_specs.iter().map(|_| None).collect()
        } else {
            row_buffers.iter().zip(&row_specs).map(target).collect()
        };
        let backward = kind == Kind::Backward;
        let matrices = |tensors: &[Tensor]| tensors.iter().map(Tensor::matrix).collect::<Vec<_>>();
        let (outputs, kept) = passed.split_at(s.outputs.len().min(passed.len()));
        let call = VertexCall {
            kind,
            seed: self.context.seed,
            epoch: self.context.epoch,
            layer: self.context.layer,
            training: self.context.training,
            grid: self.grid.clone(),
            row_numbers: if self.context.epoch.is_multiple_of(2) {
                RowNumbers::From(self.context.first_row)
            } else {
                RowNumbers::List((0..rows as u64).map(|i| self.context.first_row.wrapping_add(i)).collect())
            },
            inputs: if backward && !s.backward_needs.inputs { vec![] } else { inputs },
            outputs: if backward && s.backward_needs.outputs { matrices(outputs) } else { vec![] },
            kept: if backward { matrices(kept) } else { vec![] },
            parameters: matrices(&self.parameters),
            gradients: if backward { matrices(&self.up) } else { vec![] },
            output_count: s.outputs.len(),
            rows_out,
            sums_out: sum_buffers
                .iter()
                .zip(&shapes)
                .map(|(p, s)| Target::Sums { parts: p.clone(), shape: s.clone() })
                .collect(),
            labelled: (kind == Kind::Loss).then(|| Labelled {
                targets: Targets::Classes(self.labels.as_slice().into()),
                rows: self.labelled.as_slice().into(),
                weight: self.weight,
                row_weights: None,
            }),
        };
        instances.run(Call::vertex(&self.layer, call))?;
        let add = |parts: &Vec<Buffer>| {
            let all: Vec<Vec<f32>> = parts.iter().map(|p| p.to_vec().unwrap()).collect();
            (0..all[0].len()).map(|i| all.iter().map(|p| f64::from(p[i])).sum::<f64>() as f32).collect()
        };
        let rows = if no_rows { vec![] } else { row_buffers.iter().map(|b| b.to_vec().unwrap()).collect() };
        Ok(Written { rows, sums: sum_buffers.iter().map(add).collect() })
    }

    /// Runs one function natively in f64.
    pub(crate) fn reference<K: eciton_sdk::Kernel>(
        &self,
        kernel: &K,
        kind: Kind,
        passed: &[Vec<f64>],
    ) -> Written<f64> {
        let host = Reference::new(self.context);
        let s = kernel.signature();
        let task = self.context.task();
        let matrices = |tensors: &[Tensor]| {
            tensors.iter().map(|t| host.matrix(&t.shape, &t.wide()).unwrap()).collect::<Vec<_>>()
        };
        let (inputs, parameters, up) =
            (matrices(&self.inputs), matrices(&self.parameters), matrices(&self.up));
        let of_rows = |extents: &[u32]| [&[self.context.rows], extents].concat();
        let out = |s: &eciton_sdk::RowsSpec| host.output(&of_rows(&s.extents)).unwrap();
        let specs: Vec<_> = match kind {
            Kind::Forward => s.outputs.iter().chain(&s.kept).collect(),
            _ => s.inputs.iter().collect(),
        };
        let rows: Vec<_> = specs.into_iter().map(out).collect();
        let sums: Vec<_> = s.parameters.iter().map(|p| host.gradient(&p.shape).unwrap()).collect();
        let loss = host.gradient(&[1]).unwrap();
        fn refs<T>(all: &[T]) -> Vec<&T> {
            all.iter().collect()
        }
        let optional: Vec<_> = rows.iter().map(Some).collect();
        let (outputs, kept) = rows.split_at(s.outputs.len().min(rows.len()));
        host.run(|| match kind {
            Kind::Forward => kernel.forward::<f64>(
                &task,
                Forward {
                    inputs: &refs(&inputs),
                    parameters: &refs(&parameters),
                    outputs: &refs(outputs),
                    kept: &refs(kept),
                },
            ),
            Kind::Backward => {
                let specs = s.outputs.iter().chain(&s.kept).zip(passed);
                let all: Vec<_> = specs.map(|(s, v)| host.matrix(&of_rows(&s.extents), v).unwrap()).collect();
                let (outputs, kept) = all.split_at(s.outputs.len());
                kernel.backward::<f64>(
                    &task,
                    Backward {
                        inputs: &if s.needs_inputs { refs(&inputs) } else { vec![] },
                        outputs: &if s.needs_outputs { refs(outputs) } else { vec![] },
                        kept: &refs(kept),
                        parameters: &refs(&parameters),
                        gradients: &refs(&up),
                        input_gradients: &optional,
                        parameter_gradients: &refs(&sums),
                    },
                )
            }
            Kind::Loss => kernel.loss::<f64>(
                &task,
                LastLayer {
                    inputs: &refs(&inputs),
                    parameters: &refs(&parameters),
                    targets: eciton_sdk::Targets::Classes(&host.ids(&self.labels).unwrap()),
                    rows: &host.ids(&self.labelled).unwrap(),
                    weight: self.weight,
                    loss: &loss,
                    input_gradients: &optional,
                    parameter_gradients: &refs(&sums),
                },
            ),
        })
        .unwrap();
        let values =
            |outs: &[eciton_sdk::Out]| outs.iter().map(|o| host.values(o).unwrap()).collect::<Vec<_>>();
        let mut sums = if kind == Kind::Forward { vec![] } else { values(&sums) };
        if kind == Kind::Loss {
            sums.push(host.values(&loss).unwrap());
        }
        Written { rows: values(&rows), sums }
    }

    /// Compares all functions; the input stored sparsely where `sparse`.
    pub(crate) fn check<K: eciton_sdk::Kernel>(
        &self,
        what: &str,
        instances: &mut Instances,
        kernel: &K,
        sparse: bool,
    ) {
        let s = self.layer.signature();
        let stored = sparse.then(|| sparse_rows(&self.inputs[0]));
        let inputs = || match &stored {
            Some(rows) => vec![Matrix::from(rows.clone())],
            None => self.inputs.iter().map(Tensor::matrix).collect(),
        };
        let compare = |function: &str, found: &Written<f32>, expected: &Written<f64>| {
            for (i, (found, expected)) in found.rows.iter().zip(&expected.rows).enumerate() {
                close(&format!("{what}: {function}, rows {i}"), found, expected);
            }
            assert_eq!(found.sums.len(), expected.sums.len());
            for (i, (found, expected)) in found.sums.iter().zip(&expected.sums).enumerate() {
                close(&format!("{what}: {function}, sum {i}"), found, expected);
            }
        };
        let expected = self.reference(kernel, Kind::Forward, &[]);
        let found = self.wasm(instances, Kind::Forward, inputs(), &[], true).unwrap();
        assert_eq!(found.rows.len(), expected.rows.len());
        compare("forward", &found, &expected);
        let specs = s.outputs.iter().chain(&s.kept).zip(&found.rows);
        let passed: Vec<Tensor> = specs
            .map(|(s, v)| Tensor {
                shape: [&[self.context.rows], &s.extents[..]].concat(),
                values: v.clone(),
            })
            .collect();
        let mut kinds = vec![Kind::Backward];
        kinds.extend(s.loss.map(|_| Kind::Loss));
        for kind in kinds {
            let expected = self.reference(kernel, kind, &expected.rows);
            let quiet = self.wasm(instances, kind, inputs(), &passed, false).unwrap();
            compare(kind.name(), &quiet, &expected);
            if !sparse {
                let found = self.wasm(instances, kind, inputs(), &passed, true).unwrap();
                compare(kind.name(), &found, &expected);
                assert_eq!(found.sums, quiet.sums, "{what}: {} without the input's gradient", kind.name());
            }
        }
    }
}

pub(crate) fn sparse_rows(x: &Tensor) -> Arc<SparseRows> {
    let columns = x.columns();
    let (mut offsets, mut indices, mut values) = (vec![0], vec![], vec![]);
    for row in x.values.chunks(columns) {
        for (c, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            indices.push(c as u32);
            values.push(v);
        }
        offsets.push(values.len() as u64);
    }
    Arc::new(SparseRows::new(columns as u32, offsets, indices, values).unwrap())
}
