//! Tests of kernels in the object store, and of who may sign them.

#![allow(clippy::unwrap_used)]
use std::path::PathBuf;

use eciton_kernel::cache::digest;
use eciton_transport::MemoryStore;

use super::*;
use crate::architecture::Architecture;
use crate::deployment::{Endpoints, Function};

const BASELINE: Baseline = Baseline::X86_64V3;

/// A deployment, its deployer's key, and a bucket.
struct Stack {
    folder: tempfile::TempDir,
    deployment: Deployment,
    store: MemoryStore,
}

impl Stack {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let signing_key = folder.path().join("deployer/signing.key");
        let signer = Signer::open(&signing_key).unwrap();
        let architecture = Architecture::X86_64;
        let function = Function { name: "eciton-worker-1769".to_owned(), memory_mb: 1769, architecture };
        let deployment = Deployment {
            version: 1,
            stack: "eciton".to_owned(),
            region: "us-east-1".to_owned(),
            zone: None,
            profile: None,
            functions: vec![function],
            trainers: Vec::new(),
            timeout_s: 120,
            numeric_class: None,
            bucket: "bucket".to_owned(),
            packaged: Vec::new(),
            signing_key,
            verifying_key: signer.verifier().to_string(),
            account_concurrency: 1000,
            reserved_concurrency: None,
            endpoints: Endpoints::default(),
        };
        Self { folder, deployment, store: MemoryStore::new() }
    }

    /// Returns the deployment of a user whose home is this folder.
    fn seen_from(&self, home: &str) -> Deployment {
        let signing_key = self.folder.path().join(home).join("signing.key");
        Deployment { signing_key, ..self.deployment.clone() }
    }

    /// Starts a run, whose kernel must be stored where functions find it.
    fn start(&self, deployment: &Deployment, component: &[u8]) -> Result<(), Error> {
        let keys = KernelKeys::from_deployment(deployment)?;
        let digest = digest(component);
        let work = keys.store(&self.store, BASELINE, "sum", &digest, component);
        crate::runtime::runtime(1)?.block_on(work)
    }

    fn kept(&self, component: &[u8]) -> Option<Vec<u8>> {
        let key = Key::new(artefact::store_key(&digest(component), BASELINE)).unwrap();
        let found = crate::runtime::runtime(1).unwrap().block_on(self.store.get(&key, None));
        found.ok().map(|bytes| bytes.to_vec())
    }

    fn put(&self, component: &[u8], sealed: Vec<u8>) {
        let key = Key::new(artefact::store_key(&digest(component), BASELINE)).unwrap();
        let work = self.store.put(&key, sealed.into(), Condition::Always);
        crate::runtime::runtime(1).unwrap().block_on(work).unwrap();
    }
}

fn component() -> Vec<u8> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    std::fs::read(root.join("../../guest-kernels/prebuilt/sum.wasm")).unwrap()
}

#[test]
fn who_trained_without_the_key_took_every_kernel_from_everybody() {
    let (stack, component) = (Stack::new(), component());
    stack.start(&stack.deployment, &component).unwrap();
    let kept = stack.kept(&component).unwrap();
    // Without a key file, stored kernels are used, and neither a key nor its folder is created.
    let trainer = stack.seen_from("trainer");
    stack.start(&trainer, &component).unwrap();
    assert!(!stack.folder.path().join("trainer").exists());
    // Another key at this path has the same effect as no key.
    let other = stack.seen_from("other");
    Signer::open(&other.signing_key).unwrap();
    stack.start(&other, &component).unwrap();
    assert_eq!(stack.kept(&component).unwrap(), kept);
}

#[test]
fn without_the_key_a_new_kernel_is_refused_in_words() {
    let (stack, component) = (Stack::new(), component());
    let trainer = stack.seen_from("trainer");
    let said = stack.start(&trainer, &component).unwrap_err().to_string();
    for words in [
        "kernel `sum`",
        "stack `eciton`",
        "does not contain it",
        "signing.key does not exist on this machine",
        "--kernel",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let other = stack.seen_from("other");
    let own = Signer::open(&other.signing_key).unwrap().verifier().to_string();
    let said = stack.start(&other, &component).unwrap_err().to_string();
    assert!(said.contains(&own) && said.contains(&stack.deployment.verifying_key), "{said}");
    assert_eq!(stack.kept(&component), None, "nothing is written");
    // The result is the same if the bucket has a kernel that functions reject.
    stack.put(&component, b"not signed".to_vec());
    let said = stack.start(&trainer, &component).unwrap_err().to_string();
    assert!(said.contains("its file in the bucket is not valid (it is not compiled code"), "{said}");
    assert_eq!(stack.kept(&component).unwrap(), b"not signed");
    // A user who has the key can replace that kernel.
    stack.start(&stack.deployment, &component).unwrap();
    stack.start(&trainer, &component).unwrap();
}

#[test]
fn kernels_of_the_package_need_neither_key_nor_bucket() {
    let (stack, component) = (Stack::new(), component());
    let packaged = vec![artefact::store_key(&digest(&component), BASELINE)];
    let trainer = Deployment { packaged, ..stack.seen_from("trainer") };
    stack.start(&trainer, &component).unwrap();
    assert_eq!(stack.kept(&component), None);
}

#[test]
fn a_key_that_others_may_read_is_refused_before_anything() {
    use std::os::unix::fs::PermissionsExt as _;
    let (stack, component) = (Stack::new(), component());
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&stack.deployment.signing_key, open).unwrap();
    let said = stack.start(&stack.deployment, &component).unwrap_err().to_string();
    assert!(said.contains("mode 644"), "{said}");
}
