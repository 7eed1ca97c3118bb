//! Operations at the origin: checks them, does them at once where this process can access the
//! target's memory, and sends them otherwise.
//!
//! A direct put or get is a copy between two layouts; a direct accumulate runs through the same
//! code as one that has arrived in a frame (`target`). What is sent leaves in pieces that fit the
//! frames of the target's transport. The operation has ended for the origin when all pieces are
//! posted and all replies have arrived.

use fabric::{Header, HybridGet, Kind, Peer, Post, RequestId, Transport, UserBuf};
use objects::op::BuiltinOp;
use objects::{Area, Buffer, Class, Datatype, Error, Result};

use crate::element::{Element, MAX_SIZE};
use crate::engine::{Engine, Posted};
use crate::operations::{Action, Operation, Path};
use crate::outgoing::Item;
use crate::rdma::Begun;
use crate::segment::{Cursor, Layout, Segment, Space};
use crate::target::{self, Refusal};
use crate::transfer::transfer;
use crate::window::Window;

/// The target's memory, as the call describes it.
#[derive(Clone, Debug)]
pub struct Place {
    /// Rank in the window.
    pub target: u32,
    /// Displacement in the target's units.
    pub disp: i64,
    /// Number of elements.
    pub count: u64,
    /// Their type.
    pub datatype: Datatype,
}

/// An operation with its local memory.
#[derive(Clone, Debug)]
pub enum Access {
    /// MPI_Put.
    Put(Buffer),
    /// MPI_Get.
    Get(Buffer),
    /// MPI_Accumulate.
    Accumulate(BuiltinOp, Buffer),
    /// MPI_Get_accumulate and MPI_Fetch_and_op: origin, then result.
    Fetch(BuiltinOp, Buffer, Buffer),
    /// MPI_Compare_and_swap: expected value, new value, result.
    Swap(Buffer, Buffer, Buffer),
}

