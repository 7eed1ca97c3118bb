//! What the ranks write, in whole lines.
//!
//! A stream is one rank's standard output or error; a sink is ours. Lines of
//! different ranks never mix: a stream's bytes are held until their line ends.
//! On a terminal a line that stays open (a prompt, a progress bar) is shown
//! after [`PATIENCE`], and `\r` ends a line as well; whoever writes next starts
//! a new one. Elsewhere only the end of the stream, or [`LONGEST`] bytes,
//! releases an open line.
//!
//! On one of several hosts all of it goes to `mpiexec` in frames ([`Output::framed`]),
//! and lines are put together there.
//!
//! Nothing here blocks. When a sink takes no more, its streams are not read, so
//! the ranks wait: nothing is lost, and signals are still answered.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::frames::{self, FromHost, PIECE};

/// How long a terminal waits for the end of a line.
const PATIENCE: Duration = Duration::from_millis(80);
/// Bytes of an open line that are held at most.
const LONGEST: usize = 1 << 20;
/// Bytes that may wait in a sink before its streams are left unread.
const BACKLOG: usize = 256 << 10;
/// Reads of one stream before it is the others' turn.
const TURNS: usize = 16;

/// Which of a rank's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// All streams and the one or two sinks.
#[derive(Debug)]
pub struct Output {
    streams: Vec<Stream>,
    /// Ours: standard output, then standard error unless it is the same file.
    sinks: Vec<Sink>,
    tag: bool,
    framed: bool,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    rank: u32,
    which: Which,
    sink: usize,
    /// `None` once it has ended.
    file: Option<OwnedFd>,
    /// The beginning of a line.
    held: Vec<u8>,
    held_since: Option<Instant>,
    /// Part of the line is out already, so it needs no tag.
    amid: bool,
}

#[derive(Debug)]
struct Sink {
    way: Way,
    file: BorrowedFd<'static>,
    pending: Vec<u8>,
    written: usize,
    interactive: bool,
    /// Whose unfinished line is the last thing in it.
    open_line: Option<usize>,
    broken: Option<Errno>,
}

/// How to write without being blocked.
#[derive(Debug)]
enum Way {
    /// It never blocks for long: a file, or it is a device that we could not reopen.
    Plain,
    /// Opened once more for ourselves, so that others don't see the flag.
    Reopened(OwnedFd),
    /// Told with each call.
    Socket,
    /// In pieces that fit when `poll` says that there is room.
    Pieces,
}

impl Output {
    /// With our own standard output and error as sinks.
    pub fn new(tag: bool) -> Output {
        let out = rustix::stdio::stdout();
        let err = rustix::stdio::stderr();
        let mut sinks = vec![Sink::new(out)];
        if !same_file(out, err) {
            sinks.push(Sink::new(err));
        }
        Output { streams: Vec::new(), sinks, tag, framed: false, scratch: vec![0; 64 << 10] }
    }

    /// With our standard output as the way to `mpiexec`.
    pub fn framed() -> Output {
        let sinks = vec![Sink::new(rustix::stdio::stdout())];
        Output { streams: Vec::new(), sinks, tag: false, framed: true, scratch: vec![0; 64 << 10] }
    }

    /// True if it goes to `mpiexec`.
    pub fn is_framed(&self) -> bool {
        self.framed
    }

    /// Says something to `mpiexec`. For a framed output.
    pub fn send(&mut self, frame: &FromHost) {
        match frames::encode(frame) {
            Ok(bytes) => {
                self.sinks[0].push(&bytes);
                self.sinks[0].write();
            }
            Err(malformed) => eprintln!("mpiexec: {malformed}"),
        }
    }

    /// Writes all that is left, and waits for it: the last words.
    pub fn flush(&mut self) {
        for sink in &mut self.sinks {
            while sink.backlog() > 0 {
                let mut asked =
                    [rustix::event::PollFd::from_borrowed_fd(sink.file(), PollFlags::OUT)];
                let _ = rustix::event::poll(&mut asked, None);
                sink.write();
            }
        }
    }

    /// A stream of a rank on another host. Returns its number.
    pub fn add_remote(&mut self, rank: u32, which: Which) -> usize {
        let sink = if which == Which::Out { 0 } else { self.sinks.len() - 1 };
        self.streams.push(Stream {
            rank,
            which,
            sink,
            file: None,
            held: Vec::new(),
            held_since: None,
            amid: false,
        });
        self.streams.len() - 1
    }

    /// What a stream of another host has said.
    pub fn arrived(&mut self, id: usize, bytes: &[u8], now: Instant) {
        self.take(id, bytes, now);
    }

