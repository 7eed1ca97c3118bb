//! The check of accesses (`rma.check`): origins announce them, targets find those that conflict.
//!
//! An origin announces an access in a frame before it begins it ([`Step::Announce`]), also where it
//! accesses the memory itself. The target compares it with those that are open (`ledger`) and
//! reports a conflict. Frames of a pair stay in order; therefore an acknowledged flush shows that
//! the target has compared all accesses before it, and has ended them. A conflict is one whichever
//! frame is first; of passive epochs those are seen whose accesses overlap in time.
//!
//! An access that the program may know to be complete before any flush, that is a request which
//! returns data, travels in frames after its announcement, and is compared but not kept open. So do
//! all accumulates travel, since those of one origin are done in order; but they are kept open.

use fabric::{Header, HybridGet, Kind, Peer};
use objects::Result;
use objects::op::BuiltinOp;

use crate::conflict::{Access, Conflict};
use crate::element::Element;
use crate::engine::Engine;
use crate::ledger::{Announced, Epoch, Range, Sort};
use crate::operations::{Action, Operation};
use crate::outgoing::Item;
use crate::segment::{Cursor, Segment, Space};
use crate::target::{Refusal, parse, walk};
use crate::window::Window;
use crate::wire::Step;

/// Bits of an announcement above its step.
const IS_WRITE: u16 = 1 << 8;
const IS_ACCUMULATE: u16 = 1 << 9;
const IS_FENCE: u16 = 1 << 10;
const IS_STARTED: u16 = 1 << 11;
const RETURNS: u16 = 1 << 12;
/// It is compared but not kept open.
const IS_BRIEF: u16 = 1 << 13;
/// Of an accumulate: it changes nothing.
const IS_NO_OP: u16 = 1 << 14;

impl Window {
    /// Compares an announced access with those that are open, and keeps it open unless it is brief.
    fn compare(&mut self, announcement: &Header, segments: &[Segment]) {
        let Some((by, element)) = decode(announcement) else { return };
        let flags = announcement.collective;
        let mut ranges: Vec<(Sort, Range)> = Vec::with_capacity(segments.len());
        // What is outside of the memory is refused when it arrives.
        let _ = walk(segments, 0, |disp, count, _| {
            let bytes = element.as_ref().map_or(Some(count as usize), |it| it.bytes(count));
            let bytes = bytes
                .filter(|&bytes| self.locate(disp, bytes).is_some())
                .ok_or(Refusal::Outside)?;
            ranges.push((sort(flags, element.as_ref(), disp), (disp, disp + bytes as i64)));
            Ok(())
        });
        let (target, is_dynamic) = (self.rank, self.is_dynamic());
        let Some(check) = &mut self.check else { return };
        // The runs of one access do not conflict with each other.
        let found = ranges.iter().find_map(|&(sort, range)| {
            Some((range, check.ledger.conflict(sort, range, by.fences)?))
        });
        if let Some((range, (other, others))) = found {
            let of = |by: &Announced, range| Access { origin: by.origin, range, call: by.call };
            let mut accesses = [of(&by, range), of(&other, others)];
            accesses.sort_unstable();
            (check.hooks.report)(&Conflict { window: &check.name, target, is_dynamic, accesses });
        }
        if flags & IS_BRIEF == 0 {
            ranges.into_iter().for_each(|(sort, range)| check.ledger.open(sort, range, by));
        }
    }
}

