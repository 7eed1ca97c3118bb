//! The options of the stand-in, read from the variable [`VARIABLE`] when a device list is
//! requested first: words `name=value` with spaces between them. An unknown word is reported on
//! standard error and ends the process: a test must not run without the fault that it names.
//!
//! - `devices=NAME/LINK,...`: devices; LINK is `ib`, `grh` (InfiniBand that requires routes),
//!   `roce`, `iwarp` or `efa` (otherwise `stand0/ib`)
//! - `ports=N`: ports of each device, 1 or 2 (otherwise 1)
//! - `host=N`: number of the pretended host (otherwise VERBENA_RANK less VERBENA_LOCAL_RANK)
//! - `fabric=NAME`: devices of different fabrics do not reach each other (otherwise `0`)
//! - `seed=N`: seed of all faults; each context adds its number (otherwise 1)
//! - `pkeys=HEX,...`: partition keys of each port (otherwise `ffff`)
//! - `loss=N`: packets lost, in a million (otherwise 0)
//! - `unanswered=N`: parts of answers to reads lost, in a million (otherwise 0)
//! - `cut=A>B,...`: all packets from host A to host B are lost (otherwise none)
//! - `unrouted=N`: a datagram from a port that is down: 0: is lost; 1: puts its queue pair into
//!   ERR, as `rdma_rxe` does; 2: into SQE (otherwise 0)
//! - `unreachable=N,...`: devices to whose addresses there is no way, by their numbers in the
//!   network: `host` times the number of devices, and the place in the list (otherwise none)
//! - `lookup=N`: µs that the system takes to find that (otherwise 0)
//! - `mtu=N`: largest packet of the ports in bytes, 256 to 4096 (otherwise 4096)
//! - `path=N`: most bytes of a packet that is not lost on the way (otherwise 4096)
//! - `late=N`: completions come up to N µs late (otherwise 0)
//! - `lots=N`: completions come in lots, N µs apart (otherwise 0)
//! - `place=N`: parts of writes are placed up to N µs late, in any order (otherwise 0)
//! - `early=1`: a write is acknowledged before it is placed (otherwise 0)
//! - `overtake=1`: a send does not wait for the writes before it to be placed, unless they are
//!   acknowledged by then (otherwise 0)
//! - `prefetch=N`: receives that a queue pair takes from a shared queue in advance (otherwise 0)
//! - `rnr=N`: sends that find no receive although there is one, in a million (otherwise 0)
//! - `refuse=N`: posts of receives refused in part, in a million (otherwise 0)
//! - `broken=N`: requests at which a queue pair fails, in a million (otherwise 0)
//! - `inline=N`: most bytes inline (otherwise 220)
//! - `vectors=N`: vectors of interrupts for completions (otherwise 1)
//! - `srq=N`: most receives of a shared queue (otherwise 32767)
//! - `lacks_srq=NAME,...`: devices without shared receive queues (otherwise none)
//! - `refuses_srq=NAME,...`: devices that have shared receive queues and refuse to make one
//!   (otherwise none)
//! - `qps=N`: most queue pairs of a context; 0: any number (otherwise 0)
//! - `pinned=N`: most KiB that are registered in a context; 0: any number (otherwise 0)
//! - `reads=N`: reads under way on a queue pair (otherwise 16)
//! - `atomics=N`: 0: none; 1: towards each other alone; 2: towards processors too (otherwise 1)
//! - `dc=1`: dynamically connected queue pairs (otherwise 0)
//! - `odp=1`: on-demand paging (otherwise 0)
//! - `copies=N`: what `ibv_is_fork_initialized` answers: 0, 1, 2 (the kernel copies); 9: absent
//!   (otherwise 2)
//! - `sysfs=PATH`: folder in place of /sys/class/infiniband (otherwise that)

use std::time::Duration;

use verbs_transport::ibv::layout::{ATOMIC_DEVICE, ATOMIC_GLOBAL};

/// The environment variable with the options.
pub const VARIABLE: &str = "VERBS_DEVICE_OPTIONS";

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// InfiniBand.
    Ib,
    /// InfiniBand whose packets all need a global route header.
    Grh,
    /// RDMA over Ethernet, version 2.
    Roce,
    /// Internet Wide Area RDMA: no LIDs, no datagrams.
    Iwarp,
    /// Elastic Fabric Adapter: no reliable connections.
    Efa,
}

