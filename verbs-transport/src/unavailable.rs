//! Why RDMA cannot be used: one line for each reason, which ends with a remedy.
//!
//! A job that requires RDMA by name prints the line and ends. Any other uses another transport, and
//! `verbena doctor` prints the line.

use std::io;

use crate::ibv::LibraryError;

/// Most memory that a queue pair locks, bytes.
const QUEUE_PAIR_BYTES: u64 = 1 << 20;

/// Why RDMA cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// libibverbs is missing or cannot be loaded.
    #[error(
        "{0}. Install it with its drivers (Debian: `apt-get install libibverbs1 ibverbs-providers`; Red Hat: \
         `dnf install libibverbs`); for a container, inside of it"
    )]
    Library(#[from] LibraryError),
    /// The kernel has no device.
    #[error(
        "the kernel has no RDMA device. Load the adapter's driver (`modprobe mlx5_ib`), or make a Soft-RoCE device: \
         `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`"
    )]
    NoDevice,
    /// The kernel has devices, the library shows none.
    #[error(
        "the kernel has the RDMA devices {kernel}, but libibverbs shows none of them. {}",
        if *has_files {
            "Its driver for this adapter is missing: install ibverbs-providers (Red Hat: libibverbs), in the \
             container too"
        } else {
            "The files below /dev/infiniband are missing: load ib_uverbs (`modprobe ib_uverbs`); for a container, \
             start it with `--device=/dev/infiniband`"
        }
    )]
    Hidden {
        /// Names of the devices.
        kernel: String,
        /// Whether /dev/infiniband exists.
        has_files: bool,
    },
    /// The chosen device does not exist.
    #[error("invalid RDMA device {requested} ({knob}): must be {present}, a pattern, or auto")]
    NoSuchDevice {
        /// The device that the knob names.
        requested: String,
        /// The knob.
        knob: &'static str,
        /// The devices that exist.
        present: String,
    },
    /// The user has no right to open the device.
    #[error(
        "permission denied to open the RDMA device {0}: this user must be able to read and write \
         /dev/infiniband/uverbs* (udev rule with MODE=\"0666\", or its group); for a container, start it with `--device=/dev/infiniband`"
    )]
    Permission(String),
    /// A step of the set-up failed.
    #[error(
        "the RDMA device {device} cannot be used: {what} fails ({error}). Try `ibv_devinfo -d {device}`, then the kernel's log (`dmesg`)"
    )]
    Broken {
        /// Name of the device.
        device: String,
        /// The step.
        what: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// The chosen way to keep registrations is not possible.
    #[error(
        "verbs.registration = \"{mode}\" is not possible: {why}. Set verbs.registration to auto"
    )]
    Registration {
        /// The value of the knob.
        mode: &'static str,
        /// The missing part.
        why: String,
    },
    /// The list of devices is invalid.
    #[error(
        "invalid verbs.devices = \"{0}\": must be names or patterns, each as name or name:port, excluded with ^ in front, as in \"mlx5_0:1,mlx5_2:1\" or \"mlx5_*,^mlx5_bond_0\""
    )]
    DeviceList(String),
    /// The list names too many ports.
    #[error("verbs.devices names {count} ports of this host: a process uses at most {max}")]
    TooManyPorts {
        /// The ports.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The chosen port does not exist.
    #[error("invalid port {port} of the RDMA device {device} ({knob}): must be 1 to {count}")]
    NoSuchPort {
        /// The device.
        device: String,
        /// The knob that names it.
        knob: &'static str,
        /// The value of the knob.
        port: u8,
        /// Ports of the device.
        count: u8,
    },
    /// No port can carry traffic.
    #[error("no usable RDMA port: {0}")]
    PortsDown(String),
    /// The port has no such GID.
    #[error(
        "port {port} of {device} has no {what}. `ibv_devinfo -v -d {device}` lists its GIDs; {remedy}"
    )]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The GID that was looked for.
        what: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The port is not in the partition.
    #[error(
        "port {port} of {device} is not in partition {pkey:#06x} (verbs.pkey). \
         /sys/class/infiniband/{device}/ports/{port}/pkeys/ has its keys, which the subnet manager assigns"
    )]
    NoPkey {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The value of the knob.
        pkey: u16,
    },
    /// The limit on locked memory is too low.
    #[error(
        "the limit on locked memory of {} KiB is too low for RDMA. Raise it: `ulimit -l unlimited`, `* - memlock \
         unlimited` in /etc/security/limits.conf, LimitMEMLOCK=infinity for a systemd service (slurmd), `docker run \
         --ulimit memlock=-1`",
        limit >> 10
    )]
    Memlock {
        /// The limit, bytes.
        limit: u64,
    },
    /// The device has no further queue pair.
    #[error(
        "{device} refuses a queue pair beside the {others} of this process ({error}). It has \
         {count} for all processes (max_qp of `ibv_devinfo -v -d {device}`): let fewer of them \
         share it, or set verbs.connections to less"
    )]
    NoQueuePair {
        /// The device.
        device: String,
        /// Queue pairs that the process has.
        others: u32,
        /// Queue pairs of the device.
        count: i32,
        /// The error of the system.
        error: io::Error,
    },
    /// The job's store of addresses does not work.
    #[error("cannot publish this process's RDMA address: {0}")]
    Store(String),
}

impl Unavailable {
    /// Returns true if the host has no RDMA at all: users do not expect it then.
    pub fn is_absent(&self) -> bool {
        matches!(self, Unavailable::Library(_) | Unavailable::NoDevice)
    }

