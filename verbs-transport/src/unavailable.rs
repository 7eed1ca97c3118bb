//! Why there is no RDMA, each in one line that ends with what to do about it.
//!
//! Whoever asked for RDMA by name is shown the line; whoever did not is spared it,
//! and `verbena doctor` prints it.

use std::io;

use crate::ibv::LibraryError;

/// Why RDMA can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// There is no libibverbs.
    #[error(
        "{0}. Install it with the drivers' part (Debian: `apt-get install libibverbs1 ibverbs-providers`; Red Hat: \
         `dnf install libibverbs`); in a container, inside of it"
    )]
    Library(#[from] LibraryError),
    /// The kernel has no device.
    #[error(
        "the kernel knows no RDMA device. Load the adapter's driver (`modprobe mlx5_ib`), or make a Soft-RoCE one: \
         `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`"
    )]
    NoDevice,
    /// The kernel has devices, the library shows none.
    #[error(
        "the kernel has the RDMA devices {kernel}, but libibverbs shows none of them. {}",
        if *has_files {
            "Its part for this kind of adapter is missing: install ibverbs-providers (Red Hat: libibverbs), in the \
             container too"
        } else {
            "The files below /dev/infiniband are missing: load ib_uverbs (`modprobe ib_uverbs`); for a container, \
             start it with `--device=/dev/infiniband`"
        }
    )]
    Hidden {
        /// Their names.
        kernel: String,
        /// /dev/infiniband exists.
        has_files: bool,
    },
    /// The device that was asked for is not there.
    #[error(
        "there is no RDMA device {asked} (verbs.device); there is {present}. Set verbs.device to one of these, or auto"
    )]
    NoSuchDevice {
        /// What was asked for.
        asked: String,
        /// What there is.
        present: String,
    },
    /// Not allowed to open it.
    #[error(
        "the RDMA device {0} may not be opened by this user. Let it read and write /dev/infiniband/uverbs* (udev rule \
         with MODE=\"0666\", or its group); for a container, start it with `--device=/dev/infiniband`"
    )]
    Permission(String),
    /// Something else went wrong with it.
    #[error(
        "the RDMA device {device} can't be used: {what} fails ({error}). Try `ibv_devinfo -d {device}`, then the kernel's log (`dmesg`)"
    )]
    Broken {
        /// Its name.
        device: String,
        /// Which step.
        what: &'static str,
        /// As the system says it.
        error: io::Error,
    },
    /// A way of keeping registrations that was asked for is not to be had.
    #[error("verbs.registration = \"{way}\" can't be had: {why}. Set verbs.registration to auto")]
    Registration {
        /// As the knob names it.
        way: &'static str,
        /// What is missing.
        why: String,
    },
    /// Ports that were asked for beside the first can't be.
    #[error(
        "verbs.rails = \"{0}\" must name at most three devices, each as name or name:port, as in \"mlx5_1,mlx5_2:1\""
    )]
    Rails(String),
    /// The port that was asked for is not there.
    #[error(
        "the RDMA device {device} has no port {port} (verbs.port), but ports 1 to {count}. Set verbs.port to one of these, or auto"
    )]
    NoSuchPort {
        /// The device.
        device: String,
        /// What was asked for.
        port: u8,
        /// How many there are.
        count: u8,
    },
    /// No port can carry traffic.
    #[error("no usable RDMA port: {0}")]
    PortsDown(String),
    /// The port has no such address.
    #[error(
        "port {port} of {device} has no {what}. `ibv_devinfo -v -d {device}` lists its GIDs; {remedy}"
    )]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// What was looked for.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The port is not in the partition.
    #[error(
        "port {port} of {device} is not in partition {pkey:#06x} (verbs.pkey). \
         /sys/class/infiniband/{device}/ports/{port}/pkeys/ has its keys; the subnet manager hands them out"
    )]
    NoPkey {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// What was asked for.
        pkey: u16,
    },
    /// The limit of locked memory is in the way.
    #[error(
        "RDMA needs more locked memory than the limit of {} KiB allows. Raise it: `ulimit -l unlimited`, `* - memlock \
         unlimited` in /etc/security/limits.conf, LimitMEMLOCK=infinity for a systemd service (slurmd), `docker run \
         --ulimit memlock=-1`",
        limit >> 10
    )]
    Memlock {
        /// Bytes.
        limit: u64,
    },
    /// The job's store does not work.
    #[error("the addresses of RDMA can't be exchanged: {0}")]
    Store(String),
}

impl Unavailable {
    /// A step that failed. Blames the limit of locked memory where that is the likely
    /// reason: the kernel only says that there is no memory.
    pub(crate) fn step(device: &str, what: &'static str, error: io::Error) -> Unavailable {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        match (error.raw_os_error(), limit) {
            (Some(libc::ENOMEM | libc::EAGAIN | libc::EPERM), Some(limit)) if limit < 1 << 30 => {
                Unavailable::Memlock { limit }
            }
            (Some(libc::EACCES | libc::EPERM), _) => Unavailable::Permission(device.to_owned()),
            _ => Unavailable::Broken { device: device.to_owned(), what, error },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_one_line_with_a_remedy() {
        let device = || "mlx5_0".to_owned();
        let reasons = [
            Unavailable::Library(LibraryError::Missing("no such file".into())),
            Unavailable::NoDevice,
            Unavailable::Hidden { kernel: device(), has_files: true },
            Unavailable::Hidden { kernel: device(), has_files: false },
            Unavailable::NoSuchDevice { asked: "x".into(), present: device() },
            Unavailable::Permission(device()),
            Unavailable::Broken {
                device: device(),
                what: "opening it",
                error: io::Error::from_raw_os_error(5),
            },
            Unavailable::NoSuchPort { device: device(), port: 3, count: 2 },
            Unavailable::NoPkey { device: device(), port: 1, pkey: 0x7fff },
            Unavailable::Memlock { limit: 64 << 10 },
            Unavailable::Rails("a,b,c,d".into()),
            Unavailable::Registration {
                way: "odp",
                why: "the device does not page on demand".into(),
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