    /// Passes on what other hosts have said in part; they will say no more.
    pub fn release_all(&mut self) {
        (0..self.streams.len()).for_each(|id| self.release(id));
    }

    /// True while more has been said than our readers have taken.
    pub fn is_behind(&self) -> bool {
        self.sinks.iter().any(|sink| sink.backlog() >= BACKLOG)
    }

    /// Takes our end of a rank's pipe, which must not block.
    pub fn add(&mut self, rank: u32, which: Which, file: OwnedFd) {
        let sink = if which == Which::Out { 0 } else { self.sinks.len() - 1 };
        let (held, held_since) = (Vec::new(), None);
        self.streams.push(Stream {
            rank,
            which,
            sink,
            file: Some(file),
            held,
            held_since,
            amid: false,
        });
    }

    /// Streams that we are ready to read, by number.
    pub fn readable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.streams.iter().enumerate().filter_map(|(id, stream)| {
            let room = self.sinks[stream.sink].backlog() < BACKLOG;
            stream.file.as_ref().filter(|_| room).map(|file| (id, file.as_fd()))
        })
    }

    /// Sinks that have something to write, by number.
    pub fn writable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.sinks
            .iter()
            .enumerate()
            .filter(|(_, sink)| sink.backlog() > 0)
            .map(|(id, sink)| (id, sink.file()))
    }

    /// Reads what a stream has, as far as its sink has room and the other
    /// streams have patience. True if nothing was left.
    pub fn read(&mut self, id: usize, now: Instant) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut dry = false;
        for _ in 0..TURNS {
            let Some(file) = &self.streams[id].file else { break };
            match rustix::io::read(file, &mut scratch[..]) {
                Ok(0) => self.end(id),
                Ok(read) => self.take(id, &scratch[..read], now),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    dry = true;
                    break;
                }
                Err(_) => self.end(id),
            }
            if self.sinks[self.streams[id].sink].backlog() >= BACKLOG {
                break;
            }
        }
        self.scratch = scratch;
        dry
    }

    /// Reads both streams of a rank, so that its last words stand before ours.
    pub fn read_rank(&mut self, rank: u32, now: Instant) {
        for id in 0..self.streams.len() {
            if self.streams[id].rank == rank {
                self.read(id, now);
            }
        }
    }

    /// Reads what is left and closes the streams, as far as the sinks have
    /// room: nobody writes any more.
    pub fn finish(&mut self, now: Instant) {
        for id in 0..self.streams.len() {
            if self.read(id, now) {
                self.end(id);
            }
        }
    }

    /// True once all streams have ended and everything is written.
    pub fn is_finished(&self) -> bool {
        self.streams.iter().all(|stream| stream.file.is_none())
            && self.sinks.iter().all(|sink| sink.backlog() == 0)
    }

    /// Writes what a sink holds, as far as it takes it.
    pub fn write(&mut self, sink: usize) {
        self.sinks[sink].write();
    }

    /// Says something of our own on standard error, as lines of its own.
    pub fn tell(&mut self, text: &str) {
        if self.framed {
            return self.send(&FromHost::Told(text.to_owned()));
        }
        let sink = self.sinks.len() - 1;
        self.break_line(sink, None);
        self.sinks[sink].push(text.as_bytes());
        self.sinks[sink].push(b"\n");
        self.sinks[sink].write();
    }

    /// The user has typed a line: the cursor stands at the start of one.
    pub fn typed(&mut self) {
        for sink in self.sinks.iter_mut().filter(|sink| sink.interactive) {
            if let Some(stream) = sink.open_line.take() {
                self.streams[stream].amid = false;
            }
        }
    }

    /// When [`Output::tick`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.streams.iter().filter(|stream| self.sinks[stream.sink].interactive);
        waiting.filter_map(|stream| stream.held_since).min().map(|since| since + PATIENCE)
    }

    /// Shows the open lines that a terminal has waited for long enough.
    pub fn tick(&mut self, now: Instant) {
        for id in 0..self.streams.len() {
            let stream = &self.streams[id];
            let due = stream.held_since.is_some_and(|since| now >= since + PATIENCE);
            if due && self.sinks[stream.sink].interactive {
                self.release(id);
            }
        }
    }

    /// Why our standard output can't be written any more, if so.
    pub fn broken(&self) -> Option<Errno> {
        self.sinks[0].broken
    }

    fn take(&mut self, id: usize, bytes: &[u8], now: Instant) {
        if self.framed {
            let Stream { rank, which, .. } = self.streams[id];
            for piece in bytes.chunks(PIECE) {
                self.send(&FromHost::Output {
                    rank,
                    error: which == Which::Err,
                    bytes: piece.to_owned(),
                });
            }
            return;
        }
        let interactive = self.sinks[self.streams[id].sink].interactive;
        let ends = |byte: &u8| *byte == b'\n' || (interactive && *byte == b'\r');
        let whole = bytes.iter().rposition(ends).map_or(0, |last| last + 1);
        if whole > 0 {
            self.release(id);
            self.emit(id, &bytes[..whole]);
        }
        let stream = &mut self.streams[id];
        if whole < bytes.len() {
            stream.held.extend_from_slice(&bytes[whole..]);
            stream.held_since.get_or_insert(now);
        }
        if stream.held.len() > LONGEST {
            self.release(id);
        }
    }

    /// Passes on the beginning of a line that was held.
    fn release(&mut self, id: usize) {
        let stream = &mut self.streams[id];
        stream.held_since = None;
        let held = std::mem::take(&mut stream.held);
        if !held.is_empty() {
            self.emit(id, &held);
        }
    }

    fn end(&mut self, id: usize) {
        if self.streams[id].file.take().is_some() {
            self.release(id);
        }
    }

    fn emit(&mut self, id: usize, bytes: &[u8]) {
        let sink_id = self.streams[id].sink;
        self.break_line(sink_id, Some(id));
        let (stream, sink) = (&mut self.streams[id], &mut self.sinks[sink_id]);
        if self.tag {
            let interactive = sink.interactive;
            let tag = format!("[{}] ", stream.rank);
            for line in
                bytes.split_inclusive(|byte| *byte == b'\n' || (interactive && *byte == b'\r'))
            {
                if !stream.amid {
                    sink.push(tag.as_bytes());
                }
                sink.push(line);
                let ended = line.ends_with(b"\n") || (interactive && line.ends_with(b"\r"));
                stream.amid = !ended;
            }
        } else {
            sink.push(bytes);
        }
        sink.open_line = (!bytes.ends_with(b"\n")).then_some(id);
        sink.write();
    }

    /// Ends the line that another stream left open in a sink.
    fn break_line(&mut self, sink: usize, writer: Option<usize>) {
        let sink = &mut self.sinks[sink];
        if sink.open_line.is_some() && sink.open_line != writer {
            sink.push(b"\n");
            if let Some(other) = sink.open_line.take() {
                self.streams[other].amid = false;
            }
        }
    }
}

