//! Operations at the target: does what a frame says in this rank's memory, and queues the reply.
//!
//! Data that goes back is copied when the frame arrives, since a lock that follows may let another
//! rank write. A frame that is not well-formed is dropped. One that reaches outside of this rank's
//! memory changes nothing and is refused. So is one whose elements a device may have changed or
//! not.

use fabric::{Header, Kind, Peer, UserBuf};
use objects::op::BuiltinOp;
use objects::{Class, Error};

use crate::combine::Executor;
use crate::device_atomic::Unclear;
use crate::element::{Element, MAX_SIZE};
use crate::engine::Engine;
use crate::outgoing::Item;
use crate::segment::Segment;
use crate::window::Window;
use crate::wire::Step;

/// Why an access is refused, as it goes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Refusal {
    /// It lies outside of the memory, and nothing has changed.
    Outside = 1,
    /// The device may have changed an element or not.
    Unclear = 2,
}

impl Refusal {
    /// Returns the reason of a number on the wire.
    pub(crate) fn from_wire(root: u32) -> Refusal {
        if root == Refusal::Unclear as u32 { Refusal::Unclear } else { Refusal::Outside }
    }

    /// Returns the error of an access to `target`.
    pub(crate) fn error(self, target: u32) -> Error {
        match self {
            Refusal::Unclear => Error::new(
                Class::Other,
                format!(
                    "the RDMA device of rank {target} failed while an accumulate was under way in \
                     its memory: it is unknown whether it was carried out"
                ),
            ),
            Refusal::Outside => Error::new(
                Class::RmaRange,
                format!(
                    "rank {target} has refused an access: no attached memory of it has these bytes"
                ),
            ),
        }
    }
}

impl From<Unclear> for Refusal {
    fn from(_: Unclear) -> Refusal {
        Refusal::Unclear
    }
}

impl Engine {
    /// Returns the window of a frame, if the sender is the rank that it names.
    fn window_of(&self, from: Peer, header: &Header) -> Option<&Window> {
        let window = self.windows.get(&header.context)?;
        (window.peers.peer_of(header.source)? == from).then_some(window)
    }

    pub(crate) fn put_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let Some(window) = self.window_of(from, header) else { return };
        let Some((segments, data)) = parse(header, body) else { return };
        if total(&segments) != Some(data.len() as u64) {
            return;
        }
        let done = each_run(window, &segments, (1, 1), |memory, at| {
            memory.write(0, &data[at..at + memory.len()]);
        });
        self.refuse_unless(done, from, header);
    }

    pub(crate) fn get_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let Some(window) = self.window_of(from, header) else { return };
        let Some((offset, rest)) = body.split_at_checked(8) else { return };
        let Some((segments, [])) = parse(header, rest) else { return };
        let Some(bytes) = total(&segments).filter(|&bytes| bytes <= MAX_REPLY) else { return };
        let mut data = vec![0; bytes as usize].into_boxed_slice();
        let done = each_run(window, &segments, (1, 1), |memory, at| {
            memory.read(0, &mut data[at..at + memory.len()]);
        });
        self.reply(from, header, offset, done.map(|()| data));
    }

    pub(crate) fn accumulate_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let Some(window) = self.window_of(from, header) else { return };
        let Some((element, op)) = operation(header) else { return };
        let Some((segments, data)) = parse(header, body) else { return };
        let done = combine_here(window, &element, op, &segments, (data, None));
        self.refuse_unless(done, from, header);
    }

    pub(crate) fn fetch_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let Some(window) = self.window_of(from, header) else { return };
        let Some((element, op)) = operation(header) else { return };
        let Some((offset, rest)) = body.split_at_checked(8) else { return };
        let Some((segments, mut data)) = parse(header, rest) else { return };
        let bytes = total(&segments).and_then(|all| all.checked_mul(element.size as u64));
        let Some(bytes) = bytes.filter(|&bytes| bytes <= MAX_REPLY) else { return };
        let nothing = vec![0; if op == BuiltinOp::NoOp { bytes as usize } else { 0 }];
        if op == BuiltinOp::NoOp {
            data = &nothing;
        }
        let mut old = vec![0; bytes as usize].into_boxed_slice();
        let done = combine_here(window, &element, op, &segments, (data, Some(&mut old)));
        self.reply(from, header, offset, done.map(|()| old));
    }

    pub(crate) fn swap_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let Some(window) = self.window_of(from, header) else { return };
        let element = Element::from_code(header.tag as u32).filter(Element::is_comparable);
        let Some(element) = element else { return };
        let Some((disp, values)) = body.split_at_checked(8) else { return };
        let Some((expected, new)) = values.split_at_checked(element.size) else { return };
        if new.len() != element.size {
            return;
        }
        let disp = i64::from_le_bytes(std::array::from_fn(|index| disp[index]));
        let done = window.locate(disp, element.size).ok_or(Refusal::Outside).and_then(|at| {
            let mut old = [0; MAX_SIZE];
            let old = &mut old[..element.size];
            element.compare_swap(window.executor(window.rank), at, (expected, new), old)?;
            Ok(Box::from(&*old))
        });
        self.reply(from, header, &[0; 8], done);
    }

    fn reply(
        &mut self,
        to: Peer,
        request: &Header,
        offset: &[u8],
        data: Result<Box<[u8]>, Refusal>,
    ) {
        let length = u64::from_le_bytes(std::array::from_fn(|index| offset[index]));
        let header = Header { context: request.length, length, ..Header::new(Kind::RmaReply) };
        let (header, body) = match data {
            Ok(data) => (header, data),
            Err(why) => (Header { root: why as u32, ..header }, Box::default()),
        };
        self.outgoing.push(to, Item::Frame(header, body));
    }

    /// Tells the origin that its access was refused.
    fn refuse_unless(&mut self, done: Result<(), Refusal>, to: Peer, request: &Header) {
        let Err(why) = done else { return };
        let Some(window) = self.windows.get(&request.context) else { return };
        let header = Step::Refused.header(window.id, window.rank);
        let header = Header { root: why as u32, ..header };
        self.outgoing.push(to, Item::Frame(header, Box::default()));
    }
}

