//! Index types. Each kind of index has its own type, so that two of them cannot be swapped. All
//! print as plain numbers.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($integer:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $integer);

        impl $name {
            /// Returns the number as an index of a slice.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// Number of an optimiser step, from 1. Round 0 is the state before training. An epoch has one
    /// round per batch, or one if it has no batches.
    Round(u32)
}
id! {
    /// Index of a layer in the user's model, from 0. The loss head has the index after the last
    /// layer.
    Layer(u16)
}
id! {
    /// Index of a stage in its program, from 0.
    StageId(u16)
}
id! {
    /// Index of an interval of rows, from 0.
    IntervalId(u32)
}
id! {
    /// Number of updates that the weights have had. Version 0 has the initial values. In
    /// synchronous mode round r publishes version r.
    Version(u64)
}
id! {
    /// Number of an attempt at a step, from 0.
    Attempt(u32)
}
id! {
    /// Index of a row buffer in its program: a matrix with one row for each row of its domain.
    SlotId(u16)
}
id! {
    /// Index of a relation in its program: for each row, the list of rows that a gather reads.
    RelationId(u16)
}
id! {
    /// Index of a domain in its program: a kind of rows, such as vertices or graphs.
    DomainId(u16)
}
id! {
    /// Index of a memory region that several slots use, one after another (`eciton_program::Buffers`).
    BufferId(u16)
}
id! {
    /// Index of a parameter in its program.
    ParameterId(u16)
}
id! {
    /// Index of an operation in its program: a kernel or a host operator, with its attributes.
    OperationId(u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_and_order_as_numbers() {
        assert_eq!(format!("{:>3}", Round(7)), "  7");
        assert!(Version(2) < Version(10));
        assert_eq!(StageId(3).index(), 3);
    }
}