impl Sink {
    fn new(file: BorrowedFd<'static>) -> Sink {
        let way = way_of(file);
        let interactive = rustix::termios::isatty(file);
        Sink {
            way,
            file,
            pending: Vec::new(),
            written: 0,
            interactive,
            open_line: None,
            broken: None,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.broken.is_none() {
            self.pending.extend_from_slice(bytes);
        }
    }

    fn write(&mut self) {
        while self.backlog() > 0 {
            match self.write_once() {
                Ok(wrote) => self.written += wrote,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    self.broken = Some(errno);
                    self.written = self.pending.len();
                }
            }
        }
        self.pending.clear();
        self.written = 0;
    }

    fn write_once(&self) -> Result<usize, Errno> {
        let rest = &self.pending[self.written..];
        match &self.way {
            Way::Plain => rustix::io::write(self.file, rest),
            Way::Reopened(file) => rustix::io::write(file, rest),
            Way::Socket => send(self.file, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Way::Pieces => {
                // With room for anything, a pipe has room for 4,096 bytes.
                let mut asked = [rustix::event::PollFd::new(&self.file, PollFlags::OUT)];
                rustix::event::poll(
                    &mut asked,
                    Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }),
                )?;
                if asked[0].revents().is_empty() {
                    return Err(Errno::AGAIN);
                }
                rustix::io::write(self.file, &rest[..rest.len().min(4096)])
            }
        }
    }

    fn backlog(&self) -> usize {
        self.pending.len() - self.written
    }

    fn file(&self) -> BorrowedFd<'_> {
        match &self.way {
            Way::Reopened(file) => file.as_fd(),
            _ => self.file,
        }
    }
}

fn way_of(file: BorrowedFd<'static>) -> Way {
    let Ok(stat) = fstat(file) else { return Way::Plain };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => Way::Socket,
        FileType::Fifo | FileType::CharacterDevice => {
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            open(path, flags, Mode::empty()).map_or(Way::Pieces, Way::Reopened)
        }
        _ => Way::Plain,
    }
}

fn same_file(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    match (fstat(a), fstat(b)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
        _ => false,
    }
}
