//! Random accesses of several members against an array of bytes.
//!
//! Members are threads that share one file and communicate through memory. Each case draws a
//! number of members, views that interleave, hints, and a sequence of operations; the model applies
//! them to a vector. Then every member reads back through its view, and the whole file is compared.
//! A case is made of its seed alone: `SEED=n cargo test -p verbena-io --test model` repeats it.
//! `CASES=n` runs more of them, from `FIRST=n` on, and `FOLDER=path` on another file system. In
//! continuous integration each day has cases of its own.

#[path = "model/short_accesses.rs"]
mod short_accesses;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::Duration;

use fabric::UserBuf;
use io::{
    Coordination, Datarep, Direction, Exchange, File, Members, Messages, OpenArgs, Outcome,
    Pending, Place, Position, RemoteWords, Resumable, SplitKind, Transit, UserData, Whence, amode,
};
use objects::datatype::Counting::Int;
use objects::{Buffer, Class, Datatype, Error, Info, Result};

/// Cases unless CASES sets another number.
const CASES: u64 = 100;
/// Most members of a case.
const MAX_MEMBERS: usize = 16;

/// What the members share.
struct Hub {
    barrier: Barrier,
    /// Exchanges that some member has not left, by their number.
    exchanges: Mutex<HashMap<u64, Swap>>,
    arrived: Condvar,
    /// What one-sided operations change.
    words: Arc<[AtomicI64; 2]>,
    size: usize,
    /// Members of each pretended host.
    each_host: u32,
}

/// An exchange: what each member gave to each, and how many have left.
struct Swap {
    given: Vec<Option<Vec<Vec<u8>>>>,
    left: usize,
}

impl Hub {
    fn new(size: usize, each_host: u32) -> Arc<Hub> {
        let (barrier, exchanges) = (Barrier::new(size), Mutex::default());
        let (arrived, words) = (Condvar::new(), Arc::default());
        Arc::new(Hub { barrier, exchanges, arrived, words, size, each_host })
    }

    /// Returns what a member gets from each, if all have given.
    fn take(&self, all: &mut HashMap<u64, Swap>, number: u64, rank: u32) -> Option<Vec<Vec<u8>>> {
        let swap = all.get_mut(&number)?;
        let part = |given: &Option<Vec<Vec<u8>>>| Some(given.as_ref()?[rank as usize].clone());
        let got: Vec<Vec<u8>> = swap.given.iter().map(part).collect::<Option<_>>()?;
        swap.left += 1;
        if swap.left == self.size {
            all.remove(&number);
        }
        Some(got)
    }
}

/// Words that members of other pretended hosts change.
struct Words(Arc<[AtomicI64; 2]>);

impl RemoteWords for Words {
    fn fetch_add(&self, index: usize, value: i64) -> Result<i64> {
        Ok(self.0[index].fetch_add(value, SeqCst))
    }

    fn load(&self, index: usize) -> Result<i64> {
        Ok(self.0[index].load(SeqCst))
    }

    fn store(&self, index: usize, value: i64) -> Result<()> {
        self.0[index].store(value, SeqCst);
        Ok(())
    }

    fn free(&self) -> Result<()> {
        Ok(())
    }
}

/// One member of a group of threads.
struct Thread {
    rank: u32,
    hub: Arc<Hub>,
    /// The number of its next exchange.
    next: AtomicU64,
    /// Accesses that go on.
    started: Mutex<Vec<Box<dyn Resumable>>>,
}

/// An exchange of one member.
struct Given {
    hub: Arc<Hub>,
    rank: u32,
    number: u64,
    /// The member whose bytes all get.
    root: Option<u32>,
    has_lengths: bool,
}

impl Given {
    fn messages(&self, mut got: Vec<Vec<u8>>) -> Messages {
        if let Some(root) = self.root {
            got = vec![got.swap_remove(root as usize)];
        }
        let lengths = got.iter().map(|message| message.len() as u64);
        let lengths = if self.has_lengths { lengths.collect() } else { Vec::new() };
        Messages { bytes: got.concat(), lengths }
    }
}

impl Transit for Given {
    fn result(&mut self) -> Option<Result<Messages>> {
        let got = self.hub.take(&mut self.hub.exchanges.lock().unwrap(), self.number, self.rank)?;
        Some(Ok(self.messages(got)))
    }
}

