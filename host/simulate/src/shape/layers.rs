//! Layers of a shape's model, and the order of their operations.

use eciton_program::{Cost, FusedStages, Place, Program};
use eciton_recipe::{
    Activation, FusionChoice, KindSettings, LayerKind, Layers, Model, ModelKind, ModelSettings, TaskType,
};
use eciton_types::On;
use serde::Serialize;

use super::Shape;
use crate::error::Error;

/// Name of the placeholder kernel that produces the features if the first layer gathers them.
pub(super) const FEATURES: &str = "features.wasm";

/// Kind of graph layer of a shape's model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Graph convolution (Kipf and Welling 2017).
    #[default]
    Gcn,
    /// Graph attention (Velickovic et al. 2018).
    Gat {
        /// Number of attention heads per layer. The results of the heads are averaged.
        heads: u32,
    },
}

/// Order and fusion of the operations within layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LayerOrder {
    /// True if each GCN layer gathers before it multiplies, including the first layer in every
    /// epoch.
    pub gather_first: bool,
    /// True if consecutive tensor steps on the same rows are fused to one task.
    pub fused: bool,
}

impl Shape {
    pub(super) fn is_gathered_first(&self) -> bool {
        self.order.gather_first && self.kind == Kind::Gcn
    }

    /// Returns the shape's model, which has no dropout.
    pub(super) fn model(&self) -> Result<Model, Error> {
        let (kind, own) = match self.kind {
            Kind::Gcn => (ModelKind::Gcn, KindSettings::default()),
            Kind::Gat { heads } => {
                (ModelKind::Gat, KindSettings { heads: Some(heads), ..KindSettings::default() })
            }
        };
        let first = u32::from(self.is_gathered_first());
        let layers = Layers::Count(self.layers.saturating_add(first));
        let settings = ModelSettings {
            layers,
            hidden: self.hidden,
            dropout: 0.0,
            kind,
            own,
            ..ModelSettings::default()
        };
        let mut model = Model::resolve(&settings, self.features, self.classes, TaskType::Classification)?;
        if let Some(layer) = model.layers.first_mut().filter(|_| first > 0) {
            let kernel = FEATURES.to_owned();
            layer.kind = LayerKind::Own { kernel, on: On::Rows, attributes: Vec::new(), with_self: false };
            (layer.width, layer.bias, layer.activation) = (self.features, false, Activation::Identity);
        }
        Ok(model)
    }

    /// Applies the order and fusion of [`LayerOrder`] to a program. The placeholder for the
    /// features costs nothing, because all hosts have the features from the start.
    pub(super) fn ordered(&self, mut program: Program) -> Result<Program, Error> {
        if let Some(stage) = program.stages.first_mut().filter(|_| self.is_gathered_first()) {
            (stage.place, stage.cost) = (Place::Host, Cost::default());
        }
        if !self.order.fused {
            return Ok(program);
        }
        Ok(FusedStages::from_program(&program, &FusionChoice::Auto)?.fuse(&program))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::shape::Named;
    use eciton_program::Profile;

    fn lines(shape: &Shape) -> Vec<(String, u32, bool)> {
        let program = shape.program(&Profile::default()).unwrap();
        let stages = program.stages.iter();
        stages.map(|stage| (stage.name.clone(), stage.cost.edge_values, stage.place.is_task())).collect()
    }

    #[test]
    fn a_gcn_that_gathers_first_gathers_features_and_hidden_rows_and_no_gradient_of_features() {
        let mut shape = Named::find("amazon").unwrap().shape();
        shape.order = LayerOrder { gather_first: true, fused: true };
        let found = lines(&shape);
        let gathers: Vec<u32> = found.iter().filter(|line| line.1 > 0).map(|line| line.1).collect();
        // AH of 300 features, of 64 hidden values, and the gradient of the latter.
        assert_eq!(gathers, [300, 64, 64], "{found:?}");
        // AV of the first layer; AV of the last with the loss and its gradient; the first weight's
        // gradient.
        assert_eq!(found.iter().filter(|line| line.2).count(), 3, "{found:?}");
    }

    #[test]
    fn a_gat_has_attention_over_edges_forward_and_back() {
        let shape = Shape { kind: Kind::Gat { heads: 1 }, ..Named::find("amazon").unwrap().shape() };
        let found = lines(&shape);
        let gathers: Vec<u32> = found.iter().filter(|line| line.1 > 0).map(|line| line.1).collect();
        // Twice [z | s | t] forward, and twice the gradient and five values backward.
        assert_eq!(gathers, [2 * 66, 2 * 27, 2 * 30, 2 * 69], "{found:?}");
    }
}
