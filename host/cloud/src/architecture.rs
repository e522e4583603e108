//! Processor architectures of functions: their names at Lambda, and the code that runs on them.

use eciton_kernel::artefact::Baseline;
use eciton_recipe::Processor;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Processor architecture of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Architecture {
    /// Processors of Intel and AMD.
    #[serde(rename = "x86_64")]
    X86_64,
    /// AWS Graviton processors.
    #[serde(rename = "arm64")]
    Arm64,
}

impl Architecture {
    /// Returns the name that Lambda uses for the architecture.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the numeric class (a set of processors whose arithmetic gives the same bits) that
    /// deployments use. Every processor of this architecture at AWS supports it.
    #[must_use]
    pub fn numeric_class(self) -> &'static str {
        match self {
            Self::X86_64 => "avx2-fma-1",
            Self::Arm64 => "neon-fma-1",
        }
    }

    /// Returns the processor features for which kernels are compiled. All processors of this
    /// architecture at AWS have them.
    #[must_use]
    pub fn baseline(self) -> Baseline {
        match self {
            Self::X86_64 => Baseline::X86_64V3,
            Self::Arm64 => Baseline::NeoverseN1,
        }
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Architecture {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "x86_64" => Ok(Self::X86_64),
            "arm64" => Ok(Self::Arm64),
            _ => Err(Error::Choice(format!("`{text}` is no architecture of functions: x86_64 or arm64"))),
        }
    }
}

impl From<Processor> for Architecture {
    fn from(processor: Processor) -> Self {
        match processor {
            Processor::X86_64 => Self::X86_64,
            Processor::Arm64 => Self::Arm64,
        }
    }
}

impl From<Architecture> for Processor {
    fn from(architecture: Architecture) -> Self {
        match architecture {
            Architecture::X86_64 => Self::X86_64,
            Architecture::Arm64 => Self::Arm64,
        }
    }
}
