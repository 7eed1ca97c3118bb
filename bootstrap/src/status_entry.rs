//! The entry of one rank on the status page: what it is doing right now.
//!
//! A rank writes its own entry with relaxed stores, one at the beginning and one at the end of each
//! MPI call. The launcher reads all entries when it reports. It writes two fields: the rank in
//! MPI_COMM_WORLD, and that the process has ended. Reading is total: any bits give a [`Snapshot`].

use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, fence};

use serde::{Deserialize, Serialize};

/// The context id of MPI_COMM_WORLD.
pub const WORLD_CONTEXT: u64 = 1;

/// The entry of one rank. All zeros: started, not in MPI yet.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct StatusEntry {
    pid: AtomicU32,
    state: AtomicU32,
    call: AtomicU32,
    rank: AtomicU32,
    blocked_kind: AtomicU32,
    peer: AtomicI32,
    world_rank: AtomicI32,
    tag: AtomicI32,
    comm_size: AtomicU32,
    outer: AtomicU32,
    context: AtomicU64,
    since: AtomicU64,
    file_done: AtomicU64,
    file_total: AtomicU64,
    ended: AtomicU32,
    /// The bits of [`Meanwhile`].
    meanwhile: AtomicU32,
    looked: AtomicU64,
    callbacks: AtomicU32,
    comm_name: [AtomicU64; CommName::BYTES / 8],
}

const _: () = assert!(size_of::<StatusEntry>() == 128);

/// The state of MPI in a rank's process. It decides what the rank's end means for the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum RankState {
    /// MPI_Init was not called; the program must not use MPI.
    Starting = 0,
    /// Between MPI_Init and MPI_Finalize.
    Running = 1,
    /// Inside MPI_Finalize.
    Finalizing = 2,
    /// MPI_Finalize has returned, and no session is open.
    Finalized = 3,
    /// A session is open, before MPI_Init or after MPI_Finalize.
    InSession = 4,
}

impl RankState {
    /// Returns the call that MPI requires before the process ends; `None` if there is none now.
    pub fn missing_call(self) -> Option<&'static str> {
        match self {
            RankState::Running => Some("MPI_Finalize"),
            RankState::InSession => Some("MPI_Session_finalize"),
            RankState::Starting | RankState::Finalizing | RankState::Finalized => None,
        }
    }
}

/// The operation that a rank is blocked on inside a call. Unknown fields are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedOn {
    /// The kind of event.
    pub kind: BlockedKind,
    /// The peer's rank in the communicator; `None` for any or several.
    pub peer: Option<i32>,
    /// The peer's rank in MPI_COMM_WORLD.
    pub world_rank: Option<i32>,
    /// The tag, `None` for any; for a collective its sequence number in the communicator, which is
    /// negative (-1, -2, ...) for persistent ones.
    pub tag: Option<i32>,
    /// The context id of the communicator.
    pub context: u64,
    /// The number of ranks in the communicator.
    pub comm_size: u32,
    /// The name that the program gave the communicator.
    pub comm_name: CommName,
    /// The time since which the rank has made no progress, by
    /// [`crate::status_page::monotonic_nanos`]; never 0.
    pub since: u64,
    /// The time after which the rank last looked for the event and did not find it, by the same
    /// clock; 0: unknown.
    pub looked: u64,
    /// What may happen in the rank's process although it waits.
    pub meanwhile: Meanwhile,
}

/// The beginning of a communicator's name, and zeros; zeros alone without a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommName([u8; CommName::BYTES]);

impl CommName {
    const BYTES: usize = 24;

    /// Returns the name; dots stand for the rest of a long one.
    pub fn new(name: &str) -> CommName {
        let mut bytes = [0; CommName::BYTES];
        let dots = if name.len() > CommName::BYTES { "..." } else { "" };
        let (name, _) = name.split_at(name.floor_char_boundary(CommName::BYTES - dots.len()));
        let text = name.bytes().chain(dots.bytes());
        bytes.iter_mut().zip(text).for_each(|(to, from)| *to = from);
        CommName(bytes)
    }

