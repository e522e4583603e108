//! Package: a folder from which `sam build` creates all functions.
//!
//! ```text
//! FOLDER/template.yaml Makefile samconfig.toml    as in infra/
//! FOLDER/package/bootstrap                        the worker
//! FOLDER/package/trainer                          program for whole runs, optional
//! FOLDER/package/kernels/DIGEST.BASELINE.cwasm    built-in kernels, compiled and signed
//! ```
//! The package contains no secrets. Kernels of users are not in the package but in the stack's
//! bucket. They are signed, so that a new kernel needs no new deployment.

use std::fs;
use std::path::{Path, PathBuf};

use eciton_kernel::artefact::{self, Signer};
use eciton_kernel::cache::digest;

use super::error::{Error, Result};
use super::worker::Worker;

/// CloudFormation template of the stack, as in the repository.
pub const TEMPLATE: &str = include_str!("../../../infra/template.yaml");
/// Makefile that `sam build` runs to create the functions.
pub const MAKEFILE: &str = include_str!("../../../infra/Makefile");
/// Settings file of `sam`, as in the repository.
pub const SAMCONFIG: &str = include_str!("../../../infra/samconfig.toml");
/// IAM policy for the deployer, with placeholders such as `${Stack}` for names.
pub const DEPLOYER_POLICY: &str = include_str!("../../../infra/deployer-policy.json");

/// Maximum size of an unpacked package that AWS Lambda accepts, in bytes.
pub const MAX_BYTES: u64 = 250_000_000;

/// WebAssembly component of a kernel, with the kernel's name.
#[derive(Debug, Clone)]
pub struct Component {
    /// Name of the kernel, which error messages quote.
    pub name: String,
    /// Bytes of the WebAssembly component.
    pub bytes: Vec<u8>,
}

/// Kernel that was compiled for the functions' processors and signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artefact {
    /// Name of the kernel, which error messages quote.
    pub name: String,
    /// Key of the kernel in a package and in a bucket, `kernels/DIGEST.BASELINE.cwasm`.
    pub key: String,
    /// Signed machine code, which is the content of the object in a bucket.
    pub sealed: Vec<u8>,
}

/// Compiles a kernel component for the processor architecture of `worker`, and signs the code with
/// `signer`.
///
/// # Errors
/// Returns an error if the component is not a kernel, or cannot be compiled.
pub fn compile(component: &Component, worker: &Worker, signer: &Signer) -> Result<Artefact> {
    let baseline = worker.architecture.baseline();
    let sealed = artefact::compile(&component.name, &component.bytes, baseline, signer)?;
    let key = artefact::store_key(&digest(&component.bytes), baseline);
    Ok(Artefact { name: component.name.clone(), key, sealed })
}

/// Folder on disk from which `sam build` creates the functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Path of the package's folder.
    pub folder: PathBuf,
    /// Size of the unpacked files in a function, in bytes.
    pub bytes_len: u64,
}

impl Package {
    /// Writes a package with the given programs and `kernels` to `folder`. Replaces the files that
    /// another deployment left there.
    ///
    /// # Errors
    /// Returns an error if files cannot be written, or if the package is too large for AWS Lambda.
    pub fn write(
        folder: &Path,
        worker: &Worker,
        trainer: Option<&Worker>,
        kernels: &[Artefact],
    ) -> Result<Self> {
        let package = folder.join("package");
        for old in [package.clone(), folder.join(".aws-sam")] {
            match fs::remove_dir_all(&old) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::file(old, "removed")(e));
                }
                _ => {}
            }
        }
        fs::create_dir_all(package.join("kernels")).map_err(Error::file(&package, "made"))?;
        for (name, text) in
            [("template.yaml", TEMPLATE), ("Makefile", MAKEFILE), ("samconfig.toml", SAMCONFIG)]
        {
            let path = folder.join(name);
            fs::write(&path, text).map_err(Error::file(&path, "written"))?;
        }
        let bootstrap = package.join("bootstrap");
        let mut bytes_len = fs::copy(&worker.path, &bootstrap).map_err(Error::file(&bootstrap, "written"))?;
        if let Some(trainer) = trainer {
            let path = package.join("trainer");
            let len = fs::copy(&trainer.path, &path).map_err(Error::file(&path, "written"))?;
            // A function contains one of the two.
            bytes_len = bytes_len.max(len);
        }
        for kernel in kernels {
            let path = package.join(&kernel.key);
            fs::write(&path, &kernel.sealed).map_err(Error::file(&path, "written"))?;
            bytes_len += kernel.sealed.len() as u64;
        }
        if bytes_len > MAX_BYTES {
            let reason = format!("{bytes_len} bytes; Lambda takes {MAX_BYTES}: strip the worker");
            return Err(Error::Content { path: package, reason });
        }
        Ok(Self { folder: folder.to_owned(), bytes_len })
    }

    /// Returns the path of the folder with the programs and kernels, which the Makefile calls
    /// PACKAGE.
    #[must_use]
    pub fn contents(&self) -> PathBuf {
        self.folder.join("package")
    }

    /// Returns the path of the template that `sam build` writes.
    #[must_use]
    pub fn built_template(&self) -> PathBuf {
        self.folder.join(".aws-sam/build/template.yaml")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use eciton_cloud::Architecture;

    use super::*;

    #[test]
    fn what_an_older_deployment_left_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("w");
        fs::write(&binary, b"worker").unwrap();
        let worker = Worker { path: binary, bytes_len: 6, architecture: Architecture::X86_64, glibc: None };
        let folder = dir.path().join("a b");
        let kernel = |key: &str| Artefact { name: "k".to_owned(), key: key.to_owned(), sealed: vec![1; 4] };
        Package::write(&folder, &worker, Some(&worker), &[kernel("kernels/old.x.cwasm")]).unwrap();
        let package = Package::write(&folder, &worker, None, &[kernel("kernels/new.x.cwasm")]).unwrap();
        assert_eq!(package.bytes_len, 10);
        let names: Vec<_> = fs::read_dir(package.contents().join("kernels"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["new.x.cwasm"]);
        assert!(!package.contents().join("trainer").exists());
        assert_eq!(fs::read(package.contents().join("bootstrap")).unwrap(), b"worker");
    }
}
