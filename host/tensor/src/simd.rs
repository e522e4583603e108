//! Detection of this processor's vector instructions, and compilation of routines for each set of
//! instructions.
#![allow(unsafe_code)]

use std::sync::OnceLock;

/// Class of processors that have the same vector instructions and round results in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub enum Level {
    /// Portable code, in which products and sums are rounded separately.
    Portable,
    /// 128-bit NEON instructions with fused multiply-add.
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
    Neon,
    /// 256-bit instructions with fused multiply-add.
    Avx2,
    /// 512-bit instructions with fused multiply-add.
    Avx512,
}

/// Vector level of this process, which is fixed when it is first used.
static LEVEL: OnceLock<Level> = OnceLock::new();

/// Returns the vector level of this process, which [`require`] can set. The default is the best
/// level of the processor. The variable `ECITON_SIMD` (`portable`, `avx2` or `avx512`) can name a
/// lower one.
#[doc(hidden)]
pub fn level() -> Level {
    *LEVEL.get_or_init(usual)
}

fn usual() -> Level {
    let best = detect();
    match std::env::var("ECITON_SIMD").as_deref() {
        Ok("portable") => Level::Portable,
        Ok("avx2") => best.min(Level::Avx2),
        _ => best,
    }
}

/// Reason why a process cannot compute in a numeric class, which is a set of processors with
/// bit-equal results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// The processor lacks the instructions, or rounds differently.
    #[error("this processor supports numeric class {best}, but {wanted} is required")]
    Processor {
        /// Numeric class that was requested.
        wanted: String,
        /// Best numeric class of the processor.
        best: &'static str,
    },
    /// The process already uses another class. Results of both classes would be mixed.
    #[error(
        "this process already computes in numeric class {settled}, but {wanted} is required: use a separate process"
    )]
    Settled {
        /// Numeric class that was requested.
        wanted: String,
        /// Numeric class that the process uses.
        settled: &'static str,
    },
}

const LEVELS: [Level; 4] = [Level::Portable, Level::Neon, Level::Avx2, Level::Avx512];

/// Returns true if a processor whose best level is `best` also supports `level`. NEON and AVX
/// levels exclude each other.
fn has(best: Level, level: Level) -> bool {
    level <= best && (level == Level::Neon) <= (best == Level::Neon)
}

/// Returns the numeric classes in which this process can compute. If its class is already fixed,
/// only that class is returned.
pub fn classes() -> Vec<&'static str> {
    match LEVEL.get() {
        Some(level) => vec![level.class()],
        None => LEVELS.into_iter().filter(|level| has(detect(), *level)).map(Level::class).collect(),
    }
}

/// Fixes the numeric class of the whole process to `class`. It must be called before anything is
/// computed.
///
/// # Errors
/// Returns an error if the processor does not support the class, or if another class is already
/// fixed.
pub fn require(class: &str) -> Result<(), ClassError> {
    let best = detect();
    let wanted = LEVELS
        .into_iter()
        .find(|level| level.class() == class && has(best, *level))
        .ok_or_else(|| ClassError::Processor { wanted: class.to_owned(), best: best.class() })?;
    let settled = *LEVEL.get_or_init(|| wanted);
    match settled == wanted {
        true => Ok(()),
        false => Err(ClassError::Settled { wanted: class.to_owned(), settled: settled.class() }),
    }
}

/// Returns the value of the environment variable `ECITON_SIMD` that makes another process compute
/// in this numeric class.
#[must_use]
pub fn level_of(class: &str) -> &'static str {
    match class {
        "portable-1" => "portable",
        "avx2-fma-1" => "avx2",
        "neon-fma-1" => "neon",
        _ => "avx512",
    }
}

fn detect() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("popcnt")
        {
            return Level::Avx512;
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("popcnt")
        {
            return Level::Avx2;
        }
        Level::Portable
    }
    #[cfg(target_arch = "aarch64")]
    return Level::Neon;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Level::Portable
}

impl Level {
    fn class(self) -> &'static str {
        match self {
            Self::Portable => "portable-1",
            Self::Neon => "neon-fma-1",
            Self::Avx2 => "avx2-fma-1",
            Self::Avx512 => "avx512-fma-2",
        }
    }
}

/// Returns the numeric class of this process, for instance `avx2-fma-1`, and fixes it. Results of
/// all processes in a numeric class are bit-equal.
pub fn numeric_class() -> &'static str {
    level().class()
}

/// Returns the numeric class in which this process computes, or would compute if none is fixed yet.
pub fn usual_class() -> &'static str {
    LEVEL.get().copied().unwrap_or_else(usual).class()
}

/// Computes a * b + c. The operation is fused if the vector level has fused multiply-add.
#[inline(always)]
#[doc(hidden)]
pub fn madd<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Compiles a routine for every vector level, and defines a function that calls the version for
/// this process. The macro instantiates `$body` with `FMA`, which is true for levels with fused
/// multiply-add.
#[doc(hidden)]
#[macro_export]
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $([$(const $c:ident: $ct:ty),*])? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name $(<$(const $c: $ct),*>)? ($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,popcnt")]
            fn avx512 $(<$(const $c: $ct),*>)? ($($arg: $ty),*) $(-> $ret)? { $body::<$($($c,)*)? true>($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,popcnt")]
            fn avx2 $(<$(const $c: $ct),*>)? ($($arg: $ty),*) $(-> $ret)? { $body::<$($($c,)*)? true>($($arg),*) }
            match $crate::simd::level() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level guarantees that the processor has these features.
                $crate::simd::Level::Avx512 => unsafe { avx512::<$($($c),*)?>($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                $crate::simd::Level::Avx2 => unsafe { avx2::<$($($c),*)?>($($arg),*) },
                #[cfg(target_arch = "aarch64")]
                $crate::simd::Level::Neon => $body::<$($($c,)*)? true>($($arg),*),
                _ => $body::<$($($c,)*)? false>($($arg),*),
            }
        }
    };
}
pub use dispatch;
