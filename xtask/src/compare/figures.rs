//! The figures of a comparison: each program with its arguments, the placement of its ranks, the
//! number of its output that counts, and the promise about it.
//!
//! Data only. A figure has one row for each message size, or one row 0.

/// Where the ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Each bound to a core of its own.
    Bound,
    /// Unbound, on two cores that are too few for them.
    Oversubscribed,
    /// All on one core.
    OneCore,
    /// Bound, and each library makes progress on another thread if it can.
    Assisted,
    /// Bound, and messages go over TCP on the loopback interface.
    OverTcp,
}

/// The position of the number that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// In this column of the rows that begin with a size; 0 is the size itself.
    Column(usize),
    /// The only number of the only row.
    Single,
    /// After this text.
    After(&'static str),
    /// In this column of the row that begins with "ratio".
    Ratio(usize),
    /// Not in the output: the time of the whole job, in ms.
    Job,
}

/// Which numbers are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
}

impl Better {
    /// Returns how far a number is from what was promised: more than 1 misses it.
    pub(super) fn distance(self, reached: f64, wanted: f64) -> f64 {
        match self {
            Better::Lower => reached / wanted,
            Better::Higher => wanted / reached,
        }
    }
}

/// The promise of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// At most (or, where higher is better, at least) so many times the best peer.
    OfBest(f64),
    /// The same, or where the device leaves peers no room to be beaten: what this figure, beside a
    /// program without MPI, promises for the size.
    OfBestOr(f64, &'static str),
    /// `best` times the best peer, or where the machine allows none more: `own` times our own
    /// figure of this name.
    OfBestOrOwn { best: f64, figure: &'static str, own: f64 },
    /// At most so much, without regard to peers.
    Limit(f64),
    /// At least so many times our own figure of this name.
    OfOwn(&'static str, f64),
    /// Nothing; the peers are shown for comparison.
    None,
}

impl Target {
    /// Returns the figure of ours that it compares with.
    pub(super) fn own(self) -> Option<&'static str> {
        match self {
            Target::OfOwn(name, _) | Target::OfBestOrOwn { figure: name, .. } => Some(name),
            _ => None,
        }
    }
}

/// A set of figures and the peers of a comparison.
pub(super) struct Table {
    pub(super) figures: &'static [Figure],
    /// Names of the peers, in the order of the columns.
    pub(super) peers: &'static [&'static str],
}

/// Everything on one host.
pub(super) const ON_A_HOST: Table = Table { figures: &FIGURES, peers: &["mpich", "impi", "ompi"] };

/// Over InfiniBand or RoCE. The figures of perftest show the limit of the device.
pub(super) const OVER_VERBS: Table = Table { figures: &VERBS, peers: &["mpich", "ompi", PERFTEST] };

/// Over TCP on the loopback interface. A bare socket shows the limit of the system.
pub(super) const OVER_TCP: Table =
    Table { figures: &TCP, peers: &["mpich", "impi", "ompi", SOCKET] };

/// The name of the bare socket among the libraries.
pub(super) const SOCKET: &str = "socket";

/// The name of perftest's programs among the libraries.
pub(super) const PERFTEST: &str = "perftest";

impl Table {
    /// Returns the figure of this name.
    pub(super) fn named(&self, name: &str) -> Option<&'static Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// One thing to measure.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) program: &'static str,
    pub(super) args: &'static [&'static str],
    /// The sizes to run, smallest and largest, where the program takes them.
    pub(super) sizes: Option<(u64, u64)>,
    pub(super) ranks: u32,
    pub(super) placement: Placement,
    pub(super) reading: Reading,
    pub(super) better: Better,
    pub(super) target: fn(u64) -> Target,
    /// Measured on us alone: the promise is not relative, and peers take minutes.
    pub(super) alone: bool,
    /// Part of `--quick`.
    pub(super) quick: bool,
}

impl Figure {
    /// Returns whether the figure depends on the time of cache lines between cores.
    pub(super) fn crosses(&self) -> bool {
        self.placement != Placement::OneCore
            && matches!(self.reading, Reading::Column(_) | Reading::Single)
    }

