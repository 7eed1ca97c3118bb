//! The two ends of a partitioned transfer (MPI-5.0 chapter 4), between their initialisations and
//! their completions.
//!
//! The sender names a *channel*, a context of its own, when it is made, and announces it with its
//! partitions in one message. The announcement is matched by communicator, tag and order, as
//! the standard matches the two initialisations. Each partition is then a message on the channel
//! whose tag is the partition's index; the receiver posts one receive for each in each start. So
//! the two sides may divide the data differently, and partitions leave in any order.
//!
//! Invariant: messages of one partition are matched in order, so a start never meets the data of
//! another.

use std::ops::Range;

use fabric::Peer;
use objects::{Buffer, Class, Error, Result};
use pt2pt::{Envelope, Fault, Mode, Pattern, RequestId};

use crate::announcement::{Announcement, Staging};
use crate::context_id::PartitionContext;
use crate::stack::Stack;

/// A buffer, divided into equal partitions.
pub(crate) struct Partitions {
    buffer: Buffer,
    count: u32,
}

impl Partitions {
    /// Divides `buffer`, which holds `count` times the elements of one partition.
    pub(crate) fn new(buffer: Buffer, count: u32) -> Partitions {
        Partitions { buffer, count }
    }

    /// Returns the packed bytes of one partition.
    fn bytes(&self) -> u64 {
        self.buffer.len().checked_div(self.count.into()).unwrap_or(0)
    }

    fn check(&self, partition: i32, name: &str) -> Result<u32> {
        u32::try_from(partition).ok().filter(|&index| index < self.count).ok_or_else(|| {
            let last = i64::from(self.count) - 1;
            Error::new(Class::Arg, format!("invalid {name} {partition}: must be 0 to {last}"))
        })
    }
}

/// The arguments that name the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) peer: Peer,
    /// Its rank in the communicator.
    pub(crate) rank: i32,
    pub(crate) tag: i32,
}

/// The sending end. Each start needs every partition once.
pub struct PartitionedSend {
    data: Partitions,
    pub(crate) remote: Remote,
    /// This process, in the announcement and on the channel.
    source: u32,
    context: PartitionContext,
    announcement: Announcement,
    /// Which partitions were made ready in this start.
    ready: Vec<bool>,
    /// How many were not.
    missing: u32,
    /// Partitions that the engine has.
    pending: Vec<RequestId>,
    fault: Option<Box<Fault>>,
}

impl PartitionedSend {
    /// Announces the channel to the receiver. `matched_in` is where announcements of the
    /// communicator are matched.
    pub(crate) fn new(
        stack: &mut Stack,
        source: u32,
        data: Partitions,
        remote: Remote,
        (matched_in, context): (PartitionContext, PartitionContext),
    ) -> PartitionedSend {
        let words = [context.wire(), data.count.into(), data.bytes()];
        let mut announcement = Announcement::new(words);
        let (buffer, tag) = (announcement.0.buffer(), remote.tag);
        let envelope = Envelope { context: matched_in.wire(), source, tag, collective: None };
        announcement.0.id = match stack.send_now(Mode::Standard, remote.peer, &envelope, &buffer) {
            Ok(Some(_)) => None,
            _ => Some(stack.send(Mode::Standard, remote.peer, envelope, buffer)),
        };
        let ready = vec![false; data.count as usize];
        let (pending, fault) = (Vec::new(), None);
        PartitionedSend {
            data,
            remote,
            source,
            context,
            announcement,
            ready,
            missing: 0,
            pending,
            fault,
        }
    }

    /// Begins a start: no partition is ready.
    pub(crate) fn start(&mut self) {
        self.ready.fill(false);
        self.missing = self.data.count;
    }

    /// Sends the partitions from `low` to `high`, both included.
    pub(crate) fn make_ready(&mut self, stack: &mut Stack, low: i32, high: i32) -> Result<()> {
        let low = self.data.check(low, "partition")?;
        let high = self.data.check(high, "partition")?;
        if low > high {
            let detail = format!("invalid range of partitions {low} to {high}: it is empty");
            return Err(Error::new(Class::Arg, detail));
        }
        if let Some(twice) = (low..=high).find(|&index| self.ready[index as usize]) {
            let detail = format!(
                "partition {twice} is ready already: each is made ready once after MPI_Start"
            );
            return Err(Error::new(Class::Arg, detail));
        }
        (low..=high).for_each(|index| self.send(stack, index));
        Ok(())
    }

    fn send(&mut self, stack: &mut Stack, index: u32) {
        self.ready[index as usize] = true;
        self.missing -= 1;
        let bytes = self.data.bytes();
        // A partition of the sender has whole elements.
        let buffer =
            self.data.buffer.part(bytes * u64::from(index), bytes).unwrap_or(Buffer::EMPTY);
        let (context, source, tag) = (self.context.wire(), self.source, index as i32);
        let envelope = Envelope { context, source, tag, collective: None };
        let to = self.remote.peer;
        match stack.send_now(Mode::Standard, to, &envelope, &buffer) {
            Ok(Some(_)) => {}
            _ => self.pending.push(stack.send(Mode::Standard, to, envelope, buffer)),
        }
    }

