//! Tests of signed artefacts: correct ones give the same bits as local compilation, others a typed
//! error.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;

use std::sync::OnceLock;

use calls::{Numbers, SHIPPED, results};
use eciton_kernel::artefact::{
    self, Baseline, Heading, MAX_BYTES, Refusal, Signer, Verifier, compile, open, seal, store_key,
};
use eciton_kernel::{Error, Runtime, Settings, cache};

fn here() -> Baseline {
    Baseline::of_this_machine().expect("this machine is older than every level that Eciton ships")
}

fn elsewhere() -> Baseline {
    Baseline::ALL.into_iter().find(|b| *b != here()).unwrap()
}

fn runtime() -> Runtime {
    Runtime::new(Settings::default()).unwrap()
}

fn signer(name: &str) -> Signer {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    Signer::open(&FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path().join(name)).unwrap()
}

/// Returns the built-in kernel `linear`, compiled for this machine and signed.
fn linear() -> (&'static [u8], [u8; 32], &'static [u8], Verifier) {
    static SEALED: OnceLock<Vec<u8>> = OnceLock::new();
    let (name, component) = SHIPPED[0];
    let signer = signer("deployer");
    let sealed = SEALED.get_or_init(|| compile(name, component, here(), &signer).unwrap());
    (component, cache::digest(component), sealed, signer.verifier())
}

fn refusal(digest: &[u8; 32], sealed: &[u8], trusted: &Verifier) -> Refusal {
    let error = runtime().load_artefact("linear", digest, sealed, trusted).unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("`linear`"), "{error}");
    match error {
        Error::Artefact { source, .. } => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn this_machines_code_and_the_levels_give_equal_bits() {
    let signer = signer("deployer");
    let runtime = runtime();
    for (name, component) in SHIPPED {
        let sealed = compile(name, component, here(), &signer).unwrap();
        let digest = cache::digest(component);
        let travelled = runtime.load_artefact(name, &digest, &sealed, &signer.verifier()).unwrap();
        let native = runtime.load(name, component).unwrap();
        assert_eq!(travelled.digest(), native.digest());
        assert_eq!(travelled.attributes(), native.attributes());
        let (found, expected) = (results(&travelled, 7, 40).unwrap(), results(&native, 7, 40).unwrap());
        assert!(found.len() > 10_000, "{name}: {} values", found.len());
        assert!(found == expected, "{name}: native and {} differ", here());
        println!("{name}: {} values equal, native and {}", found.len(), here());
    }
}

#[test]
fn a_level_is_compiled_to_the_same_code_again() {
    let (component, _, sealed, _) = linear();
    assert_eq!(compile("linear", component, here(), &signer("deployer")).unwrap(), sealed);
}

#[test]
fn another_key_is_refused() {
    let (_, digest, sealed, trusted) = linear();
    let other = signer("somebody else").verifier();
    assert_eq!(refusal(&digest, sealed, &other), Refusal::Unsigned { trusted: other.to_string() });
    assert!(open(sealed, &trusted).is_ok());
}

/// Checks that every flipped bit is found before the engine sees the code: `open` returns no code.
#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let (_, digest, sealed, trusted) = linear();
    let seed = 20_261_121;
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let mut changed = sealed.to_vec();
    // Flips bits in the whole header, the whole signature, and at some positions in the code.
    let edge = 128;
    let inner = (0..400).map(|_| edge + numbers.next() as usize % (sealed.len() - 2 * edge));
    let places: Vec<usize> = (0..edge).chain(sealed.len() - edge..sealed.len()).chain(inner).collect();
    for at in places {
        let bit = 1 << (numbers.below(8));
        changed[at] ^= bit;
        let found = open(&changed, &trusted).map(|v| v.heading().clone());
        assert!(
            matches!(found, Err(Refusal::Unsigned { .. } | Refusal::Malformed { .. })),
            "bit {bit:#x} of byte {at}: {found:?}"
        );
        changed[at] ^= bit;
    }
    changed[200] ^= 1;
    assert!(matches!(refusal(&digest, &changed, &trusted), Refusal::Unsigned { .. }));
}

#[test]
fn a_cut_or_longer_artefact_is_refused() {
    let (_, digest, sealed, trusted) = linear();
    for len in (0..300).chain((300..sealed.len()).step_by(997)).chain([sealed.len() - 1]) {
        let found = open(&sealed[..len], &trusted).map(|v| v.heading().clone());
        assert!(matches!(found, Err(Refusal::Malformed { .. })), "{len} bytes: {found:?}");
    }
    let longer = [sealed, b"\0"].concat();
    assert!(matches!(refusal(&digest, &longer, &trusted), Refusal::Malformed { .. }));
    assert!(matches!(refusal(&digest, b"", &trusted), Refusal::Malformed { .. }));
}