/// All options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names and kinds.
    pub devices: Vec<(String, Link)>,
    /// Ports of each device.
    pub ports: u8,
    /// Number of the pretended host.
    pub host: u16,
    /// Name of the network.
    pub fabric: String,
    /// Seed of all faults.
    pub seed: u64,
    /// Partition keys of each port.
    pub pkeys: Vec<u16>,
    /// Packets lost, in a million.
    pub loss: u32,
    /// Parts of answers to reads lost, in a million.
    pub unanswered: u32,
    /// Pairs of hosts; what the first sends to the second is lost.
    pub cut: Vec<(u16, u16)>,
    /// State of a queue pair whose datagram finds no route: 0: as before; 1: ERR; 2: SQE.
    pub unrouted: u32,
    /// Numbers of the devices to whose addresses there is no way.
    pub unreachable: Vec<u16>,
    /// Time that the system takes to find that.
    pub lookup: Duration,
    /// Largest packet of the ports, bytes.
    pub mtu: u32,
    /// Most bytes of a packet that is not lost on the way.
    pub path: u32,
    /// Longest delay of a completion.
    pub late: Duration,
    /// Time between two lots of completions; zero: each comes alone.
    pub lots: Duration,
    /// Longest delay of a part of a write.
    pub place: Duration,
    /// A write is acknowledged before it is placed.
    pub early: bool,
    /// A send does not wait for writes before it.
    pub overtake: bool,
    /// Receives that a queue pair takes in advance.
    pub prefetch: usize,
    /// Sends that find no receive, in a million.
    pub rnr: u32,
    /// Posts of receives refused, in a million.
    pub refuse: u32,
    /// Requests at which a queue pair fails, in a million.
    pub broken: u32,
    /// Most bytes inline.
    pub inline: u32,
    /// Vectors of interrupts for completions.
    pub vectors: u32,
    /// Most receives of a shared queue.
    pub srq: u32,
    /// Names of the devices without shared receive queues.
    pub lacks_srq: Vec<String>,
    /// Names of the devices that refuse to make a shared receive queue.
    pub refuses_srq: Vec<String>,
    /// Most queue pairs; 0: any number.
    pub qps: u32,
    /// Most KiB that are registered; 0: any number.
    pub pinned: u32,
    /// Most reads under way.
    pub reads: u8,
    /// Atomic operations, as `atomic_cap` numbers them.
    pub atomics: u32,
    /// Dynamically connected queue pairs.
    pub dc: bool,
    /// On-demand paging.
    pub odp: bool,
    /// Answer of `ibv_is_fork_initialized`.
    pub copies: i32,
    /// Folder of the devices.
    pub sysfs: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            devices: vec![("stand0".into(), Link::Ib)],
            ports: 1,
            host: 0,
            fabric: "0".into(),
            seed: 1,
            pkeys: vec![0xffff],
            loss: 0,
            unanswered: 0,
            cut: Vec::new(),
            unrouted: 0,
            unreachable: Vec::new(),
            lookup: Duration::ZERO,
            mtu: 4096,
            path: 4096,
            late: Duration::ZERO,
            lots: Duration::ZERO,
            place: Duration::ZERO,
            early: false,
            overtake: false,
            prefetch: 0,
            rnr: 0,
            refuse: 0,
            broken: 0,
            inline: 220,
            vectors: 1,
            srq: 32_767,
            lacks_srq: Vec::new(),
            refuses_srq: Vec::new(),
            qps: 0,
            pinned: 0,
            reads: 16,
            atomics: ATOMIC_DEVICE,
            dc: false,
            odp: false,
            copies: 2,
            sysfs: "/sys/class/infiniband".into(),
        }
    }
}

impl Options {
    /// Returns the options of the environment.
    pub fn from_environment() -> Result<Options, String> {
        let mut options = Options { host: pretended_host(), ..Options::default() };
        options.apply(&std::env::var(VARIABLE).unwrap_or_default())?;
        Ok(options)
    }

