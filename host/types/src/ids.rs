//! Index types. Each kind of index has its own type, so that two kinds cannot be mixed up. All ids
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
    /// round per mini-batch, or a single round if training is full-batch.
    Round(u32)
}
id! {
    /// Index of a layer in the user's model, from 0. One past the last layer stands for the loss.
    Layer(u16)
}
id! {
    /// Index of a stage in its program, from 0. A stage is one forward or backward operation.
    StageId(u16)
}
id! {
    /// Index of an interval, from 0. An interval is a range of consecutive rows (vertices) that is
    /// scheduled as one unit.
    IntervalId(u32)
}
id! {
    /// Version of the weights, which is the number of updates so far. Version 0 has the initial
    /// values. In synchronous mode, round (optimiser step) `r` writes version `r`.
    Version(u64)
}
id! {
    /// Number of an attempt at a step, from 0. A step is attempted again if its task fails, or is
    /// relaunched because it is overdue.
    Attempt(u32)
}
id! {
    /// Index of a slot in its program. A slot is a row buffer, which is a matrix with one row for
    /// each row of its domain.
    SlotId(u16)
}
id! {
    /// Index of a relation in its program. A relation is an adjacency: for each row, it lists the
    /// source rows that a gather reads.
    RelationId(u16)
}
id! {
    /// Index of a domain in its program. A domain is a set of rows of one kind, for instance the
    /// vertices or the graphs.
    DomainId(u16)
}
id! {
    /// Index of a memory region that several slots (row buffers) occupy one after another. See
    /// `eciton_program::Buffers`.
    BufferId(u16)
}
id! {
    /// Index of a trained parameter in its program.
    ParameterId(u16)
}
id! {
    /// Index of an operation in its program. An operation is a kernel or a host operator together
    /// with its attributes.
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
