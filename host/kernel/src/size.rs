//! Limits on the size of a component, which are checked before it is compiled.
//!
//! Compilation takes about 70 µs and 6 kB per function, and more for its code. No clock interrupts
//! it, so a small file could demand minutes and gigabytes. The limits in [`LIMITS`] are far above
//! the sizes of real kernels. The page `docs/reference/contract.md` has figures. The check reads
//! every instruction once and stores none.

use wasmparser::{CompositeInnerType, FunctionBody, Operator, Parser, Payload, SubType};

use crate::error::{Error, Result};

/// Quantity of a component that is counted before compilation. Each quantity has a limit, and error
/// messages use its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// Size of the component file, in bytes.
    Component,
    /// Number of functions in all core modules, including calls across a component's boundary.
    Functions,
    /// Total size of the code of all functions, in bytes.
    Code,
    /// Size of the longest function's code, in bytes.
    FunctionCode,
    /// Total number of parameters and locals of all functions.
    Locals,
    /// Number of results of one function or block.
    Results,
    /// Nesting depth of blocks in one function.
    Blocks,
    /// Number of blocks in one function, including loops. Compile time grows faster than this
    /// number.
    FunctionBlocks,
    /// Number of sections of the component and of everything inside it.
    Sections,
    /// Nesting depth of components and modules, including the outermost component.
    Nesting,
    /// Number of instances that are created when the component is instantiated.
    Instances,
}

/// Limit of each counted quantity, with the quantity's name and unit for error messages.
pub(crate) const LIMITS: [(Count, &str, &str, u64); 11] = [
    (Count::Component, "component-bytes", "bytes", 64 << 20),
    (Count::Functions, "functions", "functions", 50_000),
    (Count::Code, "code-bytes", "bytes of code", 16 << 20),
    (Count::FunctionCode, "function-bytes", "bytes of code in one function", 1 << 20),
    (Count::Locals, "locals", "parameters and locals", 1_000_000),
    (Count::Results, "results", "results of one function or block", 16),
    (Count::Blocks, "block-nesting", "nested blocks", 4096),
    (Count::FunctionBlocks, "function-blocks", "blocks in one function", 20_000),
    (Count::Sections, "sections", "sections", 10_000),
    (Count::Nesting, "nesting", "nested components and modules", 8),
    (Count::Instances, "instances", "instances", 1000),
];

/// Checks that a component can be parsed and exceeds none of the [`LIMITS`].
///
/// # Errors
/// Returns [`Error::TooLarge`] for the first limit that is exceeded, and [`Error::Compile`] for
/// bytes that cannot be parsed.
pub(crate) fn check(kernel: &str, component: &[u8]) -> Result<()> {
    match measure(component) {
        Ok(_) => Ok(()),
        Err(Refusal::TooLarge(count, found)) => {
            let (limit, unit, allowed) = limit(count);
            Err(Error::TooLarge { kernel: kernel.to_owned(), limit, unit, found, allowed })
        }
        Err(Refusal::Malformed(error)) => {
            Err(Error::Compile { kernel: kernel.to_owned(), reason: error.to_string() })
        }
    }
}

fn limit(count: Count) -> (&'static str, &'static str, u64) {
    let found = LIMITS.iter().find(|(known, ..)| *known == count);
    found.map_or(("", "", 0), |&(_, limit, unit, allowed)| (limit, unit, allowed))
}

/// Reason why the check of a component stopped early.
#[derive(Debug)]
enum Refusal {
    /// The count exceeds its limit. The value is a lower bound, because counting stopped at it.
    TooLarge(Count, u64),
    Malformed(wasmparser::BinaryReaderError),
}

type Counted<T = ()> = std::result::Result<T, Refusal>;

impl From<wasmparser::BinaryReaderError> for Refusal {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Malformed(error)
    }
}

/// Number of units counted for each quantity, in the order of [`LIMITS`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Size([u64; LIMITS.len()]);

impl Size {
    fn place(&mut self, count: Count) -> &mut u64 {
        &mut self.0[count as usize]
    }

    fn add(&mut self, count: Count, more: u64) -> Counted {
        let sum = self.place(count).saturating_add(more);
        self.at_least(count, sum)
    }

    fn at_least(&mut self, count: Count, found: u64) -> Counted {
        let most = self.place(count);
        *most = found.max(*most);
        if found > limit(count).2 { Err(Refusal::TooLarge(count, found)) } else { Ok(()) }
    }
}

/// Component or module that is being read, with its counts so far.
#[derive(Debug, Default)]
struct Open {
    /// Number of parameters of each function type. Empty for a component.
    parameters: Vec<u64>,
    /// Instances of modules and calls across the component's boundary. Zero for a module.
    own: Linked,
    /// Number of component instances. Zero for a module.
    children: u64,
}

/// Number of instances and calls of a component, including all components that it instantiates.
#[derive(Debug, Default, Clone, Copy)]
struct Linked {
    instances: u64,
    calls: u64,
}