impl Thread {
    fn new(rank: usize, hub: Arc<Hub>) -> Arc<Thread> {
        let (next, started) = Default::default();
        Arc::new(Thread { rank: rank as u32, hub, next, started })
    }

    /// Gives each member its message.
    fn give(&self, exchange: Exchange) -> Given {
        let size = self.hub.size;
        let (root, has_lengths, given) = match exchange {
            Exchange::Allgather(mine) => (None, false, vec![mine; size]),
            Exchange::Broadcast { root, bytes } => (Some(root), false, vec![bytes; size]),
            Exchange::Messages(Messages { bytes, lengths }) => {
                let mut rest = &bytes[..];
                let part = |&len: &u64| rest.split_off(..len as usize).unwrap().to_vec();
                (None, true, lengths.iter().map(part).collect())
            }
        };
        let number = self.next.fetch_add(1, SeqCst);
        let mut all = self.hub.exchanges.lock().unwrap();
        let swap = all.entry(number).or_insert_with(|| Swap { given: vec![None; size], left: 0 });
        swap.given[self.rank as usize] = Some(given);
        self.hub.arrived.notify_all();
        Given { hub: self.hub.clone(), rank: self.rank, number, root, has_lengths }
    }
}

impl Members for Thread {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.hub.size as u32
    }

    fn place(&self) -> Place {
        Place { host: self.rank / self.hub.each_host, package: self.rank % 2, numa_node: 0 }
    }

    fn remote_words(&self) -> Result<Box<dyn RemoteWords>> {
        Ok(Box::new(Words(self.hub.words.clone())))
    }

    fn run(&self, exchange: Exchange) -> Result<Messages> {
        let given = self.give(exchange);
        let mut all = self.hub.exchanges.lock().unwrap();
        loop {
            if let Some(got) = self.hub.take(&mut all, given.number, self.rank) {
                return Ok(given.messages(got));
            }
            all = self.hub.arrived.wait(all).unwrap();
        }
    }

    fn begin(&self, exchange: Exchange) -> Result<Box<dyn Transit>> {
        Ok(Box::new(self.give(exchange)))
    }

    fn drive(&self, access: Box<dyn Resumable>) {
        self.started.lock().unwrap().push(access);
    }

    fn wait(&self, pending: &Arc<Pending>) {
        while !pending.is_done() {
            self.started.lock().unwrap().retain_mut(|access| !access.resume());
            std::thread::yield_now();
        }
    }
}

/// A view of a member, and the same as a list: the offsets of its bytes in one tile.
#[derive(Clone)]
struct Shown {
    disp: i64,
    filetype: Datatype,
    bytes: Vec<i64>,
    extent: i64,
}

impl Shown {
    fn at(&self, packed: usize) -> usize {
        let (tile, rest) = (packed / self.bytes.len(), packed % self.bytes.len());
        (self.disp + tile as i64 * self.extent + self.bytes[rest]) as usize
    }
}

/// Draws views of which no two show the same byte: a tile is dealt to the members in blocks.
fn draw_views(rng: &mut fastrand::Rng, size: usize) -> Vec<Shown> {
    // Aggregators copy short blocks, and name long ones to the system.
    let unit = if rng.u8(0..3) == 0 { 29 } else { 1 };
    let tile = rng.i64(1..200) * size as i64;
    let disp = rng.i64(0..300);
    let mut owned = vec![Vec::new(); size];
    let mut at = 0;
    while at < tile {
        let len = rng.i64(1..=tile.min(40)).min(tile - at);
        // Some blocks belong to no rank.
        if let Some(bytes) = owned.get_mut(rng.usize(0..=size)) {
            bytes.push((at, len));
        }
        at += len;
    }
    for (rank, blocks) in owned.iter_mut().enumerate() {
        if blocks.is_empty() {
            blocks.push((tile + rank as i64, 1));
        }
    }
    for (at, len) in owned.iter_mut().flatten() {
        (*at, *len) = (*at * unit, *len * unit);
    }
    let extent = (tile + size as i64) * unit;
    let make = |blocks: Vec<(i64, i64)>| {
        let (disps, lengths): (Vec<i64>, Vec<i64>) = blocks.iter().copied().unzip();
        let list = Datatype::hindexed(Int, &lengths, &disps, Datatype::byte()).unwrap();
        let filetype = Datatype::resized(Int, &list, 0, extent).unwrap();
        filetype.commit();
        let bytes = blocks.iter().flat_map(|&(at, len)| at..at + len).collect();
        Shown { disp, filetype, bytes, extent }
    };
    owned.into_iter().map(make).collect()
}