    /// Returns the name in words that fit a line; `None` without one.
    pub fn words(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.0);
        match text.trim_end_matches('\0') {
            "" => None,
            name if name.starts_with("MPI_COMM_") => Some(name.escape_debug().to_string()),
            name => Some(format!("communicator {name:?}")),
        }
    }

    fn to_raw(self) -> [u64; CommName::BYTES / 8] {
        std::array::from_fn(|word| {
            u64::from_ne_bytes(std::array::from_fn(|i| self.0[8 * word + i]))
        })
    }

    fn from_raw(raw: [u64; CommName::BYTES / 8]) -> CommName {
        let words = raw.map(u64::to_ne_bytes);
        CommName(std::array::from_fn(|at| words[at / 8][at % 8]))
    }
}

/// What may happen in a rank's process while a call waits there. All false: nothing but this event
/// ends the call, and before that the rank does nothing that another one could wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meanwhile {
    /// Another event would end the call as well (MPI_Waitany).
    pub other_events: bool,
    /// Progress carries on what other ranks may wait for: collectives, file accesses, the rest of a
    /// message.
    pub other_work: bool,
    /// The thread level lets other threads call MPI.
    pub other_threads: bool,
}

/// The kinds of events that a rank waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockedKind {
    /// The rank gave no kind.
    #[default]
    Unknown,
    /// A message from the peer.
    Message,
    /// The rest of a message from the peer.
    RestOfMessage,
    /// A receive by the peer that matches a message of this rank.
    MatchingReceive,
    /// The peer's part of a collective operation, by its number on the wire.
    Collective(u8),
    /// The lock of a window's memory; the tag is the target's rank in MPI_COMM_WORLD, the peer
    /// holds it.
    Lock,
    /// The peer's answer to one-sided operations.
    OneSided,
    /// The peer's MPI_Win_post.
    Exposure,
    /// The end of the peer's access epoch, MPI_Win_complete.
    AccessEnd,
    /// The peer's call that creates a communicator with this rank: MPI_Comm_accept and others. A
    /// peer of another job is given by its process number.
    Connection,
}

/// An entry as read by the launcher at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The process that called MPI_Init, 0 while none has.
    pub pid: u32,
    /// The state of MPI.
    pub state: RankState,
    /// The index of the current MPI call in the table of calls; 0 outside of MPI.
    pub call: u32,
    /// The operation that the rank is blocked on, once it has waited for some time.
    pub blocked: Option<BlockedOn>,
}

impl StatusEntry {
    /// Returns an entry outside of any page, for calls made before MPI_Init.
    pub const fn detached() -> StatusEntry {
        StatusEntry {
            pid: AtomicU32::new(0),
            state: AtomicU32::new(0),
            call: AtomicU32::new(0),
            rank: AtomicU32::new(0),
            blocked_kind: AtomicU32::new(0),
            peer: AtomicI32::new(0),
            world_rank: AtomicI32::new(0),
            tag: AtomicI32::new(0),
            comm_size: AtomicU32::new(0),
            outer: AtomicU32::new(0),
            context: AtomicU64::new(0),
            since: AtomicU64::new(0),
            file_done: AtomicU64::new(0),
            file_total: AtomicU64::new(0),
            ended: AtomicU32::new(0),
            meanwhile: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            callbacks: AtomicU32::new(0),
            comm_name: [const { AtomicU64::new(0) }; CommName::BYTES / 8],
        }
    }

