//! Counters of what a process of a job over several hosts has sent, by path; written out at
//! MPI_Finalize when `report.traffic` is on.

use crate::transport::{OneSided, Post, Transfer};

/// How often something was done, and the bytes of message data it carried.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    times: u64,
    bytes: u64,
}

/// One counter for each path.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Frames to ranks of this host.
    pub(super) intra: Counter,
    /// Frames to ranks of other hosts.
    pub(super) inter: Counter,
    gets: Counter,
    puts: Counter,
    atomics: Counter,
}

impl Traffic {
    /// Counts a one-sided transfer from or to another host, if it has begun.
    pub(super) fn count_transfer(&mut self, transfer: Transfer, what: OneSided) -> Transfer {
        if matches!(transfer, Transfer::Done | Transfer::Started) {
            let counter = match what {
                OneSided::Get(_) => &mut self.gets,
                OneSided::Put(_) => &mut self.puts,
                OneSided::Atomic(..) => &mut self.atomics,
            };
            counter.add(what.memory().len());
        }
        transfer
    }
}

impl Counter {
    /// Counts a frame if it was sent.
    #[inline]
    pub(super) fn count_post(&mut self, posted: Post, len: usize) -> Post {
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

impl Traffic {
    /// Returns the number of frames to ranks of other hosts, and their bytes.
    pub fn to_other_hosts(&self) -> (u64, u64) {
        (self.inter.times, self.inter.bytes)
    }

    /// Describes it. So many frames and bytes to other hosts went by TCP.
    pub fn text(&self, by_tcp: (u64, u64)) -> String {
        let mut text =
            format!("{} frames of {} bytes to its host", self.intra.times, self.intra.bytes);
        if by_tcp.0 > 0 {
            text += &format!(", {} frames of {} bytes by TCP", by_tcp.0, by_tcp.1);
        }
        let by_rdma = (self.inter.times - by_tcp.0, self.inter.bytes - by_tcp.1);
        text += &format!(", {} frames of {} bytes by RDMA", by_rdma.0, by_rdma.1);
        for (name, counter) in
            [("reads", &self.gets), ("writes", &self.puts), ("atomics", &self.atomics)]
        {
            text += &format!(", {} {name} of {} bytes", counter.times, counter.bytes);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserBuf;

    #[test]
    fn only_what_was_sent_is_counted() {
        let mut traffic = Traffic::default();
        assert_eq!(traffic.inter.count_post(Post::Sent, 10), Post::Sent);
        assert_eq!(traffic.inter.count_post(Post::NoSpace, 10), Post::NoSpace);
        let nothing = UserBuf::EMPTY;
        for (transfer, what) in [
            (Transfer::Started, OneSided::Get(nothing)),
            (Transfer::Refused, OneSided::Put(nothing)),
        ] {
            assert_eq!(traffic.count_transfer(transfer, what), transfer);
        }
        assert_eq!(
            traffic.text((0, 0)),
            "0 frames of 0 bytes to its host, 1 frames of 10 bytes by RDMA, 1 reads of 0 bytes, \
             0 writes of 0 bytes, 0 atomics of 0 bytes"
        );
    }
}
