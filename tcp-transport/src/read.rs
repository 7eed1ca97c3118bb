//! Reads a link: many records with one system call, and the data of large ones straight into the
//! user's memory.

use fabric::{Sink, UserBuf};
use rustix::io::Errno;

use crate::records::{Handler, Violation};
use crate::scratch::READ_BYTES;
use crate::transport::TcpTransport;

/// Most reads of one link in a poll; others have their turn then.
const MAX_READS: usize = 8;
/// Bytes of a read beyond the data of a large record: they are copied.
const TAIL: usize = 4 << 10;
/// Most bytes of a read into the scratch memory while data for the user is awaited: what follows
/// the header of its record is read into the user's memory.
const HEAD_BYTES: usize = 2 << 10;

/// The result of one read.
enum Outcome {
    /// There may be more.
    More,
    /// Nothing is left; true if anything was read.
    Drained(bool),
    /// The connection has ended.
    Ended(String),
    /// The peer does not keep the protocol.
    Violation(Violation),
}

impl TcpTransport {
    /// Reads the link of a peer. Returns true if anything has arrived.
    #[inline]
    pub(crate) fn read_link(&mut self, at: usize, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        for _ in 0..MAX_READS {
            match self.read_once(at, sink) {
                Outcome::More => moved = true,
                Outcome::Drained(had_any) => {
                    if moved || had_any {
                        self.answer(at);
                    }
                    return moved || had_any;
                }
                Outcome::Ended(why) => {
                    self.break_link(at, &why);
                    return true;
                }
                Outcome::Violation(Violation(why)) => {
                    self.fail(at, why.into());
                    return true;
                }
            }
        }
        self.mark_readable(at);
        self.answer(at);
        true
    }

    /// Writes what the records of a read have caused.
    #[inline]
    fn answer(&mut self, at: usize) {
        let polls = self.attention.polls;
        let state = &mut self.peers[at];
        if state.rx.bye_due.is_some() {
            return self.answer_bye(at);
        }
        state.append_due_ack(self.settings.window / 4);
        if state.tx.has_unsent() {
            state.write(polls);
        }
    }

    #[inline]
    fn read_once(&mut self, at: usize, sink: &mut impl Sink) -> Outcome {
        let polls = self.attention.polls;
        if self.peers[at].link.is_none() {
            return Outcome::Drained(false);
        }
        self.scratch.claim(at, &mut self.peers);
        let state = &mut self.peers[at];
        let Some(link) = &mut state.link else { return Outcome::Drained(false) };
        let (into, space) = match &state.rx.bulk {
            Some(bulk) => (bulk.into, TAIL),
            None if state.gets.is_empty() => (UserBuf::EMPTY, READ_BYTES),
            None => (UserBuf::EMPTY, HEAD_BYTES),
        };
        let read = match link.fd.receive(into, self.scratch.space(space)) {
            Ok(0) => return Outcome::Ended("the other side has closed it".into()),
            Ok(read) => read,
            Err(Errno::AGAIN) => return Outcome::Drained(false),
            Err(Errno::INTR) => return Outcome::More,
            Err(errno) => return Outcome::Ended(std::io::Error::from(errno).to_string()),
        };
        let is_part = link.fd.reads_in_parts();
        let has_more = link.is_ending || is_part || read == into.len() + space;
        link.used = polls;
        state.rx.position += read as u64;
        match self.take_bytes(at, into, read, sink) {
            Err(violation) => Outcome::Violation(violation),
            Ok(()) if has_more => Outcome::More,
            Ok(()) => Outcome::Drained(true),
        }
    }

    /// Handles what was read: first the rest of a large record, then what is in the scratch memory.
    #[inline]
    fn take_bytes(
        &mut self,
        at: usize,
        into: UserBuf,
        read: usize,
        sink: &mut impl Sink,
    ) -> Result<(), Violation> {
        let mut handler = Handler {
            state: &mut self.peers[at],
            regions: &mut self.regions,
            stripes: &mut self.stripes,
            reports: &mut self.reports,
            max_frame: self.limits.idle.frame,
            low_water: self.settings.window / 2,
            has_space_again: &mut self.attention.has_space_again,
        };
        let direct = read.min(into.len());
        if direct > 0
            && let Some(mut bulk) = handler.state.rx.bulk.take()
        {
            bulk.into = into.slice(direct, into.len() - direct);
            if bulk.into.is_empty() {
                handler.arrived(bulk);
            } else {
                handler.state.rx.bulk = Some(bulk);
            }
        }
        self.scratch.received(read - direct);
        let taken = handler.take(self.scratch.bytes(), sink)?;
        self.scratch.taken(taken);
        Ok(())
    }
}
