//! The settings of the transport: the knobs `tcp.*` as values.

use std::ops::RangeInclusive;
use std::time::Duration;

use config::{Knobs, knob};

/// Settings of a transport. All processes of a job should have the same.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interfaces to use, as names, addresses or address/prefix, separated by commas; `None`: all.
    pub interfaces: Option<String>,
    /// Ports to listen on; `None`: the system chooses.
    pub ports: Option<RangeInclusive<u16>>,
    /// Connections are encrypted.
    pub tls: bool,
    /// Congestion control by the system's name; `None`: one that suits the peer.
    pub congestion_control: Option<String>,
    /// Most connections to one peer; `None`: by the distance.
    pub sockets: Option<usize>,
    /// Largest message sent eagerly, bytes.
    pub eager_max: usize,
    /// Largest body of a frame, bytes, unless `eager_max` needs more.
    pub frame: usize,
    /// Most bytes that a peer may have unacknowledged in the send queue.
    pub window: usize,
    /// Most connections at once; `None`: by the limit on descriptors.
    pub connections: Option<usize>,
    /// Time that a connection that cannot be made is tried again.
    pub reconnect_timeout: Duration,
    /// Time without a first connection after which a warning is printed.
    pub connect_warn_after: Duration,
}

impl Settings {
    /// Returns the settings that the knobs give. The error is a text for the user.
    pub fn from_knobs(knobs: &Knobs) -> Result<Settings, String> {
        Ok(Settings {
            interfaces: knobs.name(knob::TCP_INTERFACES).map(str::to_owned),
            ports: knobs.name(knob::TCP_PORTS).map(parse_ports).transpose()?,
            tls: knobs.is_on(knob::TCP_TLS),
            congestion_control: knobs.name(knob::TCP_CONGESTION_CONTROL).map(str::to_owned),
            sockets: knobs.index(knob::TCP_SOCKETS).map(|count| (count as usize).max(1)),
            eager_max: knobs.bytes(knob::TCP_EAGER_MAX) as usize,
            frame: 64 << 10,
            window: knobs.bytes(knob::TCP_WINDOW) as usize,
            connections: knobs.index(knob::TCP_CONNECTIONS).map(|count| (count as usize).max(1)),
            reconnect_timeout: knobs
                .duration(knob::TCP_RECONNECT_TIMEOUT)
                .unwrap_or(Duration::from_secs(120)),
            connect_warn_after: knobs
                .duration(knob::TCP_CONNECT_WARN_AFTER)
                .unwrap_or(Duration::from_secs(10)),
        })
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::from_knobs(&Knobs::new()).expect("the defaults of knobs are valid")
    }
}

/// Parses `5000-6000` or `5000`.
fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|&port| port > 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(format!(
            "invalid tcp.ports = {text}: must be a port, or the first and the last one, such as \
             50000-50999"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(parse_ports("5000"), Ok(5000..=5000));
        assert_eq!(parse_ports("5000 - 5009"), Ok(5000..=5009));
        for wrong in ["", "0", "5000-", "6000-5000", "70000", "a-b"] {
            assert!(parse_ports(wrong).unwrap_err().starts_with("invalid tcp.ports"), "{wrong}");
        }
    }
}
