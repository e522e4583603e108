//! Object keys that attempts use, and when their objects may be deleted.

use std::collections::BTreeMap;

use eciton_transport::Key;

/// A pass number and a round number within the pass.
pub(super) type Time = (u32, u32);

/// Keys of the objects that attempts use, by round. The objects of a round stay until no attempt of
/// the round is in flight. Rounds may overlap, and an evaluation may run during a round.
#[derive(Debug, Default)]
pub(super) struct Spent {
    newest: Option<Time>,
    times: BTreeMap<Time, Keys>,
}

/// Object keys of one round, and the number of its attempts in flight.
#[derive(Debug, Default)]
struct Keys {
    under_way: u32,
    keys: Vec<Key>,
}

impl Spent {
    /// Records that an attempt begins, which uses the objects `keys`. If `time` is a new round,
    /// returns the keys of ended rounds, whose objects may be deleted.
    pub(super) fn begin(&mut self, time: Time, keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
        let mut gone = Vec::new();
        if self.newest.replace(time) != Some(time) {
            let over = self.times.extract_if(.., |of, keys| keys.under_way == 0 && *of != time);
            gone.extend(over.flat_map(|(_, keys)| keys.keys));
        }
        let of = self.times.entry(time).or_default();
        of.under_way += 1;
        of.keys.extend(keys);
        gone
    }

    /// Records that an attempt of the round `time` has ended.
    pub(super) fn end(&mut self, time: Time) {
        if let Some(keys) = self.times.get_mut(&time) {
            keys.under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_go_once_nothing_of_their_round_is_under_way() {
        let key = |n: u32| Key::new(format!("runs/r/{n}")).unwrap();
        let mut spent = Spent::default();
        assert_eq!(spent.begin((1, 1), [key(1)]), []);
        assert_eq!(spent.begin((1, 1), [key(2)]), []);
        spent.end((1, 1));
        // Round 2 begins while an attempt of round 1 is in flight for another interval.
        assert_eq!(spent.begin((1, 2), [key(3)]), []);
        assert_eq!(spent.begin((1, 1), [key(4)]), []);
        spent.end((1, 1));
        spent.end((1, 1));
        assert_eq!(spent.begin((1, 2), []), [key(1), key(2), key(4)]);
        assert_eq!(spent.begin((2, 2), []), [], "an evaluation of the same round");
    }
}
