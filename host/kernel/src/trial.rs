//! Test runs of a layer on random rows, outside of a training run, for `eciton kernel check` and
//! `eciton kernel bench`.
//!
//! A [`Trial`] holds the random values. [`Trial::check`] compares a kernel's results with the
//! requirements of the contract. [`Trial::usage`] measures the use of limited resources,
//! [`Trial::bench`] the run time. An edge kernel gets a random directed graph in which every vertex
//! also has a self-loop.

mod bench;
mod check;
mod graph;
mod usage;

use std::sync::Arc;

use eciton_tensor::{Buffer, Grid, Matrix, stream};
use eciton_types::signature::{RowsSpec, TargetKind};

pub use bench::{Bench, Timed};
pub use check::{Found, Judgement};
use graph::RandomLists;
pub use usage::{Usage, Used};

use crate::call::{EdgeCall, EdgeKind, Kind, Labelled, Target, Targets, VertexCall};
use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::runtime::Layer;
use crate::state::{Finished, RowNumbers};

/// Name of an input that holds whole numbers, for which no derivative is checked.
const IDS: &str = "ids";

/// Pseudo-random number generator SplitMix64.
#[derive(Debug, Clone)]
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit.max(1))) as u32
    }

    /// Returns a random number between -1 and 1.
    fn value(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

/// Named matrix of random values, stored row by row.
#[derive(Debug, Clone, PartialEq)]
struct Values {
    name: String,
    rows: usize,
    extents: Vec<u32>,
    values: Vec<f32>,
}

impl Values {
    fn random(numbers: &mut Numbers, name: String, rows: usize, extents: &[u32]) -> Self {
        let count = rows * width(extents);
        Self { name, rows, extents: extents.to_vec(), values: (0..count).map(|_| numbers.value()).collect() }
    }

    fn buffer(&self) -> eciton_tensor::Result<Buffer> {
        Buffer::from_rows(self.rows, width(&self.extents), &self.values)
    }

    fn matrix(&self) -> eciton_tensor::Result<Matrix> {
        Matrix::from(self.buffer()?.read(0..self.rows)?).with_extents(&self.extents)
    }

    /// Returns a matrix whose rows arrive in batches while the kernel reads them. The first batch
    /// has `first` rows, and each further batch has one row more than twice its predecessor. So no
    /// batch is a whole number of tiles.
    fn arriving(&self, first: usize) -> eciton_tensor::Result<Matrix> {
        let columns = width(&self.extents);
        let (mut sender, arriving) = stream::channel(self.rows, columns)?;
        let values = self.values.clone();
        let send = move || {
            let (mut values, mut rows) = (&values[..], first);
            while !values.is_empty() && sender.wanted() {
                let (piece, rest) = values.split_at(values.len().min(rows * columns));
                if sender.send(piece).is_err() {
                    break;
                }
                (values, rows) = (rest, 2 * rows + 1);
            }
        };
        // The thread ends after the last row or when the reader is gone. If no thread can be
        // started, the sender is dropped, and the reader gets an error.
        drop(std::thread::Builder::new().name("eciton-rows".to_owned()).spawn(send));
        Matrix::from(arriving).with_extents(&self.extents)
    }

    fn bits(&self) -> impl Iterator<Item = u32> {
        self.values.iter().map(|value| value.to_bits())
    }
}

fn width(extents: &[u32]) -> usize {
    extents.iter().map(|&extent| extent as usize).product()
}

/// Buffer that a kernel writes during a call and that the trial reads afterwards.
#[derive(Debug)]
struct Place {
    name: String,
    extents: Vec<u32>,
    buffer: Buffer,
}

impl Place {
    fn new(name: &str, rows: usize, extents: &[u32]) -> eciton_tensor::Result<Self> {
        // The pages are touched before the call, as in a training run.
        let buffer = Buffer::from_rows(rows, width(extents), &vec![0.0; rows * width(extents)])?;
        Ok(Self { name: name.to_owned(), extents: extents.to_vec(), buffer })
    }

    fn rows(&self) -> eciton_tensor::Result<Target> {
        let rows = self.buffer.write(0..self.buffer.rows())?;
        Ok(Target::Rows { rows, extents: self.extents.clone() })
    }

    /// Returns the buffer as the target of a sum over rows, for instance a parameter's gradient.
    fn sums(&self) -> Target {
        let first = [self.buffer.rows() as u32];
        Target::Sums { parts: vec![self.buffer.clone()], shape: [&first[..], &self.extents].concat() }
    }

    fn values(&self) -> eciton_tensor::Result<Values> {
        let (name, rows, extents) = (self.name.clone(), self.buffer.rows(), self.extents.clone());
        Ok(Values { name, rows, extents, values: self.buffer.to_vec()? })
    }
}

/// Outputs and gradients that a layer computed from the values of a trial.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    outputs: Vec<Values>,
    /// Gradients of the inputs, then of the parameters. They are derivatives of the weighted sum of
    /// the outputs, or of the loss.
    gradients: Vec<Values>,
}