/// Largest reply that a peer may request, bytes: no transport has larger frames.
const MAX_REPLY: u64 = 16 << 20;

/// Returns the segments of a body and what follows them.
pub(crate) fn parse<'a>(header: &Header, body: &'a [u8]) -> Option<(Vec<Segment>, &'a [u8])> {
    let bytes = (header.root as usize).checked_mul(Segment::SIZE)?;
    let (segments, rest) = body.split_at_checked(bytes)?;
    let segments = segments.chunks_exact(Segment::SIZE).map(Segment::decode);
    Some((segments.collect::<Option<Vec<_>>>()?, rest))
}

/// Returns element type and operation of an accumulate, if the operation applies.
fn operation(header: &Header) -> Option<(Element, BuiltinOp)> {
    let element = Element::from_code(header.tag as u32)?;
    let op = BuiltinOp::from_handle(header.collective.into())?;
    element.takes(op).then_some((element, op))
}

/// Returns the number of elements; `None` beyond 64 bits, and if a segment is empty.
fn total(segments: &[Segment]) -> Option<u64> {
    segments.iter().try_fold(0_u64, |sum, segment| {
        let elements = segment.count.checked_mul(segment.repeat).filter(|&all| all > 0)?;
        sum.checked_add(elements)
    })
}

/// Passes the memory of each run of bytes with the packed offset of its begin. All runs are checked
/// before the first is passed.
pub(crate) fn each_run(
    window: &Window,
    segments: &[Segment],
    (size, extent): (usize, usize),
    mut work: impl FnMut(UserBuf, usize),
) -> Result<(), Refusal> {
    let span = |count: u64| (count as usize - 1) * extent + size;
    walk(segments, size, |disp, count, _| {
        window.locate(disp, span(count)).map(|_| ()).ok_or(Refusal::Outside)
    })?;
    walk(segments, size, |disp, count, at| {
        window.locate(disp, span(count)).ok_or(Refusal::Outside).map(|memory| work(memory, at))
    })
}

/// Calls `work` for each run with its displacement, its elements and its packed offset.
pub(crate) fn walk(
    segments: &[Segment],
    size: usize,
    mut work: impl FnMut(i64, u64, usize) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut at = 0;
    for segment in segments {
        for run in 0..segment.repeat as i64 {
            let disp =
                segment.stride.checked_mul(run).and_then(|off| segment.disp.checked_add(off));
            work(disp.ok_or(Refusal::Outside)?, segment.count, at)?;
            at += segment.count as usize * size;
        }
    }
    Ok(())
}

fn combine_here(
    window: &Window,
    element: &Element,
    op: BuiltinOp,
    segments: &[Segment],
    data: (&[u8], Option<&mut [u8]>),
) -> Result<(), Refusal> {
    let bytes = total(segments).and_then(|all| all.checked_mul(element.size as u64));
    if bytes != Some(data.0.len() as u64) {
        return Ok(());
    }
    let locate = |disp, len| window.locate(disp, len);
    combine_all(locate, window.executor(window.rank), element, op, segments, data)
}

/// Combines packed elements with those of the segments; the second slice gets what they were. Both
/// are as long as the segments' elements. All segments are checked before anything changes.
pub(crate) fn combine_all(
    locate: impl Fn(i64, usize) -> Option<UserBuf>,
    by: Executor<'_>,
    element: &Element,
    op: BuiltinOp,
    segments: &[Segment],
    (data, mut old): (&[u8], Option<&mut [u8]>),
) -> Result<(), Refusal> {
    let find = |disp, count| {
        element.bytes(count).and_then(|bytes| locate(disp, bytes)).ok_or(Refusal::Outside)
    };
    walk(segments, element.size, |disp, count, _| find(disp, count).map(|_| ()))?;
    walk(segments, element.size, |disp, count, at| {
        let memory = find(disp, count)?;
        let part = at..at + count as usize * element.size;
        let old = old.as_mut().map(|old| &mut old[part.clone()]);
        element.combine(op, by, memory, &data[part], old)?;
        Ok(())
    })
}
