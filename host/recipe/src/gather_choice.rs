//! Rules that decide whether gathers omit edges, and whether the first layer's gather runs once.

/// Rule that decides whether the gathers next to the loss omit edges of vertices that the loss does
/// not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelledGathers {
    /// The gathers omit edges if it saves enough work (see [`LabelledGathers::choose`]) and memory
    /// suffices.
    #[default]
    Auto,
    /// The gathers always omit edges.
    Always,
    /// The gathers never omit edges.
    Never,
}

/// Minimum share of edges that lead to unlabelled vertices, as 1 / `LEFT_OUT`. With this share,
/// both gathers omit a fifth of their edges. The additional lists take 4 bytes for each remaining
/// edge.
const LEFT_OUT: u64 = 5;

impl LabelledGathers {
    /// All rules, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];

    /// Returns true if the gathers omit edges, for a graph of `edges` edges. `labelled` of these
    /// lead to vertices that the loss reads.
    #[must_use]
    pub const fn choose(self, labelled: u64, edges: u64) -> bool {
        match self {
            Self::Auto => labelled <= edges - edges.div_ceil(LEFT_OUT),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Rule that decides whether the first layer's gather runs once or in every epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatherFeatures {
    /// Sizes of the data set decide (`Rewrites::choose` in `eciton-program`).
    #[default]
    Auto,
    /// The gather runs once, before the first epoch.
    Once,
    /// The gather runs in every epoch, after the first product.
    EachEpoch,
}

impl GatherFeatures {
    /// All rules, with their names in recipes.
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
