//! Model files: the keys of `[model]` in a file of their own.

use super::ModelSettings;
use crate::document;
use crate::error::Result;
use crate::keys;

impl ModelSettings {
    /// Reads a model file. `origin` is its name, for messages.
    ///
    /// # Errors
    /// The errors of [`crate::Config::parse`].
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let mut settings = Self::default();
        let fields = document::parse(text, origin)?;
        keys::write_model_file(&mut settings, &fields)?;
        Ok(settings)
    }
}