/// Returns `memory` as a user's data, in one run or with gaps.
fn data(memory: &mut [u8], gaps: bool) -> UserData {
    let address = memory.as_ptr() as usize;
    // SAFETY: the slice outlives the access.
    let user = unsafe { UserBuf::new(memory.as_mut_ptr(), memory.len()) };
    if !gaps {
        let datatype = Datatype::byte().clone();
        let count = memory.len() as u64;
        return UserData { buffer: Buffer::contiguous(user), address, count, datatype, handle: 0 };
    }
    let every_second = Datatype::vector(Int, memory.len() as i64 / 2, 1, 2, Datatype::byte());
    let datatype = every_second.unwrap();
    // SAFETY: the slice outlives the access.
    let buffer = unsafe { Buffer::new(memory.as_mut_ptr(), 1, &datatype) };
    UserData { buffer, address, count: 1, datatype, handle: 0 }
}

/// Ends the test when a member panics: the others wait for it.
struct Bail(u64);

impl Drop for Bail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Past the capture of the test's output, which is lost.
            let text = format!("seed {} fails; see SEED={0} with --nocapture\n", self.0);
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::exit(101);
        }
    }
}

/// Which calls an operation is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    /// At an explicit offset.
    At(Coordination),
    /// At the individual pointer.
    Individual(Coordination),
    /// In order of rank at the shared pointer.
    Ordered,
    /// Two nonblocking ones at the individual pointer, both started before either is waited for.
    Nonblocking(Coordination),
    /// A split collective of this kind.
    Split(SplitKind),
}

/// One operation, the same on all members but for the lengths.
#[derive(Clone)]
struct Step {
    direction: Direction,
    call: Call,
    offset: usize,
    lengths: Vec<usize>,
    gaps: bool,
    atomic: bool,
}

impl Step {
    /// Returns where a member's part begins in its view.
    fn offset_of(&self, rank: usize) -> usize {
        match self.call {
            Call::Ordered | Call::Split(SplitKind::Ordered) => {
                self.offset + self.lengths[..rank].iter().sum::<usize>()
            }
            _ => self.offset,
        }
    }

    fn draw(rng: &mut fastrand::Rng, size: usize) -> Step {
        use Call::{At, Individual, Nonblocking, Ordered, Split};
        use Coordination::{Collective, Independent};
        let calls = [
            At(Collective),
            At(Collective),
            At(Independent),
            Individual(Collective),
            Individual(Independent),
            Nonblocking(Independent),
            Nonblocking(Collective),
            Nonblocking(Collective),
            Ordered,
            Split(SplitKind::At),
            Split(SplitKind::All),
            Split(SplitKind::Ordered),
        ];
        let longest = if size > 6 { 4000 } else { 20_000 };
        Step {
            direction: if rng.u8(0..3) == 0 { Direction::Read } else { Direction::Write },
            call: *rng.choice(&calls).unwrap(),
            offset: rng.usize(0..3000),
            lengths: (0..size)
                .map(|_| if rng.u8(0..5) == 0 { 0 } else { rng.usize(1..longest) })
                .collect(),
            gaps: rng.bool(),
            atomic: rng.u8(0..8) == 0,
        }
    }
}

/// Makes the calls of one operation on one member.
fn perform(file: &Arc<File>, step: &Step, memory: &mut [u8]) -> Outcome {
    if let Call::Nonblocking(coordination) = step.call {
        return perform_two(file, step, coordination, memory);
    }
    let user = data(memory, step.gaps);
    let (direction, offset) = (step.direction, step.offset as i64);
    match step.call {
        Call::Individual(_) | Call::Split(SplitKind::All) => {
            file.seek(offset, Whence::Set).unwrap();
        }
        Call::Ordered | Call::Split(SplitKind::Ordered) => {
            file.seek_shared(offset, Ok(Whence::Set)).unwrap();
        }
        _ => {}
    }
    match step.call {
        Call::At(how) => file.access(direction, Position::At(offset), how, Ok(user)),
        Call::Individual(how) => file.access(direction, Position::Individual, how, Ok(user)),
        Call::Ordered => file.access_ordered(direction, Ok(user)),
        Call::Nonblocking(_) => unreachable!("done above"),
        Call::Split(kind) => {
            file.begin_split(kind, direction, offset, Ok(user)).unwrap();
            file.end_split(kind, direction)
        }
    }
}

