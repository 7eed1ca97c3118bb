//! The table of knobs. A knob is added here and nowhere else.
//!
//! Each row makes a constant of the knob's type, so that asking for a size where
//! there is a switch does not compile.

use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::value::{Kind, Value};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// With dots: the room, then what it is.
    pub name: &'static str,
    /// What values it can have.
    pub kind: Kind,
    /// The value if nobody sets it.
    pub default: Value,
    /// What it does, in one sentence.
    pub help: &'static str,
}

/// Names a knob whose value is a `T`.
#[derive(Debug)]
pub struct Key<T> {
    at: usize,
    of: PhantomData<T>,
}

/// A size in bytes.
#[derive(Debug)]
pub struct Bytes;
/// A size in bytes, or `auto`.
#[derive(Debug)]
pub struct Room;
/// A number of things.
#[derive(Debug)]
pub struct Count;
/// A time, or `auto`.
#[derive(Debug)]
pub struct Time;
/// On or off.
#[derive(Debug)]
pub struct Switch;
/// A number that names something, or `auto`.
#[derive(Debug)]
pub struct Index;
/// A word of the system, or `auto`.
#[derive(Debug)]
pub struct Name;

/// One of several words.
pub trait Choice: Copy + 'static {
    /// In the order of the words.
    const ALL: &'static [Self];
    /// As a user writes them.
    const WORDS: &'static [&'static str];
}

/// Whether large messages on a node are read straight from the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// Through XPMEM where the kernel has it, else by process_vm_readv, where a trial of each peer succeeds.
    Auto,
    /// By process_vm_readv alone, where a trial succeeds.
    Readv,
    /// Never.
    Off,
}

impl Choice for SingleCopy {
    const ALL: &'static [SingleCopy] = &[SingleCopy::Auto, SingleCopy::Readv, SingleCopy::Off];
    const WORDS: &'static [&'static str] = &["auto", "readv", "off"];
}

/// Which of a RoCE port's addresses are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoceVersion {
    /// Version 2 if there is one, else version 1.
    Auto,
    /// Over Ethernet alone: does not pass routers.
    V1,
    /// Over UDP.
    V2,
}

impl Choice for RoceVersion {
    const ALL: &'static [RoceVersion] = &[RoceVersion::Auto, RoceVersion::V1, RoceVersion::V2];
    const WORDS: &'static [&'static str] = &["auto", "v1", "v2"];
}

/// How a large message crosses the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// As the device does it best.
    Auto,
    /// The receiver reads it (RDMA read).
    Read,
    /// The sender writes it where the receiver says (RDMA write).
    Write,
    /// In pieces, through the buffers of small messages.
    Copy,
}

impl Choice for Rendezvous {
    const ALL: &'static [Rendezvous] =
        &[Rendezvous::Auto, Rendezvous::Read, Rendezvous::Write, Rendezvous::Copy];
    const WORDS: &'static [&'static str] = &["auto", "read", "write", "copy"];
}

/// How long memory stays registered with an RDMA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// As long as it stays, where that can be known; else for one message.
    Auto,
    /// As long as the kernel reports no change (userfaultfd).
    Userfaultfd,
    /// All of it for ever: the device asks for pages when it needs them.
    Odp,
    /// For one message.
    None,
}

impl Choice for Registration {
    const ALL: &'static [Registration] =
        &[Registration::Auto, Registration::Userfaultfd, Registration::Odp, Registration::None];
    const WORDS: &'static [&'static str] = &["auto", "userfaultfd", "odp", "none"];
}

/// Who makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    /// Calls of the library alone.
    Calls,
    /// A thread too, while the application is not in a call.
    Thread,
}

impl Choice for ProgressMode {
    const ALL: &'static [ProgressMode] = &[ProgressMode::Calls, ProgressMode::Thread];
    const WORDS: &'static [&'static str] = &["calls", "thread"];
}

/// A row that knows the type of its values.
struct Row<T>(Knob, PhantomData<T>);

impl<T> Row<T> {
    const fn new(name: &'static str, kind: Kind, default: Value, help: &'static str) -> Row<T> {
        Row(Knob { name, kind, default, help }, PhantomData)
    }
}

