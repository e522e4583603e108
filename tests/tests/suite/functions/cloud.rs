//! One product as a task, on an emulated cloud.

use std::sync::Arc;

use eciton_exec::emulated::Emulated;
use eciton_exec::functions::Wanted;
use eciton_exec::{Affinity, Answered, Clock, Completion, Executor as _, Job, KernelWork, LocalPool, Work};
use eciton_kernel::wire::Times;
use eciton_kernel::{Call, Kernel, Kind, Layer, Limits, RowNumbers, Runtime, Settings, Target, VertexCall};
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{Emulator, Executor};
use eciton_tensor::{Buffer, Grid, Matrix};
use eciton_types::signature::{Attribute, Value};
use eciton_types::{Attempt, IntervalId, OperationId, Round, StageId, Task, Version};

/// One forward task of `linear`: [rows, columns] to [rows, width].
pub(crate) struct Product {
    pub(crate) x: Buffer,
    pub(crate) w: Buffer,
    pub(crate) y: Buffer,
}

impl Product {
    pub(crate) fn new(rows: usize, columns: usize, width: usize) -> Self {
        let mut random = eciton_graph::random::SplitMix64::new(1);
        let mut values = |n: usize| -> Vec<f32> {
            (0..n).map(|_| random.next_u64() as u32 as f32 / u32::MAX as f32 - 0.5).collect()
        };
        Self {
            x: Buffer::from_rows(rows, columns, &values(rows * columns)).unwrap(),
            w: Buffer::from_rows(columns, width, &values(columns * width)).unwrap(),
            y: Buffer::zeroed(rows, width).unwrap(),
        }
    }

    pub(crate) fn call(&self) -> VertexCall {
        let read = |b: &Buffer| Matrix::from(b.read(0..b.rows()).unwrap());
        let rows = self.y.write(0..self.y.rows()).unwrap();
        VertexCall {
            kind: Kind::Forward,
            seed: 1,
            epoch: 0,
            layer: 0,
            training: true,
            grid: Arc::new(Grid::single(self.x.rows())),
            row_numbers: RowNumbers::From(0),
            inputs: vec![read(&self.x)],
            outputs: Vec::new(),
            kept: Vec::new(),
            parameters: vec![read(&self.w)],
            gradients: Vec::new(),
            output_count: 1,
            rows_out: vec![Some(Target::Rows { rows, extents: vec![self.y.columns() as u32] })],
            sums_out: Vec::new(),
            labelled: None,
        }
    }

    /// An attempt at it.
    pub(crate) fn job(&self, layer: &Arc<Layer>, pass: u32, attempt: u32) -> Job {
        let task = Task {
            round: Round(1),
            stage: StageId(0),
            interval: IntervalId(0),
            attempt: Attempt(attempt),
            weights: Version(0),
        };
        let work = KernelWork {
            operation: OperationId(0),
            // The weights are the same in every round, and are kept.
            generation: 1,
            call: Call::vertex(layer, self.call()).into(),
            shared: Vec::new(),
            twin: None,
        };
        Job { pass, task, work: Work::Kernel(work), deadline: None, affinity: Affinity::Any }
    }
}

/// A test kernel with the signature of `linear`, opened for a product.
pub(crate) struct Opened {
    kernel: (Arc<Kernel>, Arc<[u8]>),
    pub(crate) layer: Arc<Layer>,
    _clock: Clock,
}

impl Opened {
    pub(crate) fn new(kernel: &str, product: &Product) -> Self {
        let runtime = Runtime::new(Settings::default()).unwrap();
        let clock = Clock::start(&runtime).unwrap();
        let component = std::fs::read(eciton_tests::test_kernel(kernel)).unwrap();
        let kernel: Arc<Kernel> = runtime.load(kernel, &component).unwrap();
        let width = Value::Integer(product.y.columns() as i64);
        let attributes = [Attribute::new("out-features", width), Attribute::new("bias", Value::Flag(false))];
        let layer = kernel.open(&[vec![product.x.columns() as u32]], &attributes).unwrap();
        Self { kernel: (kernel, component.into()), layer, _clock: clock }
    }

    /// What a pool of functions for it is started with.
    pub(crate) fn wanted(&self, executor: Executor) -> Wanted {
        let local =
            eciton_exec::Settings { threads: 1, fresh_instances: false, newest_first: false, lanes: 0 };
        Wanted {
            local: LocalPool::new(local).unwrap(),
            kernels: vec![self.kernel.clone()],
            executor,
            limits: Limits::default(),
            intervals: 2,
            weight_versions: 1,
        }
    }
}

/// An emulated cloud with one function.
pub(crate) struct Cloud {
    pub(crate) cloud: Emulated,
    opened: Opened,
    passes: u32,
}

impl Cloud {
    pub(crate) fn start(
        worker: &str,
        kernel: &str,
        product: &Product,
        executor: Executor,
        mbit_s: f64,
    ) -> Self {
        let opened = Opened::new(kernel, product);
        let wanted = opened.wanted(Executor { kind: ExecutorKind::Emulated, ..executor });
        let emulator = Emulator { mbit_s, worker: Some(worker.to_owned()), ..Emulator::default() };
        Self { cloud: Emulated::start(wanted, &emulator).unwrap(), opened, passes: 0 }
    }

    /// Milliseconds charged for one warm task, and the worker's times.
    pub(crate) fn run(&mut self, product: &Product) -> (f64, Times) {
        self.passes += 1;
        let before = self.cloud.usage().bill.unwrap().billed_ms;
        self.cloud.submit(product.job(&self.opened.layer, self.passes, 0));
        let mut done = Vec::new();
        while done.is_empty() {
            self.cloud.drain(&mut done, None);
        }
        let answer = match done.pop() {
            Some(Completion::Ended { result: Ok(Answered::Apart(answer)), .. }) => answer,
            other => panic!("{other:?}"),
        };
        let times = answer.meta().times;
        ((self.cloud.usage().bill.unwrap().billed_ms - before) as f64, times)
    }
}
