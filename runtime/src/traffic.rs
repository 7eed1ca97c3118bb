//! What a process of a job over several hosts has sent, by the way it went; written
//! out at MPI_Finalize when `report.traffic` is on.

use std::fmt;

use fabric::{OneSided, Post, Transfer};

/// How often something was done, and how many bytes of messages it carried.
#[derive(Clone, Default)]
pub(crate) struct Sum {
    times: u64,
    bytes: u64,
}

/// All ways.
#[derive(Clone, Default)]
pub(crate) struct Traffic {
    /// Frames to ranks of this host.
    pub(crate) near: Sum,
    /// Frames to ranks of other hosts.
    pub(crate) far: Sum,
    reads: Sum,
    writes: Sum,
    atomics: Sum,
    /// Of the frames by RDMA, those that were written into the receiver's memory.
    written: u64,
    /// And those that went several in a message.
    together: u64,
}

impl Traffic {
    /// The same, with the frames that were written, and those that went together with others.
    pub(crate) fn with(&self, written: u64, together: u64) -> Traffic {
        Traffic { written, together, ..self.clone() }
    }

    /// Counts a one-sided transfer from or to another host, if it has begun.
    pub(crate) fn begun(&mut self, transfer: Transfer, what: OneSided) -> Transfer {
        if matches!(transfer, Transfer::Done | Transfer::Started) {
            let sum = match what {
                OneSided::Get(_) | OneSided::GetRemainder(_) => &mut self.reads,
                OneSided::Put(_) => &mut self.writes,
                OneSided::Atomic(..) => &mut self.atomics,
            };
            sum.add(what.memory().len());
        }
        transfer
    }
}

impl Sum {
    /// Counts a frame that was sent.
    #[inline]
    pub(crate) fn posted(&mut self, posted: Post, len: usize) -> Post {
        if posted == Post::Sent {
            self.add(len);
        }
        posted
    }

    #[inline]
    fn add(&mut self, len: usize) {
        self.times += 1;
        self.bytes += len as u64;
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames of {} bytes to its host", self.near.times, self.near.bytes)?;
        write!(f, ", {} frames of {} bytes by RDMA", self.far.times, self.far.bytes)?;
        for (name, sum) in
            [("reads", &self.reads), ("writes", &self.writes), ("atomics", &self.atomics)]
        {
            write!(f, ", {} {name} of {} bytes", sum.times, sum.bytes)?;
        }
        write!(f, ", {} of the frames written, {} several at once", self.written, self.together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_is_counted() {
        let mut traffic = Traffic::default();
        assert_eq!(traffic.far.posted(Post::Sent, 10), Post::Sent);
        assert_eq!(traffic.far.posted(Post::NoRoom, 10), Post::NoRoom);
        let nothing = fabric::UserBuf::EMPTY;
        for (transfer, what) in [
            (Transfer::Started, OneSided::Get(nothing)),
            (Transfer::Refused, OneSided::Put(nothing)),
        ] {
            assert_eq!(traffic.begun(transfer, what), transfer);
        }
        assert_eq!(
            traffic.to_string(),
            "0 frames of 0 bytes to its host, 1 frames of 10 bytes by RDMA, 1 reads of 0 bytes, 0 writes of 0 bytes, \
             0 atomics of 0 bytes, 0 of the frames written, 0 several at once"
        );
    }
}