/// Starts two accesses, each of a part of the memory, and waits for both.
fn perform_two(
    file: &Arc<File>,
    step: &Step,
    coordination: Coordination,
    memory: &mut [u8],
) -> Outcome {
    file.seek(step.offset as i64, Whence::Set).unwrap();
    let stretch = if step.gaps { 2 } else { 1 };
    let (first, second) = memory.split_at_mut(memory.len() / stretch / 3 * stretch);
    let pending = [first, second].map(|part| {
        let data = Ok(data(part, step.gaps));
        file.start(step.direction, Position::Individual, coordination, data).unwrap()
    });
    let outcomes = pending.map(|pending| {
        file.wait(&pending);
        pending.take().unwrap()
    });
    let [first, second] = outcomes;
    Outcome { bytes: first.bytes + second.bytes, error: first.error.or(second.error) }
}

fn hints(rng: &mut fastrand::Rng) -> Info {
    let mut info = Info::new();
    let switch = *rng.choice(&["enable", "disable", "automatic"]).unwrap();
    info.set("romio_cb_write", switch).unwrap();
    info.set("romio_cb_read", *rng.choice(&["enable", "automatic"]).unwrap()).unwrap();
    info.set("cb_nodes", rng.u32(1..9).to_string()).unwrap();
    info.set("romio_ds_read", *rng.choice(&["enable", "disable", "automatic"]).unwrap()).unwrap();
    info.set("romio_ds_write", *rng.choice(&["enable", "disable", "automatic"]).unwrap()).unwrap();
    info.set("ind_rd_buffer_size", rng.u32(1..3000).to_string()).unwrap();
    info.set("ind_wr_buffer_size", rng.u32(1..3000).to_string()).unwrap();
    info.set("cb_config_list", format!("*:{}", rng.u32(1..4))).unwrap();
    info.set("striping_unit", rng.u32(1..20_000).to_string()).unwrap();
    info.set("direct_read", rng.bool().to_string()).unwrap();
    info.set("direct_write", rng.bool().to_string()).unwrap();
    info.set("cb_buffer_size", (4096 << rng.u32(0..4)).to_string()).unwrap();
    info
}

fn value(seed: u64, step: usize, rank: usize, at: usize) -> u8 {
    (seed as usize * 31 + step * 57 + rank * 101 + at * 7 + at / 256 + 1) as u8
}

/// Applies a write to the model.
fn apply(
    model: &mut Vec<u8>,
    view: &Shown,
    step: &Step,
    rank: usize,
    values: impl Fn(usize) -> u8,
) {
    for at in 0..step.lengths[rank] {
        let place = view.at(step.offset_of(rank) + at);
        if model.len() <= place {
            model.resize(place + 1, 0);
        }
        model[place] = values(at);
    }
}

/// Returns the path of a file that no other test uses.
fn scratch(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let folder = std::env::var_os("FOLDER").map(PathBuf::from);
    let folder = folder.or_else(|| memory.is_dir().then_some(memory));
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    folder.join(format!("io-model-{}-{name}", std::process::id()))
}

