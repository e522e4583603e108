//! Checks of a worker binary before its upload to AWS Lambda.
//!
//! Functions run in Amazon Linux 2023. A binary for another processor, or one that needs a newer C
//! library or a missing library, would fail only when the first function starts. The ELF file
//! records all three, and this module reads them there.

use std::path::{Path, PathBuf};

use eciton_cloud::Architecture;
use serde::Serialize;

use super::error::{Error, Result};

/// Version of the C library in Amazon Linux 2023, as (major, minor). A worker must not need a newer
/// one.
pub const GLIBC: (u32, u32) = (2, 34);
/// Maximum size of a worker binary, in bytes. Lambda accepts packages of up to 250 MB unpacked.
const MAX_BYTES: u64 = 200_000_000;
/// Maximum number of symbol version requirements that are read from a binary. A worker has a few
/// dozen.
const MAX_REQUIREMENTS: usize = 4096;

/// Worker binary that has passed the checks, so that functions can run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// Path of the binary.
    pub path: PathBuf,
    /// Size of the file, in bytes.
    pub bytes_len: u64,
    /// Processor architecture for which the binary was built.
    pub architecture: Architecture,
    /// Newest version of the C library that the binary needs, for instance `2.34`. `None` if the
    /// binary is linked statically.
    pub glibc: Option<String>,
}

impl Worker {
    /// Reads and checks the worker binary at `path`.
    ///
    /// # Errors
    /// Returns an error if the file is not a 64-bit Linux program for x86-64 or arm64. Also returns
    /// an error if it needs a newer C library or other libraries than functions have, cannot be
    /// read, or exceeds 200 MB.
    pub fn check(path: &Path) -> Result<Self> {
        let bytes_len = std::fs::metadata(path).map_err(Error::file(path, "read"))?.len();
        let wrong = |reason: String| Error::Worker { path: path.to_owned(), reason };
        if bytes_len > MAX_BYTES {
            return Err(wrong(format!("{bytes_len} bytes; Lambda takes {MAX_BYTES}: strip it")));
        }
        let bytes = eciton_input::file::read(path, MAX_BYTES).map_err(Error::file(path, "read"))?;
        let elf = Elf::parse(&bytes)
            .ok_or_else(|| wrong("no 64-bit Linux program (ELF), or a damaged one".to_owned()))?;
        let architecture = match elf.machine {
            62 => Architecture::X86_64,
            183 => Architecture::Arm64,
            other => {
                return Err(wrong(format!(
                    "made for ELF machine {other}; functions are x86_64 (62) or arm64 (183)"
                )));
            }
        };
        let Some(interpreter) = elf.interpreter else {
            return Ok(Self { path: path.to_owned(), bytes_len, architecture, glibc: None });
        };
        if !interpreter.contains("/ld-linux") {
            return Err(wrong(format!(
                "it is loaded by {interpreter}, which functions do not have: link it against glibc, or statically"
            )));
        }
        let foreign = elf.needed.iter().find(|library| !is_of_the_system(library));
        if let Some(library) = foreign {
            return Err(wrong(format!(
                "it needs {library}, which functions do not have: link it statically"
            )));
        }
        let versions = elf.versions.iter().filter_map(|version| version.strip_prefix("GLIBC_"));
        let newest = versions
            .filter_map(number)
            .max()
            .ok_or_else(|| wrong("it says nothing of the C library that it needs".to_owned()))?;
        if newest > GLIBC {
            return Err(wrong(format!(
                "it needs glibc {}.{}, Amazon Linux 2023 has {}.{}: build it on Debian 12 or older, or with cargo-zigbuild",
                newest.0, newest.1, GLIBC.0, GLIBC.1
            )));
        }
        let glibc = Some(format!("{}.{}", newest.0, newest.1));
        Ok(Self { path: path.to_owned(), bytes_len, architecture, glibc })
    }
}

/// Returns true if `library` belongs to glibc or to the compiler's runtime, which Amazon Linux 2023
/// provides.
fn is_of_the_system(library: &str) -> bool {
    let names = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"];
    names.contains(&library) || library.starts_with("ld-linux")
}

/// Parses a glibc version, for instance `2.34` as (2, 34) and `2.2.5` as (2, 2). Returns `None` for
/// private versions.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Fields of an ELF file that the checks need. Offsets come from the file and are checked against
/// its size.
struct Elf {
    machine: u16,
    interpreter: Option<String>,
    /// File names of the required shared libraries.
    needed: Vec<String>,
    /// Names of the required symbol versions of all libraries, for instance `GLIBC_2.34`.
    versions: Vec<String>,
}

impl Elf {
    fn parse(bytes: &[u8]) -> Option<Self> {
        // 64 bits, little-endian.
        if bytes.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let file = Bytes(bytes);
        let mut elf =
            Self { machine: file.u16(18)?, interpreter: None, needed: Vec::new(), versions: Vec::new() };
        let (segments, size, count) = (file.u64(32)?, u64::from(file.u16(54)?), u64::from(file.u16(56)?));
        for at in 0..count {
            let header = segments.checked_add(at * size)?;
            if file.u32(header)? == 3 {
                let (offset, len) = (file.u64(header.checked_add(8)?)?, file.u64(header.checked_add(32)?)?);
                elf.interpreter = Some(file.text(offset, offset.checked_add(len)?)?);
            }
        }
        let (sections, size, count) = (file.u64(40)?, u64::from(file.u16(58)?), u64::from(file.u16(60)?));
        let section = |at: u64| sections.checked_add(at.checked_mul(size)?);
        // A linker writes the section table last, so a truncated file lacks part of it.
        if section(count)? > bytes.len() as u64 {
            return None;
        }
        for at in 0..count {
            let header = section(at)?;
            let kind = file.u32(header.checked_add(4)?)?;
            let (offset, len) = (file.u64(header.checked_add(24)?)?, file.u64(header.checked_add(32)?)?);
            let texts = || file.u64(section(u64::from(file.u32(header.checked_add(40)?)?))?.checked_add(24)?);
            match kind {
                6 => elf.dynamic(&file, offset, len, texts()?)?,
                0x6fff_fffe => elf.requirements(&file, offset, texts()?)?,
                _ => {}
            }
        }
        Some(elf)
    }

