//! The bytes of one rank, where data is carried.

use collectives::{Local, Space, Span};

use crate::call::Call;

/// Memory that grows as it is written; what was never written reads as zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn read(&self, at: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        if let Some(known) = self.0.get(at..) {
            let known = &known[..known.len().min(len)];
            out[..known.len()].copy_from_slice(known);
        }
        out
    }

    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.0.len() < end {
            self.0.resize(end, 0);
        }
        self.0[at..end].copy_from_slice(bytes);
    }
}

/// The slots of the current round of a segment, and of the round before.
pub(crate) type Slots = [Bytes; 2];

const HAS_SEGMENT: &str = "a schedule with slots has a segment";

/// The buffers of one rank.
#[derive(Debug)]
pub(crate) struct Memory {
    send: Bytes,
    recv: Bytes,
    temp: Bytes,
}

impl Memory {
    /// The buffers with which a rank calls.
    pub(crate) fn new(call: &Call, rank: u32, size: u32) -> Memory {
        let send = Bytes(call.input(rank, size));
        let recv = Bytes(call.output_before(rank, size));
        Memory { send, recv, temp: Bytes::default() }
    }

    /// The receive buffer.
    pub(crate) fn result(&self, bytes: usize) -> Vec<u8> {
        self.recv.read(0, bytes)
    }

    fn space<'a>(&'a mut self, space: Space, slots: Option<&'a mut Slots>) -> &'a mut Bytes {
        match space {
            Space::Send => &mut self.send,
            Space::Recv => &mut self.recv,
            Space::Temp => &mut self.temp,
            Space::CollSegment => &mut slots.expect(HAS_SEGMENT)[0],
            Space::PreviousSlots => &mut slots.expect(HAS_SEGMENT)[1],
        }
    }

    /// Reads a span. `slots`: those of the current round of the segment.
    pub(crate) fn read(&mut self, call: &Call, span: &Span, slots: Option<&mut Slots>) -> Vec<u8> {
        let bytes = call.bytes_of(span) as usize;
        self.space(span.space, slots).read(span.disp as usize, bytes)
    }

    /// Writes a span.
    pub(crate) fn write(&mut self, span: &Span, bytes: &[u8], slots: Option<&mut Slots>) {
        self.space(span.space, slots).write(span.disp as usize, bytes);
    }

    /// Runs a local step.
    pub(crate) fn run(&mut self, call: &Call, local: &Local, mut slots: Option<&mut Slots>) {
        match *local {
            Local::Copy { from, to } => {
                let bytes = self.read(call, &from, slots.as_deref_mut());
                self.write(&to, &bytes, slots);
            }
            Local::Reduce { left, right, out } => {
                let mut result = self.read(call, &right, slots.as_deref_mut());
                for index in (0..left.many).rev() {
                    let disp = left.first.disp + i64::from(index) * left.distance;
                    let operand = Span { disp, ..left.first };
                    let operand = self.read(call, &operand, slots.as_deref_mut());
                    call.reduce(&operand, &mut result);
                }
                self.write(&out, &result, slots);
            }
            Local::Publish(_) | Local::Get { .. } | Local::Confirm | Local::Check(_) => {
                unreachable!("simulated ranks do not read each other's memory");
            }
        }
    }
}
