//! Signed native code that is compiled ahead of time, on a machine with a compiler, for workers
//! that have none.
//!
//! Loading native code is unsafe whatever its name or digest, and many users may be able to write
//! to the bucket that stores an artefact. For this reason the deployer signs each artefact
//! (Ed25519). A runtime loads the code only after it has verified the signature under a public key
//! that it got from elsewhere. Code is compiled for a named [`Baseline`], never for the machine
//! that compiles it.
//!
//! ```text
//! "ECAF" | version u32 | baseline 16 bytes, zero-padded | component SHA-256, 32 bytes
//!        | engine id, 32 bytes | code length u64 | code | signature, 64 bytes over all before it
//! ```
//! Integers are little-endian.

mod baseline;
#[cfg(feature = "compiler")]
mod compilation;
mod keys;

pub use baseline::Baseline;
#[cfg(feature = "compiler")]
pub use compilation::{compile, compile_once};
pub use keys::{Signer, Verifier};

pub use crate::error::Refusal;

const MAGIC: [u8; 4] = *b"ECAF";
const VERSION: u32 = 1;
const NAME_LEN: usize = 16;
const HEAD_LEN: usize = 4 + 4 + NAME_LEN + 32 + 32 + 8;
const SIGNATURE_LEN: usize = 64;
/// Maximum size of an artefact, in bytes. [`compile`] and [`open`] refuse a larger artefact.
pub const MAX_BYTES: usize = 64 << 20;

/// Header of an artefact: the fields that identify the compiled code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Processor level that the code was compiled for, for instance `x86-64-v3`.
    pub baseline: Baseline,
    /// SHA-256 digest of the WebAssembly component that the code was compiled from.
    pub component: [u8; 32],
    /// Id of the WebAssembly engine that can load the code, as computed by [`engine_id`].
    pub engine: [u8; 32],
}

impl Heading {
    /// Creates the heading for code that this build compiles for the processor level `baseline`.
    /// `component` is the SHA-256 digest of the source component.
    pub fn new(baseline: Baseline, component: [u8; 32]) -> Self {
        Self { baseline, component, engine: engine_id(baseline) }
    }
}

/// Returns the engine id of this build for a processor level. The id is a digest of the compiler
/// settings, and an engine loads only code with its own id.
pub fn engine_id(baseline: Baseline) -> [u8; 32] {
    crate::engine::id(baseline)
}

/// Compiled code whose signature has been verified. Only the function [`open`] creates values of
/// this type.
#[derive(Debug)]
pub struct Verified<'a> {
    heading: Heading,
    code: &'a [u8],
}

impl<'a> Verified<'a> {
    /// Returns the heading of the artefact.
    pub fn heading(&self) -> &Heading {
        &self.heading
    }

    /// Returns the compiled code, in the binary format of wasmtime.
    pub fn code(&self) -> &'a [u8] {
        self.code
    }

    /// Checks that the code was compiled from the component with the digest `component`, and that
    /// this machine's processor and this build's engine can run it.
    pub fn fits(&self, component: &[u8; 32]) -> Result<(), Refusal> {
        let Heading { baseline, component: found, engine } = &self.heading;
        if found != component {
            return Err(Refusal::Component { found: hex(found), expected: hex(component) });
        }
        let missing = baseline.missing();
        if !missing.is_empty() {
            return Err(Refusal::Baseline { found: *baseline, missing: missing.join(", ") });
        }
        let expected = engine_id(*baseline);
        if *engine != expected {
            return Err(Refusal::Engine { found: hex(&engine[..8]), expected: hex(&expected[..8]) });
        }
        Ok(())
    }
}

/// Signs the compiled code `code` with the key `signer`. The returned artefact consists of the
/// header, the code and the signature.
pub fn seal(heading: &Heading, code: &[u8], signer: &Signer) -> Result<Vec<u8>, Refusal> {
    let len = HEAD_LEN.saturating_add(code.len()).saturating_add(SIGNATURE_LEN);
    if len > MAX_BYTES {
        return Err(Refusal::TooLarge { found: len, allowed: MAX_BYTES });
    }
    let mut out = Vec::with_capacity(len);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    let mut name = [0; NAME_LEN];
    for (to, from) in name.iter_mut().zip(heading.baseline.name().bytes()) {
        *to = from;
    }
    out.extend(name);
    out.extend(heading.component);
    out.extend(heading.engine);
    out.extend((code.len() as u64).to_le_bytes());
    out.extend(code);
    let signature = signer.sign(&out);
    out.extend(signature);
    Ok(out)
}

/// Verifies the signature of the artefact `sealed` under the public key `trusted`, and returns its
/// header and code. Only the magic number, the version and the lengths are read before the
/// signature is verified, so that errors can be specific.
pub fn open<'a>(sealed: &'a [u8], trusted: &Verifier) -> Result<Verified<'a>, Refusal> {
    let malformed = |reason: String| Refusal::Malformed { reason };
    if sealed.len() > MAX_BYTES {
        return Err(Refusal::TooLarge { found: sealed.len(), allowed: MAX_BYTES });
    }
    let (signed, signature) = sealed
        .split_last_chunk::<SIGNATURE_LEN>()
        .filter(|(signed, _)| signed.len() >= HEAD_LEN)
        .ok_or_else(|| malformed(format!("it has {} bytes only", sealed.len())))?;
    let mut rest = signed;
    let head = |rest: &mut &'a [u8], len: usize| -> &'a [u8] { rest.split_off(..len).unwrap_or_default() };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    if head(&mut rest, 4) != MAGIC {
        return Err(malformed("it does not begin with `ECAF`".to_owned()));
    }
    let version = word(head(&mut rest, 4));
    if version != u64::from(VERSION) {
        return Err(malformed(format!(
            "it has format version {version}, but this runtime reads version {VERSION}"
        )));
    }
    let (name, component) = (head(&mut rest, NAME_LEN), head(&mut rest, 32));
    let engine = head(&mut rest, 32);
    let code_len = word(head(&mut rest, 8));
    if code_len != rest.len() as u64 {
        return Err(malformed(format!(
            "the header announces {code_len} bytes of code, but {} follow",
            rest.len()
        )));
    }
    if !trusted.verifies(signed, signature) {
        return Err(Refusal::Unsigned { trusted: trusted.to_string() });
    }
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    let baseline = Baseline::ALL
        .into_iter()
        .find(|b| b.name().as_bytes() == name)
        .ok_or_else(|| malformed(format!("unknown processor level `{}`", String::from_utf8_lossy(name))))?;
    let exact = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).unwrap_or_default();
    Ok(Verified {
        heading: Heading { baseline, component: exact(component), engine: exact(engine) },
        code: rest,
    })
}

/// Returns the key under which a storage bucket holds an artefact, in the form
/// `kernels/{component}.{baseline}.cwasm`.
pub fn store_key(component: &[u8; 32], baseline: Baseline) -> String {
    format!("kernels/{}.{baseline}.cwasm", hex(component))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