/// Sequence of kernel functions that a trial calls to obtain gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The functions `forward` and `backward`. For an edge kernel, `forward`, `backward-targets`
    /// and `backward-sources`.
    Passes,
    /// The function `loss`.
    Loss,
}

/// Call of a kernel function that is ready to run.
type Ready<'a> = Box<dyn FnOnce() -> Result<Finished> + 'a>;
/// Callback that runs each call of a trial. Its first argument is the name of the kernel function.
type Watch<'a> = dyn FnMut(&'static str, Ready<'_>) -> Result<()> + 'a;

/// Layer with random values for its inputs and parameters, on which the kernel is tested.
#[derive(Debug, Clone)]
pub struct Trial {
    layer: Arc<Layer>,
    seed: u64,
    rows: usize,
    inputs: Vec<Values>,
    parameters: Vec<Values>,
    /// Weights of the outputs. They are the output gradients that `backward` receives.
    up: Vec<Values>,
    /// Class targets for `loss`. If the targets are numbers, they are in `values`.
    classes: Arc<[u32]>,
    values: Option<Values>,
    /// Rows that count in the loss, as ascending indices.
    counting: Arc<[u32]>,
    /// Weight of each row in the loss. `None` if every weight is 1 or the kernel does not support
    /// row weights.
    row_weights: Option<Values>,
    lists: RandomLists,
    /// True if inputs and output gradients arrive in batches, as they do on a remote worker.
    pieces: bool,
}

impl Trial {
    /// Draws random values for `rows` rows. For an edge kernel, it also draws about `degree` edges
    /// per row. If the layer has an attribute `group`, the number of rows is rounded up to a
    /// multiple of it. An input called `ids` gets whole numbers below the layer's attribute
    /// `entries`.
    pub fn new(layer: &Arc<Layer>, rows: u32, degree: u32, seed: u64) -> Self {
        let numbers = &mut Numbers(seed);
        let group = layer.whole_number("group").unwrap_or(1).max(1);
        let rows = rows.checked_next_multiple_of(group).unwrap_or(rows);
        let (signature, count) = (layer.signature(), rows as usize);
        let mut draw = |what: &str, specs: &[RowsSpec]| -> Vec<Values> {
            let name = |spec: &RowsSpec| format!("{what} `{}`", spec.name);
            specs.iter().map(|s| Values::random(numbers, name(s), count, &s.extents)).collect()
        };
        let mut inputs = draw("input", &signature.inputs);
        let up = draw("output", &signature.outputs);
        let entries = layer.whole_number("entries").unwrap_or(1);
        for (_, of_ids) in signature.inputs.iter().zip(&mut inputs).filter(|(spec, _)| spec.name == IDS) {
            of_ids.values.iter_mut().for_each(|id| *id = numbers.below(entries) as f32);
        }
        let parameters = signature.parameters.iter().map(|parameter| {
            let (first, rest) = parameter.shape.split_first().map_or((1, &[][..]), |(&f, rest)| (f, rest));
            Values::random(numbers, format!("parameter `{}`", parameter.name), first as usize, rest)
        });
        let parameters = parameters.collect();
        let columns = up.first().map_or(1, |outputs| width(&outputs.extents) as u32);
        let classes = (0..rows).map(|_| numbers.below(columns)).collect();
        let values = (signature.loss == Some(TargetKind::Values))
            .then(|| Values::random(numbers, "targets".to_owned(), count, &[columns]));
        let degree = if signature.edges.is_some() { degree } else { 0 };
        let lists = RandomLists::new(numbers, rows, degree, layer.edge_features() as usize);
        let counting = (0..rows).collect();
        let asks = signature.loss.is_some() && layer.kernel().weighs_rows();
        let row_weights = asks.then(|| {
            let mut weights = Values::random(numbers, "row weights".to_owned(), count, &[1]);
            weights.values.iter_mut().for_each(|weight| *weight = 1.0 + *weight / 2.0);
            weights
        });
        Self {
            layer: layer.clone(),
            seed,
            rows: count,
            inputs,
            parameters,
            up,
            classes,
            values,
            counting,
            row_weights,
            lists,
            pieces: false,
        }
    }

    /// Returns the number of rows of the trial.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of edges, including self-loops. It is 0 for a vertex kernel.
    pub fn edges(&self) -> usize {
        self.lists.edges()
    }

