//! An unexpected message: what is kept of it until its receive is posted.

use fabric::transport::Rts;
use fabric::{Peer, RequestId};

use crate::message::PartOf;

/// An unexpected message.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) from: Peer,
    pub(crate) part_of: PartOf,
    /// Bytes of data in the message.
    pub(crate) bytes: u64,
    /// Its number among the envelopes of its sender to us.
    pub(crate) sequence: u64,
    /// Its sender has spent credit for it.
    pub(crate) is_credited: bool,
    pub(crate) content: Content,
}

/// Where the data of an unexpected message is.
#[derive(Debug)]
pub(crate) enum Content {
    /// Here.
    Eager(Data),
    /// Here; the sender's request waits for the match.
    EagerSync(u64, Data),
    /// With the sender.
    Rts(Rts),
    /// On its way, or here with `Engine::requested`.
    Requested,
    /// In the buffer of our own send.
    SelfSend(RequestId),
}

/// A message whose data was requested before a receive matched it.
#[derive(Debug)]
pub(crate) struct Requested {
    pub(crate) from: Peer,
    /// Its number among the envelopes of its sender to us.
    pub(crate) sequence: u64,
    pub(crate) bytes: u64,
    pub(crate) progress: Progress,
}

/// What has come first of a requested message.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Nothing.
    None,
    /// The data.
    Data(Box<[u8]>),
    /// The receive that matches.
    Receive(RequestId),
}

/// Data kept for a receive to come; short data without an allocation.
#[derive(Debug)]
pub(crate) enum Data {
    Short(u8, [u8; INLINE_BYTES]),
    Long(Box<[u8]>),
}

/// Most data that is kept without an allocation, bytes.
const INLINE_BYTES: usize = 38;

impl Data {
    #[inline]
    pub(crate) fn copy(bytes: &[u8]) -> Data {
        if bytes.len() > INLINE_BYTES {
            return Data::Long(bytes.into());
        }
        Data::fill(bytes.len(), |data| data.copy_from_slice(bytes))
    }

    #[inline]
    pub(crate) fn fill(len: usize, fill: impl FnOnce(&mut [u8])) -> Data {
        if len <= INLINE_BYTES {
            let mut data = [0; INLINE_BYTES];
            fill(&mut data[..len]);
            Data::Short(len as u8, data)
        } else {
            let mut data = vec![0; len].into_boxed_slice();
            fill(&mut data);
            Data::Long(data)
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Data::Short(len, data) => &data[..usize::from(*len)],
            Data::Long(data) => data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_announces_a_long_message_takes_no_more_than_a_short_one() {
        assert!(size_of::<Content>() <= size_of::<(u64, Data)>());
    }
}