/// Runs a case; panics where the file and the model differ.
fn case(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    // Few members are the usual case, and faster.
    let most = if rng.u8(0..8) == 0 { MAX_MEMBERS } else { 6 };
    let size = rng.usize(1..=most);
    let views = draw_views(&mut rng, size);
    let steps: Vec<Step> = (0..rng.usize(1..6)).map(|_| Step::draw(&mut rng, size)).collect();
    let info = hints(&mut rng);
    let path = scratch(&format!("{seed}"));
    let hub = Hub::new(size, rng.u32(1..=size as u32));
    // After each step, what the file must be.
    let mut models = vec![Vec::new()];
    for (number, step) in steps.iter().enumerate() {
        let mut next = models.last().unwrap().clone();
        if step.direction == Direction::Write {
            for (rank, view) in views.iter().enumerate() {
                apply(&mut next, view, step, rank, |at| value(seed, number, rank, at));
            }
        }
        models.push(next);
    }
    let amode = amode::CREATE | amode::RDWR;
    let args = OpenArgs { path: path.clone(), amode, info };
    on_each(&hub, seed, &args, |rank, file| {
        run(file, seed, rank, &views[rank], &steps, &models, &hub);
    });
    let found = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(found == *models.last().unwrap(), "seed {seed}: the file differs from the model");
}

/// Opens a file on all members, each a thread, runs `work` on each, and closes the file.
fn on_each(hub: &Arc<Hub>, seed: u64, args: &OpenArgs, work: impl Fn(usize, &Arc<File>) + Sync) {
    std::thread::scope(|scope| {
        for rank in 0..hub.size {
            let work = &work;
            scope.spawn(move || {
                let _bail = Bail(seed);
                let OpenArgs { path, amode, info } = args;
                let args = OpenArgs { path: path.clone(), amode: *amode, info: info.clone() };
                let file = Arc::new(io::open(Thread::new(rank, hub.clone()), Ok(args)).unwrap());
                work(rank, &file);
                file.begin_close().unwrap();
                file.end_close().unwrap();
            });
        }
    });
}

/// Makes the calls of one member and checks what it reads.
fn run(
    file: &Arc<File>,
    seed: u64,
    rank: usize,
    view: &Shown,
    steps: &[Step],
    models: &[Vec<u8>],
    hub: &Hub,
) {
    show(file, view.disp, view.filetype.clone());
    for (number, step) in steps.iter().enumerate() {
        file.set_atomicity(step.atomic).unwrap();
        let len = step.lengths[rank];
        let stretch = if step.gaps { 2 } else { 1 };
        let mut memory = vec![0xee; len * stretch];
        if step.direction == Direction::Write {
            (0..len).for_each(|at| memory[at * stretch] = value(seed, number, rank, at));
        }
        let outcome = perform(file, step, &mut memory);
        let first = step.offset_of(rank);
        assert!(outcome.error.is_none(), "seed {seed} step {number}: {:?}", outcome.error);
        let model = &models[number + 1];
        let there = (0..len).take_while(|&at| view.at(first + at) < model.len()).count();
        let wanted = if step.direction == Direction::Write { len } else { there };
        assert_eq!(outcome.bytes, wanted as u64, "seed {seed} step {number} rank {rank}");
        for at in 0..wanted {
            let right = model[view.at(first + at)];
            assert_eq!(
                memory[at * stretch],
                right,
                "seed {seed} step {number} rank {rank} at {at}"
            );
        }
        let untouched = memory.iter().enumerate().skip(wanted * stretch);
        if step.direction == Direction::Read {
            assert!(untouched.clone().all(|(_, &byte)| byte == 0xee), "seed {seed} step {number}");
        }
        hub.barrier.wait();
    }
}

/// Members write the same strided bytes at once, some while others read them, in atomic mode: the
/// bytes are always those of one access.
#[test]
fn atomic_accesses_do_not_mix() {
    const SIZE: usize = 5;
    const LEN: usize = 3000;
    let (path, hub) = (scratch("atomic"), Hub::new(SIZE, SIZE as u32));
    let (amode, info) = (amode::CREATE | amode::RDWR, Info::new());
    on_each(&hub, 0, &OpenArgs { path: path.clone(), amode, info }, |rank, file| {
        let filetype = Datatype::vector(Int, 10, 3, 7, Datatype::byte()).unwrap();
        show(file, 5, filetype);
        file.set_atomicity(true).unwrap();
        let mut memory = vec![99; LEN];
        access(file, Direction::Write, &mut memory, Coordination::Collective);
        for round in 0..100 {
            if (rank + round) % 3 == 0 {
                access(file, Direction::Read, &mut memory, Coordination::Independent);
                assert!(memory.iter().all(|byte| *byte == memory[0]), "round {round}");
            } else {
                memory.fill((round * SIZE + rank) as u8);
                access(file, Direction::Write, &mut memory, Coordination::Independent);
            }
        }
    });
    std::fs::remove_file(&path).unwrap();
}

