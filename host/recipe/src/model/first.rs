//! Distributions of initial weights in the settings of a model, a layer or a named parameter.

use eciton_types::signature::Initialiser;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Distribution of the initial values of some parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct First {
    /// Kind of the distribution.
    pub kind: FirstKind,
    /// Parameter of the distribution. Depending on [`FirstKind`], it is a standard deviation, a
    /// bound, a gain or a constant.
    pub size: f64,
    /// True if the distribution is narrower for the last product before each residual sum. Its
    /// values are divided by the square root of the number of residual sums (Radford et al. 2019,
    /// section 2.3).
    pub by_depth: bool,
}

/// Kind of a distribution of initial values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstKind {
    /// Normal with mean 0 and standard deviation `std`. The default 0.02 is from Radford et al.
    /// 2018, section 4.1.
    Normal,
    /// Uniform between `-bound` and `bound`.
    Uniform,
    /// Orthogonal rows or columns, whichever are fewer, of length `gain` (Saxe, McClelland and
    /// Ganguli 2014).
    Orthogonal,
    /// All values are 0.
    Zeros,
    /// All values are the constant `value`.
    Constant,
}

impl FirstKind {
    /// All distributions of initial weights, with their names in recipes.
    pub const ALL: [(&'static str, Self); 5] = [
        ("normal", Self::Normal),
        ("uniform", Self::Uniform),
        ("orthogonal", Self::Orthogonal),
        ("zeros", Self::Zeros),
        ("constant", Self::Constant),
    ];

    /// Returns the key that sets the distribution's parameter, with its default. The default is
    /// `None` if the key is required. Returns `None` if the distribution has no parameter.
    pub(crate) const fn size(self) -> Option<(&'static str, Option<f64>)> {
        match self {
            Self::Normal => Some(("std", Some(0.02))),
            Self::Uniform => Some(("bound", None)),
            Self::Orthogonal => Some(("gain", Some(1.0))),
            Self::Zeros => None,
            Self::Constant => Some(("value", None)),
        }
    }
}

impl First {
    /// Returns the initialiser for a kernel parameter. `factor` multiplies the parameter of the
    /// distribution.
    pub fn initialiser(&self, factor: f64) -> Initialiser {
        let size = (self.size * factor) as f32;
        match self.kind {
            FirstKind::Normal => Initialiser::Normal(size),
            FirstKind::Uniform => Initialiser::Uniform(size),
            FirstKind::Orthogonal => Initialiser::Orthogonal(size),
            FirstKind::Zeros => Initialiser::Zeros,
            FirstKind::Constant => Initialiser::Constant(size),
        }
    }
}

/// Initial values in the settings of a model or of a layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Init {
    /// Distribution for all parameters with at least two extents, which excludes biases. `None` if
    /// it is not set.
    pub all: Option<First>,
    /// Distributions for single parameters, by name. The prefix `layers.N.` of a name may be
    /// omitted.
    pub parameters: BTreeMap<String, First>,
}

/// Serialised form of [`Init`] and [`First`], as a table with one key per kind of distribution.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<FirstKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    std: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gain: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    scaled_by_depth: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<String, Written>,
}

impl From<First> for Written {
    fn from(first: First) -> Self {
        let mut written = Self { kind: Some(first.kind), scaled_by_depth: first.by_depth, ..Self::default() };
        let place = match first.kind {
            FirstKind::Normal => &mut written.std,
            FirstKind::Uniform => &mut written.bound,
            FirstKind::Orthogonal => &mut written.gain,
            FirstKind::Constant => &mut written.value,
            FirstKind::Zeros => return written,
        };
        *place = Some(first.size);
        written
    }
}

impl From<Init> for Written {
    fn from(init: Init) -> Self {
        let parameters = init.parameters.into_iter().map(|(name, first)| (name, first.into())).collect();
        Self { parameters, ..init.all.map_or_else(Self::default, Self::from) }
    }
}

impl Written {
    fn first(&self) -> Result<Option<First>, String> {
        let Some(kind) = self.kind else { return Ok(None) };
        let said = match kind {
            FirstKind::Normal => self.std,
            FirstKind::Uniform => self.bound,
            FirstKind::Orthogonal => self.gain,
            FirstKind::Constant => self.value,
            FirstKind::Zeros => Some(0.0),
        };
        let size = said.or(kind.size().and_then(|(_, size)| size)).filter(|size| size.is_finite());
        let size = size.ok_or_else(|| format!("initial values of kind {kind:?} without a size"))?;
        Ok(Some(First { kind, size, by_depth: self.scaled_by_depth }))
    }
}

impl TryFrom<Written> for Init {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let mut parameters = BTreeMap::new();
        for (name, inner) in &written.parameters {
            let first = inner.first()?.ok_or_else(|| format!("initial values of {name:?} without a kind"))?;
            parameters.insert(name.clone(), first);
        }
        Ok(Self { all: written.first()?, parameters })
    }
}

impl Init {
    /// Returns true if no initial values are set.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_none() && self.parameters.is_empty()
    }

    /// Returns the distribution that is set for a named parameter, if any. `whole` is its full name
    /// and takes precedence over `within`, its name within the layer.
    pub fn named(&self, (whole, within): (&str, &str)) -> Option<First> {
        self.parameters.get(whole).or_else(|| self.parameters.get(within)).copied()
    }
}
