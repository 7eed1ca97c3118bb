//! The table of knobs. A knob is added here and nowhere else.
//!
//! Each row makes a constant of type `Key<T>`, where `T` is the type of the knob's values. Reading
//! a size from a switch therefore does not compile. A knob that was renamed keeps its former name.

use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::choice::{
    Choice, DynamicTransport, InterTransport, ProgressMode, Registration, Rendezvous, RoceVersion,
    SingleCopy,
};
use crate::value::{Kind, Value};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;

/// The time of `launch.stall_timeout` if no source sets one.
pub const DEFAULT_STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// The section and the knob, separated by a dot.
    pub name: &'static str,
    /// The allowed values.
    pub kind: Kind,
    /// The value if no source sets one.
    pub default: Value,
    /// The effect, in one sentence without a full stop.
    pub help: &'static str,
    /// The name that the knob had before, which still works.
    pub former: Option<&'static str>,
}

/// The name of a knob whose value is a `T`.
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
pub struct SizeOrAuto;
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
/// A number for all RDMA devices or for each, or `auto`.
#[derive(Debug)]
pub struct NumberByDevice;
/// A name that the system knows, or `auto`.
#[derive(Debug)]
pub struct Name;

/// A row with the type of its values.
struct Row<T>(Knob, PhantomData<T>);

impl<T> Row<T> {
    const fn new(name: &'static str, kind: Kind, default: Value, help: &'static str) -> Row<T> {
        Row(Knob { name, kind, default, help, former: None }, PhantomData)
    }

