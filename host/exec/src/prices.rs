//! The price list that holds here: read, once, from the program or from the user's file.
//!
//! The list is `infra/prices.toml`, part of the program; `ECITON_PRICES` names another file.

use std::ops::Deref;
use std::path::Path;

use eciton_plan::prices::MAX_PRICES_BYTES;

use crate::functions::{Error, Result};

/// The program's own list.
const OWN: &str = include_str!("../../../infra/prices.toml");

/// A price list, as read. What it says is [`eciton_plan::Prices`].
#[derive(Debug, Clone, PartialEq)]
pub struct Prices(eciton_plan::Prices);

impl Deref for Prices {
    type Target = eciton_plan::Prices;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Prices {
    /// The user's list if `ECITON_PRICES` names one, else the program's own.
    ///
    /// # Errors
    /// A file that cannot be read, or is no price list.
    pub fn read() -> Result<Self> {
        match std::env::var_os("ECITON_PRICES").filter(|path| !path.is_empty()) {
            None => Self::parse(Path::new("infra/prices.toml"), OWN),
            Some(path) => {
                let path = Path::new(&path);
                let len = std::fs::metadata(path).map_err(Error::file(path, "read"))?.len();
                if len > MAX_PRICES_BYTES as u64 {
                    let reason = format!("{len} bytes; a price list has at most {MAX_PRICES_BYTES}");
                    return Err(Error::Content { path: path.to_owned(), reason });
                }
                Self::parse(
                    path,
                    &eciton_input::file::read_text(path, MAX_PRICES_BYTES as u64)
                        .map_err(Error::file(path, "read"))?,
                )
            }
        }
    }

    /// The program's own.
    #[cfg(test)]
    pub(crate) fn own() -> Result<Self> {
        Self::parse(Path::new("infra/prices.toml"), OWN)
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let wrong = |e: eciton_plan::Error| Error::Content { path: path.to_owned(), reason: e.to_string() };
        eciton_plan::Prices::parse(text).map(Self).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Architecture;

    #[test]
    fn the_programs_own_list_charges_by_architecture() {
        let prices = Prices::parse(Path::new("p"), OWN).unwrap();
        let usd = prices.lambda_usd(Architecture::X86_64, 1000.0, 0);
        assert!((usd - 0.016_666_7).abs() < 1e-9, "{usd}");
        assert!(prices.lambda_usd(Architecture::Arm64, 1000.0, 0) < usd);
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_files_name() {
        let refused = Prices::parse(Path::new("mine.toml"), "").unwrap_err().to_string();
        assert!(refused.contains("mine.toml") && refused.contains("not a price list"), "{refused}");
    }
}
