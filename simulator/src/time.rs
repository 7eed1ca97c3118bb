//! Simulated time, and the cost of a link.

use std::fmt;
use std::ops::{Add, AddAssign};

/// A point or a span of simulated time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of the simulation, or no time at all.
    pub const ZERO: Time = Time(0);

    /// A span in microseconds.
    pub fn from_us(us: f64) -> Time {
        Time((us * 1e6).round().max(0.0) as u64)
    }

    /// The span in microseconds.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// So many times the span.
    pub fn times(self, factor: u64) -> Time {
        Time(self.0.saturating_mul(factor))
    }
}

impl Add for Time {
    type Output = Time;

    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

/// Microseconds with three digits.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.as_us();
        match us {
            us if us >= 100.0 => write!(f, "{us:.0} us"),
            us if us >= 10.0 => write!(f, "{us:.1} us"),
            us => write!(f, "{us:.2} us"),
        }
    }
}

/// The LogGP parameters of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// L: from the end of the send to the first byte at the receiver.
    pub latency: Time,
    /// o: time of the processor for one send, and for one receive.
    pub overhead: Time,
    /// g: the least time from one message to the next at one end.
    pub gap: Time,
    /// G: time for each byte, in picoseconds.
    pub per_byte: f64,
}

impl Link {
    /// A link that has the lesser of each cost.
    pub fn least(self, other: Link) -> Link {
        Link {
            latency: self.latency.min(other.latency),
            overhead: self.overhead.min(other.overhead),
            gap: self.gap.min(other.gap),
            per_byte: self.per_byte.min(other.per_byte),
        }
    }

    /// Time for which `bytes` occupy the link.
    pub fn occupied(&self, bytes: u64) -> Time {
        self.gap.max(self.transfer(bytes))
    }

    /// Time of `bytes` on the link beyond its latency.
    pub fn transfer(&self, bytes: u64) -> Time {
        Time((bytes as f64 * self.per_byte).round() as u64)
    }

    /// Time of one message between two idle ranks: o + L + bytes G + o.
    pub fn one_way(&self, bytes: u64) -> Time {
        self.overhead + self.latency + self.transfer(bytes) + self.overhead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_costs_what_loggp_says() {
        let link = Link {
            latency: Time::from_us(1.0),
            overhead: Time::from_us(0.2),
            gap: Time::from_us(0.5),
            per_byte: 40.0,
        };
        assert_eq!(link.one_way(0), Time::from_us(1.4));
        assert_eq!(link.one_way(100_000), Time::from_us(5.4));
        assert_eq!((link.occupied(8), link.occupied(100_000)), (link.gap, Time::from_us(4.0)));
        assert_eq!(link.one_way(0).to_string(), "1.40 us");
    }
}
