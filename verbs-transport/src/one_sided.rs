//! The RMA part of the seam: registration of memory for peers, and operations on theirs.

use fabric::{OneSided, Peer, PeerFailed, Region, Rights, Transfer, UserBuf};

use crate::endpoint::rma::{Local, Path};
use crate::ibv::layout::access;
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Registers memory for a peer; `None` if the system refuses.
    pub(crate) fn register_for(
        &mut self,
        peer: Peer,
        memory: UserBuf,
        rights: Rights,
    ) -> Option<Region> {
        let access = match rights {
            Rights::Get => access::REMOTE_READ,
            // What an initiator has written is read back.
            Rights::Put if self.dynamic.is_some() => {
                access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ
            }
            Rights::Put => access::LOCAL_WRITE | access::REMOTE_WRITE,
            Rights::All => {
                access::LOCAL_WRITE
                    | access::REMOTE_WRITE
                    | access::REMOTE_READ
                    | self.adapter.atomic_access()
            }
        };
        let key = self.registrations.export(peer, memory, access).ok()?;
        Some(Region { addr: memory.addr(), keys: [key, 0, 0, 0] })
    }

    /// Ends a registration for a peer.
    pub(crate) fn release_from(&mut self, peer: Peer, region: Region) {
        self.registrations.withdraw(peer, region.keys[0]);
    }

    /// Begins an operation on `region` of a peer, from `offset` on.
    pub(crate) fn begin(
        &mut self,
        peer: Peer,
        region: &Region,
        offset: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        let at = self.endpoints.get_or_create(peer)?;
        self.endpoints[at].check()?;
        let memory = what.memory();
        if memory.is_empty() {
            return Ok(Transfer::Done);
        }
        let access = match what {
            OneSided::Put(_) => 0,
            OneSided::Atomic(..) if !self.adapter.has_atomics() || memory.len() != 8 => {
                return Ok(Transfer::Refused);
            }
            OneSided::Get(_) | OneSided::Atomic(..) => access::LOCAL_WRITE,
        };
        let endpoint = &self.endpoints[at];
        let mut path = endpoint.rma.path;
        if !endpoint.is_ready() && endpoint.rma.ops.is_empty() {
            match self.reaches_target(at) {
                None => return Ok(Transfer::NoSpace),
                Some(true) => path = Path::Line,
                Some(false) if matches!(what, OneSided::Atomic(..)) => {}
                // What is begun would have to take a connection from others.
                Some(false) if self.may_connect(at) => return Ok(Transfer::NoSpace),
                Some(false) => return Ok(Transfer::Refused),
            }
        }
        let local = match self.bounced(what) {
            Some(slot) => slot,
            None => match self.registrations.acquire(memory, access) {
                Ok(mr) => Local::Registered(mr),
                Err(_) => return Ok(Transfer::Refused),
            },
        };
        let (addr, rkey) = (region.addr.wrapping_add(offset), region.keys[0]);
        self.endpoints[at].rma.path = path;
        self.endpoints[at].rma.push(what, addr, rkey, local, token);
        match path {
            Path::Line | Path::Initiator(_) => self.start_dynamic(at),
            Path::Connection if self.endpoints[at].is_ready() => self.progress_rma(at),
            Path::Connection => self.connect(at),
        }
        Ok(Transfer::Started)
    }

    /// Returns a slot with the data of an operation, if it is short and there is a slot.
    fn bounced(&mut self, what: OneSided) -> Option<Local> {
        let memory = what.memory();
        if memory.len() > self.bounce.slot_bytes() {
            return None;
        }
        // Registered memory serves as well where the system refuses more for slots.
        let slot = self.bounce.take().ok().flatten()?;
        let (bytes, sge) = self.bounce.bytes_and_sge(slot, memory.len());
        if matches!(what, OneSided::Put(_)) {
            memory.read(0, bytes);
        }
        Some(Local::Slot(slot, sge))
    }
}
