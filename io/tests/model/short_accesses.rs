//! Short accesses to a file in memory are done when they are started: to move the data takes less
//! time than a thread needs to begin.

use super::*;

/// Writes and reads back `len` bytes, again and again.
fn are_done_when_started(file: &Arc<File>, len: usize, coordination: Coordination) {
    let mut memory: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let start = |direction, memory: &mut [u8]| {
        let data = Ok(data(memory, false));
        let pending = file.start(direction, Position::At(5), coordination, data).unwrap();
        assert!(pending.is_done(), "{direction:?}, {coordination:?}");
        assert_eq!(pending.take().unwrap().bytes, len as u64);
    };
    // A thread that is not asleep may be as fast now and then.
    for _ in 0..100 {
        start(Direction::Write, &mut memory);
        let mut back = vec![0; len];
        start(Direction::Read, &mut back);
        assert!(back == memory);
    }
}

/// Runs a test on an open file in memory, where there are some.
fn on_file(name: &str, test: impl Fn(&Arc<File>) + Sync) {
    if !Path::new("/dev/shm").is_dir() {
        return;
    }
    let path = PathBuf::from(format!("/dev/shm/io-model-{}-{name}", std::process::id()));
    let (amode, info) = (amode::CREATE | amode::RDWR | amode::DELETE_ON_CLOSE, Info::new());
    on_each(&Hub::new(1, 1), 0, &OpenArgs { path, amode, info }, |_, file| test(file));
}

#[test]
fn one_run_is_done_when_it_is_started() {
    on_file("run", |file| are_done_when_started(file, 64 << 10, Coordination::Independent));
}

#[test]
fn few_pieces_are_done_when_they_are_started() {
    const PIECES: usize = 64;
    on_file("pieces", |file| {
        let types = (Datatype::byte().clone(), column(PIECES as i64));
        types.1.commit();
        file.set_view(Some(0), Ok(types), Ok(Datarep::Native), Ok(Info::new())).unwrap();
        for coordination in [Coordination::Independent, Coordination::Collective] {
            are_done_when_started(file, PIECES, coordination);
        }
    });
}
