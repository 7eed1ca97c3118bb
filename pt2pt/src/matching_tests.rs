//! The two stores against plain lists that are searched from the front.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// A receive with this pattern (source, tag; `None` is the wildcard).
    Receive(u64, Option<u32>, Option<i32>),
    /// A message.
    Arrive(u64, u32, i32),
    /// Take back the n-th posted receive.
    Withdraw(usize),
    /// Set the first match aside, and reclaim it at the end.
    SetAside(u64, Option<u32>, Option<i32>),
}

fn key(context: u64, source: Option<u32>, tag: Option<i32>) -> Key {
    Key { context, source: source.unwrap_or(Key::ANY_SOURCE), tag: tag.unwrap_or(Key::ANY_TAG) }
}

fn step() -> impl Strategy<Value = Step> {
    let source = || prop_oneof![3 => (0..3u32).prop_map(Some), 1 => Just(None)];
    let tag = || prop_oneof![3 => (0..3i32).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        6 => (0..2u64, source(), tag()).prop_map(|(c, s, t)| Step::Receive(c, s, t)),
        6 => (0..2u64, 0..3u32, 0..3i32).prop_map(|(c, s, t)| Step::Arrive(c, s, t)),
        1 => (0..40usize).prop_map(Step::Withdraw),
        1 => (0..2u64, source(), tag()).prop_map(|(c, s, t)| Step::SetAside(c, s, t)),
    ]
}

/// The store under test and the naive lists, driven alike.
struct Both {
    posted: Posted,
    unexpected: Unexpected<usize>,
    naive_posted: Vec<(Key, u32)>,
    naive_unexpected: Vec<(Key, usize)>,
}

impl Both {
    fn find(&mut self, pattern: &Key) -> Option<(u32, usize)> {
        let place = self.naive_unexpected.iter().position(|(key, _)| pattern.accepts(key));
        let found = self.unexpected.find(pattern);
        assert_eq!(found.is_some(), place.is_some());
        let (found, place) = (found?, place?);
        assert_eq!(
            self.unexpected.get(found),
            Some((&self.naive_unexpected[place].0, &self.naive_unexpected[place].1))
        );
        Some((found, place))
    }

    fn receive(&mut self, pattern: Key, id: usize) {
        match self.find(&pattern) {
            Some((found, place)) => {
                assert_eq!(
                    self.unexpected.remove(found),
                    Some(self.naive_unexpected.remove(place))
                );
            }
            None => {
                self.posted.post(pattern, id as u32);
                self.naive_posted.push((pattern, id as u32));
            }
        }
    }

    fn arrive(&mut self, message: Key, id: usize) {
        let place = self.naive_posted.iter().position(|(pattern, ..)| pattern.accepts(&message));
        let expected = place.map(|place| self.naive_posted.remove(place).1);
        let matched = self.posted.take(&message);
        assert_eq!(matched, expected);
        if matched.is_none() {
            self.unexpected.push(message, id);
            self.naive_unexpected.push((message, id));
        }
    }
}

fn drive(steps: &[Step]) {
    let mut both = Both {
        posted: Posted::new(),
        unexpected: Unexpected::new(),
        naive_posted: Vec::new(),
        naive_unexpected: Vec::new(),
    };
    let mut aside = Vec::new();
    for (id, step) in steps.iter().enumerate() {
        match *step {
            Step::Receive(context, source, tag) => both.receive(key(context, source, tag), id),
            Step::Arrive(context, source, tag) => both.arrive(Key { context, source, tag }, id),
            Step::Withdraw(nth) if nth < both.naive_posted.len() => {
                let (_, slot) = both.naive_posted.remove(nth);
                both.posted.remove(slot);
            }
            Step::Withdraw(_) => {}
            Step::SetAside(context, source, tag) => {
                if let Some((found, place)) = both.find(&key(context, source, tag)) {
                    both.unexpected.set_aside(found);
                    aside.push((found, both.naive_unexpected.remove(place)));
                }
            }
        }
    }
    for (found, message) in aside {
        assert_eq!(both.unexpected.reclaim(found), Some(message));
    }
    let mut left = Vec::new();
    both.posted.for_each(|key, id| left.push((*key, id)));
    assert_eq!(left, both.naive_posted);
    assert_eq!(both.unexpected.len(), both.naive_unexpected.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn matches_as_two_lists_would(steps in prop::collection::vec(step(), 0..300)) {
        drive(&steps);
    }

    #[test]
    fn matches_as_two_lists_would_when_messages_prevail(
        arrivals in prop::collection::vec((0..2u64, 0..3u32, 0..3i32), 0..100),
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let arrivals = arrivals.into_iter().map(|(c, s, t)| Step::Arrive(c, s, t));
        drive(&arrivals.chain(steps).collect::<Vec<_>>());
    }
}

/// Work for each message must not grow with the number of messages. Counted in
/// time with a wide margin: a search of the list would be 100 times slower.
#[test]
fn a_hundred_thousand_cost_as_little_as_a_thousand() {
    let time = |count: i32| {
        let start = std::time::Instant::now();
        for _ in 0..100_000 / count {
            let mut unexpected = Unexpected::new();
            let mut posted = Posted::new();
            for tag in 0..count {
                unexpected.push(Key { context: 0, source: 0, tag }, tag);
                posted.post(Key { context: 0, source: 0, tag }, tag as u32);
            }
            for tag in (0..count).rev() {
                let key = Key { context: 0, source: 0, tag };
                let found = unexpected.find(&key).map(|entry| unexpected.remove(entry));
                assert_eq!(found, Some(Some((key, tag))));
                assert_eq!(posted.take(&key), Some(tag as u32));
            }
        }
        start.elapsed()
    };
    time(1000);
    let (small, large) = (time(1000), time(100_000));
    assert!(large < small * 20, "1,000 at a time: {small:?}, 100,000 at once: {large:?}");
}

#[test]
fn a_stream_passes_others_receives_without_an_index() {
    let mut posted = Posted::new();
    let key = |tag: i32| Key { context: 0, source: 0, tag };
    (0..40).for_each(|slot| posted.post(key(2), slot));
    for window in 0..100 {
        let slots = 40..60;
        slots.clone().for_each(|slot| posted.post(key(1), slot));
        for slot in slots {
            assert_eq!(posted.take(&key(1)), Some(slot));
        }
        assert!(!posted.indexed, "window {window}");
        assert_eq!((posted.cursor.at, posted.all.head), (NONE, 0));
    }
}

#[test]
fn many_messages_of_one_kind_give_the_index_up_and_still_find_the_oldest() {
    let mut posted = Posted::new();
    let key = |tag: i32| Key { context: 0, source: 0, tag };
    (0..200).for_each(|slot| posted.post(key(2 + slot as i32 % 2), slot));
    // Now these, now those: each search starts anew.
    for round in 0..20 {
        posted.post(key(4 + round % 2), 200);
        assert_eq!(posted.take(&key(4 + round % 2)), Some(200));
    }
    assert!(posted.indexed);
    for _ in 0..2 * MAX_BUDGET {
        posted.post(key(1), 200);
        assert_eq!(posted.take(&key(1)), Some(200));
    }
    assert!(!posted.indexed && posted.index.is_empty());
    assert_eq!(
        (0..4).map(|at| posted.take(&key(2 + at % 2))).collect::<Vec<_>>(),
        [0, 1, 2, 3].map(Some)
    );
}
