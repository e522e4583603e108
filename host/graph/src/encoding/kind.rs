//! Kinds of columns.

/// Meaning of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Finite numbers.
    Number,
    /// True and false.
    Boolean,
    /// Days, perhaps with a time.
    Date,
    /// Few distinct values, each with a feature column of its own.
    Category,
    /// Many distinct values, which share feature columns by their hash.
    Hashed,
    /// Values that are not features.
    Ignored,
}

impl Kind {
    /// All kinds, with the names that `data.toml` and the schema of a model use.
    pub const ALL: [(&'static str, Self); 6] = [
        ("number", Self::Number),
        ("boolean", Self::Boolean),
        ("date", Self::Date),
        ("category", Self::Category),
        ("hashed", Self::Hashed),
        ("ignore", Self::Ignored),
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|&(_, kind)| kind)
    }

    /// Returns whether the cells of such a column are numbers.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Boolean | Self::Date)
    }
}
