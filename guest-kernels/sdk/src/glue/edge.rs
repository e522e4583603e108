//! An edge kernel in a component: [`Glue`] is the export.

use super::{
    RawIds, RawMatrix, RawOut, attribute_specs, attributes, matrices, outs, parameter_specs, quote_panics,
    refs, report, rows_spec, rows_specs,
};
use crate::bindings::eciton::kernel::{tensors as wt, types as ty};
use crate::edge::{BackwardSources, BackwardTargets, EdgeForward, EdgeKernel, EdgeTask};
use crate::edge_bindings::exports::eciton::kernel::edge as we;
use crate::{Ids, Matrix, Out};

/// The component's export for one kernel.
#[derive(Debug)]
pub struct Glue<K>(core::marker::PhantomData<K>);

/// A configured layer of a kernel.
#[derive(Debug)]
pub struct Layer<K>(K);

impl<K: EdgeKernel> we::Guest for Glue<K> {
    type Layer = Layer<K>;

    fn attributes() -> Vec<ty::AttributeSpec> {
        quote_panics();
        attribute_specs(K::attributes())
    }
}

/// The lists of a task, as handles.
struct Lists(Ids, Ids, Option<Matrix>);

impl Lists {
    fn new(l: we::Lists) -> Self {
        Self(Ids::new(RawIds(l.offsets)), Ids::new(RawIds(l.owners)), l.features.map(matrix))
    }

    fn task(&self, t: we::Task) -> EdgeTask<'_> {
        EdgeTask {
            training: t.training,
            epoch: t.epoch,
            layer: t.layer,
            rows: t.rows,
            edges: t.edges,
            offsets: &self.0,
            owners: &self.1,
            features: self.2.as_ref(),
        }
    }
}

fn matrix(m: wt::Matrix) -> Matrix {
    Matrix::new(RawMatrix(m))
}

fn out(o: wt::Out) -> Out {
    Out::new(RawOut(o))
}

impl<K: EdgeKernel> we::GuestLayer for Layer<K> {
    fn open(
        source: Vec<u32>,
        target: Vec<u32>,
        features: u32,
        given: Vec<ty::Attribute>,
    ) -> core::result::Result<we::Layer, ty::Error> {
        quote_panics();
        let layer = K::open(&source, &target, features, &attributes(given));
        layer.map(|k| we::Layer::new(Layer(k))).map_err(report)
    }

    fn signature(&self) -> we::Signature {
        let s = self.0.signature();
        we::Signature {
            source: rows_spec(s.source),
            target: rows_spec(s.target),
            parameters: parameter_specs(s.parameters),
            output: rows_spec(s.output),
            kept: rows_specs(s.kept),
            passed: rows_spec(s.passed),
        }
    }

    fn forward(
        &self,
        t: we::Task,
        lists: we::Lists,
        source: wt::Matrix,
        target: wt::Matrix,
        parameters: Vec<wt::Matrix>,
        output: wt::Out,
        kept: Vec<wt::Out>,
    ) -> core::result::Result<(), ty::Error> {
        let (lists, source, target) = (Lists::new(lists), matrix(source), matrix(target));
        let (parameters, output, kept) = (matrices(parameters), out(output), outs(kept));
        let io = EdgeForward {
            source: &source,
            target: &target,
            parameters: &refs(&parameters),
            output: &output,
            kept: &refs(&kept),
        };
        self.0.forward::<f32>(&lists.task(t), io).map_err(report)
    }

    fn backward_targets(
        &self,
        t: we::Task,
        lists: we::Lists,
        source: wt::Matrix,
        target: wt::Matrix,
        kept: Vec<wt::Matrix>,
        parameters: Vec<wt::Matrix>,
        gradient: wt::Matrix,
        target_gradient: Option<wt::Out>,
        parameter_gradients: Vec<wt::Out>,
        passed: wt::Out,
    ) -> core::result::Result<(), ty::Error> {
        let (lists, source, target) = (Lists::new(lists), matrix(source), matrix(target));
        let (kept, parameters, gradient) = (matrices(kept), matrices(parameters), matrix(gradient));
        let target_gradient = target_gradient.map(out);
        let (parameter_gradients, passed) = (outs(parameter_gradients), out(passed));
        let io = BackwardTargets {
            source: &source,
            target: &target,
            kept: &refs(&kept),
            parameters: &refs(&parameters),
            gradient: &gradient,
            target_gradient: target_gradient.as_ref(),
            parameter_gradients: &refs(&parameter_gradients),
            passed: &passed,
        };
        self.0.backward_targets::<f32>(&lists.task(t), io).map_err(report)
    }

    fn backward_sources(
        &self,
        t: we::Task,
        lists: we::Lists,
        source: wt::Matrix,
        passed: wt::Matrix,
        parameters: Vec<wt::Matrix>,
        source_gradient: wt::Out,
    ) -> core::result::Result<(), ty::Error> {
        let (lists, source, passed) = (Lists::new(lists), matrix(source), matrix(passed));
        let (parameters, source_gradient) = (matrices(parameters), out(source_gradient));
        let io = BackwardSources {
            source: &source,
            passed: &passed,
            parameters: &refs(&parameters),
            source_gradient: &source_gradient,
        };
        self.0.backward_sources::<f32>(&lists.task(t), io).map_err(report)
    }
}
