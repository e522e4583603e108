//! Model files: the keys of `[model]` in a file of their own.

use super::ModelSettings;
use crate::document;
use crate::error::Result;
use crate::keys;

impl ModelSettings {
    /// Parses a model file. `origin` is the file's name, for messages.
    ///
    /// # Errors
    /// Returns the errors of [`crate::Config::parse`].
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let mut settings = Self::default();
        let fields = document::parse(text, origin)?;
        keys::write_model_file(&mut settings, &fields)?;
        Ok(settings)
    }
}
