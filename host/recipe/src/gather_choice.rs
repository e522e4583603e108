//! Rules by which a run leaves out gathers, or runs them once.

/// Rule that decides whether the gathers before and after the loss leave out rows that the loss
/// does not reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelledGathers {
    /// They do if it pays (see [`LabelledGathers::choose`]) and memory allows it.
    #[default]
    Auto,
    /// They always do.
    Always,
    /// They never do.
    Never,
}

/// Minimum share of edges that lead to unlabelled vertices, as 1 / `LEFT_OUT`. A fifth of both
/// gathers is then left out. The lists for this take 4 bytes for each of the other edges.
const LEFT_OUT: u64 = 5;

impl LabelledGathers {
    /// All rules, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];

    /// Returns true if the gathers leave rows out, for a graph of `edges` edges, `labelled` of
    /// which lead to vertices that the loss counts.
    #[must_use]
    pub const fn choose(self, labelled: u64, edges: u64) -> bool {
        match self {
            Self::Auto => labelled <= edges - edges.div_ceil(LEFT_OUT),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Rule that decides when the first layer's gather runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatherFeatures {
    /// Counts of the data set decide (`Rewrites::choose` in `eciton-program`).
    #[default]
    Auto,
    /// The gather runs once, before the first epoch.
    Once,
    /// The gather runs in every epoch, after the first product.
    EachEpoch,
}

impl GatherFeatures {
    /// All rules, with their names.
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
