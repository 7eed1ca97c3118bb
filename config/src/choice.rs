//! Knobs whose value is one of several words.
//!
//! Each set of words is an enum. The order of `ALL` is the order of `WORDS`, and the first word is
//! the default.

/// A set of words, one of which is a knob's value.
pub trait Choice: Copy + 'static {
    /// The values, in the order of `WORDS`.
    const ALL: &'static [Self];
    /// The words that a user writes.
    const WORDS: &'static [&'static str];
}

/// The way to read a large message of the same host straight from the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// XPMEM where the kernel has it, otherwise process_vm_readv; a probe of each peer decides.
    Auto,
    /// process_vm_readv alone, where a probe succeeds.
    Readv,
    /// Never.
    Off,
}

impl Choice for SingleCopy {
    const ALL: &'static [SingleCopy] = &[SingleCopy::Auto, SingleCopy::Readv, SingleCopy::Off];
    const WORDS: &'static [&'static str] = &["auto", "readv", "off"];
}

/// The transport between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterTransport {
    /// Verbs between processes that both have an RDMA device, otherwise TCP.
    Auto,
    /// Verbs alone.
    Verbs,
    /// TCP alone.
    Tcp,
}

impl Choice for InterTransport {
    const ALL: &'static [InterTransport] =
        &[InterTransport::Auto, InterTransport::Verbs, InterTransport::Tcp];
    const WORDS: &'static [&'static str] = &["auto", "verbs", "tcp"];
}

/// The version of a RoCE port's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoceVersion {
    /// Version 2 if the port has one, otherwise version 1.
    Auto,
    /// RoCE over Ethernet, which does not pass routers.
    V1,
    /// RoCE over UDP.
    V2,
}

impl Choice for RoceVersion {
    const ALL: &'static [RoceVersion] = &[RoceVersion::Auto, RoceVersion::V1, RoceVersion::V2];
    const WORDS: &'static [&'static str] = &["auto", "v1", "v2"];
}

/// The rendezvous protocol for large messages between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// The best one for the device.
    Auto,
    /// The receiver reads it (RDMA read).
    Read,
    /// The sender writes it at the receiver's address (RDMA write).
    Write,
    /// The sender sends pieces through the buffers of small messages.
    Copy,
}

impl Choice for Rendezvous {
    const ALL: &'static [Rendezvous] =
        &[Rendezvous::Auto, Rendezvous::Read, Rendezvous::Write, Rendezvous::Copy];
    const WORDS: &'static [&'static str] = &["auto", "read", "write", "copy"];
}

/// The lifetime of a memory registration with an RDMA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// As long as the mapping is known not to change, otherwise one message.
    Auto,
    /// As long as the kernel reports no change (userfaultfd).
    Userfaultfd,
    /// For ever: the device faults pages in (on-demand paging).
    Odp,
    /// One message.
    None,
}

impl Choice for Registration {
    const ALL: &'static [Registration] =
        &[Registration::Auto, Registration::Userfaultfd, Registration::Odp, Registration::None];
    const WORDS: &'static [&'static str] = &["auto", "userfaultfd", "odp", "none"];
}

/// When RDMA operations go by dynamically connected transport, where adapters have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicTransport {
    /// In jobs with more peers than connections.
    Auto,
    /// Always, to peers without a connection.
    On,
    /// Never.
    Off,
}

impl Choice for DynamicTransport {
    const ALL: &'static [DynamicTransport] =
        &[DynamicTransport::Auto, DynamicTransport::On, DynamicTransport::Off];
    const WORDS: &'static [&'static str] = &["auto", "on", "off"];
}

/// The threads that make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    /// MPI calls alone.
    Calls,
    /// MPI calls, and a progress thread while the application is outside of MPI.
    Thread,
}

impl Choice for ProgressMode {
    const ALL: &'static [ProgressMode] = &[ProgressMode::Calls, ProgressMode::Thread];
    const WORDS: &'static [&'static str] = &["calls", "thread"];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_a_word_for_each_value<C: Choice>() {
        assert_eq!(C::ALL.len(), C::WORDS.len());
    }

    #[test]
    fn every_value_has_a_word() {
        has_a_word_for_each_value::<SingleCopy>();
        has_a_word_for_each_value::<RoceVersion>();
        has_a_word_for_each_value::<Rendezvous>();
        has_a_word_for_each_value::<Registration>();
        has_a_word_for_each_value::<DynamicTransport>();
        has_a_word_for_each_value::<ProgressMode>();
    }
}