    /// Returns the layer that the trial tests.
    pub fn layer(&self) -> &Arc<Layer> {
        &self.layer
    }

    fn is_edges(&self) -> bool {
        self.layer.signature().edges.is_some()
    }

    /// Returns the ways in which the layer can compute gradients. Every layer has a backward pass,
    /// and some layers also have a loss.
    fn ways(&self) -> Vec<Way> {
        let loss = self.layer.signature().loss;
        if loss.is_some() { vec![Way::Passes, Way::Loss] } else { vec![Way::Passes] }
    }

    fn at(&self, source: eciton_tensor::Error) -> Error {
        Error::Tensor { place: format!("kernel `{}`, in a trial", self.layer.kernel().name()), source }
    }

    fn matrices(&self, values: &[Values]) -> Result<Vec<Matrix>> {
        values.iter().map(|values| values.matrix().map_err(|e| self.at(e))).collect()
    }

    /// Returns the values as matrices. If `pieces` is set, their rows arrive in batches.
    fn streamed(&self, values: &[Values]) -> Result<Vec<Matrix>> {
        if !self.pieces {
            return self.matrices(values);
        }
        let matrix = |(first, values): (usize, &Values)| values.arriving(first).map_err(|e| self.at(e));
        (1..).zip(values).map(matrix).collect()
    }

    fn places(&self, specs: &[RowsSpec]) -> Result<Vec<Place>> {
        let place = |spec: &RowsSpec| Place::new(&spec.name, self.rows, &spec.extents);
        specs.iter().map(|spec| place(spec).map_err(|e| self.at(e))).collect()
    }

    fn sums(&self) -> Result<Vec<Place>> {
        let place = |values: &Values| Place::new(&values.name, values.rows, &values.extents);
        self.parameters.iter().map(|values| place(values).map_err(|e| self.at(e))).collect()
    }

    fn open(&self, places: &[Place]) -> Result<Vec<Option<Target>>> {
        places.iter().map(|place| place.rows().map(Some).map_err(|e| self.at(e))).collect()
    }

    fn read(&self, places: &[Place]) -> Result<Vec<Values>> {
        places.iter().map(|place| place.values().map_err(|e| self.at(e))).collect()
    }

    fn call(&self, kind: Kind, training: bool) -> Result<VertexCall> {
        Ok(VertexCall {
            kind,
            seed: self.seed,
            epoch: 3,
            layer: 1,
            training,
            grid: Arc::new(Grid::single(self.rows)),
            row_numbers: RowNumbers::From(5),
            inputs: Vec::new(),
            outputs: Vec::new(),
            kept: Vec::new(),
            parameters: self.matrices(&self.parameters)?,
            gradients: Vec::new(),
            output_count: self.up.len(),
            rows_out: Vec::new(),
            sums_out: Vec::new(),
            labelled: None,
        })
    }

    fn edge_call(&self, kind: EdgeKind, training: bool, other: &Values) -> Result<EdgeCall> {
        let buffer = other.buffer().map_err(|e| self.at(e))?;
        let rows = buffer.read(0..self.rows).map_err(|e| self.at(e))?;
        Ok(EdgeCall {
            kind,
            seed: self.seed,
            epoch: 3,
            layer: 1,
            training,
            grid: Arc::new(Grid::single(self.rows)),
            lists: Arc::new(self.lists.seen_from(kind)),
            other: vec![(0..self.rows, rows)],
            own: Vec::new(),
            parameters: self.matrices(&self.parameters)?,
            rows_out: Vec::new(),
            sums_out: Vec::new(),
        })
    }

    /// Computes the outputs and gradients in one way. The callback `then` receives each call
    /// together with the name of its function.
    fn run(
        &self,
        instance: &mut Instance,
        way: Way,
        training: bool,
        then: &mut Watch<'_>,
    ) -> Result<Outcome> {
        match (way, self.is_edges()) {
            (Way::Passes, true) => self.along_edges(instance, training, then),
            (Way::Passes, false) => self.by_rows(instance, training, then),
            (Way::Loss, _) => self.loss(instance, training, then),
        }
    }

