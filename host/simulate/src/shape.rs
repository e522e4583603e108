//! Shapes, which are the sizes of a graph and a model. A simulation needs only these sizes.

mod layers;

use eciton_program::{DataShape, Profile, Program, Rewrites};
use eciton_types::{
    Attribute, BackwardNeeds, Initialiser, ParameterSpec, RowsSpec, Signature, TargetKind, Value,
};
use serde::Serialize;

use crate::error::Error;
pub use layers::{Kind, LayerOrder};

/// Sizes of a graph and a model, which a simulation uses in place of the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// Name of the shape, for reports.
    pub name: String,
    /// Number of vertices.
    pub vertices: u32,
    /// Number of directed edges.
    pub edges: u64,
    /// Number of features per vertex.
    pub features: u32,
    /// Share of the feature values that are stored, above 0 and at most 1. It is below 1 for sparse
    /// features.
    pub stored: f64,
    /// Number of classes, which is the width of the last layer.
    pub classes: u32,
    /// Width of every layer except the last.
    pub hidden: u32,
    /// Number of layers.
    pub layers: u32,
    /// Kind of the layers.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: Kind,
    /// Order in which the layers gather and multiply, and whether steps are fused.
    #[serde(skip_serializing_if = "is_default")]
    pub order: LayerOrder,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Published experiment with its shape and the machines that it ran on (Thorpe et al. 2021, tables
/// 1 and 4).
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Name of the experiment, as accepted by the flag `--shape`.
    pub name: &'static str,
    vertices: u32,
    edges: u64,
    features: u32,
    classes: u32,
    hidden: u32,
    /// Number of graph servers.
    pub hosts: u32,
    /// Machine type of the graph servers.
    pub machine: &'static str,
    /// Number of functions per graph server.
    pub functions_each: u32,
}

/// Published experiments whose shapes have names.
pub const NAMED: [Named; 4] = [
    Named {
        name: "reddit-small",
        vertices: 232_965,
        edges: 114_800_000,
        features: 602,
        classes: 41,
        hidden: 128,
        hosts: 2,
        machine: "c5.2xlarge",
        functions_each: 80,
    },
    Named {
        name: "reddit-large",
        vertices: 1_100_000,
        edges: 1_300_000_000,
        features: 301,
        classes: 50,
        hidden: 128,
        hosts: 12,
        machine: "c5n.2xlarge",
        functions_each: 40,
    },
    Named {
        name: "amazon",
        vertices: 9_200_000,
        edges: 313_900_000,
        features: 300,
        classes: 25,
        hidden: 64,
        hosts: 8,
        machine: "c5n.2xlarge",
        functions_each: 90,
    },
    Named {
        name: "friendster",
        vertices: 65_600_000,
        edges: 3_600_000_000,
        features: 32,
        classes: 50,
        hidden: 48,
        hosts: 32,
        machine: "c5n.4xlarge",
        functions_each: 50,
    },
];

impl Named {
    /// Returns the published experiment called `name`, or `None` if there is none.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        NAMED.iter().find(|named| named.name == name)
    }

    /// Returns the shape of the experiment's graph and its two-layer GCN.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape {
            name: self.name.to_owned(),
            vertices: self.vertices,
            edges: self.edges,
            features: self.features,
            stored: 1.0,
            classes: self.classes,
            hidden: self.hidden,
            layers: 2,
            kind: Kind::default(),
            order: LayerOrder::default(),
        }
    }
}

impl Shape {
    /// Returns the training program of the shape, without dropout. The operations have the order of
    /// [`Shape::order`]. If `profile` was measured on a program that gathers the features only
    /// once, that program is returned instead.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if there are no vertices, or if the stored share of features is
    /// out of range. Returns [`Error::Plan`] if the model is invalid, or if the profile belongs to
    /// another program.
    pub fn program(&self, profile: &Profile) -> Result<Program, Error> {
        let aggregate_first = if self.is_gathered_first() { u64::MAX } else { 0 };
        let first = self.program_with(Rewrites { aggregate_first, ..Rewrites::default() })?;
        let Err(other) = profile.check_program(&first) else { return Ok(first) };
        let gathered = Rewrites { gathered_features: true, ..Rewrites::default() };
        let second = self.program_with(gathered)?;
        if profile.check_program(&second).is_ok() {
            return Ok(second);
        }
        Err(other.into())
    }

