//! Integers that could be swapped, each a type of its own. All print as plain numbers.

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
            /// The number as an index.
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
    /// One update of the weights. Rounds count from 1; 0 is the state before training. An epoch of the
    /// user's is one round, or as many as it has batches.
    Round(u32)
}
id! {
    /// A layer of the user's model, from 0. The loss head has the number after the last.
    Layer(u16)
}
id! {
    /// A stage's place in its program, from 0.
    StageId(u16)
}
id! {
    /// A vertex interval's place in the order of rows, from 0.
    IntervalId(u32)
}
id! {
    /// How often the weights were updated: 0 are the initial ones, round r publishes version r
    /// in synchronous mode.
    Version(u64)
}
id! {
    /// Which try of a task, from 0.
    Attempt(u32)
}
id! {
    /// A row buffer of a program: one matrix with a row for every row of the graph.
    SlotId(u16)
}
id! {
    /// Lists of rows that stages follow: their place in the program's list.
    RelationId(u16)
}
id! {
    /// Rows of one kind: their place in the program's list.
    DomainId(u16)
}
id! {
    /// Memory that holds one slot after the other (see `Buffers`).
    BufferId(u16)
}
id! {
    /// A parameter's place in its program's list.
    ParameterId(u16)
}
id! {
    /// A kernel, or an operator of the host, with attributes: its place in the program's list.
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
