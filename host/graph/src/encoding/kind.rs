//! Kinds of table columns, which determine how values are encoded as features.

/// Kind of a table column, which determines how its values are encoded as features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Finite numbers, which become one feature column.
    Number,
    /// True and false, which become 1 and 0.
    Boolean,
    /// Dates with an optional time, which become days since 1970-01-01.
    Date,
    /// Words with few distinct values, each of which becomes a feature column (one-hot encoding).
    Category,
    /// Words with many distinct values, which share feature columns by their hash.
    Hashed,
    /// Values that are not used as a feature.
    Ignored,
}

impl Kind {
    /// All kinds, with their names in `data.toml` and in the schema of a model.
    pub const ALL: [(&'static str, Self); 6] = [
        ("number", Self::Number),
        ("boolean", Self::Boolean),
        ("date", Self::Date),
        ("category", Self::Category),
        ("hashed", Self::Hashed),
        ("ignore", Self::Ignored),
    ];

    /// Returns the name of the kind, for instance `number`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns the kind with the name `name`, or `None` if there is no such kind.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|&(_, kind)| kind)
    }

    /// Returns true if columns of this kind store their values as numbers.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Boolean | Self::Date)
    }
}
