//! What a rank offers when a window is created, and what all ranks make of it.

use fabric::{Atomic, AtomicFailure, Offload, OwnAtomics, Peer, Region, Transport, UserBuf};
use objects::{Class, Error, Info, Result};
use rma::AtomicsBy;
use shm_transport::WindowRange;

use crate::process::Process;
use crate::win::{DEVICE_ATOMICS, Flavor};

/// What a rank wants.
#[derive(Clone, Debug)]
pub struct Request {
    /// How the window is made.
    pub flavor: Flavor,
    /// The user's memory, of [`Flavor::Create`].
    pub memory: UserBuf,
    /// Bytes of this rank's memory.
    pub size: u64,
    /// Displacement unit, bytes.
    pub unit: u64,
    /// Hints.
    pub info: Info,
}

impl Request {
    /// Returns true if the range of a host depends on the sizes of its ranks.
    pub(super) fn needs_extents(&self) -> bool {
        matches!(self.flavor, Flavor::Allocate | Flavor::Shared)
    }

    /// Returns true if the target's process alone maps its memory, so that small puts and gets wait
    /// in a mailbox.
    pub(super) fn has_mailboxes(&self) -> bool {
        matches!(self.flavor, Flavor::Create | Flavor::Dynamic)
    }
}

/// The atomics that the RDMA device of a rank may do in a window. Ordered: all ranks take the least
/// that any of them offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Atomics {
    /// None.
    No = 0,
    /// Those of all ranks, since the user wants it.
    Alone = 1,
    /// Those of other hosts, beside processors.
    Global = 2,
}

impl Atomics {
    pub(super) fn of(p: &Process, request: &Request) -> Result<Atomics> {
        let hint = request.info.value(DEVICE_ATOMICS)?;
        let verbs = p.core.as_deref().and_then(|core| core.stack.endpoint.inter()?.verbs());
        let offload = verbs.map_or(Offload::Processor, |verbs| verbs.caps(Peer(0)).offload);
        Ok(match offload {
            _ if hint == Some(b"false") || request.flavor == Flavor::Dynamic => Atomics::No,
            Offload::GlobalAtomics => Atomics::Global,
            Offload::DeviceAtomics if hint == Some(b"true") => Atomics::Alone,
            _ => Atomics::No,
        })
    }

    fn from_wire(byte: u8) -> Atomics {
        match byte {
            2 => Atomics::Global,
            1 => Atomics::Alone,
            _ => Atomics::No,
        }
    }
}

/// What the ranks tell each other before they open the window.
pub(super) struct Offer {
    /// The range of the host; of its first rank.
    pub(super) range: Option<WindowRange>,
    /// The user's memory, for single copy by ranks of the host.
    pub(super) region: Option<Region>,
    pub(super) failed: bool,
    /// The process takes part in the barriers of others (`fabric::membarrier`), or no other one
    /// shares memory with it.
    pub(super) has_barriers: bool,
    pub(super) atomics: Atomics,
}

impl Offer {
    pub(super) const BYTES: usize = 4 + WindowRange::SIZE + Region::SIZE;

    /// Encodes failed and has-barriers (1), has-range (1), has-region (1), atomics (1), range and
    /// region.
    pub(super) fn encode(&self) -> [u8; Offer::BYTES] {
        let mut out = [0; Offer::BYTES];
        out[0] = u8::from(self.failed) | u8::from(self.has_barriers) << 1;
        out[3] = self.atomics as u8;
        if let Some(range) = &self.range {
            out[1] = 1;
            out[4..4 + WindowRange::SIZE].copy_from_slice(&range.encode());
        }
        if let Some(region) = &self.region {
            out[2] = 1;
            out[4 + WindowRange::SIZE..].copy_from_slice(&region.encode());
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Offer {
        let (range, region) = bytes[4..].split_at(WindowRange::SIZE);
        let range = if bytes[1] == 1 { WindowRange::decode(range) } else { None };
        let region = if bytes[2] == 1 { Region::decode(region) } else { None };
        let (failed, has_barriers) = (bytes[0] & 1 != 0, bytes[0] & 2 != 0);
        let atomics = Atomics::from_wire(bytes[3]);
        Offer { range, region, failed, has_barriers, atomics }
    }
}

/// Returns who changes elements of 8 bytes in accumulates: the same on all ranks.
pub(super) fn atomics(p: &mut Process, offers: &[Offer], memory: UserBuf) -> Result<AtomicsBy> {
    let least = offers.iter().map(|offer| offer.atomics).min();
    let verbs = p.core()?.stack.endpoint.inter().and_then(|inter| inter.verbs());
    let refused = |error| {
        let text = format!("the RDMA device cannot change this rank's own memory: {error}");
        Error::new(Class::Other, text)
    };
    match (least, verbs) {
        (Some(Atomics::Global), Some(_)) => Ok(AtomicsBy::Both),
        (Some(Atomics::Alone), Some(_)) if memory.is_empty() => {
            Ok(AtomicsBy::Devices(Box::new(Nothing)))
        }
        (Some(Atomics::Alone), Some(verbs)) => {
            verbs.own_atomics(memory).map(AtomicsBy::Devices).map_err(refused)
        }
        _ => Ok(AtomicsBy::Processors),
    }
}

/// The atomics on no memory.
#[derive(Debug)]
struct Nothing;

impl OwnAtomics for Nothing {
    fn change(&self, _: UserBuf, _: Atomic) -> std::result::Result<u64, AtomicFailure> {
        Err(AtomicFailure::Gone)
    }
}
