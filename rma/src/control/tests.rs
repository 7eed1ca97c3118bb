//! The queue lock, and readers that are only announced.

use super::*;

const RANKS: usize = 3;

static LIVES: AtomicU32 = AtomicU32::new(0);

fn with_records(test: impl FnOnce([Control; RANKS])) {
    let mut memory = [0_u64; RANKS * Control::BYTES / 8];
    // SAFETY: the array outlives the records, which the test does not keep.
    let all = unsafe { UserBuf::new(memory.as_mut_ptr().cast(), RANKS * Control::BYTES) };
    let record = |rank| all.slice(rank * Control::BYTES, Control::BYTES);
    test(std::array::from_fn(|rank| Control::new(record(rank), rank as u32, &LIVES)));
}

fn end(control: &Control, exclusive: bool) -> bool {
    control.end(exclusive, Fences::Equal)
}

#[test]
fn tickets_are_served_in_order_and_readers_together() {
    with_records(|[control, ..]| {
        let [first, second] = [(); 2].map(|()| control.draw(false));
        let (writer, last) = (control.draw(true), control.draw(false));
        assert!(control.is_turn(first) && control.is_turn(second));
        control.begin(3);
        control.begin(4);
        assert_eq!(control.holder(), Some(4));
        assert!(!control.is_turn(last), "a reader does not overtake a writer");
        assert!(end(&control, false) && !control.is_turn(writer));
        assert!(end(&control, false), "the writer waits");
        assert!(control.is_turn(writer) && !control.is_turn(last));
        control.begin(1);
        assert!(end(&control, true), "a reader waits");
        assert!(control.is_turn(last));
        control.begin(0);
        assert!(!end(&control, false));
    });
}

#[test]
fn a_free_lock_is_taken_at_once_and_no_ticket_is_overtaken() {
    with_records(|[control, ..]| {
        assert!(control.begin_free(false, 1) && control.begin_free(false, 2));
        assert!(!control.begin_free(true, 3), "readers hold it");
        let ticket = control.draw(true);
        assert!(!control.begin_free(false, 3), "a writer waits");
        assert!(end(&control, false) && !control.is_turn(ticket) && end(&control, false));
        assert!(control.is_turn(ticket) && !control.begin_free(true, 3));
        control.begin(4);
        assert!(!end(&control, true) && control.begin_free(true, 5) && !end(&control, true));
    });
}

#[test]
fn tickets_wrap_around() {
    with_records(|[control, ..]| {
        let start = |number: u32| {
            control
                .drawn()
                .store(Drawn { next: number, readers_after: number }.word(), Ordering::Relaxed);
            control.word(ENDED).store(number, Ordering::Relaxed);
        };
        for number in [i32::MAX as u32, u32::MAX] {
            start(number);
            assert!(control.begin_free(true, 0) && !control.begin_free(false, 1));
            let reader = control.draw(false);
            assert!(!control.is_turn(reader) && end(&control, true) && control.is_turn(reader));
            assert!(control.begin_free(false, 1) && !control.begin_free(true, 1));
            assert!(!end(&control, false) && !end(&control, false));
            assert!(control.begin_free(true, 1) && !end(&control, true));
        }
        // The last writer is long ago: more readers have come since than numbers tell apart.
        start(7);
        assert!(control.begin_free(false, 0) && !end(&control, false));
        for number in [7_u32, 1 << 30, 2 << 30, 3 << 30] {
            let old = Drawn::of(control.drawn().load(Ordering::Relaxed)).readers_after;
            let word = Drawn { next: number, readers_after: old }.word();
            control.drawn().store(word, Ordering::Relaxed);
            control.word(ENDED).store(number, Ordering::Relaxed);
            assert!(control.begin_free(false, 0) && !end(&control, false), "{number}");
        }
    });
}

#[test]
fn holders_exclude_each_other() {
    with_records(|[control, ..]| {
        let mut counter = 0_u64;
        let address = &raw mut counter as usize;
        std::thread::scope(|scope| {
            for rank in 0..4 {
                scope.spawn(move || {
                    for _ in 0..500 {
                        if !control.begin_free(true, rank) {
                            let ticket = control.draw(true);
                            while !control.is_turn(ticket) {
                                std::thread::yield_now();
                            }
                            control.begin(rank);
                        }
                        let counter = address as *mut u64;
                        // SAFETY: one thread at a time, by the lock that is tested.
                        unsafe { counter.write_volatile(counter.read_volatile() + 1) };
                        end(&control, true);
                    }
                });
            }
        });
        assert_eq!(counter, 2000);
    });
}

#[test]
fn readers_are_announced_until_there_are_writers() {
    let fences = Fences::Equal;
    with_records(|all| {
        let [first, one, other] = all;
        assert!(
            one.announce_reader(2, &first, fences) && other.announce_reader(ALL, &first, fences)
        );
        assert!(one.reads(2) && !one.reads(1) && other.reads(0) && other.reads(2));
        assert!(!other.end_reader(&first, fences), "nobody waits");
        first.begin_use(Use::Writers, fences);
        assert!(!other.announce_reader(2, &first, fences) && !other.reads(2));
        first.record_left_readers(&all);
        assert!(!first.readers_have_left(), "one is there");
        assert!(one.end_reader(&first, fences), "a writer may wait");
        first.record_left_readers(&all);
        assert!(first.readers_have_left() && !first.is_used_for(Use::LongAccumulates));
    });
}
