//! Rules that decide whether gathers omit unused edges, and how often the first layer gathers
//! features.

/// Rule that decides whether the gathers next to the loss omit the edges of vertices that the loss
/// does not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelledGathers {
    /// Edges are omitted if this saves enough work ([`LabelledGathers::choose`]) and memory
    /// suffices.
    #[default]
    Auto,
    /// Edges are always omitted.
    Always,
    /// No edges are omitted.
    Never,
}

/// Reciprocal of the minimum share of edges that must be unused for [`LabelledGathers::Auto`] to
/// omit them. At this share, both gathers omit a fifth of their edges. The additional edge lists
/// take 4 bytes per remaining edge.
const LEFT_OUT: u64 = 5;

impl LabelledGathers {
    /// All rules for omitting edges in gathers, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];

    /// Returns true if the gathers omit edges, for a graph of `edges` edges. `labelled` is the
    /// number of edges that lead to vertices that the loss reads.
    #[must_use]
    pub const fn choose(self, labelled: u64, edges: u64) -> bool {
        match self {
            Self::Auto => labelled <= edges - edges.div_ceil(LEFT_OUT),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Rule that decides whether the gather of the first layer runs once or in every epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatherFeatures {
    /// The sizes of the data set decide (`Rewrites::choose` in `eciton-program`).
    #[default]
    Auto,
    /// The features are gathered once, before the first epoch.
    Once,
    /// The gather runs in every epoch, after the first matrix product.
    EachEpoch,
}

impl GatherFeatures {
    /// All rules for gathering the input features, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("once", Self::Once), ("each-epoch", Self::EachEpoch)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_leave_rows_out_if_a_fifth_of_the_edges_is_unlabelled() {
        let pays = |labelled| LabelledGathers::Auto.choose(labelled, 100);
        assert!(pays(0) && pays(80) && !pays(81));
        assert!(LabelledGathers::Always.choose(100, 100) && !LabelledGathers::Never.choose(0, 100));
    }
}