    /// Returns the figure among so many ranks, if it is one of collectives.
    pub(super) fn among(&self, ranks: u32) -> Figure {
        if self.program != "collective" {
            return *self;
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let is_crowded = ranks as usize > cores;
        let placement = if is_crowded { Placement::Oversubscribed } else { Placement::Bound };
        Figure { ranks, placement, ..*self }
    }

    /// Returns whether we are compared with a bare socket alone.
    pub(super) fn is_beside_socket(&self) -> bool {
        self.name.ends_with("-socket")
    }
}

const MIB: u64 = 1 << 20;

/// Most figures differ from this in a few words.
const TWO_RANKS: Figure = Figure {
    name: "",
    unit: "us",
    program: "",
    args: &[],
    sizes: Some((8, 4 * MIB)),
    ranks: 2,
    placement: Placement::Bound,
    reading: Reading::Column(1),
    better: Better::Lower,
    target: |_| Target::None,
    alone: false,
    quick: true,
};

const fn bandwidth(name: &'static str, target: fn(u64) -> Target) -> Figure {
    Figure { name, program: name, unit: "MB/s", better: Better::Higher, target, ..TWO_RANKS }
}

const fn collective(name: &'static str, args: &'static [&'static str], quick: bool) -> Figure {
    Figure { name, program: "collective", args, sizes: Some((8, MIB)), quick, ..TWO_RANKS }
}

/// 8 bytes among more ranks than cores.
const fn oversubscribed(name: &'static str, ranks: u32, target: fn(u64) -> Target) -> Figure {
    let args: &[&str] = &["allreduce", "-i", "1000"];
    let eight = Some((8, 8));
    let program = "collective";
    Figure {
        name,
        program,
        args,
        sizes: eight,
        ranks,
        placement: Placement::Oversubscribed,
        target,
        ..TWO_RANKS
    }
}

/// Messages of 8 bytes a second from several threads, which share the cores.
const fn threads(
    name: &'static str,
    args: &'static [&'static str],
    target: fn(u64) -> Target,
) -> Figure {
    let rate = bandwidth(name, target);
    let reading = Reading::Column(2);
    let unit = "1/s";
    let sizes = Some((8, 8));
    Figure {
        program: "mbw_mr_mt",
        unit,
        args,
        sizes,
        placement: Placement::Oversubscribed,
        reading,
        quick: false,
        ..rate
    }
}

const fn at_start(
    name: &'static str,
    ranks: u32,
    placement: Placement,
    target: fn(u64) -> Target,
) -> Figure {
    let reading = Reading::After("max: ");
    Figure {
        name,
        program: "init",
        unit: "ms",
        sizes: None,
        ranks,
        placement,
        reading,
        target,
        ..TWO_RANKS
    }
}

const fn queue(name: &'static str, column: usize) -> Figure {
    let reading = Reading::Ratio(column);
    let target = |_| Target::Limit(2.0);
    Figure {
        name,
        program: "queue",
        unit: "x",
        sizes: None,
        reading,
        target,
        alone: true,
        quick: false,
        ..TWO_RANKS
    }
}

/// MB/s that four ranks move to a file in memory; column 1 is that of writing, 2 of reading.
const fn file(
    name: &'static str,
    args: &'static [&'static str],
    column: usize,
    target: fn(u64) -> Target,
) -> Figure {
    let (program, sizes, reading) = ("files", Some((512, 256 << 10)), Reading::Column(column));
    let placement = Placement::Oversubscribed;
    let base = bandwidth(name, target);
    Figure { program, args, sizes, ranks: 4, placement, reading, quick: false, ..base }
}

/// Pieces that each rank moves by itself: from a page on, all libraries do it by the same calls.
fn copies_of_pieces(size: u64) -> Target {
    if size >= 4096 { Target::OfBest(0.9) } else { Target::None }
}

