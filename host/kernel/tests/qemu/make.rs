//! Creates the files that `run.sh` uses. They are built-in kernels for x86-64-v3, and the same
//! kernels with this machine's instructions under that name. Further files are the deployer's
//! public key, and the expected bits from this machine's own code.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "../calls/mod.rs"]
mod calls;

use std::path::PathBuf;

use calls::{SHIPPED, results};
use eciton_kernel::artefact::{Baseline, Heading, Signer, compile, seal};
use eciton_kernel::{Runtime, Settings, cache};

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap());
    let signer = Signer::open(&folder.join("signing-key")).unwrap();
    std::fs::write(folder.join("public-key"), signer.verifier().to_string()).unwrap();
    let runtime = Runtime::new(Settings::default()).unwrap();
    for (name, component) in SHIPPED {
        for baseline in Baseline::ALL {
            let sealed = compile(name, component, baseline, &signer).unwrap();
            std::fs::write(folder.join(format!("{name}.{baseline}")), sealed).unwrap();
        }
        let heading = Heading::new(Baseline::X86_64V3, cache::digest(component));
        let code = runtime.machine_code(name, component).unwrap();
        let wrong = seal(&heading, &code, &signer).unwrap();
        std::fs::write(folder.join(format!("{name}.this-machine")), wrong).unwrap();
        let bits = results(&runtime.load(name, component).unwrap(), 7, 12).unwrap();
        let bits: Vec<u8> = bits.into_iter().flat_map(u32::to_le_bytes).collect();
        std::fs::write(folder.join(format!("{name}.bits")), bits).unwrap();
    }
}
