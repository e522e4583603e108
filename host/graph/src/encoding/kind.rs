//! Kinds of table columns, which decide how values are encoded as features.

/// Kind of a table column, from which the encoding of its values follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Finite numbers, used as one feature column.
    Number,
    /// True and false, used as 1 and 0.
    Boolean,
    /// Dates, perhaps with a time, used as days since 1970-01-01.
    Date,
    /// Categories: few distinct values, each with its own feature column (one-hot).
    Category,
    /// Words with many distinct values, which share feature columns by their hash.
    Hashed,
    /// Column that is not used as a feature.
    Ignored,
}

impl Kind {
    /// All kinds with their names in `data.toml` and in the schema of a model.
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

    /// Returns the kind with this name, or `None`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|&(_, kind)| kind)
    }

    /// Returns whether columns of this kind store numbers.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Boolean | Self::Date)
    }
}
