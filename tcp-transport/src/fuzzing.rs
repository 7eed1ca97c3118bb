//! Entry points of the fuzz targets: any bytes are decoded, and none may panic.

use fabric::{Body, Header, Peer, PeerFailed, Reports, Sink};

use crate::candidates;
use crate::peer::PeerState;
use crate::records::Handler;
use crate::regions::Regions;
use crate::stripes::Stripes;
use crate::wire::{Hello, Transcript};

struct Ignore;

impl Sink for Ignore {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {}
    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
    fn peer_failed(&mut self, _: PeerFailed) {}
}

/// Handles the bytes as the stream of a peer. Returns true if they have a record.
pub fn records(bytes: &[u8]) -> bool {
    let (mut state, mut regions, mut reports) =
        (PeerState::new(Peer(1), 0, 0), Regions::default(), Reports::default());
    regions.register(Peer(1), fabric::UserBuf::EMPTY, fabric::Rights::All);
    let mut handler = Handler {
        state: &mut state,
        regions: &mut regions,
        stripes: &mut Stripes::default(),
        reports: &mut reports,
        max_frame: 64 << 10,
        low_water: 1 << 20,
        has_space_again: &mut false,
    };
    handler.take(bytes, &mut Ignore).is_ok_and(|taken| taken > 0)
}

/// Handles the bytes as the messages of a stranger: addresses, Hello, challenge and proof.
/// Returns true if they are addresses, or begin with Hello.
pub fn handshake(bytes: &[u8]) -> bool {
    let secret = [7; 32];
    let are_addresses = candidates::decode(bytes).is_some();
    let Some(hello) = bytes.first_chunk().and_then(Hello::decode) else { return are_addresses };
    let rest = &bytes[Hello::SIZE..];
    if let Some(challenge) = rest.first_chunk() {
        assert!(Transcript::check_challenge(&hello, challenge, &secret).is_none());
    }
    if let Some(proof) = rest.first_chunk() {
        let transcript = Transcript::new(&hello, [3; 32]);
        assert!(transcript.check_proof(proof, &secret).is_none());
    }
    true
}