    /// Reads the section `.dynamic`, an array of (tag, value) pairs. Tag 1 (`DT_NEEDED`) names a
    /// required library.
    fn dynamic(&mut self, file: &Bytes<'_>, offset: u64, len: u64, texts: u64) -> Option<()> {
        for at in 0..(len / 16).min(MAX_REQUIREMENTS as u64) {
            let entry = offset.checked_add(at * 16)?;
            if file.u64(entry)? == 1 {
                self.needed.push(file.name(texts, file.u64(entry.checked_add(8)?)?)?);
            }
        }
        Some(())
    }

    /// Reads the section `.gnu.version_r`, a linked list of libraries, each with a linked list of
    /// required symbol versions.
    fn requirements(&mut self, file: &Bytes<'_>, mut library: u64, texts: u64) -> Option<()> {
        for _ in 0..MAX_REQUIREMENTS {
            let mut version = library.checked_add(u64::from(file.u32(library.checked_add(8)?)?))?;
            while self.versions.len() < MAX_REQUIREMENTS {
                let name = u64::from(file.u32(version.checked_add(8)?)?);
                self.versions.push(file.name(texts, name)?);
                match u64::from(file.u32(version.checked_add(12)?)?) {
                    0 => break,
                    next => version = version.checked_add(next)?,
                }
            }
            match u64::from(file.u32(library.checked_add(12)?)?) {
                0 => break,
                next => library = library.checked_add(next)?,
            }
        }
        Some(())
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn array<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let at = usize::try_from(at).ok()?;
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn u16(&self, at: u64) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: u64) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// Reads the text from byte `start` to the next zero byte, or to byte `end` if there is none.
    fn text(&self, start: u64, end: u64) -> Option<String> {
        let bytes = self.0.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        let bytes = bytes.split(|byte| *byte == 0).next()?;
        String::from_utf8(bytes.to_vec()).ok()
    }

    /// Reads the name at offset `at` of the string table that starts at byte `table`.
    fn name(&self, table: u64, at: u64) -> Option<String> {
        let start = table.checked_add(at)?;
        self.text(start, start.checked_add(256)?.min(self.0.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns the bytes of this test, which is a Linux program with glibc like the worker.
    fn own() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    fn check(bytes: &[u8]) -> Result<Worker> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bootstrap");
        std::fs::write(&path, bytes).unwrap();
        Worker::check(&path)
    }

    /// Replaces every occurrence of `from` by `to`, of the same length.
    fn with(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
        assert_eq!(from.len(), to.len());
        let places: Vec<usize> =
            bytes.windows(from.len()).enumerate().filter(|(_, w)| *w == from).map(|(at, _)| at).collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
        bytes
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn what_a_program_needs_is_read_from_it() {
        let elf = Elf::parse(&own()).unwrap();
        assert!(elf.interpreter.unwrap().contains("ld-linux"));
        assert!(elf.needed.contains(&"libc.so.6".to_owned()), "{:?}", elf.needed);
        let newest = elf.versions.iter().filter_map(|v| number(v.strip_prefix("GLIBC_")?)).max();
        assert!(newest.unwrap() >= (2, 17), "{:?}", elf.versions);
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn a_newer_c_library_and_a_foreign_library_are_refused() {
        // A version that every program requires, renamed.
        let newer = with(own(), b"\0GLIBC_2.34\0", b"\0GLIBC_2.99\0");
        let said = check(&newer).unwrap_err().to_string();
        assert!(said.contains("glibc 2.99") && said.contains("2.34"), "{said}");
        let foreign = with(own(), b"\0libc.so.6\0", b"\0libq.so.6\0");
        let said = check(&foreign).unwrap_err().to_string();
        assert!(said.contains("needs libq.so.6"), "{said}");
        let musl = with(own(), b"/ld-linux-", b"/ld-musll-");
        let said = check(&musl).unwrap_err().to_string();
        assert!(said.contains("ld-musll"), "{said}");
    }

    #[test]
    fn damaged_files_are_refused_without_a_panic() {
        let whole = own();
        for cut in [0, 3, 6, 17, 40, 63, 64, 100, 1000, whole.len() / 2] {
            let said = check(&whole[..cut]).unwrap_err().to_string();
            assert!(said.contains("not a worker"), "{cut}: {said}");
        }
        // Every offset of the header, with its maximum value.
        for at in [32, 40] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].fill(0xff);
            assert!(check(&bytes).is_err());
        }
        let mut bytes = whole;
        bytes[18] = 8;
        assert!(check(&bytes).unwrap_err().to_string().contains("machine 8"));
    }

    #[test]
    fn versions_have_two_numbers() {
        assert_eq!([number("2.34"), number("2.2.5"), number("PRIVATE")], [Some((2, 34)), Some((2, 2)), None]);
    }
}
