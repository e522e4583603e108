//! Model files, which contain the keys of `[model]`.

use super::ModelSettings;
use crate::document;
use crate::error::Result;
use crate::keys;

impl ModelSettings {
    /// Parses the text of a model file. `origin` is the name of the file for error messages.
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
