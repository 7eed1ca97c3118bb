//! Communicators as plain data (MPI-5.0 §7.2, §7.6).
//!
//! This module communicates with no process. The runtime agrees on a context id and passes it to
//! [`Comm::duplicate`], [`Comm::derive`] or [`Comm::derive_inter`].
//!
//! An intracommunicator has one group. An intercommunicator has a local group, to which this
//! process belongs, and a remote one, whose ranks are the sources and destinations of messages.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Attributes, Comparison, Errhandler, Group, Info, Result, Topology, truncated};
use fabric::{CollSegment, Peer};

/// Longest name in bytes (MPI_MAX_OBJECT_NAME without the terminator).
pub const MAX_NAME: usize = 127;

/// The hints of communicators: promises of the program, "false" unless given (MPI-5.0 §7.4.4).
pub const HINTS: [&str; 4] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
];

/// The hint with rules by which collectives choose algorithms, as the knob `coll.rules` has them.
pub const COLL_RULES: &str = "verbena_coll_rules";

/// A word about the latest collective of a communicator, which the next one compares with those of
/// the other members. The collectives give it its meaning; zero before the first one.
#[derive(Debug, Default)]
pub struct LatestCall(AtomicU64);

impl LatestCall {
    /// Returns the word.
    #[inline]
    pub fn get(&self) -> u64 {
        // Relaxed, here and below: only one thread at a time starts collectives.
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the word.
    #[inline]
    pub fn set(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }
}

/// A communicator.
#[derive(Clone, Debug)]
pub struct Comm {
    context: u64,
    rank: u32,
    /// Collectives started so far, modulo 2^31.
    collectives: Cell<u32>,
    /// Persistent collectives made so far, modulo 2^31 - 1.
    persistent_collectives: Cell<u32>,
    latest_call: Arc<LatestCall>,
    group: Group,
    remote: Option<Group>,
    /// The collective segment that its members share, if there is one.
    coll_segment: Option<Arc<dyn CollSegment>>,
    /// `None`: the initial one, MPI_ERRORS_ARE_FATAL.
    errhandler: Option<Errhandler>,
    topology: Option<Arc<Topology>>,
    /// The handle of the session that it comes from; 0: the world model.
    session: usize,
    name: OsString,
    info: Info,
    attributes: Attributes,
}

impl Comm {
    /// Makes an intracommunicator with the initial error handler. `rank` is this process's rank in
    /// `group`.
    pub fn new(name: &str, context: u64, rank: u32, group: Group) -> Comm {
        Comm {
            context,
            rank,
            collectives: Cell::new(0),
            persistent_collectives: Cell::new(0),
            latest_call: Arc::default(),
            group,
            remote: None,
            coll_segment: None,
            errhandler: None,
            topology: None,
            session: 0,
            name: name.into(),
            info: Info::new(),
            attributes: Attributes::new(),
        }
    }

    /// Makes a communicator with this one's groups, topology and error handler, without name, hints
    /// and attributes. Copying attributes may call user functions; therefore the caller does it.
    #[must_use]
    pub fn duplicate(&self, context: u64) -> Comm {
        Comm {
            remote: self.remote.clone(),
            topology: self.topology.clone(),
            ..self.derive(context, self.rank, self.group.clone())
        }
    }

    /// Makes an intracommunicator of `group` that inherits the error handler and the session.
    #[must_use]
    pub fn derive(&self, context: u64, rank: u32, group: Group) -> Comm {
        let (errhandler, session) = (self.errhandler, self.session);
        Comm { errhandler, session, ..Comm::new("", context, rank, group) }
    }

    /// Makes an intercommunicator that inherits the error handler and the session; `rank` is this
    /// process's rank in `local`.
    #[must_use]
    pub fn derive_inter(&self, context: u64, rank: u32, local: Group, remote: Group) -> Comm {
        Comm { remote: Some(remote), ..self.derive(context, rank, local) }
    }

    /// Makes an intracommunicator of the local group, for the library's collectives within it. It
    /// shares the context; the source distinguishes traffic between the groups. It has the same
    /// hints: plans of its calls and of the user's are cached together.
    #[must_use]
    pub fn local(&self) -> Comm {
        Comm {
            coll_segment: self.coll_segment.clone(),
            latest_call: self.latest_call.clone(),
            info: self.info.clone(),
            ..self.derive(self.context, self.rank, self.group.clone())
        }
    }