    /// Changes the options that `text` names.
    pub fn apply(&mut self, text: &str) -> Result<(), String> {
        for word in text.split_whitespace() {
            let value = word.split_once('=').and_then(|(name, value)| self.set(name, value));
            value.ok_or_else(|| format!("invalid word {word} for the stand-in of libibverbs"))?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u32>().ok();
        let micros = || number().map(|micros| Duration::from_micros(micros.into()));
        match name {
            "devices" => self.devices = value.split(',').map(device).collect::<Option<_>>()?,
            "ports" => self.ports = u8::try_from(number()?).ok().filter(|n| (1..=2).contains(n))?,
            "host" => self.host = u16::try_from(number()?).ok()?,
            "fabric" => self.fabric = value.to_owned(),
            "seed" => self.seed = value.parse().ok()?,
            "pkeys" => {
                let key = |text| u16::from_str_radix(text, 16).ok();
                self.pkeys = value.split(',').map(key).collect::<Option<_>>()?;
            }
            "loss" => self.loss = number()?,
            "unanswered" => self.unanswered = number()?,
            "cut" => {
                let pair = |text: &str| {
                    let (from, to) = text.split_once('>')?;
                    Some((from.parse().ok()?, to.parse().ok()?))
                };
                self.cut = value.split(',').map(pair).collect::<Option<_>>()?;
            }
            "unrouted" => self.unrouted = number().filter(|&what| what <= 2)?,
            "unreachable" => {
                let number = |text: &str| text.parse().ok();
                self.unreachable = value.split(',').map(number).collect::<Option<_>>()?;
            }
            "lookup" => self.lookup = micros()?,
            "mtu" => self.mtu = number().filter(is_packet)?,
            "path" => self.path = number().filter(is_packet)?,
            "late" => self.late = micros()?,
            "lots" => self.lots = micros()?,
            "place" => self.place = micros()?,
            "early" => self.early = number()? != 0,
            "overtake" => self.overtake = number()? != 0,
            "prefetch" => self.prefetch = number()? as usize,
            "rnr" => self.rnr = number()?,
            "refuse" => self.refuse = number()?,
            "broken" => self.broken = number()?,
            "inline" => self.inline = number()?,
            "vectors" => self.vectors = number().filter(|&count| count > 0)?,
            "srq" => self.srq = number()?,
            "lacks_srq" => self.lacks_srq = names(value),
            "refuses_srq" => self.refuses_srq = names(value),
            "qps" => self.qps = number()?,
            "pinned" => self.pinned = number()?,
            "reads" => self.reads = u8::try_from(number()?).ok()?,
            "atomics" => self.atomics = number().filter(|&cap| cap <= ATOMIC_GLOBAL)?,
            "dc" => self.dc = number()? != 0,
            "odp" => self.odp = number()? != 0,
            "copies" => self.copies = number()? as i32,
            "sysfs" => self.sysfs = value.to_owned(),
            _ => return None,
        }
        Some(())
    }
}

/// Returns whether ports may have packets of so many bytes.
fn is_packet(bytes: &u32) -> bool {
    bytes.is_power_of_two() && (256..=4096).contains(bytes)
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn device(text: &str) -> Option<(String, Link)> {
    let (name, link) = text.split_once('/')?;
    let link = match link {
        "ib" => Link::Ib,
        "grh" => Link::Grh,
        "roce" => Link::Roce,
        "iwarp" => Link::Iwarp,
        "efa" => Link::Efa,
        _ => return None,
    };
    Some((name.to_owned(), link))
}

/// Returns the number of the host that the launcher pretends: that of its first rank.
fn pretended_host() -> u16 {
    let number = |name| std::env::var(name).ok()?.parse::<u16>().ok();
    let (rank, local) = (number("VERBENA_RANK"), number("VERBENA_LOCAL_RANK"));
    rank.zip(local).map_or(0, |(rank, local)| rank - local.min(rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_options_and_unknown_ones_are_refused() {
        let mut options = Options::default();
        options.apply("devices=a/ib,b/roce late=50 pkeys=7fff,8001 overtake=1 cut=0>2").unwrap();
        assert_eq!(options.devices[1], ("b".to_owned(), Link::Roce));
        assert_eq!((options.late, options.overtake), (Duration::from_micros(50), true));
        assert_eq!(options.pkeys, [0x7fff, 0x8001]);
        assert_eq!(options.cut, [(0, 2)]);
        for wrong in [
            "late",
            "late=x",
            "lat=1",
            "devices=a",
            "devices=a/b",
            "ports=3",
            "cut=0",
            "unrouted=3",
            "mtu=1500",
        ] {
            assert!(options.apply(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