#[test]
fn an_artefact_at_the_limit_opens_and_a_larger_one_is_not_made() {
    let signer = signer("deployer");
    let heading = Heading::new(here(), [1; 32]);
    let head = seal(&heading, b"", &signer).unwrap().len();
    let largest = seal(&heading, &vec![0; MAX_BYTES - head], &signer).unwrap();
    assert_eq!(largest.len(), MAX_BYTES);
    assert_eq!(open(&largest, &signer.verifier()).unwrap().heading(), &heading);
    let over = Refusal::TooLarge { found: MAX_BYTES + 1, allowed: MAX_BYTES };
    assert_eq!(seal(&heading, &vec![0; MAX_BYTES - head + 1], &signer), Err(over.clone()));
    let longer = [&largest[..], b"\0"].concat();
    assert_eq!(open(&longer, &signer.verifier()).map(|v| v.heading().clone()), Err(over));
}

#[test]
fn another_component_level_or_engine_is_refused_by_name() {
    let (component, digest, sealed, trusted) = linear();
    let other = cache::digest(SHIPPED[1].1);
    let found = refusal(&other, sealed, &trusted);
    assert!(matches!(found, Refusal::Component { .. }), "{found}");

    let foreign = compile("linear", component, elsewhere(), &signer("deployer")).unwrap();
    let found = refusal(&digest, &foreign, &trusted);
    assert!(matches!(found, Refusal::Baseline { found, .. } if found == elsewhere()), "{found}");

    let code = open(sealed, &trusted).unwrap().code();
    let mut heading = Heading::new(here(), digest);
    heading.engine[31] ^= 1;
    let old = seal(&heading, code, &signer("deployer")).unwrap();
    let found = refusal(&digest, &old, &trusted);
    assert!(matches!(found, Refusal::Engine { .. }), "{found}");
}

/// Checks the last line of defence: code for another processor that was signed under a wrong level.
#[test]
fn code_under_a_wrong_level_is_refused_by_the_engine() {
    let (component, digest, _, trusted) = linear();
    let signer = signer("deployer");
    let foreign = compile("linear", component, elsewhere(), &signer).unwrap();
    let code = open(&foreign, &trusted).unwrap().code();
    let wrong = seal(&Heading::new(here(), digest), code, &signer).unwrap();
    let found = refusal(&digest, &wrong, &trusted);
    assert!(matches!(&found, Refusal::Code { reason } if reason.contains("architecture")), "{found}");
    let nothing = seal(&Heading::new(here(), digest), b"no code", &signer).unwrap();
    assert!(matches!(refusal(&digest, &nothing, &trusted), Refusal::Code { .. }));
}

#[test]
fn only_a_component_that_keeps_the_contract_is_compiled() {
    let signer = signer("deployer");
    for baseline in Baseline::ALL {
        for (bytes, says) in [(&b"\0asm\x01\0\0\0"[..], "core module"), (b"elf", "not WebAssembly")] {
            let found = compile("k", bytes, baseline, &signer).unwrap_err();
            assert!(matches!(found, Error::Contract { .. }) && found.to_string().contains(says), "{found}");
        }
        let empty = b"\0asm\x0d\0\x01\0";
        let found = compile("k", empty, baseline, &signer).unwrap_err();
        assert!(matches!(found, Error::Contract { .. }), "{found}");
        let broken = [&empty[..], b"\xff"].concat();
        let found = compile("k", &broken, baseline, &signer).unwrap_err();
        assert!(matches!(found, Error::Compile { .. }), "{found}");
    }
}

/// Checks that interrupts, stack limits and traps work the same in code from an artefact and in
/// code of this machine.
#[test]
fn hostile_kernels_are_stopped_alike() {
    let hostile: [(&str, &[u8]); 3] = [
        ("recursing", include_bytes!("../../../tests/kernels/prebuilt/recursing.wasm")),
        ("trapping", include_bytes!("../../../tests/kernels/prebuilt/trapping.wasm")),
        ("allocating", include_bytes!("../../../tests/kernels/prebuilt/allocating.wasm")),
    ];
    let (runtime, signer) = (runtime(), signer("deployer"));
    for (name, component) in hostile {
        let sealed = compile(name, component, here(), &signer).unwrap();
        let digest = cache::digest(component);
        let travelled = runtime.load_artefact(name, &digest, &sealed, &signer.verifier()).unwrap();
        let native = runtime.load(name, component).unwrap();
        let (found, expected) = (results(&travelled, 9, 1), results(&native, 9, 1));
        let found = found.unwrap_err();
        assert!(matches!(found, Error::Trap { .. }), "{name}: {found}");
        assert_eq!(found.to_string(), expected.unwrap_err().to_string());
    }
}

#[test]
fn store_keys_name_component_and_level() {
    let key = store_key(&[0xab; 32], Baseline::NeoverseN1);
    assert_eq!(key, format!("kernels/{}.neoverse-n1.cwasm", "ab".repeat(32)));
    assert_ne!(artefact::engine_id(Baseline::NeoverseN1), artefact::engine_id(Baseline::X86_64V3));
}
