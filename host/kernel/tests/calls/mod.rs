//! Tasks of the built-in kernels, run with every way of loading them, with the bits of all results.
#![allow(dead_code)]

use std::sync::Arc;

use eciton_kernel::{
    Call, Instances, Kernel, Kind, Labelled, Layer, Result, RowNumbers, Target, Targets, VertexCall,
};
use eciton_tensor::{Atom, Buffer, Grid, Matrix, Part};
use eciton_types::{Attribute, Value};

/// Built-in components, by name.
pub const SHIPPED: [(&str, &[u8]); 2] = [
    ("linear", include_bytes!("../../../../guest-kernels/prebuilt/linear.wasm")),
    ("head", include_bytes!("../../../../guest-kernels/prebuilt/head.wasm")),
];

/// Random number generator SplitMix64.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }

    fn matrix(&mut self, rows: u32, extents: &[u32], scale: f32) -> Matrix {
        let columns = extents.iter().map(|&e| e as usize).product();
        let values: Vec<f32> = (0..rows as usize * columns)
            .map(|_| scale * ((self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0))
            .collect();
        let buffer = Buffer::from_rows(rows as usize, columns, &values).unwrap();
        Matrix::from(buffer.read(0..rows as usize).unwrap()).with_extents(extents).unwrap()
    }
}

fn layer(kernel: &Arc<Kernel>, numbers: &mut Numbers) -> Result<Arc<Layer>> {
    let text = |v: &str| Value::Text(v.to_owned());
    let columns = 1 + numbers.below(60);
    let pick = |all: [&str; 3], at: u32| text(all[at as usize]);
    let given = match kernel.name() {
        "head" => vec![Attribute::new("bias", Value::Flag(numbers.below(2) == 0))],
        _ => vec![
            Attribute::new("out-features", Value::Integer(1 + i64::from(numbers.below(60)))),
            Attribute::new("bias", Value::Flag(numbers.below(2) == 0)),
            Attribute::new("activation", pick(["relu", "elu", "tanh"], numbers.below(3))),
            Attribute::new("dropout", Value::Number(0.5 * f64::from(numbers.below(2)))),
        ],
    };
    kernel.open(&[vec![columns]], &given)
}

/// Runs one task with new random numbers, and returns the bits of its results.
pub fn call(
    layer: &Arc<Layer>,
    kind: Kind,
    numbers: &mut Numbers,
    instances: &mut Instances,
) -> Result<Vec<u32>> {
    let s = layer.signature();
    let rows = 1 + numbers.below(if kind == Kind::Loss { 1500 } else { 90 });
    let specs: Vec<Vec<u32>> = match kind {
        Kind::Forward => s.outputs.iter().chain(&s.kept).map(|r| r.extents.clone()).collect(),
        _ => s.inputs.iter().map(|r| r.extents.clone()).collect(),
    };
    let mut shapes: Vec<Vec<u32>> = s.parameters.iter().map(|p| p.shape.clone()).collect();
    match kind {
        Kind::Forward => shapes.clear(),
        Kind::Backward => {}
        Kind::Loss => shapes.push(vec![1]),
    }
    let width = |extents: &[u32]| extents.iter().map(|&e| e as usize).product::<usize>();
    let places: Vec<Buffer> =
        specs.iter().map(|e| Buffer::zeroed(rows as usize, width(e)).unwrap()).collect();
    let sums: Vec<Buffer> =
        shapes.iter().map(|s| Buffer::zeroed(s[0] as usize, width(&s[1..])).unwrap()).collect();
    let backward = kind == Kind::Backward;
    let mut matrices = |extents: Vec<&Vec<u32>>, scale| -> Vec<Matrix> {
        extents.into_iter().map(|e| numbers.matrix(rows, e, scale)).collect()
    };
    let inputs = matrices(s.inputs.iter().map(|r| &r.extents).collect(), 10.0);
    let outputs = matrices(s.outputs.iter().map(|r| &r.extents).collect(), 1.0);
    let gradients = matrices(s.outputs.iter().map(|r| &r.extents).collect(), 1.0);
    let parameters = s.parameters.iter().map(|p| numbers.matrix(p.shape[0], &p.shape[1..], 1.0)).collect();
    let classes = s.outputs[0].extents[0];
    let task = VertexCall {
        kind,
        seed: numbers.next(),
        epoch: 3,
        layer: 1,
        training: true,
        grid: Arc::new(Grid::new(vec![Part { level: 0, atoms: vec![Atom { rows: 0..rows, closes: 0 }] }])),
        row_numbers: RowNumbers::From(numbers.next() >> 1),
        inputs: if backward && !s.backward_needs.inputs { vec![] } else { inputs },
        outputs: if backward && s.backward_needs.outputs { outputs } else { vec![] },
        kept: vec![],
        parameters,
        gradients: if backward { gradients } else { vec![] },
        output_count: s.outputs.len(),
        rows_out: places
            .iter()
            .zip(&specs)
            .map(|(b, e)| Some(Target::Rows { rows: b.write(0..rows as usize).unwrap(), extents: e.clone() }))
            .collect(),
        sums_out: sums
            .iter()
            .zip(&shapes)
            .map(|(b, s)| Target::Sums { parts: vec![b.clone()], shape: s.clone() })
            .collect(),
        labelled: (kind == Kind::Loss).then(|| Labelled {
            targets: Targets::Classes((0..rows).map(|_| numbers.below(classes)).collect()),
            rows: (0..rows).step_by(2).collect(),
            weight: 2.0 / rows as f32,
            row_weights: None,
        }),
    };
    instances.run(Call::vertex(layer, task))?;
    Ok(places.iter().chain(&sums).flat_map(|b| b.to_vec().unwrap()).map(f32::to_bits).collect())
}

/// Runs every function of `cases` layers of a kernel, and returns the bits of all results.
pub fn results(kernel: &Arc<Kernel>, seed: u64, cases: u32) -> Result<Vec<u32>> {
    let (mut all, mut instances) = (Vec::new(), Instances::new(false));
    for case in 0..cases {
        let mut numbers = Numbers(seed.wrapping_add(u64::from(case) << 32));
        let layer = layer(kernel, &mut numbers)?;
        let last = layer.signature().loss.map(|_| Kind::Loss);
        for kind in [Kind::Forward, Kind::Backward].into_iter().chain(last) {
            all.extend(call(&layer, kind, &mut numbers, &mut instances)?);
        }
    }
    Ok(all)
}