/// How many times the speed of pwrite (column 1) and pread (2) the same ranks reach by MPI, with a
/// part of the file for each.
const fn whole_file(name: &'static str, args: &'static [&'static str], column: usize) -> Figure {
    let target = |_| Target::Limit(0.95);
    let base = file(name, args, column, target);
    Figure { sizes: None, reading: Reading::Ratio(column), unit: "x", ..base }
}

/// What each rank moves, bytes, and a folder in memory or on a disk.
const BYTES: &str = "4194304";
const IN_MEMORY: &str = "/dev/shm";
const ON_DISK: &str = "/var/tmp";

const CONTIGUOUS: &[&str] = &["contiguous", "independent", BYTES, IN_MEMORY];
const CONTIGUOUS_ON_DISK: &[&str] = &["contiguous", "independent", BYTES, ON_DISK];
const STARTED: &[&str] = &["started", "independent", BYTES, IN_MEMORY];
const INTERLEAVED: &[&str] = &["interleaved", "collective", BYTES, IN_MEMORY];
const INTERLEAVED_ON_DISK: &[&str] = &["interleaved", "collective", BYTES, ON_DISK];
const SUBARRAY: &[&str] = &["subarray", "collective", BYTES, IN_MEMORY];
const SUBARRAY_ALONE: &[&str] = &["subarray", "independent", BYTES, IN_MEMORY];

/// Everything, in the order of running.
pub(super) const FIGURES: [Figure; 74] = [
    Figure {
        name: "latency",
        program: "latency",
        target: |size| Target::OfBest(if size <= 8 { 0.85 } else { 0.9 }),
        ..TWO_RANKS
    },
    bandwidth("bw", |size| if size >= 4096 { Target::OfBest(1.05) } else { Target::None }),
    bandwidth("bibw", |_| Target::OfBest(1.05)),
    Figure { unit: "1/s", reading: Reading::Column(2), ..bandwidth("mbw_mr", rate_of_messages) },
    collective("allreduce", &["allreduce"], true),
    collective("bcast", &["bcast"], true),
    Figure { sizes: None, reading: Reading::Single, ..collective("barrier", &["barrier"], true) },
    collective("reduce", &["reduce"], false),
    collective("allgather", &["allgather"], false),
    collective("alltoall", &["alltoall"], false),
    collective("gather", &["gather"], false),
    collective("scatter", &["scatter"], false),
    collective("reduce_scatter", &["reduce_scatter"], false),
    collective("bcast-barrier", &["bcast", "-b"], false),
    collective("reduce-barrier", &["reduce", "-b"], false),
    collective("gather-barrier", &["gather", "-b"], false),
    collective("scatter-barrier", &["scatter", "-b"], false),
    oversubscribed("crowded-8", 8, |_| Target::OfBest(0.6)),
    oversubscribed("crowded-32", 32, |_| Target::OfBest(0.4)),
    Figure {
        name: "one-core",
        program: "latency",
        args: &["-i", "1000"],
        sizes: Some((8, 8)),
        placement: Placement::OneCore,
        target: |_| Target::OfBest(0.5),
        ..TWO_RANKS
    },
    Figure {
        name: "spawned",
        program: "spawned",
        ranks: 1,
        placement: Placement::Oversubscribed,
        target: |size| if size <= 4096 { Target::OfBest(0.5) } else { Target::None },
        quick: false,
        ..TWO_RANKS
    },
    at_start("init", 2, Placement::Bound, |_| Target::Limit(5.0)),
    Figure {
        alone: true,
        ..at_start("init-64", 64, Placement::Oversubscribed, |_| Target::Limit(50.0))
    },
    Figure {
        args: &["-f"],
        unit: "MB",
        reading: Reading::After("private memory, max: "),
        ..at_start("memory", 2, Placement::Bound, |_| Target::Limit(8.0))
    },
    Figure {
        program: "hello",
        reading: Reading::Job,
        ..at_start("hello", 2, Placement::Bound, |_| Target::OfBest(0.4))
    },
    queue("unexpected-queue", 1),
    queue("posted-queue", 2),
    threads("threads-1", &["-t", "1"], |_| Target::None),
    threads("threads-2", &["-t", "2"], |_| Target::OfOwn("threads-1", 1.0)),
    threads("threads-3", &["-t", "3"], |_| Target::OfOwn("threads-1", 1.0)),
    threads("threads-4", &["-t", "4"], |_| Target::OfOwn("threads-1", 1.0)),
    Figure {
        name: "latency_mt",
        program: "latency_mt",
        sizes: Some((8, 65536)),
        placement: Placement::Oversubscribed,
        quick: false,
        ..TWO_RANKS
    },
    overlap("overlap", &["exchange"], Placement::Bound),
    overlap("overlap-assisted", &["exchange"], Placement::Assisted),
    overlap("overlap-alltoall", &["alltoall"], Placement::Bound),
    one_sided("rma-put", &["put", "allocate", "flush"], (8, 4 * MIB), half_for_words),
    one_sided("rma-get", &["get", "allocate", "flush"], (8, 4 * MIB), half_for_words),
    one_sided("rma-accumulate", &["accumulate", "allocate", "flush"], (8, 65536), |_| Target::None),
    one_sided("rma-fetch", &["fetch_and_op", "allocate", "flush"], (8, 8), half_for_words),
    one_sided("rma-swap", &["compare_and_swap", "allocate", "flush"], (8, 8), half_for_words),
    one_sided("rma-put-create", &["put", "create", "flush"], (8, 4 * MIB), |_| Target::None),
    one_sided("rma-put-shared", &["put", "shared", "flush"], (8, 8), half_for_words),
    one_sided("rma-put-dynamic", &["put", "dynamic", "flush"], (8, 65536), |_| Target::None),
    one_sided("rma-put-fence", &["put", "allocate", "fence"], (8, 65536), |_| Target::None),
    one_sided("rma-put-lock", &["put", "allocate", "lock"], (8, 65536), |_| Target::None),
    one_sided("rma-put-pscw", &["put", "allocate", "pscw"], (8, 65536), |_| Target::None),
    one_sided_rate("rma-put-bw", &["put_bw", "allocate", "flush"], |_| {
        // A put copies no faster than the program itself.
        Target::OfBestOrOwn { best: 1.1, figure: "rma-shared-copy", own: 0.95 }
    }),
    one_sided_rate("rma-get-bw", &["get_bw", "allocate", "flush"], |_| Target::None),
    one_sided_rate("rma-put-bw-fence", &["put_bw", "allocate", "fence"], |_| Target::None),
    one_sided_rate("rma-put-bw-create", &["put_bw", "create", "flush"], |_| Target::None),
    Figure {
        reading: Reading::Column(2),
        unit: "1/s",
        ..one_sided_rate("rma-put-rate", &["put_bw", "allocate", "flush"], |_| Target::None)
    },
    one_sided_rate("rma-shared-copy", &["copy", "shared", "flush"], |_| Target::None),
    synchronisation("rma-fence", &["none", "allocate", "fence"], |_| Target::OfBest(0.7)),
    synchronisation("rma-lock", &["none", "allocate", "lock"], |_| Target::OfBest(0.7)),
    synchronisation("rma-shared-lock", &["none", "allocate", "shared_lock"], |_| {
        Target::OfBest(0.7)
    }),
    synchronisation("rma-lock-all", &["none", "allocate", "lock_all"], |_| Target::None),
    synchronisation("rma-pscw", &["none", "allocate", "pscw"], |_| Target::None),
    one_sided("rma-passive", &["passive", "allocate", "flush"], (8, 8), |_| Target::None),
    Figure {
        name: "partitioned",
        program: "partitioned",
        args: &["-n", "2000"],
        quick: false,
        ..TWO_RANKS
    },
    Figure {
        name: "file-open",
        program: "files",
        args: &["open", "collective", BYTES, IN_MEMORY],
        sizes: None,
        ranks: 8,
        placement: Placement::Oversubscribed,
        reading: Reading::After("us "),
        target: |_| Target::OfBest(0.5),
        quick: false,
        ..TWO_RANKS
    },
    whole_file("file-write", CONTIGUOUS, 1),
    whole_file("file-read", CONTIGUOUS, 2),
    whole_file("file-write-on-disk", CONTIGUOUS_ON_DISK, 1),
    whole_file("file-read-on-disk", CONTIGUOUS_ON_DISK, 2),
    file("file-started-write", STARTED, 1, |_| Target::OfBest(1.0)),
    file("file-started-read", STARTED, 2, |_| Target::OfBest(1.0)),
    file("file-pieces-write", INTERLEAVED, 1, |_| Target::OfBest(1.5)),
    file("file-pieces-read", INTERLEAVED, 2, |_| Target::OfBest(1.5)),
    file("file-disk-write", INTERLEAVED_ON_DISK, 1, |_| Target::OfBest(1.5)),
    file("file-disk-read", INTERLEAVED_ON_DISK, 2, |_| Target::OfBest(1.5)),
    file("file-matrix-write", SUBARRAY, 1, |_| Target::OfBest(1.3)),
    file("file-matrix-read", SUBARRAY, 2, |_| Target::OfBest(1.3)),
    file("file-alone-write", SUBARRAY_ALONE, 1, copies_of_pieces),
    file("file-alone-read", SUBARRAY_ALONE, 2, copies_of_pieces),
];

/// Time of an operation on a window of two ranks, complete at the target.
const fn one_sided(
    name: &'static str,
    args: &'static [&'static str],
    sizes: (u64, u64),
    target: fn(u64) -> Target,
) -> Figure {
    Figure { name, program: "rma", args, sizes: Some(sizes), target, quick: false, ..TWO_RANKS }
}

