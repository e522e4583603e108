//! Notes about an input that was read: what a reader decided where the input left a doubt.
//!
//! Readers add notes; the program takes them after reading and tells the user.

use std::cell::RefCell;

/// The most notes that are kept.
const MAX_NOTES: usize = 20;

thread_local! {
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Adds a note of this thread's reading; the same note once.
pub fn add(note: String) {
    NOTES.with_borrow_mut(|notes| {
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    });
}

/// The notes of this thread since the last call.
pub fn take() -> Vec<String> {
    NOTES.with_borrow_mut(std::mem::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_once() {
        add("a".to_owned());
        add("a".to_owned());
        assert_eq!(take(), ["a"]);
        assert!(take().is_empty());
        (0..100).for_each(|n| add(n.to_string()));
        assert_eq!(take().len(), MAX_NOTES);
    }
}