    fn program_with(&self, rewrites: Rewrites) -> Result<Program, Error> {
        let refuse = |what, found: String, allowed: &str| {
            Err(Error::Setting { what, found, allowed: allowed.to_owned() })
        };
        if self.vertices == 0 {
            return refuse("vertices", "0".to_owned(), "at least 1");
        }
        if !(self.stored > 0.0 && self.stored <= 1.0) {
            return refuse("stored share of the features", self.stored.to_string(), "above 0 and at most 1");
        }
        let model = self.model()?;
        let shape = DataShape {
            rows: self.vertices,
            features: self.features,
            classes: self.classes,
            edge_features: 0,
            read_out: 0,
            group: 1,
        };
        self.ordered(Program::build(&model, shape, rewrites, &signature)?)
    }
}

/// Returns the signatures of the built-in kernels `linear`, `attention`, `activate` and `head` (see
/// `guest-kernels/`), and of the placeholder for features that are gathered first.
pub(crate) fn signature(
    kernel: &str,
    inputs: &[Vec<u32>],
    attributes: &[Attribute],
) -> Result<Signature, String> {
    let find = |name: &str| attributes.iter().find(|a| a.name == name).map(|a| &a.value);
    let flag = |name: &str| find(name) == Some(&Value::Flag(true));
    let count = |name: &str| match find(name) {
        Some(&Value::Integer(count)) => u32::try_from(count).ok(),
        _ => None,
    };
    let count = |name: &str| count(name).ok_or_else(|| format!("{kernel}: {name} must be given"));
    let width = inputs.first().and_then(|extents| extents.first()).copied().unwrap_or_default();
    let zeros = |name: &str, len| ParameterSpec {
        name: name.to_owned(),
        shape: vec![len],
        initialiser: Initialiser::Zeros,
    };
    let weight = |out| ParameterSpec {
        name: "weight".to_owned(),
        shape: vec![width, out],
        initialiser: Initialiser::GlorotUniform,
    };
    let rows = |width| vec![RowsSpec { name: "rows".into(), extents: vec![width] }];
    let mut signature = Signature { inputs: rows(width), outputs: rows(width), ..Signature::default() };
    let needs = BackwardNeeds { inputs: true, outputs: false };
    let bias = || flag("input-bias").then(|| zeros("input-bias", width));
    match kernel {
        layers::FEATURES => {}
        "head" => {
            signature.parameters.extend(flag("bias").then(|| zeros("bias", width)));
            signature.loss = Some(TargetKind::Classes);
        }
        "activate" => {
            signature.parameters.extend(bias());
            signature.backward_needs = needs;
        }
        "attention" => {
            let (heads, features) = (count("heads")?, count("features")?);
            let values = heads.saturating_mul(features);
            signature.parameters.extend(bias());
            signature.parameters.extend([weight(values), zeros("source", values), zeros("target", values)]);
            signature.outputs = rows(values.saturating_add(heads.saturating_mul(2)));
            signature.backward_needs = needs;
        }
        _ => {
            let out = count("out-features")?;
            signature.parameters.push(weight(out));
            signature.parameters.extend(bias());
            signature.outputs = rows(out);
            signature.backward_needs = needs;
        }
    }
    Ok(signature)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_program::profile::stage_names;

    #[test]
    fn a_profile_says_which_program_it_is_of() {
        let shape = Shape { layers: 3, ..NAMED[0].shape() };
        for gathered_features in [false, true] {
            let rewrites = Rewrites { gathered_features, ..Rewrites::default() };
            let program = shape.program_with(rewrites).unwrap();
            let stages = Profile::default().stages(&program, 1.0).unwrap();
            let profile = Profile { program: stage_names(&program), stages, ..Profile::default() };
            let found = shape.program(&profile).unwrap();
            assert_eq!(stage_names(&found), stage_names(&program));
            let other = Shape { layers: 2, ..shape.clone() }.program(&profile).unwrap_err().to_string();
            assert!(other.contains("not a task profile of this program"), "{other}");
        }
    }

    #[test]
    fn named_shapes_are_programs_of_nine_stages() {
        for named in &NAMED {
            let program = Named::find(named.name).unwrap().shape().program(&Profile::default()).unwrap();
            assert_eq!(program.stages.len(), 9, "{}", named.name);
            assert_eq!(program.parameters[0].shape, [named.features, named.hidden]);
        }
        assert!(Named::find("cora").is_none());
        let none = Shape { vertices: 0, ..NAMED[0].shape() };
        assert!(none.program(&Profile::default()).unwrap_err().to_string().contains("vertices"));
        let all = Shape { stored: 1.5, ..NAMED[0].shape() };
        assert!(all.program(&Profile::default()).unwrap_err().to_string().contains("1.5"));
    }
}