impl Engine {
    /// Announces an operation to its target, if the window's accesses are checked. Returns true if
    /// the operation must travel in frames.
    pub(crate) fn announce<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        peer: Peer,
        operation: &Operation,
    ) -> Result<bool> {
        self.check_alive(peer)?;
        let window = self.window_mut(operation.window)?;
        let Some(check) = &window.check else { return Ok(false) };
        let returns = !matches!(operation.action, Action::Put | Action::Accumulate(..));
        let is_brief = returns && operation.is_wanted;
        let epoch = window.epochs.kind(operation.target);
        let call = (check.hooks.current_call)();
        let header = Header {
            source: window.rank,
            context: window.id,
            length: u64::from(call) | u64::from(check.ledger.fences()) << 32,
            ..encode(&operation.action, epoch, returns, is_brief)
        };
        let is_own = operation.target == window.rank;
        let target = window.target(operation.target);
        target.is_dirty = true;
        window.has_frames = true;
        let frame = if is_own { usize::MAX } else { endpoint.caps(peer).frame };
        let mut cursor = Cursor::default();
        while !operation.layout.is_end(cursor) {
            let mut segments = Vec::new();
            operation.layout.cut(&mut cursor, Space::Separate(frame, usize::MAX), &mut segments);
            let header = Header { root: segments.len() as u32, ..header };
            if is_own {
                self.window_mut(operation.window)?.compare(&header, &segments);
                continue;
            }
            let mut body = vec![0; segments.len() * Segment::SIZE];
            let places = body.chunks_exact_mut(Segment::SIZE);
            segments.iter().zip(places).for_each(|(segment, place)| segment.encode(place));
            self.outgoing.push(peer, Item::Frame(header, body.into()));
        }
        self.settle(endpoint);
        let travels = (is_brief || operation.is_accumulate()) && !is_own;
        Ok(travels && !operation.layout.is_end(Cursor::default()))
    }

    /// Takes an announcement.
    pub(crate) fn announced(&mut self, header: &Header, body: &[u8]) {
        let Some(window) = self.windows.get_mut(&header.context) else { return };
        if window.check.is_none() {
            return;
        }
        if let Some((segments, [])) = parse(header, body) {
            window.compare(header, &segments);
        }
    }

    /// Has targets end the accesses of this rank that have ended locally, before a local flush of
    /// `target` (`None`: of all).
    pub fn end_local<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        target: Option<u32>,
    ) -> Result<()> {
        let state = self.window_mut(window)?;
        if state.check.is_none() {
            return Ok(());
        }
        let is_meant = |rank: u32| target.is_none_or(|target| target == rank);
        let dirty = state.targets.iter().filter(|(rank, it)| it.is_dirty && is_meant(**rank));
        let ranks: Vec<u32> = dirty.map(|(&rank, _)| rank).collect();
        ranks
            .into_iter()
            .try_for_each(|rank| self.send_acknowledged(window, rank, Step::FlushLocal))?;
        self.settle(endpoint);
        Ok(())
    }
}

/// Describes an access but for its origin and its ranges.
fn encode(action: &Action, epoch: Epoch, returns: bool, is_brief: bool) -> Header {
    let (sort, code) = match action {
        Action::Put => (IS_WRITE, 0),
        Action::Get => (0, 0),
        Action::Fetch(BuiltinOp::NoOp, element) => (IS_ACCUMULATE | IS_NO_OP, element.code),
        Action::Accumulate(_, element) | Action::Fetch(_, element) | Action::Swap(element, _) => {
            (IS_ACCUMULATE, element.code)
        }
    };
    let epoch = match epoch {
        Epoch::Fence => IS_FENCE,
        Epoch::Started => IS_STARTED,
        Epoch::Passive => 0,
    };
    let flag = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
    let flags = sort | epoch | flag(returns, RETURNS) | flag(is_brief, IS_BRIEF);
    let collective = Step::Announce as u16 | flags;
    Header { collective, tag: code as i32, ..Header::new(Kind::RmaSync) }
}

/// Returns an announced access, and the type of its elements if it accumulates.
fn decode(header: &Header) -> Option<(Announced, Option<Element>)> {
    let flags = header.collective;
    let element = match flags & IS_ACCUMULATE {
        0 => None,
        _ => Some(Element::from_code(header.tag as u32)?),
    };
    let epoch = match flags {
        _ if flags & IS_FENCE != 0 => Epoch::Fence,
        _ if flags & IS_STARTED != 0 => Epoch::Started,
        _ => Epoch::Passive,
    };
    let by = Announced {
        origin: header.source,
        call: header.length as u32,
        epoch,
        fences: (header.length >> 32) as u32,
        returns: flags & RETURNS != 0,
    };
    Some((by, element))
}

fn sort(flags: u16, element: Option<&Element>, disp: i64) -> Sort {
    match element {
        Some(element) => {
            let place = disp.rem_euclid(element.extent as i64) as u32;
            let is_no_op = flags & IS_NO_OP != 0;
            let sort = if is_no_op { Sort::AtomicRead } else { Sort::Accumulate };
            sort(element.code, place)
        }
        None if flags & IS_WRITE != 0 => Sort::Write,
        None => Sort::Read,
    }
}