impl Engine {
    /// Starts an operation. Returns the id of its request if one is `wanted` and the operation has
    /// not ended.
    pub fn start<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        access: Access,
        place: &Place,
        wanted: bool,
    ) -> Result<Option<RequestId>> {
        if !matches!(access, Access::Put(_) | Access::Accumulate(..)) {
            self.order_loads();
        }
        let state = self.windows.get_mut(&window).ok_or_else(|| Error::internal("no window"))?;
        let peer = state.peer(place.target)?;
        state.epochs.check_access(place.target)?;
        let disp = checked_disp(state, place)?;
        let element = match &access {
            Access::Put(_) | Access::Get(_) => None,
            Access::Accumulate(..) | Access::Fetch(..) if place.count == 0 => return Ok(None),
            Access::Accumulate(op, ..) | Access::Fetch(op, ..) => {
                Some(checked_element(*op, &place.datatype)?)
            }
            Access::Swap(..) => Some(checked_swap(&place.datatype)?),
        };
        let bytes = moved_bytes(&access, place)?;
        state.epochs.begin_access();
        let state = if state.check.is_some() {
            let (access, element) = (access.clone(), element.clone());
            let operation = prepare(window, access, place, (disp, bytes), element, wanted);
            if self.announce(endpoint, peer, &operation)? {
                return self.begin(endpoint, peer, operation);
            }
            self.window(window)?
        } else {
            &*state
        };
        if state.is_direct(place.target) && !state.leaves_to_device(place.target, element.as_ref())
        {
            let done = direct(state, access, place, (disp, bytes), element);
            self.note_stores();
            return done.map(|()| None).map_err(|why| why.error(place.target));
        }
        let reach = place.datatype.reach(place.count).unwrap_or((0, 0));
        let region = state.region_of(place.target, disp, reach);
        self.check_alive(peer)?;
        let operation = prepare(window, access, place, (disp, bytes), element, wanted);
        if operation.layout.is_end(Cursor::default()) {
            return Ok(None);
        }
        if region.is_some_and(|region| transfer(endpoint, peer, &region, &operation)) {
            self.note_stores();
            return Ok(None);
        }
        let mut operation = operation;
        operation.path = self.path_of(endpoint, peer, &operation, (disp, reach));
        self.begin(endpoint, peer, operation)
    }

    /// Begins an operation in frames, or by its device. Returns the id of its request if one is
    /// wanted and the operation has not ended.
    fn begin<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        peer: Peer,
        mut operation: Operation,
    ) -> Result<Option<RequestId>> {
        let sends = matches!(operation.path, Path::Frames);
        operation.is_answered = sends && operation.expected > 0;
        let is_answered = operation.is_answered;
        let wanted = operation.is_wanted;
        let (window, rank) = (operation.window, operation.target);
        let id = self.operations.open(operation);
        if let Some(state) = self.windows.get_mut(&window) {
            let target = state.target(rank);
            target.active += 1;
            target.answered += u32::from(is_answered);
            target.is_dirty |= sends && !is_answered;
            state.has_frames = true;
        }
        self.outgoing.push(peer, Item::Operation(id));
        self.settle(endpoint);
        if self.outgoing.is_blocked(peer) {
            self.congested = Some(peer);
        }
        let is_pending = wanted && !self.operations.is_done(id);
        if wanted && !is_pending {
            self.operations.finish(id).transpose()?;
        }
        Ok(is_pending.then_some(id))
    }

    /// Posts the remaining pieces of an operation; false if there is no space for the next.
    pub(crate) fn post_operation<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        peer: Peer,
        id: RequestId,
        moved: &mut bool,
    ) -> Posted<bool> {
        match self.begin_transfers(endpoint, peer, id, moved)? {
            Begun::All => return Ok(true),
            Begun::Some => return Ok(false),
            Begun::Nothing => {}
        }
        let Some(operation) = self.operations.find(id) else { return Ok(true) };
        let target = self.windows.get(&operation.window).map(|window| &window.targets);
        let target = target.and_then(|targets| targets.get(&operation.target));
        // Accumulates of one origin are done in order.
        if operation.is_accumulate() && target.is_some_and(|target| target.atomics > 0) {
            return Ok(false);
        }
        let rank = self.windows.get(&operation.window).map_or(0, |window| window.rank);
        let frame = endpoint.caps(peer).frame;
        while !operation.layout.is_end(operation.cursor) {
            if post_piece(endpoint, peer, rank, frame, id, operation)? == Post::NoSpace {
                return Ok(false);
            }
            *moved = true;
        }
        if operation.is_over() {
            self.end(id, None);
        }
        Ok(true)
    }

    /// Takes a piece of the data that an operation returns.
    pub(crate) fn reply_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let id = RequestId::from_bits(header.context);
        let Some(operation) = self.operations.find(id) else { return };
        let window = self.windows.get(&operation.window);
        if window.and_then(|window| window.peers.peer_of(operation.target)) != Some(from) {
            return;
        }
        if header.root != 0 {
            let error = Refusal::from_wire(header.root).error(operation.target);
            return self.end(id, Some(error));
        }
        let end = header.length.checked_add(body.len() as u64);
        if body.is_empty() || end.is_none_or(|end| end > operation.expected) {
            return;
        }
        operation.result.unpack(header.length, body);
        operation.received += body.len() as u64;
        if operation.is_over() {
            self.end(id, None);
        }
    }
}

