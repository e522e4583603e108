//! Processor levels for which kernels are compiled ahead of time. A level has a name, a target
//! triple and a set of instructions.

use crate::error::{Error, Result};

/// Processor level for which code is compiled. All processors of one type of cloud function support
/// its instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Baseline {
    /// x86-64 with AVX2, BMI and FMA, but without AVX-512.
    X86_64V3,
    /// Arm Neoverse N1: 64-bit Arm v8.2 with large-system atomics, half precision and dot product.
    NeoverseN1,
}

impl Baseline {
    /// All processor levels, in the order of their declaration.
    pub const ALL: [Self; 2] = [Self::X86_64V3, Self::NeoverseN1];

    /// Returns the name of the processor level, which is `x86-64-v3` or `neoverse-n1`.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64V3 => "x86-64-v3",
            Self::NeoverseN1 => "neoverse-n1",
        }
    }

    /// Parses the name of a processor level, for instance `x86-64-v3`. The error for an unknown
    /// name lists the valid names.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|b| b.name() == name)
            .ok_or_else(|| Error::Baseline { found: name.to_owned() })
    }

    /// Returns the compiler's target triple for this level, for instance
    /// `x86_64-unknown-linux-gnu`.
    pub fn triple(self) -> &'static str {
        match self {
            Self::X86_64V3 => "x86_64-unknown-linux-gnu",
            Self::NeoverseN1 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns the Cranelift names of the instruction-set flags that code for this level may use,
    /// for instance `has_avx2`.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::X86_64V3 => &[
                "has_sse3",
                "has_ssse3",
                "has_sse41",
                "has_sse42",
                "has_popcnt",
                "has_cmpxchg16b",
                "has_avx",
                "has_avx2",
                "has_bmi1",
                "has_bmi2",
                "has_fma",
                "has_lzcnt",
            ],
            Self::NeoverseN1 => &["has_lse", "has_fp16", "has_dotprod"],
        }
    }

    /// Returns the processor level that this machine supports. Returns `None` if the machine lacks
    /// instructions of every level, or has another architecture.
    pub fn of_this_machine() -> Option<Self> {
        Self::ALL.into_iter().find(|b| b.missing().is_empty())
    }

    /// Returns the names of the required instructions that this machine lacks. If the machine has
    /// another architecture, the only entry is the name of the required one.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(unused_mut, unused_variables)
    )]
    pub fn missing(self) -> Vec<&'static str> {
        let mut missing: Vec<&'static str> = Vec::new();
        let mut need = |name: &'static str, there: bool| {
            if !there {
                missing.push(name);
            }
        };
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::X86_64V3 => {
                need("sse3", is_x86_feature_detected!("sse3"));
                need("ssse3", is_x86_feature_detected!("ssse3"));
                need("sse4.1", is_x86_feature_detected!("sse4.1"));
                need("sse4.2", is_x86_feature_detected!("sse4.2"));
                need("popcnt", is_x86_feature_detected!("popcnt"));
                need("cmpxchg16b", is_x86_feature_detected!("cmpxchg16b"));
                need("avx", is_x86_feature_detected!("avx"));
                need("avx2", is_x86_feature_detected!("avx2"));
                need("bmi1", is_x86_feature_detected!("bmi1"));
                need("bmi2", is_x86_feature_detected!("bmi2"));
                need("fma", is_x86_feature_detected!("fma"));
                need("lzcnt", is_x86_feature_detected!("lzcnt"));
            }
            #[cfg(target_arch = "aarch64")]
            Self::NeoverseN1 => {
                need("lse", std::arch::is_aarch64_feature_detected!("lse"));
                need("fp16", std::arch::is_aarch64_feature_detected!("fp16"));
                need("dotprod", std::arch::is_aarch64_feature_detected!("dotprod"));
            }
            #[allow(unreachable_patterns)]
            Self::X86_64V3 => need("an x86-64 processor", false),
            #[allow(unreachable_patterns)]
            Self::NeoverseN1 => need("a 64-bit Arm processor", false),
        }
        missing
    }
}

impl std::fmt::Display for Baseline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_lead_back() {
        for baseline in Baseline::ALL {
            assert_eq!(Baseline::parse(baseline.name()).unwrap(), baseline);
        }
        let error = Baseline::parse("x86-64-v4").unwrap_err().to_string();
        assert!(error.contains("x86-64-v4") && error.contains("neoverse-n1"), "{error}");
    }

    #[test]
    fn the_other_architecture_is_missing() {
        assert!(Baseline::ALL.iter().any(|b| !b.missing().is_empty()));
    }
}
