//! Removal of custom sections (names, debug information, producers) from a module or component,
//! including nested ones. These sections contain paths of the build machine, and the host does not
//! need them.

use crate::error::{Error, Result};

/// Maximum nesting depth of a component. Deeper components are refused.
const MAX_DEPTH: u32 = 16;

/// First 8 bytes of a core module.
pub(crate) const MODULE: [u8; 8] = *b"\0asm\x01\0\0\0";
/// First 8 bytes of a component.
pub(crate) const COMPONENT: [u8; 8] = *b"\0asm\x0d\0\x01\0";

const CUSTOM: u8 = 0;
/// Section ids of a core module and of a nested component, inside a component.
const NESTED: [u8; 2] = [1, 4];

/// Returns a copy of the module or component `wasm` without its custom sections. Sections whose
/// name `keep` accepts are retained.
pub(crate) fn custom_sections(wasm: &[u8], keep: &dyn Fn(&str) -> bool) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(wasm.len());
    walk(wasm, 0, 0, keep, &mut out)?;
    Ok(out)
}

fn walk(wasm: &[u8], base: usize, depth: u32, keep: &dyn Fn(&str) -> bool, out: &mut Vec<u8>) -> Result<()> {
    let malformed =
        |offset: usize, found: &str| Error::Malformed { offset: base + offset, found: found.to_owned() };
    if depth > MAX_DEPTH {
        return Err(malformed(0, "components nested more than 16 deep"));
    }
    let header = wasm.get(..8).ok_or_else(|| malformed(0, "no header"))?;
    let component = header == COMPONENT;
    if !component && header != MODULE {
        return Err(malformed(0, "neither a module nor a component"));
    }
    out.extend_from_slice(header);
    let mut at = 8;
    while let Some(&id) = wasm.get(at) {
        let start = at;
        at += 1;
        let len = leb(wasm, &mut at).ok_or_else(|| malformed(start, "a section without a length"))?;
        let body = at
            .checked_add(len)
            .and_then(|end| wasm.get(at..end))
            .ok_or_else(|| malformed(start, "a section longer than the file"))?;
        at += len;
        if id == CUSTOM {
            let name =
                custom_name(body).ok_or_else(|| malformed(start, "a custom section without a name"))?;
            if keep(name) {
                out.extend_from_slice(&wasm[start..at]);
            }
        } else if component && NESTED.contains(&id) {
            let mut inner = Vec::with_capacity(body.len());
            walk(body, base + at - len, depth + 1, keep, &mut inner)?;
            out.push(id);
            write_leb(inner.len(), out);
            out.extend_from_slice(&inner);
        } else {
            out.extend_from_slice(&wasm[start..at]);
        }
    }
    Ok(())
}

fn custom_name(body: &[u8]) -> Option<&str> {
    let mut at = 0;
    let len = leb(body, &mut at)?;
    std::str::from_utf8(body.get(at..at.checked_add(len)?)?).ok()
}

/// Reads an unsigned 32-bit LEB128 number at index `at` and advances the index. Returns `None` if
/// the number is truncated or too large.
fn leb(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(value).ok().map(|value| value as usize);
        }
    }
    None
}

fn write_leb(mut value: usize, out: &mut Vec<u8>) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TEXT: &str = r#"(component $outer
        (core module $m
            (@custom "producers" "p")
            (func $named (export "f") (result i32) i32.const 7)
            (@custom "keep-me" "k"))
        (component $inner (core module (func $other)))
        (core instance (instantiate $m)))"#;

    #[test]
    fn all_depths() {
        let wasm = wat::parse_str(TEXT).unwrap();
        let bare = custom_sections(&wasm, &|_| false).unwrap();
        wasmparser::validate(&bare).unwrap();
        assert!(bare.len() < wasm.len());
        for payload in wasmparser::Parser::new(0).parse_all(&bare) {
            let payload = payload.unwrap();
            assert!(!matches!(payload, wasmparser::Payload::CustomSection(_)));
        }
        // A second pass changes nothing.
        assert_eq!(custom_sections(&bare, &|_| false).unwrap(), bare);
        assert_eq!(custom_sections(&wasm, &|_| true).unwrap(), wasm);
    }

    #[test]
    fn chosen_sections_stay() {
        let wasm = wat::parse_str(TEXT).unwrap();
        let kept = custom_sections(&wasm, &|name| name == "keep-me").unwrap();
        let names: Vec<_> = wasmparser::Parser::new(0)
            .parse_all(&kept)
            .filter_map(|payload| match payload.unwrap() {
                wasmparser::Payload::CustomSection(section) => Some(section.name().to_owned()),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["keep-me"]);
    }

    #[test]
    fn damaged_files_are_refused() {
        let wasm = wat::parse_str(TEXT).unwrap();
        assert!(custom_sections(b"", &|_| false).is_err());
        assert!(custom_sections(b"\0asm\x02\0\0\0", &|_| false).is_err());
        // Truncation at any position gives an error or a shorter file, and never a panic.
        for len in 0..wasm.len() {
            let _ = custom_sections(&wasm[..len], &|_| false);
        }
        let mut nested = COMPONENT.to_vec();
        for _ in 0..40 {
            let mut outer = COMPONENT.to_vec();
            outer.push(4);
            write_leb(nested.len(), &mut outer);
            outer.extend_from_slice(&nested);
            nested = outer;
        }
        let error = custom_sections(&nested, &|_| false).unwrap_err();
        assert!(error.to_string().contains("16 deep"), "{error}");
    }
}