/// Posts the next piece of an operation.
fn post_piece<T: Transport>(
    endpoint: &mut T,
    peer: Peer,
    rank: u32,
    frame: usize,
    id: RequestId,
    operation: &mut Operation,
) -> Posted<Post> {
    let mut header = Header { source: rank, context: operation.window, ..head(&operation.action) };
    let returns = !matches!(operation.action, Action::Put | Action::Accumulate(..));
    if returns {
        header.length = id.to_bits();
    }
    if let Action::Swap(element, values) = &operation.action {
        let disp = operation.layout.segments().first().map_or(0, |segment| segment.disp);
        let size = element.size;
        let posted = endpoint.post(peer, &header, 8 + 2 * size, |slot| {
            slot[..8].copy_from_slice(&disp.to_le_bytes());
            slot[8..8 + size].copy_from_slice(&values[0][..size]);
            slot[8 + size..].copy_from_slice(&values[1][..size]);
        })?;
        if posted == Post::Sent {
            operation.layout.cut(&mut operation.cursor, Space::Shared(frame), &mut Vec::new());
        }
        return Ok(posted);
    }
    let begin = if returns { 8 } else { 0 };
    let is_request = matches!(operation.action, Action::Get);
    let space = match is_request {
        true => Space::Separate(frame - begin, frame),
        false => Space::Shared(frame - begin),
    };
    let (mut cursor, mut segments) = (operation.cursor, Vec::with_capacity(1));
    let bytes = operation.layout.cut(&mut cursor, space, &mut segments);
    header.root = segments.len() as u32;
    let data_at = begin + segments.len() * Segment::SIZE;
    let data = if is_request || operation.origin.is_empty() { 0 } else { bytes };
    let posted = endpoint.post(peer, &header, data_at + data, |slot| {
        if returns {
            slot[..8].copy_from_slice(&operation.sent.to_le_bytes());
        }
        let places = slot[begin..data_at].chunks_exact_mut(Segment::SIZE);
        segments.iter().zip(places).for_each(|(segment, place)| segment.encode(place));
        if data > 0 {
            operation.origin.pack(operation.sent, &mut slot[data_at..]);
        }
    })?;
    if posted == Post::Sent {
        operation.cursor = cursor;
        operation.sent += bytes as u64;
    }
    Ok(posted)
}

fn head(action: &Action) -> Header {
    let (kind, op, code) = match action {
        Action::Put => (Kind::RmaPut, 0, 0),
        Action::Get => (Kind::RmaGet, 0, 0),
        Action::Accumulate(op, element) => (Kind::RmaAccumulate, *op as u8, element.code),
        Action::Fetch(op, element) => (Kind::RmaFetch, *op as u8, element.code),
        Action::Swap(element, _) => (Kind::RmaSwap, 0, element.code),
    };
    Header { collective: op.into(), tag: code as i32, ..Header::new(kind) }
}

/// Describes an operation that is to be sent.
fn prepare(
    window: u64,
    access: Access,
    place: &Place,
    (disp, bytes): (i64, u64),
    element: Option<Element>,
    is_wanted: bool,
) -> Operation {
    let unit = element.as_ref().map_or((1, 1), |element| (element.size, element.extent));
    let layout = layout(place, disp, unit, bytes);
    let element = || element.clone().expect("accumulates have an element type");
    let (action, origin, result) = match access {
        Access::Put(origin) => (Action::Put, origin, Buffer::EMPTY),
        Access::Get(result) => (Action::Get, Buffer::EMPTY, result),
        Access::Accumulate(op, origin) => {
            (Action::Accumulate(op, element()), origin, Buffer::EMPTY)
        }
        Access::Fetch(BuiltinOp::NoOp, _, result) => {
            (Action::Fetch(BuiltinOp::NoOp, element()), Buffer::EMPTY, result)
        }
        Access::Fetch(op, origin, result) => (Action::Fetch(op, element()), origin, result),
        Access::Swap(expected, new, result) => {
            let element = element();
            let values = [bytes_of(&expected, &element), bytes_of(&new, &element)];
            (Action::Swap(element, Box::new(values)), Buffer::EMPTY, result)
        }
    };
    let returns = !matches!(action, Action::Put | Action::Accumulate(..));
    Operation {
        window,
        target: place.target,
        action,
        layout,
        cursor: Cursor::default(),
        origin,
        result,
        sent: 0,
        received: 0,
        expected: if returns { bytes } else { 0 },
        path: Path::Frames,
        is_answered: false,
        transfers: 0,
        is_wanted,
    }
}