/// Sets a view of bytes.
fn show(file: &Arc<File>, disp: i64, filetype: Datatype) {
    filetype.commit();
    let types = Ok((Datatype::byte().clone(), filetype));
    file.set_view(Some(disp), types, Ok(Datarep::Native), Ok(Info::new())).unwrap();
}

/// Reads or writes at the start of the view.
fn access(file: &Arc<File>, direction: Direction, memory: &mut [u8], coordination: Coordination) {
    let data = Ok(data(memory, false));
    let outcome = file.access(direction, Position::At(0), coordination, data);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
}

/// Returns the first case of a run: on a machine of continuous integration, other ones each day.
fn todays_first() -> u64 {
    let day = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400);
    if std::env::var_os("CI").is_some() { day * CASES } else { 0 }
}

#[test]
fn files_hold_what_a_byte_array_holds() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("SEED") {
        return case(seed);
    }
    let first = number("FIRST").unwrap_or_else(todays_first);
    (first..first + number("CASES").unwrap_or(CASES)).for_each(case);
}

/// Members write pieces of 8 bytes in turn, each with the holes between its own: with the hint that
/// makes all of them lock, no byte of another is lost.
#[test]
fn sieved_writes_lose_no_byte() {
    const SIZE: usize = 4;
    const LEN: usize = 32 << 10;
    let (path, hub) = (scratch("sieved"), Hub::new(SIZE, SIZE as u32));
    let (amode, mut info) = (amode::CREATE | amode::RDWR, Info::new());
    info.set("romio_ds_write", "enable").unwrap();
    info.set("ind_wr_buffer_size", "8192").unwrap();
    on_each(&hub, 0, &OpenArgs { path: path.clone(), amode, info }, |rank, file| {
        let piece = Datatype::contiguous(Int, 8, Datatype::byte()).unwrap();
        let filetype = Datatype::resized(Int, &piece, 0, 8 * SIZE as i64).unwrap();
        show(file, 8 * rank as i64, filetype);
        for round in 1..20 {
            let mut memory = vec![round; LEN];
            for direction in [Direction::Write, Direction::Read] {
                hub.barrier.wait();
                access(file, direction, &mut memory, Coordination::Independent);
            }
            assert!(memory.iter().all(|byte| *byte == round), "round {round} rank {rank}");
        }
    });
    std::fs::remove_file(&path).unwrap();
}

/// Two threads and the library's own write columns of a matrix at once through the only handle of a
/// file, where holes are written back without locks of the system: no element of another column is
/// lost.
#[test]
fn writes_at_once_of_a_file_that_one_process_opened_lose_no_byte() {
    const SIDE: usize = 256;
    let (path, hub) = (scratch("unique"), Hub::new(1, 1));
    let (amode, info) = (amode::CREATE | amode::RDWR | amode::UNIQUE_OPEN, Info::new());
    let value = |column: usize| (column % 251 + 1) as u8;
    on_each(&hub, 0, &OpenArgs { path: path.clone(), amode, info }, |_, file| {
        show(file, 0, column(SIDE as i64));
        let mut columns: Vec<Vec<u8>> = (0..SIDE).map(|at| vec![value(at); SIDE]).collect();
        let (started, called) = columns.split_at_mut(SIDE / 2);
        let at = |column: usize| Position::At((column * SIDE) as i64);
        let alone = Coordination::Independent;
        std::thread::scope(|scope| {
            for (thread, part) in called.chunks_mut(SIDE / 4).enumerate() {
                scope.spawn(move || {
                    for (number, memory) in part.iter_mut().enumerate() {
                        let place = at(SIDE / 2 + thread * SIDE / 4 + number);
                        let data = Ok(data(memory, false));
                        assert!(file.access(Direction::Write, place, alone, data).error.is_none());
                    }
                });
            }
            let pending: Vec<_> = started
                .iter_mut()
                .enumerate()
                .map(|(number, memory)| {
                    file.start(Direction::Write, at(number), alone, Ok(data(memory, false)))
                        .unwrap()
                })
                .collect();
            for one in pending {
                file.wait(&one);
                assert!(one.take().unwrap().error.is_none());
            }
        });
    });
    let found = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let lost = (0..SIDE * SIDE).filter(|at| found[*at] != value(at % SIDE)).count();
    assert_eq!(lost, 0, "bytes of other columns");
}

