//! The settings of the transport: the knobs `verbs.*` as values.

use std::time::Duration;

use config::{ByDevice, DynamicTransport, Knobs, Registration, Rendezvous, RoceVersion, knob};

/// Settings of a transport. All processes of a job should have the same.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name or path of libibverbs; `None`: the system's.
    pub library: Option<String>,
    /// Devices to use: names, patterns or exclusions, each as `name` or `name:port`; none: all.
    pub devices: Vec<String>,
    /// The one device to use, instead of `devices`.
    pub device: Option<String>,
    /// Further devices, as name or name:port; they keep their order after the others.
    pub rails: Vec<String>,
    /// Most ports of a process, unless the user names them.
    pub max_rails: usize,
    /// Rank among the processes of this host, which take turns at ports that are equally near.
    pub local_rank: u32,
    /// Port, from 1, of devices that are named without one; `None`: any that is usable.
    pub port: Option<u8>,
    /// Entry of each port's GID table; none: chosen by kind.
    pub gid_index: ByDevice,
    /// RoCE version of the GID to use.
    pub roce_version: RoceVersion,
    /// Partition key of each port; none: the table's first.
    pub pkey: ByDevice,
    /// InfiniBand service level.
    pub service_level: u8,
    /// Traffic class of the global route header.
    pub traffic_class: u8,
    /// Largest message sent eagerly, bytes.
    pub eager_max: usize,
    /// How larger messages are transferred.
    pub rendezvous: Rendezvous,
    /// Smallest message that is read or written by RMA, bytes.
    pub get_min: u64,
    /// How registrations of buffers are kept.
    pub registration: Registration,
    /// Most registrations that are kept.
    pub registrations: usize,
    /// Most bytes of registrations that are kept.
    pub registered_bytes: usize,
    /// Frames that a peer may have unacknowledged.
    pub credits: u32,
    /// Receives for all connections together.
    pub receives: u32,
    /// Most queue pairs at once.
    pub connections: u32,
    /// Messages to a peer after which it gets a queue pair.
    pub connect_after: u32,
    /// When operations go by dynamically connected transport.
    pub dynamic: DynamicTransport,
    /// Most peers that write their short frames into this process's memory; 0: none in either
    /// direction.
    pub eager_rdma_peers: u32,
    /// Short frames of a peer, since this process slept last, after which it gets a ring.
    pub eager_rdma_threshold: u32,
    /// Acknowledgement timeout of the device: 4.096 µs times two to this power.
    pub ack_timeout: u8,
    /// Retries of the device before a connection is in error.
    pub retries: u8,
    /// Time that a connection that broke may take to come back.
    pub reconnect_timeout: Duration,
    /// A peer that is not reached is tried again later, and does not count as failed: the primary
    /// port carries what this one does not.
    pub is_secondary: bool,
    /// Time that a first request may go unanswered before a warning.
    pub connect_warn_after: Duration,
}

impl Settings {
    /// Returns the settings that the knobs give.
    pub fn from_knobs(knobs: &Knobs) -> Settings {
        let small = |value: u64| u8::try_from(value).unwrap_or(u8::MAX);
        Settings {
            library: knobs.name(knob::VERBS_LIBRARY).map(str::to_owned),
            devices: knobs.name(knob::VERBS_DEVICES).map_or_else(Vec::new, names),
            device: None,
            max_rails: knobs.count(knob::VERBS_MAX_RAILS) as usize,
            local_rank: 0,
            rails: knobs.name(knob::VERBS_RAILS).map_or_else(Vec::new, names),
            port: knobs.index(knob::VERBS_PORT).map(small),
            gid_index: knobs.by_device(knob::VERBS_GID_INDEX),
            roce_version: knobs.choice(knob::VERBS_ROCE_VERSION),
            pkey: knobs.by_device(knob::VERBS_PKEY),
            service_level: small(knobs.count(knob::VERBS_SERVICE_LEVEL)),
            traffic_class: small(knobs.count(knob::VERBS_TRAFFIC_CLASS)),
            eager_max: knobs.bytes(knob::VERBS_EAGER_MAX) as usize,
            rendezvous: knobs.choice(knob::VERBS_RENDEZVOUS),
            get_min: knobs.bytes(knob::VERBS_GET_MIN),
            registration: knobs.choice(knob::VERBS_REGISTRATION),
            registrations: knobs.count(knob::VERBS_REGISTRATIONS) as usize,
            registered_bytes: knobs.bytes(knob::VERBS_REGISTERED_BYTES) as usize,
            credits: knobs.count(knob::VERBS_CREDITS) as u32,
            receives: knobs.count(knob::VERBS_RECEIVES) as u32,
            connections: knobs.count(knob::VERBS_CONNECTIONS) as u32,
            connect_after: knobs.count(knob::VERBS_CONNECT_AFTER) as u32,
            dynamic: knobs.choice(knob::VERBS_DYNAMIC),
            eager_rdma_peers: knobs.count(knob::VERBS_EAGER_RDMA_PEERS) as u32,
            eager_rdma_threshold: knobs.count(knob::VERBS_EAGER_RDMA_THRESHOLD) as u32,
            ack_timeout: small(knobs.count(knob::VERBS_ACK_TIMEOUT)),
            retries: small(knobs.count(knob::VERBS_RETRIES)),
            reconnect_timeout: knobs
                .duration(knob::VERBS_RECONNECT_TIMEOUT)
                .unwrap_or(Duration::from_secs(600)),
            is_secondary: false,
            connect_warn_after: knobs
                .duration(knob::VERBS_CONNECT_WARN_AFTER)
                .unwrap_or(Duration::from_secs(10)),
        }
    }
}

/// Returns the names in a list with commas.
fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::from_knobs(&Knobs::new())
    }
}