/// Does an operation in memory that this process can access.
fn direct(
    window: &Window,
    access: Access,
    place: &Place,
    (disp, bytes): (i64, u64),
    element: Option<Element>,
) -> std::result::Result<(), Refusal> {
    match (access, element) {
        (Access::Put(origin), _) => match target_buffer(window, place, disp) {
            Some(at) => _ = at.copy_from(&origin),
            None => each_piece(window, place, (disp, bytes), |memory, at, piece| {
                origin.pack(at, piece);
                memory.write(0, piece);
            }),
        },
        (Access::Get(result), _) => match target_buffer(window, place, disp) {
            Some(at) => _ = result.copy_from(&at),
            None => each_piece(window, place, (disp, bytes), |memory, at, piece| {
                memory.read(0, piece);
                result.unpack(at, piece);
            }),
        },
        (Access::Accumulate(op, origin), Some(element)) => {
            let mut data = vec![0; bytes as usize];
            origin.pack(0, &mut data);
            combine(window, place, disp, &element, op, &data, None)?;
        }
        (Access::Fetch(op, origin, result), Some(element)) => {
            let mut data = vec![0; bytes as usize];
            if op != BuiltinOp::NoOp {
                origin.pack(0, &mut data);
            }
            let mut old = vec![0; data.len()];
            combine(window, place, disp, &element, op, &data, Some(&mut old))?;
            result.unpack(0, &old);
        }
        (Access::Swap(expected, new, result), Some(element)) => {
            let (expected, new) = (bytes_of(&expected, &element), bytes_of(&new, &element));
            let size = element.size;
            let mut old = [0; MAX_SIZE];
            if let Some(at) = window.locate_at(place.target, disp, size) {
                let values = (&expected[..size], &new[..size]);
                element.compare_swap(
                    window.executor(place.target),
                    at,
                    values,
                    &mut old[..size],
                )?;
            }
            result.unpack(0, &old[..size]);
        }
        (_, None) => {}
    }
    Ok(())
}

/// Returns the target's memory as a buffer; its range was checked. `None` if it is in pieces.
fn target_buffer(window: &Window, place: &Place, disp: i64) -> Option<Buffer> {
    let (low, high) = place.datatype.reach(place.count).unwrap_or((0, 0));
    let memory = window.locate_at(place.target, disp + low, (high - low) as usize)?;
    Some(Area::from(memory).buffer(-low, place.count, &place.datatype))
}

/// Passes each run of this rank's attached memory with its packed offset, and space for its bytes.
fn each_piece(
    window: &Window,
    place: &Place,
    (disp, bytes): (i64, u64),
    mut work: impl FnMut(UserBuf, u64, &mut [u8]),
) {
    let mut piece = Vec::new();
    let layout = layout(place, disp, (1, 1), bytes);
    // All runs were checked.
    let _ = target::each_run(window, layout.segments(), (1, 1), |memory, at| {
        piece.resize(memory.len(), 0);
        work(memory, at as u64, &mut piece);
    });
}

/// Returns the layout of the target's memory, as far as `bytes` packed bytes go.
fn layout(place: &Place, disp: i64, unit: (usize, usize), bytes: u64) -> Layout {
    let mut layout = Layout::new(disp, place.count, &place.datatype, unit);
    if bytes < place.datatype.size().saturating_mul(place.count) {
        layout.truncate(bytes);
    }
    layout
}

fn combine(
    window: &Window,
    place: &Place,
    disp: i64,
    element: &Element,
    op: BuiltinOp,
    data: &[u8],
    old: Option<&mut [u8]>,
) -> std::result::Result<(), Refusal> {
    let unit = (element.size, element.extent);
    let layout = layout(place, disp, unit, data.len() as u64);
    let locate = |disp, len| window.locate_at(place.target, disp, len);
    let by = window.executor(place.target);
    target::combine_all(locate, by, element, op, layout.segments(), (data, old))
}