    fn by_rows(&self, instance: &mut Instance, training: bool, then: &mut Watch<'_>) -> Result<Outcome> {
        let signature = self.layer.signature();
        let (outputs, kept) = (self.places(&signature.outputs)?, self.places(&signature.kept)?);
        let mut call = self.call(Kind::Forward, training)?;
        call.inputs = self.streamed(&self.inputs)?;
        call.rows_out = self.open(&outputs)?;
        call.rows_out.extend(self.open(&kept)?);
        then(Kind::Forward.name(), Box::new(|| instance.run_vertex(&self.layer, call)))?;
        let (outputs, kept) = (self.read(&outputs)?, self.read(&kept)?);
        let (to_inputs, to_parameters) = (self.places(&signature.inputs)?, self.sums()?);
        let needs = signature.backward_needs;
        let mut call = self.call(Kind::Backward, training)?;
        call.inputs = if needs.inputs { self.streamed(&self.inputs)? } else { Vec::new() };
        call.outputs = if needs.outputs { self.matrices(&outputs)? } else { Vec::new() };
        (call.kept, call.gradients) = (self.matrices(&kept)?, self.streamed(&self.up)?);
        call.rows_out = self.open(&to_inputs)?;
        call.sums_out = to_parameters.iter().map(Place::sums).collect();
        then(Kind::Backward.name(), Box::new(|| instance.run_vertex(&self.layer, call)))?;
        let mut gradients = self.read(&to_inputs)?;
        gradients.extend(self.read(&to_parameters)?);
        Ok(Outcome { outputs, gradients })
    }

    fn loss(&self, instance: &mut Instance, training: bool, then: &mut Watch<'_>) -> Result<Outcome> {
        let signature = self.layer.signature();
        let (to_inputs, to_parameters) = (self.places(&signature.inputs)?, self.sums()?);
        let loss = Place::new("loss", 1, &[]).map_err(|e| self.at(e))?;
        let mut call = self.call(Kind::Loss, training)?;
        call.inputs = self.streamed(&self.inputs)?;
        call.rows_out = self.open(&to_inputs)?;
        call.sums_out = to_parameters.iter().chain([&loss]).map(Place::sums).collect();
        let (rows, weight) = (self.counting.clone(), 1.0 / self.rows.max(1) as f32);
        let row_weights = self.row_weights.as_ref().map(|weights| weights.matrix().map_err(|e| self.at(e)));
        let targets = match &self.values {
            None => Targets::Classes(self.classes.clone()),
            Some(values) => Targets::Values(values.matrix().map_err(|e| self.at(e))?),
        };
        call.labelled = Some(Labelled { targets, rows, weight, row_weights: row_weights.transpose()? });
        then(Kind::Loss.name(), Box::new(|| instance.run_vertex(&self.layer, call)))?;
        let mut gradients = self.read(&to_inputs)?;
        gradients.extend(self.read(&to_parameters)?);
        Ok(Outcome { outputs: self.read(&[loss])?, gradients })
    }

    fn along_edges(&self, instance: &mut Instance, training: bool, then: &mut Watch<'_>) -> Result<Outcome> {
        let signature = self.layer.signature();
        let (Some(edges), [source, target]) = (&signature.edges, &self.inputs[..]) else {
            return Err(Error::Promise {
                kernel: self.layer.kernel().name().to_owned(),
                place: "signature".to_owned(),
                reason: "an edge kernel must have two inputs, a source and a target".to_owned(),
            });
        };
        let (outputs, kept) = (self.places(&signature.outputs)?, self.places(&signature.kept)?);
        let mut call = self.edge_call(EdgeKind::Forward, training, source)?;
        call.own = self.matrices(std::slice::from_ref(target))?;
        call.rows_out = self.open(&outputs)?;
        call.rows_out.extend(self.open(&kept)?);
        then(EdgeKind::Forward.name(), Box::new(|| instance.run_edges(&self.layer, call)))?;
        let (outputs, kept) = (self.read(&outputs)?, self.read(&kept)?);
        let to_inputs = self.places(&signature.inputs)?;
        let (passed, to_parameters) = (self.places(std::slice::from_ref(&edges.passed))?, self.sums()?);
        let mut call = self.edge_call(EdgeKind::Targets, training, source)?;
        call.own = self.matrices(std::slice::from_ref(target))?;
        call.own.extend(self.matrices(&kept)?);
        call.own.extend(self.matrices(&self.up)?);
        call.rows_out = self.open(&to_inputs[1..])?;
        call.rows_out.extend(self.open(&passed)?);
        call.sums_out = to_parameters.iter().map(Place::sums).collect();
        then(EdgeKind::Targets.name(), Box::new(|| instance.run_edges(&self.layer, call)))?;
        let passed = self.read(&passed)?;
        let mut call = self.edge_call(EdgeKind::Sources, training, &passed[0])?;
        call.own = self.matrices(std::slice::from_ref(source))?;
        call.rows_out = self.open(&to_inputs[..1])?;
        then(EdgeKind::Sources.name(), Box::new(|| instance.run_edges(&self.layer, call)))?;
        let mut gradients = self.read(&to_inputs)?;
        gradients.extend(self.read(&to_parameters)?);
        Ok(Outcome { outputs, gradients })
    }
}