    /// Returns the entry that these bytes are. Total: any bytes are an entry.
    pub fn from_bytes(bytes: &[u8; 128]) -> StatusEntry {
        let u32_at = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        StatusEntry {
            pid: u32_at(offset_of!(StatusEntry, pid)).into(),
            state: u32_at(offset_of!(StatusEntry, state)).into(),
            call: u32_at(offset_of!(StatusEntry, call)).into(),
            rank: u32_at(offset_of!(StatusEntry, rank)).into(),
            blocked_kind: u32_at(offset_of!(StatusEntry, blocked_kind)).into(),
            peer: (u32_at(offset_of!(StatusEntry, peer)) as i32).into(),
            world_rank: (u32_at(offset_of!(StatusEntry, world_rank)) as i32).into(),
            tag: (u32_at(offset_of!(StatusEntry, tag)) as i32).into(),
            comm_size: u32_at(offset_of!(StatusEntry, comm_size)).into(),
            outer: u32_at(offset_of!(StatusEntry, outer)).into(),
            context: u64_at(offset_of!(StatusEntry, context)).into(),
            since: u64_at(offset_of!(StatusEntry, since)).into(),
            file_done: u64_at(offset_of!(StatusEntry, file_done)).into(),
            file_total: u64_at(offset_of!(StatusEntry, file_total)).into(),
            ended: u32_at(offset_of!(StatusEntry, ended)).into(),
            meanwhile: u32_at(offset_of!(StatusEntry, meanwhile)).into(),
            looked: u64_at(offset_of!(StatusEntry, looked)).into(),
            callbacks: u32_at(offset_of!(StatusEntry, callbacks)).into(),
            comm_name: std::array::from_fn(|word| {
                u64_at(offset_of!(StatusEntry, comm_name) + 8 * word).into()
            }),
        }
    }

    /// Records how far a collective write has come: bytes of all ranks; a total of 0 for none.
    pub fn set_file_progress(&self, done: u64, total: u64) {
        self.file_done.store(done, Relaxed);
        self.file_total.store(total, Relaxed);
    }

    /// Returns the bytes that a collective write has written, and all of them, if one runs.
    pub fn file_progress(&self) -> Option<(u64, u64)> {
        let total = self.file_total.load(Relaxed);
        (total > 0).then(|| (self.file_done.load(Relaxed).min(total), total))
    }

    /// Records that the rank's process has ended. For the launcher.
    pub fn set_ended(&self) {
        // Release: what the process has written is visible to what finds it ended.
        self.ended.store(1, Release);
    }

    /// Returns what is not 0 once the launcher has found that the rank's process has ended.
    pub fn ended(&self) -> &AtomicU32 {
        &self.ended
    }

    /// Records that an MPI call begins: its index in the table of calls.
    #[inline]
    pub fn enter(&self, call: u32) {
        self.call.store(call, Relaxed);
    }

    /// Returns the index of the current call; not 0 while the rank is in a call.
    pub fn current_call(&self) -> &AtomicU32 {
        &self.call
    }

    /// Records that the call returns: to the program, or to a user callback of the outer call.
    #[inline]
    pub fn leave(&self) {
        self.call.store(self.outer.load(Relaxed), Relaxed);
    }

    /// Runs a user callback of the current call. It may call MPI; afterwards the rank is in
    /// the current call again.
    pub fn user_callback(&self, function: &mut dyn FnMut()) {
        let (call, outer) = (self.call.load(Relaxed), self.outer.load(Relaxed));
        self.outer.store(call, Relaxed);
        self.callbacks.fetch_add(1, Relaxed);
        function();
        // Those of several threads may overlap, in any order: with the last one none is left whose
        // caller is in MPI.
        let is_last = self.callbacks.fetch_sub(1, Relaxed) == 1;
        self.outer.store(if is_last { 0 } else { outer }, Relaxed);
        self.call.store(call, Relaxed);
    }