impl Row<Bytes> {
    const fn bytes(
        name: &'static str,
        default: u64,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Row<Bytes> {
        let kind = Kind::Bytes { min: *range.start(), max: *range.end(), power_of_two: false };
        Row::new(name, kind, Value::Number(default), help)
    }

    /// As `bytes`, powers of two only.
    const fn power(
        name: &'static str,
        default: u64,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Row<Bytes> {
        let kind = Kind::Bytes { min: *range.start(), max: *range.end(), power_of_two: true };
        Row::new(name, kind, Value::Number(default), help)
    }
}

impl Row<Room> {
    const fn room(name: &'static str, range: RangeInclusive<u64>, help: &'static str) -> Row<Room> {
        Row::new(
            name,
            Kind::Room { min: *range.start(), max: *range.end() },
            Value::Index(None),
            help,
        )
    }
}

impl Row<Count> {
    const fn count(
        name: &'static str,
        unit: &'static str,
        default: u64,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Row<Count> {
        let kind = Kind::Count { min: *range.start(), max: *range.end(), unit };
        Row::new(name, kind, Value::Number(default), help)
    }
}

impl Row<Time> {
    const fn time(name: &'static str, max: Duration, help: &'static str) -> Row<Time> {
        Row::new(name, Kind::Time { max }, Value::Time(None), help)
    }
}

impl Row<Switch> {
    const fn switch(name: &'static str, default: bool, help: &'static str) -> Row<Switch> {
        Row::new(name, Kind::Switch, Value::Switch(default), help)
    }
}

impl Row<Index> {
    const fn index(name: &'static str, max: u64, help: &'static str) -> Row<Index> {
        Row::new(name, Kind::Index { max }, Value::Index(None), help)
    }
}

impl Row<Name> {
    const fn name(name: &'static str, help: &'static str) -> Row<Name> {
        Row::new(name, Kind::Name, Value::Name(None), help)
    }
}

impl<C: Choice> Row<C> {
    /// The first word is the default.
    const fn choice(name: &'static str, help: &'static str) -> Row<C> {
        Row::new(name, Kind::Choice(C::WORDS), Value::Choice(0), help)
    }
}

impl<T> Key<T> {
    /// The knob's place in the table.
    pub(super) const fn at(self) -> usize {
        self.at
    }

    /// The knob's row.
    pub fn knob(self) -> &'static Knob {
        &TABLE[self.at]
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Key<T> {
        *self
    }
}

impl<T> Copy for Key<T> {}

/// Makes the table and a constant for each row.
macro_rules! knobs {
    ($($key:ident: $type:ty = $row:expr;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Place { $($key,)* }

        $(
            #[doc = "See its row in the table."]
            pub const $key: Key<$type> = Key { at: Place::$key as usize, of: PhantomData };
        )*

        /// All knobs, in the order in which they are shown.
        pub const TABLE: &[Knob] = &[$({
            const ROW: Row<$type> = $row;
            ROW.0
        },)*];
    };
}

knobs! {
    SHM_EAGER_MAX: Bytes = Row::bytes("shm.eager_max", 256 * K, 64..=256 * K,
        "largest message that is copied through the ring without asking the receiver first");
    SHM_RING_BYTES: Bytes = Row::power("shm.ring_bytes", M, 16 * K..=16 * M,
        "size of the ring between two processes of a node, from one to the other");
    SHM_POOL_BYTES: Room = Row::room("shm.pool_bytes", 64 * K..=64 * M,
        "memory that a process takes, as it needs it, for large messages on their way to others of its node, and twice as much for those that go to and fro (auto: twice a core's second level cache)");
    SHM_SINGLE_COPY: SingleCopy = Row::choice("shm.single_copy",
        "how large messages are read straight from the sender's memory where a trial read succeeds (auto: through XPMEM where the kernel has it, else process_vm_readv)");
    SHM_GET_MIN: Bytes = Row::bytes("shm.get_min", 32 * K, 1..=G,
        "smallest message that is read straight from the sender's memory instead of through the ring");
    VERBS_DEVICE: Name = Row::name("verbs.device",
        "RDMA device to use, as ibv_devices lists it (auto: the first with an active port)");
    VERBS_RAILS: Name = Row::name("verbs.rails",
        "up to three further RDMA devices, as name or name:port, with commas between them, over which reads of large messages are spread (auto: none)");
    VERBS_PORT: Index = Row::index("verbs.port", 255,
        "port of the RDMA device, from 1 (auto: the first that is active)");
    VERBS_GID_INDEX: Index = Row::index("verbs.gid_index", 65_535,
        "entry of the port's GID table to use as address (auto: by verbs.roce_version on RoCE, 0 on InfiniBand)");
    VERBS_ROCE_VERSION: RoceVersion = Row::choice("verbs.roce_version",
        "which RoCE addresses are taken (auto: version 2 with an IPv4 address, then any version 2, then version 1)");
    VERBS_PKEY: Index = Row::index("verbs.pkey", 65_535,
        "InfiniBand partition key (auto: the first of the port's table)");
    VERBS_SERVICE_LEVEL: Count = Row::count("verbs.service_level", "level", 0, 0..=15,
        "InfiniBand service level, or priority on RoCE, of all RDMA traffic");
    VERBS_TRAFFIC_CLASS: Count = Row::count("verbs.traffic_class", "class", 0, 0..=255,
        "traffic class (on RoCE version 2 the DSCP times 4) of all RDMA traffic");
    VERBS_EAGER_MAX: Bytes = Row::bytes("verbs.eager_max", 8 * K, 64..=M,
        "largest message sent over InfiniBand or RoCE without asking the receiver first, where that transport is in use");
    VERBS_RENDEZVOUS: Rendezvous = Row::choice("verbs.rendezvous",
        "how larger messages cross the RDMA network: read by the receiver, written by the sender, or in pieces through the buffers of small ones (auto: read, unless the device can't have several reads under way)");
    VERBS_GET_MIN: Bytes = Row::bytes("verbs.get_min", 32 * K, 1..=G,
        "smallest message that is registered with the RDMA device and read or written in one piece");
    VERBS_REGISTRATION: Registration = Row::choice("verbs.registration",
        "how buffers stay registered with the RDMA device: as long as userfaultfd reports no change, by on-demand paging, or for one message (none); auto is the first of these that there is");
    VERBS_REGISTRATIONS: Count = Row::count("verbs.registrations", "ranges", 1024, 1..=8192,
        "ranges of memory that stay registered with the RDMA device at once; beyond that the one not used for longest is given up");
    VERBS_REGISTERED_BYTES: Bytes = Row::bytes("verbs.registered_bytes", G, 64 * K..=1024 * G,
        "memory that stays registered with the RDMA device at once, and pinned; half of the limit on locked memory at most");
    VERBS_CREDITS: Count = Row::count("verbs.credits", "frames", 32, 4..=1024,
        "frames that a peer may have under way to this process over RDMA; as many receive buffers are kept for each");
    VERBS_CONNECTIONS: Count = Row::count("verbs.connections", "queue pairs", 512, 1..=65_536,
        "RDMA connections that a process keeps at once; beyond that the one not used for longest is closed");
    VERBS_RINGS: Count = Row::count("verbs.rings", "peers", 8, 0..=1024,
        "peers, those that talk the most, that may write small messages straight into this process's memory over RDMA, where it looks for them while it does not sleep; 0: none, in either direction");
    VERBS_RING_AFTER: Count = Row::count("verbs.ring_after", "frames", 64, 0..=1_000_000,
        "small messages of a peer, found without sleeping in between, after which it may do so");
    VERBS_ACK_TIMEOUT: Count = Row::count("verbs.ack_timeout", "2^n times 4.1 µs", 14, 1..=31,
        "how long the RDMA device waits for an acknowledgement before it sends again");
    VERBS_RETRIES: Count = Row::count("verbs.retries", "times", 7, 0..=7,
        "how often the RDMA device sends again before the connection counts as broken and is made anew (one in software at most 6 times: 7 is for ever there)");
    VERBS_LOST_AFTER: Time = Row::time("verbs.lost_after", Duration::from_secs(86_400),
        "how long a broken RDMA connection is tried to be made anew before its peer counts as lost (auto: 10 minutes)");
    VERBS_CALL_NOTICE: Time = Row::time("verbs.call_notice", Duration::from_secs(86_400),
        "how long a process is called over RDMA for the first time without an answer before a line on standard error says so (auto: 10 s)");
    PT2PT_UNEXPECTED_MAX: Bytes = Row::bytes("pt2pt.unexpected_max", 64 * M, 4 * K..=64 * G,
        "bytes of messages nobody has asked for yet that a process keeps, in equal shares for all senders, before it holds a sender back");
    PT2PT_PROGRESS: ProgressMode = Row::choice("pt2pt.progress",
        "who moves messages: MPI calls alone, or also a thread that sleeps until there is something to do while the application computes");
    WAIT_SPIN: Time = Row::time("wait.spin", Duration::from_secs(1),
        "how long a waiting thread spins before it sleeps (auto: 5 ms, not at all with more ranks than processors, of which an RDMA device in software takes one; at most 200 us with more threads than processors)");
    COLL_BCAST_LONG: Bytes = Row::bytes("coll.bcast_long", 64 * K, 0..=G,
        "broadcasts from this size on are scattered and sent round the ring");
    COLL_GATHER_LONG: Bytes = Row::bytes("coll.gather_long", 8 * K, 0..=G,
        "gathers with blocks from this size on go straight to the root");
    COLL_SCATTER_LONG: Bytes = Row::bytes("coll.scatter_long", 8 * K, 0..=G,
        "scatters with blocks from this size on go straight from the root");
    COLL_ALLGATHER_LONG: Bytes = Row::bytes("coll.allgather_long", 64 * K, 0..=G,
        "allgathers with results from this size on go round the ring");
    COLL_ALLTOALL_SHORT: Bytes = Row::bytes("coll.alltoall_short", 256, 0..=G,
        "alltoalls with blocks up to this size are forwarded in log2 rounds");
    COLL_REDUCE_LONG: Bytes = Row::bytes("coll.reduce_long", 64 * K, 0..=G,
        "reductions of vectors from this size on are cut into pieces");
    COLL_ALLREDUCE_LONG: Bytes = Row::bytes("coll.allreduce_long", 16 * K, 0..=G,
        "allreduces of vectors from this size on are cut into pieces");
    COLL_REDUCE_SCATTER_LONG: Bytes = Row::bytes("coll.reduce_scatter_long", 128 * K, 0..=G,
        "reduce_scatters of vectors from this size on are done pairwise");
    COLL_CROWDED_SHORT: Bytes = Row::bytes("coll.crowded_short", 64 * K, 0..=G,
        "with more ranks than cores, barriers, and broadcasts and reductions up to this size, go through memory that they share, or straight to and from one rank where it has no room (on one host; it has 32 KiB for each rank, with more than six 192 KiB in all, but always 1 KiB each)");
    COLL_ARENAS: Switch = Row::switch("coll.arenas", true,
        "what coll.crowded_short and coll.flat_short are about is done in memory that all ranks share instead of by messages (four communicators for each rank at once); with more ranks than cores each has its turn on a core once");
    COLL_FLAT_SHORT: Bytes = Row::bytes("coll.flat_short", 16 * K, 0..=G,
        "with a core for each rank, collectives of at most eight ranks of one host go through memory that they share where no rank has more to give than this (at most 16 KiB)");
    COLL_WINDOW: Count = Row::count("coll.window", "messages", 32, 1..=65_536,
        "messages of one collective that are under way at once where each rank deals with all others");
    TOPOLOGY_PRETEND_PACKAGES: Count = Row::count("topology.pretend_packages", "packages", 0, 0..=65_536,
        "treat the ranks of a host as dealt in turn to so many processor packages when topologies reorder them (0: as they are bound)");
    COLL_REPRODUCIBLE: Switch = Row::switch("coll.reproducible", false,
        "reductions take their operands in an order that depends on nothing but the number of ranks");
    REPORT_WAYS: Switch = Row::switch("report.ways", false,
        "once all ranks are in MPI, mpiexec prints which ways their messages take, and why (the same as --explain)");
    REPORT_TRAFFIC: Switch = Row::switch("report.traffic", false,
        "in a job over several hosts, each process writes to standard error at MPI_Finalize how much it sent, and by which way");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_well_formed() {
        for knob in TABLE {
            let legal = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'.'
            };
            assert!(knob.name.bytes().all(legal) && knob.name.contains('.'), "{}", knob.name);
            assert!(!knob.help.ends_with('.') && !knob.help.is_empty(), "{}", knob.name);
            assert_eq!(
                TABLE.iter().filter(|other| other.name == knob.name).count(),
                1,
                "{}",
                knob.name
            );
        }
    }

    #[test]
    fn keys_name_their_rows() {
        assert_eq!(SHM_EAGER_MAX.knob().name, "shm.eager_max");
        assert_eq!(WAIT_SPIN.knob().name, "wait.spin");
        assert_eq!(COLL_REPRODUCIBLE.knob().name, "coll.reproducible");
        assert_eq!(SingleCopy::ALL.len(), SingleCopy::WORDS.len());
    }
}
