//! Why RDMA cannot be used: one line for each reason, which ends with a remedy.
//!
//! A job that requires RDMA by name prints the line and ends. Any other uses another transport, and
//! `verbena doctor` prints the line.

use std::io;

use crate::ibv::LibraryError;

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
    #[error(
        "invalid RDMA device {requested} (verbs.devices): must be {present}, a pattern, or auto"
    )]
    NoSuchDevice {
        /// The value of the knob.
        requested: String,
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
    #[error(
        "invalid port {port} of the RDMA device {device} (verbs.port): must be 1 to {count}, or auto"
    )]
    NoSuchPort {
        /// The device.
        device: String,
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
            Unavailable::NoSuchDevice { requested: "x".into(), present: device() },
            Unavailable::Permission(device()),
            Unavailable::Broken {
                device: device(),
                what: "opening it",
                error: io::Error::from_raw_os_error(5),
            },
            Unavailable::NoSuchPort { device: device(), port: 3, count: 2 },
            Unavailable::NoPkey { device: device(), port: 1, pkey: 0x7fff },
            Unavailable::Memlock { limit: 64 << 10 },
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
