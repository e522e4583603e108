//! The cloud file, a TOML file with the prices and the presets of cloud providers.
//!
//! The default cloud file is `infra/cloud.toml`, which is compiled into the program. The
//! environment variable `ECITON_CLOUD` can name another file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use eciton_recipe::cloud::{DEFAULT_REGION, MAX_CLOUD_BYTES};
use eciton_recipe::{Cloud, Prices};

use crate::error::{Error, Result};

/// Text of the default cloud file.
const OWN: &str = include_str!("../../../infra/cloud.toml");

/// Reads the cloud file that the environment variable `ECITON_CLOUD` names. If the variable is
/// unset or empty, reads the default file.
///
/// # Errors
/// Returns an [`Error`] with the path if the file cannot be read or is not a valid cloud file.
pub fn cloud() -> Result<Cloud> {
    let (path, text) = text()?;
    parse(&path, &text)
}

/// Returns the path of the cloud file in use and the SHA-256 digest of its text, in hexadecimal.
///
/// # Errors
/// Returns an [`Error`] with the path if the file cannot be read.
pub fn cloud_digest() -> Result<(String, String)> {
    let (path, text) = text()?;
    let digest = eciton_kernel::cache::digest(text.as_bytes());
    Ok((path.display().to_string(), digest.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Returns the path and the text of the cloud file in use.
fn text() -> Result<(PathBuf, Cow<'static, str>)> {
    if let Some(name) = std::env::var_os("ECITON_PRICES").filter(|name| !name.is_empty()) {
        let reason = "ECITON_PRICES is no longer read: write the prices to [regions.us-east-1] in a copy of \
                      infra/cloud.toml, and set ECITON_CLOUD to the path of the copy";
        return Err(Error::Content { path: name.into(), reason: reason.to_owned() });
    }
    match std::env::var_os("ECITON_CLOUD").filter(|path| !path.is_empty()) {
        None => Ok((PathBuf::from("infra/cloud.toml"), Cow::Borrowed(OWN))),
        Some(path) => {
            let path = PathBuf::from(path);
            let text = eciton_input::file::read_text(&path, MAX_CLOUD_BYTES as u64);
            let text = text.map_err(Error::file(&path, "read"))?;
            Ok((path, Cow::Owned(text)))
        }
    }
}

/// Returns the prices of the default region in the cloud file.
///
/// # Errors
/// Returns an [`Error`] with the path if the cloud file cannot be read or is not valid.
pub fn prices() -> Result<Prices> {
    prices_in(DEFAULT_REGION)
}

/// Returns the prices of `region`, or of the default region if the cloud file lacks the region.
/// [`Prices::region`] names the region that was found.
///
/// # Errors
/// Returns an [`Error`] with the path if the cloud file cannot be read or is not valid.
pub fn prices_in(region: &str) -> Result<Prices> {
    let mut cloud = cloud()?;
    let found = cloud.regions.remove(region).or_else(|| cloud.regions.remove(DEFAULT_REGION));
    found.ok_or_else(|| {
        Error::Choice(format!(
            "the cloud file has no prices for {DEFAULT_REGION}: add a table [regions.{DEFAULT_REGION}]"
        ))
    })
}

fn parse(path: &Path, text: &str) -> Result<Cloud> {
    let wrong = |e: eciton_recipe::Error| Error::Content { path: path.to_owned(), reason: e.to_string() };
    Cloud::parse(text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::architecture::Architecture;

    #[test]
    fn the_programs_own_prices_differ_by_architecture() {
        let prices = prices().unwrap();
        let usd = prices.lambda_usd(Architecture::X86_64, 1000.0, 0);
        assert!((usd - 0.016_666_7).abs() < 1e-9, "{usd}");
        assert!(prices.lambda_usd(Architecture::Arm64, 1000.0, 0) < usd);
        assert_eq!(prices_in("nowhere-1").unwrap().region, DEFAULT_REGION);
    }

    #[test]
    fn a_text_that_is_no_cloud_file_is_refused_with_the_files_name() {
        let refused = parse(Path::new("mine.toml"), "").unwrap_err().to_string();
        assert!(refused.contains("mine.toml") && refused.contains("not a cloud file"), "{refused}");
    }
}