/// Bytes a second of operations on a window of two ranks.
const fn one_sided_rate(
    name: &'static str,
    args: &'static [&'static str],
    target: fn(u64) -> Target,
) -> Figure {
    Figure { program: "rma", args, quick: false, ..bandwidth(name, target) }
}

/// Time of a synchronisation alone.
const fn synchronisation(
    name: &'static str,
    args: &'static [&'static str],
    target: fn(u64) -> Target,
) -> Figure {
    let reading = Reading::Single;
    Figure { name, program: "rma", args, sizes: None, reading, target, quick: false, ..TWO_RANKS }
}

fn half_for_words(size: u64) -> Target {
    if size <= 8 { Target::OfBest(0.5) } else { Target::None }
}

/// Over verbs. The last six are figures of ours again, compared with perftest alone.
pub(super) const VERBS: [Figure; 13] = [
    Figure {
        name: "latency",
        program: "latency",
        args: &["-n", "500", "-m", "8,4096,65536,1048576"],
        sizes: None,
        target: |size| match size {
            0..=4096 => Target::OfBestOr(0.909, "latency-polling"),
            _ => Target::OfBest(0.909),
        },
        ..TWO_RANKS
    },
    Figure {
        // A usual window, of 64 messages, takes longer than a job may where emulation is slow.
        args: &["-n", "40", "-W", "16", "-m", "8,4096,65536,1048576"],
        sizes: None,
        ..bandwidth("bw", |_| Target::OfBestOr(1.1, "bw-device"))
    },
    over_verbs("rma-put", &["put", "create", "flush", "-n", "500", "-m", SIZES], |size| {
        if size <= 8 { Target::OfBestOr(0.9, "rma-put-device") } else { Target::None }
    }),
    over_verbs("rma-get", &["get", "create", "flush", "-n", "500", "-m", SIZES], |size| {
        if size <= 8 { Target::OfBestOr(0.9, "rma-get-device") } else { Target::None }
    }),
    over_verbs("rma-fetch", &["fetch_and_op", "create", "flush", "-n", "500"], |_| {
        Target::OfBest(0.9)
    }),
    over_verbs(
        "rma-fetch-hint",
        &["fetch_and_op", "create", "flush", "-n", "500", "-k", "verbena_device_atomics=true"],
        |_| Target::OfBest(0.9),
    ),
    Figure {
        unit: "MB/s",
        better: Better::Higher,
        ..over_verbs(
            "rma-put-bw",
            &["put_bw", "create", "flush", "-n", "640", "-W", "16", "-m", SIZES],
            |size| {
                if size >= 65536 { Target::OfBest(1.1) } else { Target::None }
            },
        )
    },
    Figure {
        name: "latency-polling",
        program: "latency",
        target: |_| Target::OfBest(1.1),
        ..TWO_RANKS
    },
    Figure {
        program: "bw",
        ..bandwidth("bw-device", |size| Target::OfBest(if size < MIB { 0.95 } else { 0.97 }))
    },
    Figure {
        name: "rma-put-device",
        program: "rma-put",
        target: |_| Target::OfBest(1.15),
        ..TWO_RANKS
    },
    Figure {
        name: "rma-get-device",
        program: "rma-get",
        target: |_| Target::OfBest(1.15),
        ..TWO_RANKS
    },
    Figure {
        name: "rma-put-completion",
        program: "rma-put",
        target: |_| Target::OfBest(1.15),
        ..TWO_RANKS
    },
    Figure {
        name: "rma-fetch-device",
        program: "rma-fetch-hint",
        target: |_| Target::OfBest(1.15),
        ..TWO_RANKS
    },
];