    /// Returns true when all partitions are ready and have left the buffer.
    pub(crate) fn is_complete(&mut self, stack: &mut Stack) -> bool {
        while let Some(&id) = self.pending.last() {
            let Some(completion) = stack.pt2pt().finish(id) else { return false };
            self.fault = self.fault.take().or(completion.fault);
            self.pending.pop();
        }
        self.is_all_ready()
    }

    /// Returns true if no partition is to be made ready in this start.
    pub(crate) fn is_all_ready(&self) -> bool {
        self.missing == 0
    }

    /// Takes the first fault of this start.
    pub(crate) fn take_fault(&mut self) -> Option<Box<Fault>> {
        self.fault.take()
    }

    /// Lets partitions that are under way go on without their request.
    pub(crate) fn detach(&mut self, stack: &mut Stack) {
        self.pending.drain(..).for_each(|id| stack.pt2pt().detach(id));
        if self.announcement.words(stack).is_none()
            && let Some(id) = self.announcement.0.id
        {
            stack.pt2pt().detach(id);
        }
    }
}

/// How the sender divides the data.
#[derive(Clone, Copy, Debug)]
struct Sent {
    context: PartitionContext,
    count: u32,
    /// Bytes of one partition.
    bytes: u64,
}

/// The receive of one of the sender's partitions.
enum Arrival {
    /// It has arrived.
    Over,
    /// Into the user's buffer.
    Direct(RequestId),
    /// Beside the user's buffer, for the packed bytes from this one on.
    Staged(Staging, u64),
}

/// The receiving end.
pub struct PartitionedReceive {
    data: Partitions,
    pub(crate) remote: Remote,
    announcement: Announcement,
    /// `None` until the announcement has arrived.
    sent: Option<Sent>,
    /// Why no announcement will arrive.
    refused: Option<Box<Fault>>,
    /// The receives of this start, one for each partition of the sender.
    arrivals: Vec<Arrival>,
    /// All before this one have arrived.
    next: usize,
    /// The receives of this start are posted.
    is_posted: bool,
    /// Bytes that have arrived in this start.
    pub(crate) bytes: u64,
    fault: Option<Box<Fault>>,
}

impl PartitionedReceive {
    /// Posts the receive of the announcement.
    pub(crate) fn new(
        stack: &mut Stack,
        data: Partitions,
        remote: Remote,
        matched_in: PartitionContext,
    ) -> PartitionedReceive {
        let mut announcement = Announcement::new([0; 3]);
        let (source, tag) = (Some(remote.peer.0), Some(remote.tag));
        let pattern = Pattern { context: matched_in.wire(), source, tag, collective: None };
        announcement.0.id = Some(stack.receive(pattern, announcement.0.buffer()));
        PartitionedReceive {
            data,
            remote,
            announcement,
            sent: None,
            refused: None,
            arrivals: Vec::new(),
            next: 0,
            is_posted: false,
            bytes: 0,
            fault: None,
        }
    }

    /// Begins a start. Returns true if the receives are posted; otherwise call
    /// [`post`](PartitionedReceive::post) until they are.
    pub(crate) fn start(&mut self, stack: &mut Stack) -> bool {
        (self.is_posted, self.next, self.bytes) = (false, 0, 0);
        self.post(stack)
    }

    /// Posts the receives of this start, once the announcement has arrived; returns true when they
    /// are posted, or never will be.
    pub(crate) fn post(&mut self, stack: &mut Stack) -> bool {
        if self.is_posted {
            return true;
        }
        if self.sent.is_none() && self.refused.is_none() && !self.learn(stack) {
            return false;
        }
        self.is_posted = true;
        let Some(sent) = self.sent else { return true };
        let (capacity, source) = (self.data.buffer.len(), Some(self.remote.peer.0));
        self.arrivals.clear();
        for index in 0..sent.count {
            let first = sent.bytes.saturating_mul(index.into()).min(capacity);
            let len = sent.bytes.min(capacity - first);
            let (context, tag) = (sent.context.wire(), Some(index as i32));
            let pattern = Pattern { context, source, tag, collective: None };
            self.arrivals.push(match self.data.buffer.part(first, len) {
                Some(buffer) => Arrival::Direct(stack.receive(pattern, buffer)),
                None => {
                    let mut staging = Staging::new(len as usize);
                    staging.id = Some(stack.receive(pattern, staging.buffer()));
                    Arrival::Staged(staging, first)
                }
            });
        }
        true
    }

    /// Reads the announcement; returns false while it has not arrived.
    fn learn(&mut self, stack: &mut Stack) -> bool {
        let Some((completion, [context, count, bytes])) = self.announcement.words(stack) else {
            return false;
        };
        if completion.fault.is_some() {
            self.refused = completion.fault;
            return true;
        }
        let context = PartitionContext::from_wire(context);
        let count = u32::try_from(count).unwrap_or(0).min(i32::MAX as u32);
        self.sent = Some(Sent { context, count, bytes });
        true
    }

