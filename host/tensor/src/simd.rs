//! Vector instructions of this processor, and compilation of routines for each set of them.
#![allow(unsafe_code)]

use std::sync::OnceLock;

/// Classes of processors that round alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub enum Level {
    /// Plain code, products and sums rounded apart.
    Portable,
    /// 128-bit NEON with fused multiply-add.
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
    Neon,
    /// 256 bits with fused multiply-add.
    Avx2,
    /// 512 bits with fused multiply-add.
    Avx512,
}

/// One for the whole process, settled by the first that asks.
static LEVEL: OnceLock<Level> = OnceLock::new();

/// The level of this process: what [`require`] has settled, else the best of the processor, or the lower one that
/// `ECITON_SIMD` names (`portable`, `avx2`, `avx512`).
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

/// Why a process does not compute in a numeric class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// The processor lacks the instructions, or rounds otherwise.
    #[error("this processor computes in {best} at best, and {wanted} was asked for")]
    Processor {
        /// The class requested.
        wanted: String,
        /// The best that it has.
        best: &'static str,
    },
    /// Another class was settled, and results of both would be mixed.
    #[error(
        "this process computes in {settled} already, and {wanted} was asked for: use a process of its own"
    )]
    Settled {
        /// The class requested.
        wanted: String,
        /// The process's.
        settled: &'static str,
    },
}

const LEVELS: [Level; 4] = [Level::Portable, Level::Neon, Level::Avx2, Level::Avx512];

/// Returns whether a processor whose best level is `best` has a level. NEON and AVX do not include one another.
fn has(best: Level, level: Level) -> bool {
    level <= best && (level == Level::Neon) <= (best == Level::Neon)
}

/// Returns the numeric classes that this process can compute in: one if it is settled, else the processor's.
pub fn classes() -> Vec<&'static str> {
    match LEVEL.get() {
        Some(level) => vec![level.class()],
        None => LEVELS.into_iter().filter(|level| has(detect(), *level)).map(Level::class).collect(),
    }
}

/// Settles the numeric class of the whole process, before anything is computed.
///
/// # Errors
/// A class that the processor does not have; another one that is settled.
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

/// Returns the value of `ECITON_SIMD` that makes another process compute in a class.
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

/// The class within which results are bit-equal: instruction set and routines. Settles it.
pub fn numeric_class() -> &'static str {
    level().class()
}

/// The class of this process, or the one that it would have where nothing is settled yet.
pub fn usual_class() -> &'static str {
    LEVEL.get().copied().unwrap_or_else(usual).class()
}

/// a * b + c, fused where the level has it.
#[inline(always)]
#[doc(hidden)]
pub fn madd<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Compiles `$body::<.., FMA>(args)` for every level and calls the processor's.
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
                // SAFETY: the level says that the processor has these features.
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