    /// Records what the current call is blocked on. For the slow path only.
    pub fn set_blocked(&self, blocked: &BlockedOn) {
        // Zero means that the fields below are not valid: a reader finds the same time before and
        // after it has read them.
        self.since.store(0, Relaxed);
        fence(Release);
        self.blocked_kind.store(blocked.kind.to_raw(), Relaxed);
        self.peer.store(blocked.peer.unwrap_or(i32::MIN), Relaxed);
        self.world_rank.store(blocked.world_rank.unwrap_or(i32::MIN), Relaxed);
        self.tag.store(blocked.tag.unwrap_or(i32::MIN), Relaxed);
        self.context.store(blocked.context, Relaxed);
        self.comm_size.store(blocked.comm_size, Relaxed);
        for (to, word) in self.comm_name.iter().zip(blocked.comm_name.to_raw()) {
            to.store(word, Relaxed);
        }
        self.looked.store(blocked.looked, Relaxed);
        self.meanwhile.store(blocked.meanwhile.to_raw(), Relaxed);
        // Release: a reader of this time sees the fields above.
        self.since.store(blocked.since, Release);
    }

    /// Records that the wait is over.
    pub fn clear_blocked(&self) {
        self.since.store(0, Relaxed);
    }

    /// Records the state of MPI.
    pub fn set_state(&self, state: RankState) {
        self.state.store(state as u32, Relaxed);
    }

    /// Returns the process that called MPI_Init, if one has.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Relaxed)).filter(|pid| *pid != 0)
    }

    /// Returns the entry's rank in MPI_COMM_WORLD, as the launcher wrote it.
    pub fn rank(&self) -> u32 {
        self.rank.load(Relaxed)
    }

    /// Records the entry's rank in MPI_COMM_WORLD. For the launcher.
    pub fn set_rank(&self, rank: u32) {
        self.rank.store(rank, Relaxed);
    }

    /// Claims the entry for process `pid`. The first claim succeeds; the error is its owner.
    pub(crate) fn claim(&self, pid: u32) -> Result<(), u32> {
        self.pid.compare_exchange(0, pid, Relaxed, Relaxed).map(|_| ())
    }

    /// Returns the state of MPI; an unknown value counts as running.
    pub fn state(&self) -> RankState {
        decode_state(self.state.load(Relaxed))
    }

    /// Reads all fields, one after the other, while the rank runs on. A record that changes
    /// meanwhile counts as none.
    pub fn snapshot(&self) -> Snapshot {
        let known =
            |value: &AtomicI32| Some(value.load(Relaxed)).filter(|value| *value != i32::MIN);
        // Acquire, and the fence: the fields are read between the two loads of the time.
        let since = self.since.load(Acquire);
        let blocked = BlockedOn {
            since,
            kind: BlockedKind::from_raw(self.blocked_kind.load(Relaxed)),
            peer: known(&self.peer),
            world_rank: known(&self.world_rank),
            tag: known(&self.tag),
            context: self.context.load(Relaxed),
            comm_size: self.comm_size.load(Relaxed),
            comm_name: CommName::from_raw(self.comm_name.each_ref().map(|word| word.load(Relaxed))),
            looked: self.looked.load(Relaxed),
            meanwhile: Meanwhile::from_raw(self.meanwhile.load(Relaxed)),
        };
        fence(Acquire);
        let is_whole = since != 0 && self.since.load(Relaxed) == since;
        Snapshot {
            pid: self.pid.load(Relaxed),
            state: self.state(),
            call: self.call.load(Relaxed),
            blocked: is_whole.then_some(blocked),
        }
    }
}

impl Meanwhile {
    fn to_raw(self) -> u32 {
        let Meanwhile { other_events, other_work, other_threads } = self;
        u32::from(other_events) | u32::from(other_work) << 1 | u32::from(other_threads) << 2
    }

    fn from_raw(raw: u32) -> Meanwhile {
        let [other_events, other_work, other_threads] = [1, 2, 4].map(|bit| raw & bit != 0);
        Meanwhile { other_events, other_work, other_threads }
    }
}