    /// Makes what pending receives need of a communicator that is freed: its context and members.
    #[must_use]
    pub fn remains(&self) -> Comm {
        let remote = self.remote.clone();
        Comm { remote, ..self.derive(self.context, self.rank, self.group.clone()) }
    }

    /// Sets the context id of a communicator that was made before the agreement.
    pub fn set_context(&mut self, context: u64) {
        self.context = context;
    }

    /// Sets the collective segment that the members have agreed on.
    pub fn set_coll_segment(&mut self, coll_segment: Arc<dyn CollSegment>) {
        self.coll_segment = Some(coll_segment);
    }

    /// Sets the name, truncated to [`MAX_NAME`] bytes.
    pub fn set_name(&mut self, name: impl AsRef<OsStr>) {
        truncated(name.as_ref(), MAX_NAME).clone_into(&mut self.name);
    }

    /// Attaches an error handler.
    pub fn set_errhandler(&mut self, errhandler: Errhandler) {
        self.errhandler = Some(errhandler);
    }

    /// Sets the topology.
    pub fn set_topology(&mut self, topology: Topology) {
        self.topology = Some(Arc::new(topology));
    }

    /// Sets the session that the communicator comes from, by its handle (0: the world model). What
    /// is made of the communicator inherits it.
    pub fn set_session(&mut self, session: usize) {
        self.session = session;
    }

    /// Stores the known hints and ignores the others (MPI_Comm_set_info).
    pub fn set_hints(&mut self, given: &Info) -> Result<()> {
        for hint in HINTS {
            if let Some(value) = given.value(hint)? {
                self.info.set(hint, value)?;
            }
        }
        Ok(())
    }

    /// Returns all hints; those that were never given have their defaults (MPI_Comm_get_info).
    pub fn hints(&self) -> Result<Info> {
        let mut hints = Info::new();
        for hint in HINTS {
            hints.set(hint, self.info.value(hint)?.unwrap_or(b"false"))?;
        }
        if let Some(rules) = self.info.value(COLL_RULES)? {
            hints.set(COLL_RULES, rules)?;
        }
        Ok(hints)
    }

    /// Stores the hints of a new communicator: also the rules by which collectives choose
    /// algorithms. All members must give the same rules.
    pub fn set_first_hints(&mut self, given: &Info) -> Result<()> {
        if let Some(rules) = given.value(COLL_RULES)? {
            self.info.set(COLL_RULES, rules)?;
        }
        self.set_hints(given)
    }

    /// Returns the rules by which collectives choose algorithms, if the communicator has its own.
    pub fn coll_rules(&self) -> Option<&str> {
        if self.info.is_empty() {
            return None;
        }
        self.info.value(COLL_RULES).ok()?.and_then(|rules| std::str::from_utf8(rules).ok())
    }

    /// Returns the attributes for changes.
    pub fn attributes_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }

    /// Returns the sequence number of the next collective: 0, 1, ... 2^31 - 1, 0, ...
    #[inline]
    pub fn next_collective(&self) -> i32 {
        let sequence = self.collectives.get();
        self.collectives.set((sequence + 1) & i32::MAX as u32);
        sequence as i32
    }

    /// Returns the number that the next collective will have.
    pub fn collectives_started(&self) -> i32 {
        self.collectives.get() as i32
    }

    /// Returns the number of the next persistent collective: -1, -2, ... -2^31 + 1, -1, ... All
    /// members make them in the same order, but start them in orders of their own (MPI-5.0 §6.13),
    /// so the number belongs to the initialisation and every start has it. It is negative, as
    /// those of other collectives are not.
    pub fn next_persistent_collective(&self) -> i32 {
        let made = self.persistent_collectives.get();
        self.persistent_collectives.set((made + 1) % i32::MAX as u32);
        -1 - made as i32
    }

    /// Returns what the next collective knows of the one before.
    #[inline]
    pub fn latest_call(&self) -> &Arc<LatestCall> {
        &self.latest_call
    }

    /// Returns the context id. Point-to-point traffic carries twice this number, collectives one
    /// more.
    #[inline]
    pub fn context(&self) -> u64 {
        self.context
    }

