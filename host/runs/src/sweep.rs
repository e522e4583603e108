//! Outcomes of the trials of a sweep, shown as a table and as a picture.

mod outcome;
mod picture;
mod table;

pub use outcome::Outcome;
pub use picture::picture;
pub(crate) use picture::{panel_size, panels};
pub use table::{Group, Row, csv, groups, unranked};