    /// Returns true if the partition with that index has arrived.
    pub(crate) fn has_arrived(&mut self, stack: &mut Stack, partition: i32) -> Result<bool> {
        let index = self.data.check(partition, "partition")?;
        if !self.post(stack) {
            return Ok(false);
        }
        let Some(sent) = self.sent else { return Ok(true) };
        let theirs = overlap(index, (self.data.count, self.data.bytes()), (sent.count, sent.bytes));
        Ok(theirs.into_iter().all(|at| self.take(stack, at)))
    }

    /// Returns true when all partitions have arrived.
    pub(crate) fn is_complete(&mut self, stack: &mut Stack) -> bool {
        if !self.post(stack) {
            return false;
        }
        while self.next < self.arrivals.len() {
            if !self.take(stack, self.next) {
                return false;
            }
            self.next += 1;
        }
        true
    }

    /// Takes the partition at this index of the sender's from the engine; returns false if it has
    /// not arrived.
    fn take(&mut self, stack: &mut Stack, at: usize) -> bool {
        let completion = match self.arrivals.get_mut(at) {
            None | Some(Arrival::Over) => return true,
            Some(Arrival::Direct(id)) => stack.pt2pt().finish(*id),
            Some(Arrival::Staged(staging, first)) => {
                staging.take(stack).map(|(completion, bytes)| {
                    let arrived = bytes.len().min(completion.bytes as usize);
                    self.data.buffer.unpack(*first, &bytes[..arrived]);
                    completion
                })
            }
        };
        let Some(completion) = completion else { return false };
        self.arrivals[at] = Arrival::Over;
        self.bytes += completion.bytes;
        self.fault = self.fault.take().or(completion.fault);
        true
    }

    /// Takes the first fault of this start.
    pub(crate) fn take_fault(&mut self) -> Option<Box<Fault>> {
        let mut fault = self.fault.take().or_else(|| self.refused.clone());
        if let Some(Fault::Signature { tag, .. }) = fault.as_deref_mut() {
            // The program does not know of the tag that the partition had.
            *tag = self.remote.tag;
        }
        fault
    }

    /// Returns the error of a sender that sends more than there is space for.
    pub(crate) fn truncation(&self) -> Option<Error> {
        let (sent, here) = (self.sent?, &self.data);
        let all = sent.bytes.saturating_mul(sent.count.into());
        (all > here.buffer.len()).then(|| {
            let Remote { rank, tag, .. } = self.remote;
            let detail = format!(
                "the partitioned send of rank {rank} with tag {tag} has {} partitions of {} bytes, \
                 but the receive has {} of {}",
                sent.count,
                sent.bytes,
                here.count,
                here.bytes()
            );
            Error::new(Class::Truncate, detail)
        })
    }

    /// Lets receives that are posted go on without their request.
    pub(crate) fn detach(&mut self, stack: &mut Stack) {
        let posted = self.arrivals.drain(..).filter_map(|arrival| match arrival {
            Arrival::Over => None,
            Arrival::Direct(id) => Some(id),
            // Dropped with an id: its bytes stay.
            Arrival::Staged(staging, _) => staging.id,
        });
        posted.chain(self.announcement.0.id).for_each(|id| stack.pt2pt().detach(id));
    }
}

/// Returns the other side's partitions that hold data of the partition `index` of ours; sides are
/// counts and bytes of partitions. Partitions without bytes are divided as if they had some.
fn overlap(index: u32, ours: (u32, u64), theirs: (u32, u64)) -> Range<usize> {
    let is_empty = ours.1 == 0 || theirs.1 == 0;
    let (mine, other) =
        if is_empty { (u64::from(theirs.0), u64::from(ours.0)) } else { (ours.1, theirs.1) };
    let (index, count) = (u128::from(index), u128::from(theirs.0));
    let (mine, other) = (u128::from(mine), u128::from(other.max(1)));
    let first = (index * mine / other).min(count);
    let end = ((index + 1) * mine).div_ceil(other).min(count);
    // Beyond the sender's data: it is there when all the data is.
    if first == end { 0..count as usize } else { first as usize..end as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_overlap_those_that_share_bytes_with_them() {
        let all = |ours: (u32, u64), theirs| -> Vec<(usize, usize)> {
            let both = |range: Range<usize>| (range.start, range.end);
            (0..ours.0).map(|index| both(overlap(index, ours, theirs))).collect()
        };
        assert_eq!(all((3, 8), (3, 8)), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(all((2, 12), (3, 8)), [(0, 2), (1, 3)]);
        assert_eq!(all((1, 24), (3, 8)), [(0, 3)]);
        assert_eq!(all((6, 4), (3, 8)), [(0, 1), (0, 1), (1, 2), (1, 2), (2, 3), (2, 3)]);
        assert_eq!(all((3, 0), (3, 0)), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(all((2, 0), (3, 0)), [(0, 2), (1, 3)]);
        assert_eq!(all((3, 8), (1, 8)), [(0, 1), (0, 1), (0, 1)], "beyond the data: all of it");
        assert_eq!(all((2, 8), (0, 0)), [(0, 0), (0, 0)]);
    }
}