    /// Returns this process's rank in the (local) group.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of processes in the (local) group.
    #[inline]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// Returns the (local) group.
    #[inline]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Returns the remote group of an intercommunicator.
    #[inline]
    pub fn remote(&self) -> Option<&Group> {
        self.remote.as_ref()
    }

    /// Returns the group that ranks in point-to-point calls refer to: the remote group of an
    /// intercommunicator, otherwise the group.
    #[inline]
    pub fn peers(&self) -> &Group {
        self.remote.as_ref().unwrap_or(&self.group)
    }

    /// Returns the failed peer that makes a message from rank `source` (`None`: from any)
    /// impossible: the source, or, if all others have failed, the first of them. `gone` returns
    /// whether a peer has failed.
    pub fn missing(&self, source: Option<u32>, gone: impl Fn(Peer) -> bool) -> Option<Peer> {
        if let Some(source) = source {
            return self.peers().peer_of(source).filter(|&peer| gone(peer));
        }
        let me = self.group.peer_of(self.rank);
        let mut others = self.peers().iter().filter(|&peer| Some(peer) != me);
        let first = others.next()?;
        (gone(first) && others.all(gone)).then_some(first)
    }

    /// Returns true for intercommunicators.
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.remote.is_some()
    }

    /// Returns the collective segment that the members share.
    pub fn coll_segment(&self) -> Option<&Arc<dyn CollSegment>> {
        self.coll_segment.as_ref()
    }

    /// Returns the error handler.
    #[inline]
    pub fn errhandler(&self) -> &Errhandler {
        self.errhandler.as_ref().unwrap_or(&Errhandler::Fatal)
    }

    /// Returns true until an error handler is set, here or where this one inherits it from.
    pub fn has_initial_errhandler(&self) -> bool {
        self.errhandler.is_none()
    }

    /// Returns the handle of the session that the communicator comes from; 0: the world model.
    #[inline]
    pub fn session(&self) -> usize {
        self.session
    }

    /// Returns the topology, if there is one.
    pub fn topology(&self) -> Option<&Topology> {
        self.topology.as_deref()
    }

    /// Returns the name; empty if it was never set.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Compares two communicators (MPI_Comm_compare).
    pub fn compare(&self, other: &Comm) -> Comparison {
        if self.context == other.context && self.group == other.group {
            return Comparison::Ident;
        }
        let groups = match (&self.remote, &other.remote) {
            (None, None) => [self.group.compare(&other.group), Comparison::Ident],
            (Some(ours), Some(theirs)) => [self.group.compare(&other.group), ours.compare(theirs)],
            _ => return Comparison::Unequal,
        };
        match groups {
            [Comparison::Ident, Comparison::Ident] => Comparison::Congruent,
            groups if groups.contains(&Comparison::Unequal) => Comparison::Unequal,
            _ => Comparison::Similar,
        }
    }

    /// Returns the name, or a description, for error texts.
    pub fn describe(&self) -> String {
        let name = self.name.to_string_lossy();
        if name.starts_with("MPI_COMM_") {
            return name.into_owned();
        }
        let kind = if self.is_inter() { "intercommunicator" } else { "communicator" };
        match &*name {
            "" => format!("an unnamed {kind} of {} ranks", self.size()),
            name => format!("the {kind} \"{name}\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Cartesian;

    #[test]
    fn a_duplicate_keeps_what_the_standard_requires() {
        let mut world = Comm::new("MPI_COMM_WORLD", 1, 2, Group::world(4));
        assert!(world.has_initial_errhandler());
        assert!(matches!(world.errhandler(), Errhandler::Fatal));
        world.set_errhandler(Errhandler::Return);
        assert!(!world.has_initial_errhandler());
        world
            .set_topology(Topology::Cartesian(Cartesian::new(&[2, 2], &[true, false], 4).unwrap()));
        let mut hints = Info::new();
        hints.set(HINTS[2], "true").unwrap();
        hints.set("colour", "blue").unwrap();
        world.set_hints(&hints).unwrap();
        assert_eq!(world.hints().unwrap().value(HINTS[2]).unwrap(), Some(&b"true"[..]));
        assert_eq!(world.hints().unwrap().value("colour").unwrap(), None);
        world.next_collective();
        let copy = world.duplicate(9);
        assert_eq!((copy.context(), copy.rank(), copy.size(), copy.name().len()), (9, 2, 4, 0));
        assert_eq!(copy.topology(), world.topology());
        assert_eq!(copy.hints().unwrap().value(HINTS[2]).unwrap(), Some(&b"false"[..]));
        assert!(matches!(copy.errhandler(), Errhandler::Return));
        assert_eq!(copy.next_collective(), 0);
        let part = world.derive(10, 0, Group::world(1));
        assert!(part.topology().is_none());
        assert_eq!(part.session(), 0);
        world.set_session(5);
        assert_eq!(
            (world.duplicate(11).session(), world.derive(12, 0, Group::world(1)).session()),
            (5, 5)
        );
        assert!(matches!(part.errhandler(), Errhandler::Return));
    }

    #[test]
    fn comparison_looks_at_context_and_groups() {
        let world = Comm::new("", 1, 0, Group::world(4));
        let backwards = world.derive(3, 3, Group::world(4).incl(&[3, 2, 1, 0]).unwrap());
        assert_eq!(world.compare(&world), Comparison::Ident);
        assert_eq!(world.compare(&world.duplicate(2)), Comparison::Congruent);
        assert_eq!(world.compare(&backwards), Comparison::Similar);
        assert_eq!(world.compare(&world.derive(4, 0, Group::world(3))), Comparison::Unequal);
        let (low, high) = (Group::world(2), Group::world(4).excl(&[0, 1]).unwrap());
        let inter = world.derive_inter(5, 0, low.clone(), high.clone());
        assert_eq!(inter.compare(&inter.duplicate(6)), Comparison::Congruent);
        let swapped = world.derive_inter(7, 0, low.clone(), high.incl(&[1, 0]).unwrap());
        assert_eq!(inter.compare(&swapped), Comparison::Similar);
        assert_eq!(inter.compare(&world.derive(8, 0, low)), Comparison::Unequal);
        assert_eq!((inter.size(), inter.peers(), inter.is_inter()), (2, &high, true));
    }

    #[test]
    fn a_receive_is_hopeless_without_its_source_or_without_all_others() {
        let world = Comm::new("", 1, 1, Group::world(3));
        let missing =
            |comm: &Comm, source, gone: &[u32]| comm.missing(source, |peer| gone.contains(&peer.0));
        assert_eq!(missing(&world, Some(2), &[0, 2]), Some(Peer(2)));
        assert_eq!(missing(&world, Some(2), &[0]), None);
        assert_eq!(missing(&world, None, &[0]), None, "rank 2 may still send");
        assert_eq!(missing(&world, None, &[0, 2]), Some(Peer(0)));
        let alone = Comm::new("", 2, 0, world.group().incl(&[1]).unwrap());
        assert_eq!(missing(&alone, None, &[0, 2]), None, "a process may send to itself");
        let (low, high) = (Group::world(2), Group::world(4).excl(&[0, 1]).unwrap());
        let inter = world.derive_inter(3, 1, low, high);
        assert_eq!(missing(&inter, Some(1), &[3]), Some(Peer(3)));
        assert_eq!(missing(&inter, None, &[0, 2, 3]), Some(Peer(2)));
    }

    #[test]
    fn sequence_numbers_wrap_below_the_sign() {
        let comm = Comm::new("", 1, 0, Group::world(1));
        assert_eq!((comm.next_collective(), comm.next_collective()), (0, 1));
        comm.collectives.set(i32::MAX as u32);
        assert_eq!((comm.next_collective(), comm.next_collective()), (i32::MAX, 0));
        let next = || comm.next_persistent_collective();
        assert_eq!((next(), next()), (-1, -2), "they do not count with the others");
        comm.persistent_collectives.set(i32::MAX as u32 - 1);
        assert_eq!((next(), next()), (-i32::MAX, -1));
    }

    #[test]
    fn it_says_what_it_is() {
        let mut comm = Comm::new("MPI_COMM_WORLD", 1, 0, Group::world(4));
        assert_eq!(comm.describe(), "MPI_COMM_WORLD");
        comm.set_name("halo");
        assert_eq!(comm.describe(), "the communicator \"halo\"");
        assert_eq!(comm.duplicate(2).describe(), "an unnamed communicator of 4 ranks");
        comm.set_name("é".repeat(100));
        assert_eq!(comm.name().len(), 126);
    }
}