    /// Keeps a former name of the knob.
    const fn formerly(self, name: &'static str) -> Row<T> {
        Row(Knob { former: Some(name), ..self.0 }, PhantomData)
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

    /// Like `bytes`, limited to powers of two.
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

impl Row<SizeOrAuto> {
    const fn size_or_auto(
        name: &'static str,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Row<SizeOrAuto> {
        Row::new(
            name,
            Kind::SizeOrAuto { min: *range.start(), max: *range.end() },
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

impl Row<NumberByDevice> {
    const fn by_device(name: &'static str, max: u64, help: &'static str) -> Row<NumberByDevice> {
        Row::new(name, Kind::ByDevice { max }, Value::Name(None), help)
    }
}

impl Row<Name> {
    const fn name(name: &'static str, help: &'static str) -> Row<Name> {
        Row::new(name, Kind::Name, Value::Name(None), help)
    }

    const fn text(name: &'static str, help: &'static str) -> Row<Name> {
        Row::new(name, Kind::Text, Value::Name(None), help)
    }
}

impl<C: Choice> Row<C> {
    /// The first word is the default.
    const fn choice(name: &'static str, help: &'static str) -> Row<C> {
        Row::new(name, Kind::Choice(C::WORDS), Value::Choice(0), help)
    }
}

impl<T> Key<T> {
    /// Returns the knob's index in the table.
    pub(crate) const fn at(self) -> usize {
        self.at
    }

    /// Returns the knob's row.
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
        enum KnobIndex { $($key,)* }

        $(
            #[doc = "See its row in the table."]
            pub const $key: Key<$type> = Key { at: KnobIndex::$key as usize, of: PhantomData };
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
        "largest message within a host that is sent eagerly, without waiting for the receive");
    SHM_RING_BYTES: Bytes = Row::power("shm.ring_bytes", M, 16 * K..=16 * M,
        "size of the ring from one process of a host to another");
    SHM_BOUNCE_BYTES: SizeOrAuto = Row::size_or_auto("shm.bounce_bytes", 64 * K..=64 * M,
        "bounce pool of a process for large messages within a host, used as needed; recycled blocks take at most twice as much (auto: twice the second level cache of a core)")
        .formerly("shm.pool_bytes");
    SHM_SINGLE_COPY: SingleCopy = Row::choice("shm.single_copy",
        "way to read large messages straight from the sender's memory, where a probe of the peer succeeds (auto: XPMEM where the kernel has it, otherwise process_vm_readv)");
    SHM_OTHER_JOBS: Switch = Row::switch("shm.other_jobs", true,
        "use shared memory with processes of other jobs (spawned ones, --group) on the same host, where both may open each other's files, instead of TCP");
    SHM_GET_MIN: Bytes = Row::bytes("shm.get_min", 32 * K, 1..=G,
        "smallest message that may be read straight from the sender's memory");
    VERBS_LIBRARY: Name = Row::name("verbs.library",
        "name or path of the libibverbs to open (auto: libibverbs.so.1 of the system)");
    VERBS_DEVICES: Name = Row::name("verbs.devices",
        "RDMA devices, as ibv_devices lists them, as name or name:port, separated by commas; * and ? match several, ^ in front excludes (auto: those of the fastest network, the nearest first)")
        .formerly("verbs.device");
    VERBS_RAILS: Name = Row::name("verbs.rails",
        "further RDMA devices after those of verbs.devices, whose order is then the same for all ranks (auto: none)");
    VERBS_MAX_RAILS: Count = Row::count("verbs.max_rails", "ports", 2, 1..=4,
        "RDMA ports of a process over which large reads and writes are striped, if verbs.devices does not name them; one if they are emulated");
    VERBS_PORT: Index = Row::index("verbs.port", 255,
        "port of the RDMA devices, counted from 1 (auto: any active one)");
    VERBS_GID_INDEX: NumberByDevice = Row::by_device("verbs.gid_index", 65_535,
        "entry of the port's GID table that is our address; for all devices, or by device as in mlx5_0:1=3,mlx5_*=5, of which the first that fits applies (auto, also for devices that are not named: by verbs.roce_version on RoCE, 0 on InfiniBand)");
    VERBS_ROCE_VERSION: RoceVersion = Row::choice("verbs.roce_version",
        "version of our RoCE address (auto: version 2 with an IPv4 address, then any version 2, then version 1)");
    VERBS_PKEY: NumberByDevice = Row::by_device("verbs.pkey", 65_535,
        "InfiniBand partition key, for all devices or by device as verbs.gid_index (auto: the first full membership of the port's table)");
    VERBS_SERVICE_LEVEL: Count = Row::count("verbs.service_level", "level", 0, 0..=15,
        "InfiniBand service level, or RoCE priority, of all RDMA traffic");
    VERBS_TRAFFIC_CLASS: Count = Row::count("verbs.traffic_class", "class", 0, 0..=255,
        "traffic class (on RoCE version 2 the DSCP times 4) of all RDMA traffic");
    VERBS_EAGER_MAX: Bytes = Row::bytes("verbs.eager_max", 8 * K, 64..=M,
        "largest message between hosts that is sent eagerly, without waiting for the receive");
    VERBS_RENDEZVOUS: Rendezvous = Row::choice("verbs.rendezvous",
        "rendezvous protocol between hosts: the receiver reads, the sender writes, or the sender copies pieces through eager buffers (auto: read, unless the device allows one read at a time)");
    VERBS_GET_MIN: Bytes = Row::bytes("verbs.get_min", 32 * K, 1..=G,
        "smallest message that is registered with the RDMA device and read or written as a whole");
    VERBS_REGISTRATION: Registration = Row::choice("verbs.registration",
        "lifetime of memory registrations: until userfaultfd reports a change, for ever by on-demand paging, or one message (none); auto takes the first that is available");
    VERBS_REGISTRATIONS: Count = Row::count("verbs.registrations", "ranges", 1024, 1..=8192,
        "memory ranges that stay registered at once; beyond that the least recently used one is released");
    VERBS_REGISTERED_BYTES: Bytes = Row::bytes("verbs.registered_bytes", G, 64 * K..=1024 * G,
        "memory that stays registered, and therefore pinned, at once; at most half of the limit on locked memory");
    VERBS_CREDITS: Count = Row::count("verbs.credits", "frames", 32, 4..=1024,
        "frames that each peer may have in flight to this process, while verbs.receives has receive buffers for them");
    VERBS_RECEIVES: Count = Row::count("verbs.receives", "receives", 2048, 64..=32_767,
        "receive buffers of a process for all its connections; peers that send little have few of them");
    VERBS_CONNECTIONS: Count = Row::count("verbs.connections", "queue pairs", 128, 1..=65_536,
        "RDMA connections that a process keeps at once; messages of further peers go by unreliable datagrams, which are acknowledged and repeated");
    VERBS_CONNECT_AFTER: Count = Row::count("verbs.connect_after", "messages", 16, 0..=1_000_000,
        "messages to a peer by unreliable datagrams after which it gets a connection, while there is space for one");
    VERBS_DYNAMIC: DynamicTransport = Row::choice("verbs.dynamic",
        "large messages and RMA operations to peers without an RDMA connection go by dynamically connected transport, which adapters of the mlx5 driver have (auto: in jobs with more peers than verbs.connections)");
    VERBS_EAGER_RDMA_PEERS: Count = Row::count("verbs.eager_rdma_peers", "peers", 8, 0..=1024,
        "peers, the most active ones, that may write small messages straight into this process's memory (eager RDMA), which it polls while it does not sleep (0: none, in either direction)")
        .formerly("verbs.rings");
    VERBS_EAGER_RDMA_THRESHOLD: Count = Row::count("verbs.eager_rdma_threshold", "frames", 64, 0..=1_000_000,
        "small messages of a peer, received without a sleep in between, after which it gets an eager RDMA channel")
        .formerly("verbs.ring_after");
    VERBS_ACK_TIMEOUT: Count = Row::count("verbs.ack_timeout", "2^n times 4.1 µs", 14, 1..=31,
        "time that the RDMA device waits for an acknowledgement before it retransmits");
    VERBS_RETRIES: Count = Row::count("verbs.retries", "times", 7, 0..=7,
        "retransmissions before the connection counts as broken and is made anew (Soft-RoCE: at most 6, since 7 means for ever)");
    VERBS_RECONNECT_TIMEOUT: Time = Row::time("verbs.reconnect_timeout", Duration::from_secs(86_400),
        "time that a broken RDMA connection is retried before its peer counts as failed (auto: 10 minutes)")
        .formerly("verbs.lost_after");
    VERBS_CONNECT_WARN_AFTER: Time = Row::time("verbs.connect_warn_after", Duration::from_secs(86_400),
        "time without an answer to a first connection request after which a line on standard error says so (auto: 10 s)")
        .formerly("verbs.call_notice");
    INTER_TRANSPORT: InterTransport = Row::choice("inter.transport",
        "transport between hosts (auto: verbs between processes that both have an RDMA device, otherwise TCP)");
    TCP_INTERFACES: Name = Row::name("tcp.interfaces",
        "network interfaces for TCP between hosts, as names, addresses or address/prefix, separated by commas (auto: all; the first that answers is used)");
    TCP_PORTS: Name = Row::name("tcp.ports",
        "ports that processes listen on for TCP between hosts, as first-last (auto: the system chooses)");
    TCP_TLS: Switch = Row::switch("tcp.tls", false,
        "encrypt and authenticate everything on TCP connections between hosts (TLS 1.3, with keys from the job's secret)");
    TCP_CONGESTION_CONTROL: Name = Row::name("tcp.congestion_control",
        "congestion control of TCP connections by the system's name, such as cubic (auto: the system's default; for near peers cubic or reno in place of bbr)");
    TCP_SOCKETS: Index = Row::index("tcp.sockets", 8,
        "most TCP connections to one peer: large messages are divided among them (auto: 4 for round trips from 1 ms on, otherwise 1)");
    TCP_EAGER_MAX: Bytes = Row::bytes("tcp.eager_max", 60 * K, 64..=256 * K,
        "largest message over TCP that is sent eagerly, without waiting for the receive; a peer with much unacknowledged gets at most 4 KiB so");
    TCP_WINDOW: Bytes = Row::bytes("tcp.window", M, 512 * K..=G,
        "bytes of eager messages over TCP that each peer may leave unacknowledged");
    TCP_CONNECTIONS: Index = Row::index("tcp.connections", 1_000_000,
        "TCP connections that a process keeps at once; beyond that the least recently used one is closed (auto: by the limit on open files)");
    TCP_RECONNECT_TIMEOUT: Time = Row::time("tcp.reconnect_timeout", Duration::from_secs(86_400),
        "time that a broken TCP connection is retried before its peer counts as failed (auto: 2 minutes)");
    TCP_CONNECT_WARN_AFTER: Time = Row::time("tcp.connect_warn_after", Duration::from_secs(86_400),
        "time without a TCP connection to a peer after which a line on standard error says so (auto: 10 s)");
    PT2PT_UNEXPECTED_MAX: Bytes = Row::bytes("pt2pt.unexpected_max", 64 * M, 4 * K..=64 * G,
        "memory for messages without a posted receive, shared equally by all senders; a sender beyond its share waits");
    PT2PT_PROGRESS: ProgressMode = Row::choice("pt2pt.progress",
        "what makes progress: MPI calls alone, or also a thread that sleeps until a message arrives");
    THREADS_MULTIPLE: Switch = Row::switch("threads.multiple", false,
        "provide MPI_THREAD_MULTIPLE to each program, for those whose threads call MPI at once and do not request it");
    WAIT_SPIN: Time = Row::time("wait.spin", Duration::from_secs(1),
        "time that a waiting thread polls before it sleeps (auto: 5 ms; 0 with more ranks than processors; at most 200 us with more threads than processors)");
    COLL_BCAST_LONG: Bytes = Row::bytes("coll.bcast_long", 64 * K, 0..=G,
        "smallest broadcast that goes by scatter and ring allgather");
    COLL_GATHER_LONG: Bytes = Row::bytes("coll.gather_long", 8 * K, 0..=G,
        "smallest block of a gather that goes straight to the root");
    COLL_SCATTER_LONG: Bytes = Row::bytes("coll.scatter_long", 8 * K, 0..=G,
        "smallest block of a scatter that goes straight from the root");
    COLL_ALLGATHER_LONG: Bytes = Row::bytes("coll.allgather_long", 64 * K, 0..=G,
        "smallest result of an allgather that goes around the ring");
    COLL_ALLTOALL_SHORT: Bytes = Row::bytes("coll.alltoall_short", 256, 0..=G,
        "largest block of an alltoall that is forwarded in log2(ranks) rounds (Bruck)");
    COLL_REDUCE_LONG: Bytes = Row::bytes("coll.reduce_long", 64 * K, 0..=G,
        "smallest vector of a reduce that is cut into pieces (reduce-scatter and gather)");
    COLL_ALLREDUCE_LONG: Bytes = Row::bytes("coll.allreduce_long", 16 * K, 0..=G,
        "smallest vector of an allreduce that is cut into pieces (reduce-scatter and allgather)");
    COLL_REDUCE_SCATTER_LONG: Bytes = Row::bytes("coll.reduce_scatter_long", 128 * K, 0..=G,
        "smallest vector of a reduce_scatter that goes pairwise");
    COLL_OVERSUBSCRIBED_MAX: Bytes = Row::bytes("coll.oversubscribed_max", 64 * K, 0..=G,
        "with more ranks than cores on one host, most data of a rank in a collective that goes through a collective segment (gathers and allgathers: 8 times as much, broadcasts 4 times, scatters 3 times, alltoalls of eight ranks or more 4 times; 4 MiB of all ranks; broadcasts, gathers and reductions that block go in pieces beyond that); barriers, broadcasts and reductions that find no space there go straight to and from one rank")
        .formerly("coll.crowded_short");
    COLL_GET_MIN: Bytes = Row::bytes("coll.get_min", 32 * K, 0..=G,
        "smallest block of a blocking allgather or alltoall that three ranks or more of a host, with a core each, read straight in each other's memory (shm.single_copy); from four times as much on they use messages");
    RMA_SHM: Switch = Row::switch("rma.shm", true,
        "access windows of ranks on one host by loads, stores and processor atomics, and lock them in shared memory, instead of by messages to the target");
    RMA_CHECK: Switch = Row::switch("rma.check", false,
        "name accesses to windows that conflict: calls, ranks and bytes of both; each access then sends a message to its target, and flushes wait until the target makes progress (MPI-5.0 §12.7)");
    COLL_SHM: Switch = Row::switch("coll.shm", true,
        "use shared memory (collective segments) for small collectives within a host, in at most four communicators of each rank; sizes: coll.oversubscribed_max, coll.shm_max")
        .formerly("coll.arenas");
    COLL_SHM_MAX: Bytes = Row::bytes("coll.shm_max", 16 * K, 0..=G,
        "with a core for each rank and at most 128 ranks on one host, largest contribution of a rank to a collective that goes through a collective segment (at most 16 KiB; 4 KiB among more than eight ranks; half of it between two that exchange data)")
        .formerly("coll.flat_short");
    COLL_FAN_MAX: Bytes = Row::bytes("coll.fan_max", 256, 0..=G,
        "on four hosts or more, largest broadcast or allreduce that several ranks of a host send to different hosts at once, each all of it; larger ones are sent by one rank of each host");
    COLL_SHM_PIECES_MAX: Bytes = Row::bytes("coll.shm_pieces_max", 8 << 20, 0..=G,
        "with a core for each rank and at most eight ranks, largest vector of a blocking allreduce that goes through a collective segment in pieces, of which each rank reduces a part; 0: none does");
    COLL_HIERARCHICAL: Switch = Row::switch("coll.hierarchical", true,
        "on several hosts, run collectives within each host and between hosts by few ranks of each, instead of among all ranks alike");
    COLL_LANES_MIN: Bytes = Row::bytes("coll.lanes_min", 32 * K, 0..=G,
        "on several hosts, smallest broadcast or reduction of which each rank of a host sends a part to other hosts; smaller ones are sent by one rank of each host");
    COLL_RADIX: Count = Row::count("coll.radix", "messages", 4, 2..=64,
        "between hosts, one more than the messages that a rank sends at once in a collective of short vectors: more where latency is long");
    COLL_RULES: Name = Row::text("coll.rules",
        "algorithms to take before the built-in choice, for all ranks of a job alike: rules like `allreduce=ring; bcast from=64K ranks=16 hosts=2 ranks_per_host=4 lanes`, each with an operation, conditions and an algorithm that is taken where it can do the call");
    COLL_PIECE: Bytes = Row::bytes("coll.piece", 16 * K, 256..=G,
        "pieces in which a collective sends a vector along a chain or down a binary tree of ranks");
    COLL_WINDOW: Count = Row::count("coll.window", "messages", 32, 1..=65_536,
        "messages of one collective in flight at once where each rank exchanges data with all others");
    TOPOLOGY_HOSTS_PER_SWITCH: Count = Row::count("topology.hosts_per_switch", "hosts", 0, 0..=1_048_576,
        "hosts at each switch of the network, in the order in which the job has its hosts, for collectives with rules for level=switch (0: not known)");
    TOPOLOGY_PRETEND_PACKAGES: Count = Row::count("topology.pretend_packages", "packages", 0, 0..=65_536,
        "processor packages that the ranks of a host are dealt to in turn when topologies are reordered, for tests (0: the real ones)");
    COLL_REPRODUCIBLE: Switch = Row::switch("coll.reproducible", false,
        "reduce operands in an order that depends on the number of ranks alone: the same bits on any placement and with any coll.rules, but slower");
    LAUNCH_TREE_WIDTH: Count = Row::count("launch.tree_width", "daemons", 0, 0..=65_536,
        "over several hosts, most daemons that mpiexec starts itself, and most that each daemon starts in turn (0: 32 by ssh or srun; all of them by another agent, which may reach hosts from this one alone, and with --on-failure continue)");
    LAUNCH_STALL_TIMEOUT: Time = Row::time("launch.stall_timeout", Duration::from_secs(86_400),
        "time without progress of any rank after which a stall is reported, also under another launcher (auto: 60 s; 0: never); --stall-timeout of mpiexec comes first");
    REPORT_TRANSPORTS: Switch = Row::switch("report.transports", false,
        "once all ranks are in MPI, mpiexec prints which transports their messages take, and why (the same as --explain)")
        .formerly("report.ways");
    CHECK_USAGE: Switch = Row::switch("check.usage", false,
        "report at MPI_Finalize which requests are not complete, which messages were never received and which objects were never freed, and name calls of threads that the thread level does not allow");
    CHECK_SIGNATURES: Switch = Row::switch("check.signatures", false,
        "send the type signature of each point-to-point message with it, and name sender and receiver where the signature of the receive differs (MPI-5.0 §3.3.1)");
    REPORT_TRAFFIC: Switch = Row::switch("report.traffic", false,
        "in a job over several hosts, each process prints at MPI_Finalize how much it sent over which transport");
    IO_URING: Switch = Row::switch("io.uring", true,
        "let the kernel move nonblocking accesses to files by io_uring, where it permits that, instead of by threads of the library");
    REPORT_IO: Switch = Row::switch("report.io", false,
        "rank 0 of each file that was closed prints at MPI_Finalize what its ranks read and wrote: bytes, calls, time, sizes, collective buffering, and a sentence of advice");
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
            let names =
                || TABLE.iter().flat_map(|other| [Some(other.name), other.former]).flatten();
            for name in [Some(knob.name), knob.former].into_iter().flatten() {
                assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
            }
        }
    }

    #[test]
    fn keys_name_their_rows() {
        assert_eq!(SHM_EAGER_MAX.knob().name, "shm.eager_max");
        assert_eq!(WAIT_SPIN.knob().name, "wait.spin");
        assert_eq!(COLL_REPRODUCIBLE.knob().name, "coll.reproducible");
    }
}
