//! The handle of a peer's address, which datagrams to it name: made on first use and kept.
//!
//! The kernel looks up the neighbour of a RoCE address, and the call takes a second if that does
//! not answer. Therefore a handle that is refused is requested again only after several times the
//! time that the refusal took. A refusal that lasts is reported once: what is sent meanwhile is
//! lost.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ibv::Ah;

/// Shortest time that a refusal counts as.
const REFUSAL_MIN: Duration = Duration::from_millis(2);
/// How many times as long as a refusal took no handle is requested.
const PAUSE: u32 = 8;
/// Time after which refusals in a row are reported: longer than an address is away that is given
/// back.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// The handle of an address.
#[derive(Debug, Default)]
pub(crate) enum AddressHandle {
    /// There is none yet.
    #[default]
    None,
    /// It can be named.
    Made(Arc<Ah>),
    /// The system refuses one.
    Refused { since: Instant, retry_at: Instant, is_told: bool },
}

impl AddressHandle {
    /// Returns the handle, which `make` makes if there is none; `None` while the system refuses
    /// one. `tell` gets the reason once if that lasts.
    pub(crate) fn get(
        &mut self,
        make: impl FnOnce() -> io::Result<Ah>,
        tell: impl FnOnce(io::Error),
    ) -> Option<&Arc<Ah>> {
        let now = Instant::now();
        let (since, was_told) = match self {
            AddressHandle::Made(ah) => return Some(ah),
            AddressHandle::Refused { retry_at, .. } if now < *retry_at => return None,
            AddressHandle::Refused { since, is_told, .. } => (*since, *is_told),
            AddressHandle::None => (now, false),
        };
        match make() {
            Ok(ah) => *self = AddressHandle::Made(Arc::new(ah)),
            Err(error) => {
                let is_told = was_told || since.elapsed() > TELL_AFTER;
                let retry_at = Instant::now() + PAUSE * now.elapsed().max(REFUSAL_MIN);
                *self = AddressHandle::Refused { since, retry_at, is_told };
                if is_told && !was_told {
                    tell(error);
                }
            }
        }
        match self {
            AddressHandle::Made(ah) => Some(ah),
            AddressHandle::None | AddressHandle::Refused { .. } => None,
        }
    }
}