    /// Returns the error of a failed step. Names the limit on locked memory where that is the
    /// likely reason: the kernel only reports a lack of memory.
    pub(crate) fn step(device: &str, what: &'static str, error: io::Error) -> Unavailable {
        Unavailable::memlock(&error).unwrap_or_else(|| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Unavailable::Permission(device.to_owned()),
            _ => Unavailable::Broken { device: device.to_owned(), what, error },
        })
    }

    /// Returns the limit on locked memory as the reason, where it is the likely one of an error.
    pub(crate) fn memlock(error: &io::Error) -> Option<Unavailable> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        let is_likely =
            matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EAGAIN | libc::EPERM));
        let limit = limit.filter(|&limit| is_likely && limit < 1 << 30)?;
        Some(Unavailable::Memlock { limit })
    }

    /// Returns the error of a device with `count` queue pairs that refuses one beside `others` of
    /// this process.
    pub(crate) fn queue_pair(
        (device, count): (&str, i32),
        others: u32,
        error: io::Error,
    ) -> Unavailable {
        Unavailable::queue_pair_within(lockable(), (device, count), others, error)
    }

    /// As `queue_pair`, with the limit on locked memory and what it leaves. The kernel reports a
    /// lack of memory also where the device has no queue pair left, which takes little memory.
    fn queue_pair_within(
        lockable: Option<(u64, u64)>,
        (device, count): (&str, i32),
        others: u32,
        error: io::Error,
    ) -> Unavailable {
        let device = device.to_owned();
        let exhausted = lockable.filter(|&(_, left)| left < QUEUE_PAIR_BYTES);
        match (error.raw_os_error(), exhausted) {
            (Some(libc::ENOMEM), Some((limit, _))) => Unavailable::Memlock { limit },
            (Some(libc::ENOMEM | libc::EAGAIN | libc::ENOSPC), _) => {
                Unavailable::NoQueuePair { device, others, count, error }
            }
            (Some(libc::EACCES | libc::EPERM), _) => Unavailable::Permission(device),
            _ => Unavailable::Broken { device, what: "making a queue pair", error },
        }
    }
}

/// Returns the limit on locked memory, and how much of it is left; `None` without a limit.
fn lockable() -> Option<(u64, u64)> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pinned = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
    let pinned = pinned.and_then(|kib| kib.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Some((limit, limit.saturating_sub(pinned.unwrap_or(0) << 10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_one_line_with_a_remedy() {
        let device = || "mlx5_0".to_owned();
        let reasons = [
            Unavailable::Library(LibraryError::Missing {
                file: "libibverbs.so.1".into(),
                why: "no such file".into(),
            }),
            Unavailable::NoDevice,
            Unavailable::Hidden { kernel: device(), has_files: true },
            Unavailable::Hidden { kernel: device(), has_files: false },
            Unavailable::NoSuchDevice {
                requested: "x".into(),
                knob: "verbs.devices",
                present: device(),
            },
            Unavailable::Permission(device()),
            Unavailable::Broken {
                device: device(),
                what: "opening it",
                error: io::Error::from_raw_os_error(5),
            },
            Unavailable::NoSuchPort { device: device(), knob: "verbs.port", port: 3, count: 2 },
            Unavailable::NoPkey { device: device(), port: 1, pkey: 0x7fff },
            Unavailable::Memlock { limit: 64 << 10 },
            Unavailable::NoQueuePair {
                device: device(),
                others: 2,
                count: 16_384,
                error: io::Error::from_raw_os_error(libc::ENOMEM),
            },
            Unavailable::DeviceList("a:".into()),
            Unavailable::TooManyPorts { count: 5, max: 4 },
            Unavailable::Registration {
                mode: "odp",
                why: "the device has no on-demand paging".into(),
            },
        ];
        for reason in reasons {
            let line = reason.to_string();
            assert!(!line.contains('\n') && !line.contains("  ") && line.len() > 60, "{line:?}");
        }
    }

    #[test]
    fn a_refused_queue_pair_is_blamed_on_the_limit_only_where_that_leaves_no_memory() {
        let reason = |lockable, code| {
            let error = io::Error::from_raw_os_error(code);
            Unavailable::queue_pair_within(lockable, ("mlx5_0", 16_384), 2, error)
        };
        let (low, used_up, enough) = ((64 << 10, 64 << 10), (8 << 20, 4096), (8 << 20, 2 << 20));
        for limit in [low, used_up] {
            let memlock = reason(Some(limit), libc::ENOMEM);
            assert!(matches!(memlock, Unavailable::Memlock { .. }), "{memlock}");
        }
        for (lockable, code) in
            [(Some(enough), libc::ENOMEM), (None, libc::ENOMEM), (Some(low), libc::EAGAIN)]
        {
            let why = reason(lockable, code).to_string();
            assert!(why.contains("beside the 2 of") && why.contains("has 16384 for all"), "{why}");
        }
        assert!(matches!(reason(Some(low), libc::EINVAL), Unavailable::Broken { .. }));
    }

    #[test]
    fn a_lack_of_memory_is_blamed_on_the_limit_only_where_there_is_one() {
        let error =
            Unavailable::step("x", "making a queue", io::Error::from_raw_os_error(libc::ENOMEM));
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        assert_eq!(
            matches!(error, Unavailable::Memlock { .. }),
            limit.is_some_and(|limit| limit < 1 << 30)
        );
        let error =
            Unavailable::step("x", "making a queue", io::Error::from_raw_os_error(libc::EIO));
        assert!(matches!(error, Unavailable::Broken { .. }));
    }
}