/// The sizes that are measured between guests.
const SIZES: &str = "8,4096,65536,1048576";

/// An operation on windows of two ranks on two guests.
const fn over_verbs(
    name: &'static str,
    args: &'static [&'static str],
    target: fn(u64) -> Target,
) -> Figure {
    Figure { name, program: "rma", args, sizes: None, target, ..TWO_RANKS }
}

/// Over TCP. The last two are compared with a bare socket alone.
pub(super) const TCP: [Figure; 4] = [
    Figure {
        program: "latency",
        target: |size| if size <= 8 { Target::OfBest(0.85) } else { Target::None },
        ..over_tcp("latency")
    },
    bandwidth_over_tcp("bw", |size| match size >= 16 << 10 {
        true => Target::OfBest(1.15),
        false => Target::None,
    }),
    Figure {
        program: "latency",
        target: |size| if size <= 8 { Target::OfBest(1.1) } else { Target::None },
        ..over_tcp("latency-socket")
    },
    Figure { program: "bw", ..bandwidth_over_tcp("bw-socket", |_| Target::None) },
];

/// Runs are short, and rounds many: the speed of sockets changes by a factor of 3 with the state of
/// the machine, from second to second.
const fn over_tcp(name: &'static str) -> Figure {
    Figure { name, args: &["-n", "2000"], placement: Placement::OverTcp, ..TWO_RANKS }
}

const fn bandwidth_over_tcp(name: &'static str, target: fn(u64) -> Target) -> Figure {
    Figure { placement: Placement::OverTcp, args: &["-n", "200"], ..bandwidth(name, target) }
}

/// Time of a communication that is not hidden by as much computing.
const fn overlap(
    name: &'static str,
    args: &'static [&'static str],
    placement: Placement,
) -> Figure {
    let sizes = Some((4096, 4 * MIB));
    let reading = Reading::Column(4);
    Figure { name, program: "overlap", args, sizes, placement, reading, quick: false, ..TWO_RANKS }
}

fn rate_of_messages(size: u64) -> Target {
    match size {
        0..=64 => Target::OfBest(1.5),
        65..=4096 => Target::OfBest(1.2),
        _ => Target::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_those_of_targets_exist() {
        for (at, figure) in FIGURES.iter().enumerate() {
            assert!(
                FIGURES[..at].iter().all(|other| other.name != figure.name),
                "{} twice",
                figure.name
            );
            if let Some(name) = (figure.target)(8).own() {
                assert!(
                    ON_A_HOST.named(name).is_some(),
                    "{} is measured against {name}, which is not there",
                    figure.name
                );
            }
        }
    }
}
