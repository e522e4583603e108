//! Series-parallel decomposition of a graph.
//!
//! Operators of different *series* parts are always ordered by the graph, and operators of
//! different *parallel* parts never are. Parallel parts are the connected components of the graph
//! of ordered pairs. Series parts are the connected components of the graph of unordered pairs. A
//! part that is neither is not series-parallel, and is treated as a chain in topological order.
//! Edges that skip operators change no order, so residual networks are chains. Source: Jeon et al.
//! 2025 (GraphPipe); Valdes, Tarjan, Lawler 1982.

use super::graph::Graph;

/// Part of a graph in its series-parallel decomposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Operators that stay together in one stage, in ascending order.
    Whole(Vec<usize>),
    /// Parts that run one after the other.
    Series(Vec<Part>),
    /// Parts that may run at the same time.
    Parallel(Vec<Part>),
}

impl Part {
    /// Decomposes a graph into its parts, down to single operators.
    pub(super) fn from_graph(graph: &Graph) -> Self {
        // For each operator, the operators that precede it.
        let mut before = vec![vec![false; graph.len()]; graph.len()];
        for at in 0..graph.len() {
            for &read in graph.reads(at) {
                let (earlier, later) = before.split_at_mut(at);
                if let (Some(of), Some(own)) = (earlier.get(read), later.first_mut()) {
                    own.iter_mut().zip(of).for_each(|(own, of)| *own |= *of);
                    own[read] = true;
                }
            }
        }
        let ordered = |one: usize, other: usize| before[one.max(other)][one.min(other)];
        decompose((0..graph.len()).collect(), &ordered)
    }

    /// Returns true if the part is a single chain.
    pub(super) fn is_chain(&self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Series(parts) => parts.iter().all(|part| matches!(part, Self::Whole(_))),
            Self::Parallel(_) => false,
        }
    }

    /// Returns the indices of all operators of the part, in ascending order.
    pub(super) fn operators(&self) -> Vec<usize> {
        let mut all = match self {
            Self::Whole(operators) => operators.clone(),
            Self::Series(parts) | Self::Parallel(parts) => parts.iter().flat_map(Self::operators).collect(),
        };
        all.sort_unstable();
        all
    }

    /// Returns the same part with adjacent operators merged, as long as their `weight` is at most
    /// `limit`.
    pub(super) fn coarse(&self, limit: f64, weight: &dyn Fn(&[usize]) -> f64) -> Self {
        let all = self.operators();
        let (parts, series) = match self {
            Self::Whole(_) => return self.clone(),
            _ if weight(&all) <= limit => return Self::Whole(all),
            Self::Series(parts) => (parts, true),
            Self::Parallel(parts) => (parts, false),
        };
        let mut joined: Vec<Self> = Vec::with_capacity(parts.len());
        for part in parts.iter().map(|part| part.coarse(limit, weight)) {
            if let (Some(Self::Whole(last)), Self::Whole(next)) = (joined.last_mut(), &part) {
                let mut both: Vec<usize> = last.iter().chain(next).copied().collect();
                both.sort_unstable();
                if weight(&both) <= limit {
                    *last = both;
                    continue;
                }
            }
            joined.push(part);
        }
        match (joined.len(), series) {
            (1, _) => joined.pop().unwrap_or(Self::Whole(all)),
            (_, true) => Self::Series(joined),
            (_, false) => Self::Parallel(joined),
        }
    }
}

fn decompose(operators: Vec<usize>, ordered: &dyn Fn(usize, usize) -> bool) -> Part {
    if operators.len() == 1 {
        return Part::Whole(operators);
    }
    let parallel = components(&operators, ordered);
    if parallel.len() > 1 {
        return Part::Parallel(parallel.into_iter().map(|part| decompose(part, ordered)).collect());
    }
    let series = components(&operators, &|one, other| !ordered(one, other));
    if series.len() > 1 {
        return Part::Series(series.into_iter().map(|part| decompose(part, ordered)).collect());
    }
    Part::Series(operators.into_iter().map(|at| Part::Whole(vec![at])).collect())
}

/// Returns the connected components of a graph. Each component is in ascending order, and
/// components are in the order of their first operators.
fn components(operators: &[usize], linked: &dyn Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut left = operators.to_vec();
    let mut found = Vec::new();
    while !left.is_empty() {
        let mut component = vec![left.remove(0)];
        let mut at = 0;
        while let Some(&of) = component.get(at) {
            let (near, far) = left.iter().partition::<Vec<usize>, _>(|&&other| linked(of, other));
            component.extend(near);
            left = far;
            at += 1;
        }
        component.sort_unstable();
        found.push(component);
    }
    found
}