impl BlockedKind {
    fn to_raw(self) -> u32 {
        match self {
            BlockedKind::Unknown => 0,
            BlockedKind::Message => 1,
            BlockedKind::MatchingReceive => 2,
            BlockedKind::RestOfMessage => 3,
            BlockedKind::Lock => 4,
            BlockedKind::OneSided => 5,
            BlockedKind::Exposure => 6,
            BlockedKind::AccessEnd => 7,
            BlockedKind::Connection => 8,
            BlockedKind::Collective(kind) => 256 | u32::from(kind),
        }
    }

    fn from_raw(raw: u32) -> BlockedKind {
        match raw {
            1 => BlockedKind::Message,
            2 => BlockedKind::MatchingReceive,
            3 => BlockedKind::RestOfMessage,
            4 => BlockedKind::Lock,
            5 => BlockedKind::OneSided,
            6 => BlockedKind::Exposure,
            7 => BlockedKind::AccessEnd,
            8 => BlockedKind::Connection,
            256..512 => BlockedKind::Collective(raw as u8),
            _ => BlockedKind::Unknown,
        }
    }
}

/// Decodes the bytes of an entry. Total: any bytes give a snapshot.
pub fn decode_entry(bytes: &[u8; 128]) -> Snapshot {
    StatusEntry::from_bytes(bytes).snapshot()
}

fn decode_state(state: u32) -> RankState {
    match state {
        0 => RankState::Starting,
        2 => RankState::Finalizing,
        3 => RankState::Finalized,
        4 => RankState::InSession,
        _ => RankState::Running,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_call_from_a_users_function_leaves_the_outer_call_in_place() {
        let entry = StatusEntry::detached();
        let now = || entry.snapshot().call;
        entry.enter(5);
        entry.user_callback(&mut || {
            assert_eq!(now(), 5);
            entry.enter(6);
            entry.user_callback(&mut || {
                entry.enter(7);
                entry.leave();
                assert_eq!(now(), 6);
            });
            assert_eq!(now(), 6);
            entry.leave();
            assert_eq!(now(), 5);
        });
        assert_eq!(now(), 5);
        entry.leave();
        assert_eq!(now(), 0);
    }

    #[test]
    fn names_of_communicators_are_cut_and_shown_on_one_line() {
        let words = |name: &str| CommName::from_raw(CommName::new(name).to_raw()).words();
        assert_eq!(words(""), None);
        assert_eq!(words("MPI_COMM_SELF").as_deref(), Some("MPI_COMM_SELF"));
        assert_eq!(words("row\n").as_deref(), Some("communicator \"row\\n\""));
        let full = "a name of twenty-four ch";
        assert_eq!(words(full), Some(format!("communicator \"{full}\"")));
        let long = words("a name of twenty-five chs").unwrap();
        assert_eq!(long, "communicator \"a name of twenty-five...\"");
        assert_eq!(words(&"ä".repeat(13)), Some(format!("communicator \"{}...\"", "ä".repeat(10))));
    }

    #[test]
    fn overlapping_functions_of_threads_leave_no_outer_call() {
        let entry = StatusEntry::detached();
        let [began, may_end] = [std::sync::Barrier::new(2), std::sync::Barrier::new(2)];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                entry.enter(5);
                entry.user_callback(&mut || {
                    began.wait();
                    may_end.wait();
                });
            });
            began.wait();
            entry.enter(6);
            // This one ends last, and began while the other one's call was the outer one.
            entry.user_callback(&mut || {
                may_end.wait();
                std::thread::sleep(std::time::Duration::from_millis(20));
            });
        });
        entry.leave();
        assert_eq!(entry.snapshot().call, 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_snapshot(bytes in prop::collection::vec(any::<u8>(), 128)) {
            let entry: [u8; 128] = bytes.try_into().expect("128 bytes");
            let seen = decode_entry(&entry);
            let pid = u32::from_ne_bytes(std::array::from_fn(|i| entry[i]));
            prop_assert_eq!(seen.pid, pid);
            prop_assert!(seen.blocked.is_none_or(|blocked| blocked.since != 0));
        }
    }
}
