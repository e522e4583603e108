//! Reading report, which lists facts about an input and the readers' decisions about ambiguities.
//!
//! Readers add notes to a list of their thread, and the program takes the list after reading.
//! `eciton data stat` prints all notes. Other commands print only those above [`Level::Fact`].

use std::cell::RefCell;
use std::fmt;

/// Maximum number of notes per level that a thread holds. Further notes are dropped.
const MAX_NOTES: usize = 100;

/// Importance of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A plain fact, for instance a count. Only `eciton data stat` prints facts.
    Fact,
    /// A decision that the user should see, for instance a first line that was read as a header.
    Note,
    /// A likely mistake in the input, which the user should check.
    Warning,
}

/// One entry of the reading report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Importance of the note.
    pub level: Level,
    /// One sentence that names the file, the finding, and possibly the remedy.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match self.level {
            Level::Fact => "",
            Level::Note => "note: ",
            Level::Warning => "warning: ",
        };
        write!(f, "{label}{}", self.text)
    }
}

thread_local! {
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

fn push(level: Level, text: String) {
    NOTES.with_borrow_mut(|notes| {
        let (mut same, mut count) = (false, 0);
        for note in notes.iter().filter(|note| note.level == level) {
            same |= note.text == text;
            count += 1;
        }
        if !same && count < MAX_NOTES {
            notes.push(Note { level, text });
        }
    });
}

/// Adds a [`Level::Note`] to this thread's report, unless the report already contains the same
/// text.
pub fn add(text: impl Into<String>) {
    push(Level::Note, text.into());
}

/// Adds a [`Level::Fact`] to this thread's report, unless the report already contains the same
/// text.
pub fn fact(text: impl Into<String>) {
    push(Level::Fact, text.into());
}

/// Adds a [`Level::Warning`] to this thread's report, unless the report already contains the same
/// text.
pub fn warn(text: impl Into<String>) {
    push(Level::Warning, text.into());
}

/// Removes all notes from this thread's report and returns them in the order in which they were
/// added.
pub fn take() -> Vec<Note> {
    NOTES.with_borrow_mut(std::mem::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_once_and_limited_per_level() {
        add("a");
        add("a");
        warn("a");
        assert_eq!(take().iter().map(Note::to_string).collect::<Vec<_>>(), ["note: a", "warning: a"]);
        assert!(take().is_empty());
        (0..200).for_each(|n| fact(n.to_string()));
        add("b");
        assert_eq!(take().len(), MAX_NOTES + 1);
    }
}
