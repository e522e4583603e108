//! Loads an artefact without a compiler, as a worker does, and runs calls of its kernel.
//!
//! `load FOLDER NAME KIND REPEATS` compares the bits with `FOLDER/NAME.bits` and prints one line.
//! If the artefact is refused, it prints `refused: ...` and exits with status 3. If bits differ, it
//! exits with status 4.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "../calls/mod.rs"]
mod calls;

use std::path::PathBuf;
use std::process::exit;
use std::time::{Duration, Instant};

use calls::{SHIPPED, results};
use eciton_kernel::artefact::{Verifier, open};
use eciton_kernel::{Error, Instance, Runtime, Settings, cache};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (folder, name, kind) = (PathBuf::from(&args[0]), &args[1], &args[2]);
    let repeats: usize = args.get(3).map_or(1, |n| n.parse().unwrap());
    let component = SHIPPED.iter().find(|(n, _)| n == name).unwrap().1;
    let digest = cache::digest(component);
    let trusted = Verifier::parse(&std::fs::read_to_string(folder.join("public-key")).unwrap()).unwrap();
    let sealed = std::fs::read(folder.join(format!("{name}.{kind}"))).unwrap();
    let began = Instant::now();
    let runtime = Runtime::new(Settings::default()).unwrap();
    let started = began.elapsed();
    let mut verify = Duration::MAX;
    let mut load = Duration::MAX;
    let mut first = Duration::MAX;
    let mut instantiate = Duration::MAX;
    let mut kernel = None;
    for at in 0..repeats {
        let began = Instant::now();
        let _ = open(&sealed, &trusted).unwrap();
        verify = verify.min(began.elapsed());
        let began = Instant::now();
        let loaded = match runtime.load_artefact(name, &digest, &sealed, &trusted) {
            Ok(kernel) => kernel,
            Err(error @ Error::Artefact { .. }) => {
                println!("refused: {error}");
                exit(3);
            }
            Err(error) => {
                println!("failed: {error}");
                exit(1);
            }
        };
        load = load.min(began.elapsed());
        if at == 0 {
            first = load;
        }
        let began = Instant::now();
        drop(Instance::new(&loaded).unwrap());
        instantiate = instantiate.min(began.elapsed());
        kernel = Some(loaded);
    }
    let found = results(&kernel.unwrap(), 7, 12).unwrap();
    let found: Vec<u8> = found.into_iter().flat_map(u32::to_le_bytes).collect();
    let expected = std::fs::read(folder.join(format!("{name}.bits"))).unwrap();
    println!(
        "{name} {kind}: {} bytes, {}, engine {started:?}, verified in {verify:?}, loaded in {load:?} \
         (first {first:?}), instance {instantiate:?}, {} values",
        sealed.len(),
        eciton_tensor::numeric_class(),
        found.len() / 4
    );
    if found != expected {
        println!("its bits are not those of this machine's own code");
        exit(4);
    }
}
