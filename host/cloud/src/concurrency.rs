//! The limit on the number of functions that run at the same time.

use eciton_recipe::FunctionCount;
use serde::{Deserialize, Serialize};

/// Limit on the number of functions that run at the same time, with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    /// Maximum number of functions that run at the same time.
    pub count: u32,
    /// Origin of the limit, and how to raise it, as a text for the user.
    pub limit: String,
}

/// Record that a limit reduced the number of functions of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Number of functions that the run requested.
    pub asked: u32,
    /// Number of functions that the limit allows.
    pub given: u32,
    /// Origin of the limit, and how to raise it, as a text for the user.
    pub limit: String,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requested, {} available: {}", self.asked, self.given, self.limit)
    }
}

impl Cut {
    /// Returns the reduction if a run requests more functions than `most` allows. With
    /// [`FunctionCount::Auto`], a run requests one function per interval (a range of vertices),
    /// because more functions would have no task.
    pub fn find(count: FunctionCount, intervals: u32, most: &ConcurrencyLimit) -> Option<Self> {
        let asked = match count {
            FunctionCount::Fixed(count) => count,
            // Functions beyond the number of intervals would have no task.
            FunctionCount::Auto => intervals,
        };
        let limit = || most.limit.clone();
        (asked > most.count).then(|| Self { asked, given: most.count, limit: limit() })
    }
}

impl ConcurrencyLimit {
    /// Returns the concurrency limit of an emulated account, `emulator.account_concurrency`.
    pub fn of_emulator(emulator: &eciton_recipe::Emulator) -> Self {
        let count = emulator.account_concurrency;
        Self { count, limit: format!("emulator.account_concurrency is {count}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_hundred_functions_became_a_hundred_without_a_word() {
        let most = ConcurrencyLimit { count: 100, limit: "stack `eciton` reserves 100".to_owned() };
        let cut = Cut::find(FunctionCount::Fixed(500), 32, &most);
        let said = cut.map(|cut| cut.to_string());
        assert_eq!(said.as_deref(), Some("500 requested, 100 available: stack `eciton` reserves 100"));
        assert_eq!(Cut::find(FunctionCount::Fixed(100), 500, &most), None);
        // An autotuner requests one function per interval.
        assert_eq!(Cut::find(FunctionCount::Auto, 32, &most), None);
        assert_eq!(Cut::find(FunctionCount::Auto, 101, &most).map(|cut| cut.asked), Some(101));
    }
}
