//! Cooperative rendezvous: receiver and sender each copy a half of a message, straight from buffer
//! to buffer and at the same time (Chakraborty, Bayatpour, Hashmi, Subramoni and Panda:
//! "Cooperative Rendezvous Protocols for Improved Performance and Overlap", SC 2018).
//!
//! ```text
//!  sender                                    receiver
//!    | Rts (region) ------------------------>|  matched, the sender is in MPI: opens an offer
//!    |<----- cooperative Cts (wanted, offer) |
//!    |  takes the offer                      |  gets the first half
//!    |======= put of the second half =======>|  does not get the offer back: waits
//!    | cooperative Data (bytes put) -------->|
//!    |<--------------------------------- Done|  complete
//!    complete
//! ```
//!
//! Invariant: the side that takes the offer copies the second half, and there is one such side. A
//! receiver that gets its offer back copies both halves; the sender then finds the offer gone. If
//! an access is refused, the receiver requests a push of the whole message.

use fabric::{
    Header, HybridGet, Kind, Peer, PeerFailed, Placed, Post, Region, RequestId, Slot, Transfer,
};

use crate::engine::Engine;
use crate::peers::Placement;
use crate::rendezvous::{bytes_in, clear_to_send, to_halves};
use crate::requests::State;

/// Page, bytes: the kernel copies page by page.
const PAGE: u64 = 4096;

/// Returns how many bytes the receiver gets of a message of which both copy a half.
fn first_half(bytes: u64) -> u64 {
    (bytes / 2).next_multiple_of(PAGE).min(bytes)
}

impl Engine {
    /// Handles a cooperative `Cts` frame for a send: the receiver of `end` bytes has made an offer.
    pub(crate) fn half_requested(
        &mut self,
        send: RequestId,
        (target, end): (u64, u64),
        body: &[u8],
    ) {
        let offer = Region::decode(body);
        self.placements.extend(offer.map(|offer| Placement { send, target, wanted: end, offer }));
        self.has_pending = true;
    }

    /// Handles a cooperative `Data` frame: the sender has written its half, or could not.
    #[cold]
    pub(crate) fn placed_arrived(&mut self, from: Peer, header: &Header) {
        let id = RequestId::from_bits(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from)
        else {
            return;
        };
        let State::Cooperating { got, awaits, .. } = &mut request.state else { return };
        if std::mem::take(awaits) {
            if got.checked_add(bytes_in(header)) == Some(request.bytes) {
                *got = request.bytes;
            }
            self.transfers.push_back(id);
            self.has_pending = true;
        }
    }

    /// Gets the first half of a message, and offers the sender to write the second one meanwhile.
    pub(crate) fn cooperate<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        id: RequestId,
    ) -> Result<Transfer, PeerFailed> {
        let request = self.requests.held(id);
        let (State::Pulling { send, .. }, Some(region), Some(memory)) =
            (request.state, request.region.as_deref(), request.buffer.memory())
        else {
            return Ok(Transfer::Refused);
        };
        let (peer, bytes) = (request.peer, request.bytes);
        let first = first_half(bytes) as usize;
        let second = memory.slice(first, bytes as usize - first);
        let header = Header { flags: Header::COOPERATIVE, ..clear_to_send(bytes, send, id) };
        let is_offered = match endpoint.offer(peer, second) {
            Some(offer) => {
                let fill = |slot: &mut Slot| slot.copy_from_slice(&offer.encode());
                endpoint.post(peer, &header, Region::SIZE, fill)? == Post::Sent
            }
            None => return Ok(endpoint.get_now(peer, region, 0, memory.slice(0, bytes as usize))),
        };
        let got = match endpoint.get_now(peer, region, 0, memory.slice(0, first)) {
            Transfer::Done => first as u64,
            _ => 0,
        };
        let awaits = !endpoint.withdraw(peer) && is_offered;
        request.state = State::Cooperating { send, got, awaits };
        if awaits { Ok(Transfer::Started) } else { Ok(self.end_cooperation(endpoint, id)) }
    }

    /// Gets what is missing of a message when no other side writes it any more.
    pub(crate) fn end_cooperation<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        id: RequestId,
    ) -> Transfer {
        let request = self.requests.held(id);
        let (State::Cooperating { got, .. }, Some(region), Some(memory)) =
            (request.state, request.region.as_deref(), request.buffer.memory())
        else {
            return Transfer::Refused;
        };
        let (peer, bytes) = (request.peer, request.bytes);
        let transfer = match (bytes - got) as usize {
            0 => Transfer::Done,
            left => endpoint.get_now(peer, region, got, memory.slice(got as usize, left)),
        };
        endpoint.end_offer(peer);
        transfer
    }

    /// Writes the halves of messages whose receivers have offered memory for them.
    pub(crate) fn place_all<T: HybridGet>(&mut self, endpoint: &mut T) {
        while let Some(Placement { send, target, wanted, offer }) = self.placements.pop() {
            let Some(request) = self.requests.find(send) else { continue };
            let (State::Announced { .. }, Some(memory)) = (request.state, request.buffer.memory())
            else {
                continue;
            };
            let (peer, first) = (request.peer, first_half(wanted));
            let half = memory.slice(first as usize, (wanted - first) as usize);
            let placed = match endpoint.place(peer, &offer, half) {
                Placed::Done => wanted - first,
                Placed::Refused => 0,
                Placed::Withdrawn => continue,
            };
            let (source, root) = to_halves(placed);
            let flags = Header::COOPERATIVE;
            let header = Header { flags, source, root, context: target, ..Header::new(Kind::Data) };
            self.reply(peer, header);
        }
    }
}