fn measure(component: &[u8]) -> Counted<Size> {
    let mut size = Size::default();
    size.at_least(Count::Component, component.len() as u64)?;
    let mut open: Vec<Open> = Vec::new();
    // A component instantiates only components that were defined before it. So the largest total so
    // far is an upper bound for each child. Totals that double at every level are found without a
    // traversal.
    let mut largest = Linked::default();
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        if payload.as_section().is_some() {
            size.add(Count::Sections, 1)?;
        }
        match payload {
            Payload::Version { .. } => {
                open.push(Open::default());
                size.at_least(Count::Nesting, open.len() as u64)?;
            }
            Payload::End(_) => {
                let Some(Open { own, children, .. }) = open.pop() else { continue };
                let whole = |own: u64, each: u64| own.saturating_add(children.saturating_mul(each));
                let linked = Linked {
                    instances: whole(own.instances, largest.instances.saturating_add(1)),
                    calls: whole(own.calls, largest.calls),
                };
                size.at_least(Count::Instances, linked.instances)?;
                let calls = linked.calls.saturating_sub(own.calls);
                size.add(Count::Functions, calls)?;
                largest.instances = largest.instances.max(linked.instances);
                largest.calls = largest.calls.max(linked.calls);
            }
            Payload::InstanceSection(section) => {
                with(&mut open, |o| o.own.instances += u64::from(section.count()))
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section {
                    if matches!(instance?, wasmparser::ComponentInstance::Instantiate { .. }) {
                        with(&mut open, |o| o.children += 1);
                    }
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                with(&mut open, |o| o.own.calls += u64::from(section.count()));
                size.add(Count::Functions, u64::from(section.count()))?;
            }
            Payload::TypeSection(section) => {
                for group in section {
                    for ty in group?.into_types() {
                        let parameters = function(&ty, &mut size)?;
                        with(&mut open, |o| o.parameters.push(parameters));
                    }
                }
            }
            Payload::FunctionSection(section) => {
                size.add(Count::Functions, u64::from(section.count()))?;
                for ty in section {
                    let ty = ty? as usize;
                    let parameters = open.last().and_then(|o| o.parameters.get(ty)).copied();
                    size.add(Count::Locals, parameters.unwrap_or_default())?;
                }
            }
            Payload::CodeSectionEntry(body) => self::code(&body, &mut size)?,
            _ => {}
        }
    }
    Ok(size)
}

fn with(open: &mut [Open], change: impl FnOnce(&mut Open)) {
    if let Some(innermost) = open.last_mut() {
        change(innermost);
    }
}

/// Returns the number of parameters of a function type, and counts its results.
fn function(ty: &SubType, size: &mut Size) -> Counted<u64> {
    let CompositeInnerType::Func(ty) = &ty.composite_type.inner else { return Ok(0) };
    size.at_least(Count::Results, ty.results().len() as u64)?;
    Ok(ty.params().len() as u64)
}

