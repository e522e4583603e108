//! Processor architectures of cloud functions.

use eciton_kernel::artefact::Baseline;
use eciton_recipe::Processor;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Processor architecture of cloud functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Architecture {
    /// 64-bit processors of Intel and AMD.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit ARM processors (AWS Graviton).
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

    /// Returns the numeric class in which deployments of this architecture compute. Machines of one
    /// numeric class compute results with the same bits. Every AWS processor of this architecture
    /// supports it.
    #[must_use]
    pub fn numeric_class(self) -> &'static str {
        match self {
            Self::X86_64 => "avx2-fma-1",
            Self::Arm64 => "neon-fma-1",
        }
    }

    /// Returns the processor features that compiled kernels may use. Every AWS processor of this
    /// architecture has them.
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
            _ => Err(Error::Choice(format!(
                "`{text}` is not a processor architecture of functions: use x86_64 or arm64"
            ))),
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