/// Rank 0 writes a column of a matrix and the first byte of the next one in atomic mode, rank 1 the
/// third: no byte of the other is lost, though the ranges between their first and last bytes in the
/// order of the view do not overlap.
#[test]
fn atomic_accesses_of_several_tiles_lose_no_byte() {
    const SIDE: usize = 1024;
    let (path, hub) = (scratch("tiles"), Hub::new(2, 2));
    let (amode, info) = (amode::CREATE | amode::RDWR, Info::new());
    on_each(&hub, 0, &OpenArgs { path: path.clone(), amode, info }, |rank, file| {
        show(file, 2 * rank as i64, column(SIDE as i64));
        file.set_atomicity(true).unwrap();
        let len = if rank == 0 { SIDE + 1 } else { SIDE };
        for round in 1..200 {
            let mut memory = vec![round; len];
            for direction in [Direction::Write, Direction::Read] {
                hub.barrier.wait();
                access(file, direction, &mut memory, Coordination::Independent);
            }
            assert!(memory.iter().all(|byte| *byte == round), "round {round} rank {rank}");
        }
    });
    std::fs::remove_file(&path).unwrap();
}

/// Returns the first column of a square matrix of bytes; the next tile is the next column.
fn column(side: i64) -> Datatype {
    let column = Datatype::vector(Int, side, 1, side, Datatype::byte()).unwrap();
    Datatype::resized(Int, &column, 0, 1).unwrap()
}

/// Rank 1 moves the shared pointer while rank 0 waits in the call that sets a view there: both get
/// the place that it has in the end.
#[test]
fn a_view_at_the_shared_pointer_is_at_the_same_byte_for_all() {
    let (path, hub) = (scratch("sequential"), Hub::new(2, 2));
    let (amode, info) = (amode::CREATE | amode::WRONLY | amode::SEQUENTIAL, Info::new());
    on_each(&hub, 0, &OpenArgs { path: path.clone(), amode, info }, |rank, file| {
        let write = |value: u8| {
            let (mut memory, alone) = (vec![value; 100], Coordination::Independent);
            let data = Ok(data(&mut memory, false));
            assert!(file.access(Direction::Write, Position::Shared, alone, data).error.is_none());
        };
        write(1);
        if rank == 1 {
            std::thread::sleep(Duration::from_millis(100));
            write(2);
        }
        let bytes = || Ok((Datatype::byte().clone(), Datatype::byte().clone()));
        file.set_view(None, bytes(), Ok(Datarep::Native), Ok(Info::new())).unwrap();
        assert_eq!(file.view().disp, 300, "rank {rank}");
        // An argument of one rank fails on both, which make the same exchanges.
        let datarep = if rank == 1 {
            Err(Error::new(Class::UnsupportedDatarep, "wrong"))
        } else {
            Ok(Datarep::Native)
        };
        let refused = file.set_view(None, bytes(), datarep, Ok(Info::new()));
        assert_eq!(refused.unwrap_err().class(), Class::UnsupportedDatarep);
        write(3);
    });
    let found = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let lengths = [1, 2, 3].map(|value| found.iter().filter(|byte| **byte == value).count());
    assert_eq!(lengths, [200, 100, 200]);
}

/// The members that get the error of another one learn its rank once.
#[test]
fn the_error_of_another_member_names_it_once() {
    let (hub, path) = (Hub::new(2, 2), scratch("absent"));
    let open = &|rank| {
        let args = OpenArgs { path: path.clone(), amode: amode::RDONLY, info: Info::default() };
        let error = io::open(Thread::new(rank, hub.clone()), Ok(args)).err().unwrap();
        error.detail().to_owned()
    };
    let details = std::thread::scope(|scope| {
        let threads = [0, 1].map(|rank| scope.spawn(move || open(rank)));
        threads.map(|thread| thread.join().unwrap())
    });
    let own = format!("cannot open {}: No such file or directory", path.display());
    assert_eq!(details, [own.clone(), format!("rank 0: {own}")]);
}