fn code(body: &FunctionBody<'_>, size: &mut Size) -> Counted {
    let bytes = body.as_bytes().len() as u64;
    size.add(Count::Code, bytes)?;
    size.at_least(Count::FunctionCode, bytes)?;
    for local in body.get_locals_reader()? {
        size.add(Count::Locals, u64::from(local?.0))?;
    }
    let (mut depth, mut blocks) = (0u64, 0u64);
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        match operators.read()? {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::TryTable { .. } => {
                (depth, blocks) = (depth + 1, blocks + 1);
                size.at_least(Count::Blocks, depth)?;
                size.at_least(Count::FunctionBlocks, blocks)?;
            }
            Operator::End => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wasm(text: &str) -> Vec<u8> {
        wat::parse_str(text).unwrap()
    }

    /// Returns the name of the limit that refuses this component, and the measured count.
    fn refused(text: &str) -> (&'static str, u64) {
        refusal(&wasm(text))
    }

    fn refusal(component: &[u8]) -> (&'static str, u64) {
        match check("k", component).unwrap_err() {
            Error::TooLarge { limit, found, allowed, .. } => {
                assert!(found > allowed, "{limit}: {found} of {allowed}");
                (limit, found)
            }
            other => panic!("{other}"),
        }
    }

    fn leb(mut value: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            bytes.push(if value == 0 { low } else { low | 0x80 });
            if value == 0 {
                return bytes;
            }
        }
    }

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        [&[id], &leb(content.len())[..], content].concat()
    }

    /// Returns a component whose module has `functions` functions of `bytes` bytes of code each.
    fn code_of(functions: usize, bytes: usize) -> Vec<u8> {
        let code = [&[0], &vec![1; bytes - 2][..], &[0x0b]].concat();
        let body = [leb(bytes), code].concat();
        let count = leb(functions);
        let module = [
            b"\0asm\x01\0\0\0",
            &section(1, &[1, 0x60, 0, 0])[..],
            &section(3, &[&count[..], &vec![0; functions]].concat()),
            &section(10, &[&count[..], &body.repeat(functions)].concat()),
        ];
        [b"\0asm\x0d\0\x01\0", &section(1, &module.concat())[..]].concat()
    }

    fn component(module: &str) -> String {
        format!("(component (core module {module}))")
    }

    #[test]
    fn a_component_that_would_take_minutes_to_compile_is_refused_before() {
        assert_eq!(refused(&component(&"(func)".repeat(50_001))), ("functions", 50_001));
        let half = format!("(core module {})", "(func)".repeat(25_001));
        assert_eq!(refused(&format!("(component {half} (component {half}))")), ("functions", 50_002));
        assert_eq!(refusal(&code_of(1, (1 << 20) + 1)), ("function-bytes", (1 << 20) + 1));
        assert_eq!(refusal(&code_of(17, 1 << 20)), ("code-bytes", 17 << 20));
        let deep = format!("(func {} {})", "block ".repeat(4097), "end ".repeat(4097));
        assert_eq!(refused(&component(&deep)), ("block-nesting", 4097));
        let many = format!("(func {})", "loop end ".repeat(20_001));
        assert_eq!(refused(&component(&many)), ("function-blocks", 20_001));
    }

    #[test]
    fn what_a_few_bytes_ask_much_by_is_refused() {
        let locals = format!("(func (local {}))", "i32 ".repeat(50_000)).repeat(21);
        assert_eq!(refused(&component(&locals)), ("locals", 1_050_000));
        let wide = format!("(type $t (func (param {})))", "i32 ".repeat(1000));
        let parameters = format!("{wide} {}", "(func (type $t))".repeat(1001));
        assert_eq!(refused(&component(&parameters)), ("locals", 1_001_000));
        let results = format!("(func (result {}) unreachable)", "i32 ".repeat(17));
        assert_eq!(refused(&component(&results)), ("results", 17));
        let block = format!("(func block (result {}) unreachable end unreachable)", "i32 ".repeat(17));
        assert_eq!(refused(&component(&block)), ("results", 17));
        let sections = "(core module) ".repeat(5001);
        assert_eq!(refused(&format!("(component {sections} {sections})")).0, "sections");
    }

    /// Checks a text of forty lines that would create 2^20 instances.
    #[test]
    fn components_that_double_at_every_level_are_refused() {
        let mut text = "(component $c0 (core module $m) (core instance (instantiate $m)))".to_owned();
        for level in 1..20 {
            let below = level - 1;
            text += &format!(
                "(component $c{level} (alias outer $all $c{below} (component $below))
                    (instance (instantiate $below)) (instance (instantiate $below)))"
            );
        }
        assert_eq!(refused(&format!("(component $all {text} (instance (instantiate $c19)))")).0, "instances");
        let nested = format!("{}{}", "(component ".repeat(9), ")".repeat(9));
        assert_eq!(refused(&nested), ("nesting", 9));
    }

    #[test]
    fn a_refusal_says_what_was_found_what_is_allowed_and_what_to_do() {
        let error = check("linear", &wasm(&component(&"(func)".repeat(50_001)))).unwrap_err();
        assert!(error.is_limit() && !error.is_retryable());
        assert_eq!(
            error.to_string(),
            "kernel `linear` is too large to compile: limit functions: 50001 functions found, 50000 allowed; \
             build it in release mode, without debug information and unused code"
        );
        let error = check("linear", &vec![0; (64 << 20) + 1]).unwrap_err().to_string();
        assert!(error.contains("limit component-bytes: 67108865 bytes found, 67108864 allowed"), "{error}");
        let cut = wasm(&component("(func)"));
        let error = check("linear", &cut[..cut.len() - 3]).unwrap_err();
        assert!(matches!(error, Error::Compile { .. }), "{error}");
    }

    /// Checks that the built-in kernels and those of the test suites are far below the limits.
    #[test]
    fn kernels_are_far_below_the_limits() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut most = Size::default();
        for folder in ["guest-kernels/prebuilt", "tests/kernels/prebuilt"] {
            for entry in std::fs::read_dir(root.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_none_or(|e| e != "wasm") {
                    continue;
                }
                let size = measure(&std::fs::read(&path).unwrap()).unwrap();
                for (most, found) in most.0.iter_mut().zip(size.0) {
                    *most = found.max(*most);
                }
            }
        }
        for ((_, limit, _, allowed), found) in LIMITS.into_iter().zip(most.0) {
            println!("{limit}: {found} of {allowed}");
            let far = if allowed < 20 { 2 } else { 10 };
            assert!(found > 0 || limit == "results", "{limit} is counted");
            assert!(found * far <= allowed, "{limit}: {found} of {allowed}");
        }
    }

    #[test]
    fn the_manual_has_the_limits() {
        let manual = include_str!("../../../docs/reference/contract.md");
        for (_, limit, _, allowed) in LIMITS {
            let figure = match allowed {
                bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
                plain if plain < 1000 => plain.to_string(),
                plain => format!("{},{:03}", plain / 1000, plain % 1000).replace("1000,000", "1,000,000"),
            };
            let row = manual.lines().find(|line| line.starts_with(&format!("| `{limit}`")));
            assert!(row.is_some_and(|row| row.contains(&figure)), "{limit}: {figure} in {row:?}");
        }
    }
}