/// Returns the displacement in bytes of a place that lies in the target's memory.
fn checked_disp(window: &Window, place: &Place) -> Result<i64> {
    let unit = window.remotes[place.target as usize].unit;
    let disp =
        place.disp.checked_mul(unit as i64).filter(|_| window.is_dynamic() || place.disp >= 0);
    let disp = disp.ok_or_else(|| {
        let text = format!("invalid target displacement {}: must not be negative", place.disp);
        Error::new(Class::Disp, text)
    })?;
    let reach = place
        .datatype
        .reach(place.count)
        .ok_or_else(|| Error::new(Class::RmaRange, "the target memory has more than 2^63 bytes"))?;
    match window.check_range(place.target, disp, reach) {
        Err(_) if has_attached_runs(window, place, disp, reach) => Ok(disp),
        checked => checked.map(|()| disp),
    }
}

/// Returns whether this rank has attached all runs of a place in its own memory, though not what
/// lies between them.
fn has_attached_runs(window: &Window, place: &Place, disp: i64, (low, high): (i64, i64)) -> bool {
    let is_own = window.is_dynamic() && place.target == window.rank;
    let has_end = disp.checked_add(low).is_some() && disp.checked_add(high).is_some();
    if !is_own || !has_end {
        return false;
    }
    let layout = Layout::new(disp, place.count, &place.datatype, (1, 1));
    target::each_run(window, layout.segments(), (1, 1), |_, _| {}).is_ok()
}

/// Returns the element type of an accumulate to which its operation applies.
fn checked_element(op: BuiltinOp, datatype: &Datatype) -> Result<Element> {
    if datatype.size() == 0 {
        return Element::of(Datatype::byte()).ok_or_else(|| Error::internal("no bytes"));
    }
    let element = Element::of(datatype).ok_or_else(|| {
        let text = "the target datatype of an accumulate must consist of one predefined type";
        Error::new(Class::Type, text)
    })?;
    if !element.takes(op) {
        let text = format!("{} does not apply to {}", op.name(), element.name());
        return Err(Error::new(Class::Op, text));
    }
    Ok(element)
}

/// Returns the element type of a compare-and-swap (MPI-5.0 §12.3.4).
fn checked_swap(datatype: &Datatype) -> Result<Element> {
    let element =
        Element::of(datatype).filter(|element| datatype.is_predefined() && element.is_comparable());
    element.ok_or_else(|| {
        let text = format!(
            "invalid datatype {}: MPI_Compare_and_swap takes integers, logicals and MPI_BYTE",
            datatype.name()
        );
        Error::new(Class::Type, text)
    })
}

/// Returns the packed bytes that an operation moves. As in a message, the receiving side may be
/// larger; otherwise MPI_ERR_TRUNCATE.
fn moved_bytes(access: &Access, place: &Place) -> Result<u64> {
    let target = place.datatype.size().saturating_mul(place.count);
    let check = |what: &str, bytes: u64, space: u64| match bytes <= space {
        true => Ok(bytes),
        false => Err(Error::new(
            Class::Truncate,
            format!("the {what} has {bytes} bytes, but there is room for {space} only"),
        )),
    };
    match access {
        Access::Put(origin) | Access::Accumulate(_, origin) => {
            check("origin's data", origin.len(), target)
        }
        Access::Get(result) => check("target's data", target, result.len()),
        Access::Fetch(BuiltinOp::NoOp, _, result) => check("target's data", target, result.len()),
        Access::Fetch(_, origin, result) => {
            check("origin's data", origin.len(), target)?;
            check("target's data", origin.len(), result.len())
        }
        Access::Swap(_, new, result) => {
            check("origin's data", new.len(), target)?;
            check("target's data", target, result.len())
        }
    }
}

fn bytes_of(buffer: &Buffer, element: &Element) -> [u8; MAX_SIZE] {
    let mut bytes = [0; MAX_SIZE];
    buffer.pack(0, &mut bytes[..element.size]);
    bytes
}
