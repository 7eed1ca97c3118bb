//! The network adapters of all hosts: each sends and receives one message at a time.
//!
//! Invariant: transfers are asked for in the order of their times. Therefore an adapter serves them
//! first come, first served.

use crate::time::{Link, Time};

#[derive(Clone, Copy, Default)]
struct Adapter {
    send_free: Time,
    receive_free: Time,
}

/// The adapters, and what went through them.
pub(crate) struct Network {
    adapters: Vec<Adapter>,
}

impl Network {
    pub(crate) fn new(hosts: u32) -> Network {
        Network { adapters: vec![Adapter::default(); hosts as usize] }
    }

    /// Sends `bytes` from a host to another one, from `now` on. Returns when they have left, and
    /// when they have arrived.
    pub(crate) fn transfer(
        &mut self,
        (from, to): (u32, u32),
        link: &Link,
        bytes: u64,
        now: Time,
    ) -> (Time, Time) {
        let sender = &mut self.adapters[from as usize];
        let start = sender.send_free.max(now);
        sender.send_free = start + link.occupied(bytes);
        let left = start + link.transfer(bytes);
        let receiver = &mut self.adapters[to as usize];
        let first = receiver.receive_free.max(start + link.latency);
        receiver.receive_free = first + link.occupied(bytes);
        (left, first + link.transfer(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_host_share_its_adapter() {
        let us = Time::from_us;
        let link = Link { latency: us(1.0), overhead: us(0.0), gap: us(0.5), per_byte: 1000.0 };
        let mut network = Network::new(3);
        // 2000 bytes occupy an adapter for 2 us, 100 bytes for the gap.
        assert_eq!(network.transfer((0, 1), &link, 2000, us(0.0)), (us(2.0), us(3.0)));
        assert_eq!(network.transfer((0, 2), &link, 100, us(0.0)), (us(2.1), us(3.1)));
        assert_eq!(network.transfer((0, 2), &link, 100, us(0.0)), (us(2.6), us(3.6)));
        // Host 1 is receiving until 3 us.
        assert_eq!(network.transfer((2, 1), &link, 1000, us(0.0)), (us(1.0), us(4.0)));
    }
}
