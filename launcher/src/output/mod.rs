//! The output of the ranks, in whole lines.
//!
//! A stream is the standard output or error of a rank; a sink is that of this process. Lines
//! of different ranks never mix: bytes of a stream are held until their line ends. On a terminal an
//! unfinished line (a prompt, a progress bar) is printed after [`OPEN_LINE_DELAY`]. `\r` ends a
//! line as well, and the next stream to print starts a new line. Elsewhere only the end of the
//! stream or [`MAX_LINE`] bytes release an unfinished line.
//!
//! With `--output` each stream has a file for a sink.
//!
//! On one of several hosts all output goes to `mpiexec` in frames ([`Output::framed`]), which
//! assembles the lines. Nothing here blocks, except [`Output::flush`]. While a sink takes no
//! more, its streams are not read, so that the ranks wait and nothing is lost.

mod sink;
mod tail;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;

use crate::frames::{self, FromHost, MAX_PIECE};
use crate::program::CannotRun;
use crate::settings::{EXIT_USAGE, OutputOptions};
use sink::{Sink, is_same_file};
use tail::Tail;

/// Time that a terminal waits for the end of a line.
const OPEN_LINE_DELAY: Duration = Duration::from_millis(80);
/// The longest unfinished line that is held, in bytes.
const MAX_LINE: usize = 1 << 20;
/// Bytes that wait in a sink before its streams are left unread.
const MAX_BACKLOG: usize = 256 << 10;
/// Reads of one stream before the next stream is read.
const MAX_READS: usize = 16;
/// Lines of our own that are kept for `--report-outcome`.
const MAX_MESSAGES: usize = 1000;
/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// The two streams of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// All streams and their sinks.
#[derive(Debug)]
pub struct Output {
    streams: Vec<Stream>,
    /// Standard output, then standard error unless it is the same file, then the files of ranks.
    sinks: Vec<Sink>,
    /// The sink of standard error.
    err: usize,
    options: OutputOptions,
    is_framed: bool,
    /// Our own lines, the first [`MAX_MESSAGES`] of them.
    messages: Vec<String>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    rank: u32,
    which: Which,
    sink: usize,
    /// `None` once it has ended, and for streams of other hosts.
    file: Option<OwnedFd>,
    /// The beginning of a line.
    held: Vec<u8>,
    held_since: Option<Instant>,
    /// Part of the line is printed, so that the rest needs no tag.
    is_mid_line: bool,
    tail: Tail,
}

impl Output {
    /// Prints to standard output and error, or into files of a folder, which is created.
    pub fn new(options: &OutputOptions) -> Result<Output, CannotRun> {
        let out = rustix::stdio::stdout();
        let err = rustix::stdio::stderr();
        let mut sinks = vec![Sink::new(out)];
        if !is_same_file(out, err) {
            sinks.push(Sink::new(err));
        }
        if let Some(folder) = &options.folder {
            std::fs::create_dir_all(folder).map_err(|error| CannotRun {
                message: format!("--output {folder}: cannot create the folder: {error}"),
                code: EXIT_USAGE,
            })?;
        }
        Ok(Output::over(sinks, options.clone(), false))
    }

    /// Sends to `mpiexec` over standard output.
    pub fn framed() -> Output {
        let sinks = vec![Sink::new(rustix::stdio::stdout())];
        Output::over(sinks, OutputOptions::default(), true)
    }

    fn over(sinks: Vec<Sink>, options: OutputOptions, is_framed: bool) -> Output {
        let (err, scratch) = (sinks.len() - 1, vec![0; READ_BYTES]);
        let (streams, messages) = (Vec::new(), Vec::new());
        Output { streams, sinks, err, options, is_framed, messages, scratch }
    }

    /// Adds a rank's stream by our end of its pipe, which must not block.
    pub fn add(&mut self, rank: u32, which: Which, file: OwnedFd) {
        self.add_stream(rank, which, Some(file));
    }

    /// Adds a stream of a rank on another host.
    pub fn add_remote(&mut self, rank: u32, which: Which) {
        self.add_stream(rank, which, None);
    }

    fn add_stream(&mut self, rank: u32, which: Which, file: Option<OwnedFd>) {
        let sink = match self.file_sink(rank, which) {
            Some(file) => {
                self.sinks.push(file);
                self.sinks.len() - 1
            }
            None if which == Which::Out => 0,
            None => self.err,
        };
        self.streams.push(Stream {
            rank,
            which,
            sink,
            file,
            held: Vec::new(),
            held_since: None,
            is_mid_line: false,
            tail: Tail::default(),
        });
    }

    /// Opens the file of a stream, if output goes to a folder.
    fn file_sink(&mut self, rank: u32, which: Which) -> Option<Sink> {
        let folder = self.options.folder.as_ref()?;
        let kind = if which == Which::Out { "out" } else { "err" };
        let number = self.options.base + rank;
        let path = Path::new(folder).join(format!("rank.{number}.{kind}"));
        match File::create(&path) {
            Ok(file) => Some(Sink::to_file(file.into(), path)),
            Err(error) => {
                let path = path.display();
                let text = format!("mpiexec: cannot write {path}: {error}; its output goes here");
                self.print(&text);
                None
            }
        }
    }

    /// Prints a line of our own on standard error, or sends it to `mpiexec`.
    pub fn print(&mut self, text: &str) {
        if self.is_framed {
            return self.send(&FromHost::Line(text.to_owned()));
        }
        if self.messages.len() < MAX_MESSAGES {
            self.messages.push(text.to_owned());
        }
        let sink = self.err;
        self.break_line(sink, None);
        self.sinks[sink].push(text.as_bytes());
        self.sinks[sink].push(b"\n");
        self.sinks[sink].write();
    }

    /// Returns the lines of our own that were printed.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Sends a message to `mpiexec`. For a framed output.
    pub fn send(&mut self, message: &FromHost) {
        match frames::encode(message) {
            Ok(bytes) => {
                self.sinks[0].push(&bytes);
                self.sinks[0].write();
            }
            Err(malformed) => eprintln!("mpiexec: cannot send {malformed}"),
        }
    }

    /// Reads a stream, as far as its sink has space, but at most [`MAX_READS`] times. Returns
    /// true if nothing is left now.
    pub fn read(&mut self, id: usize, now: Instant) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut is_dry = false;
        for _ in 0..MAX_READS {
            let Some(file) = &self.streams[id].file else { break };
            match rustix::io::read(file, &mut scratch[..]) {
                Ok(0) => self.end(id),
                Ok(read) => self.take(id, &scratch[..read], now),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    is_dry = true;
                    break;
                }
                Err(_) => self.end(id),
            }
            if self.sinks[self.streams[id].sink].backlog() >= MAX_BACKLOG {
                break;
            }
        }
        self.scratch = scratch;
        is_dry
    }

    /// Reads both streams of a rank, so that its last lines stand before our report.
    pub fn read_rank(&mut self, rank: u32, now: Instant) {
        for id in 0..self.streams.len() {
            if self.streams[id].rank == rank {
                self.read(id, now);
            }
        }
    }

    /// Returns the last lines of a rank's standard error, or of its output if it has none.
    pub fn last_lines(&self, rank: u32) -> Vec<String> {
        let of = |which: Which| {
            let mut own = self.streams.iter().filter(|stream| stream.rank == rank);
            own.find(|stream| stream.which == which).map(|stream| stream.tail.lines())
        };
        let found = [of(Which::Err), of(Which::Out)].into_iter().flatten();
        found.into_iter().find(|lines| !lines.is_empty()).unwrap_or_default()
    }

    /// Takes output of a rank on another host. Its streams were added in the order of ranks.
    pub fn on_remote_bytes(&mut self, rank: u32, which: Which, bytes: &[u8], now: Instant) {
        self.take(2 * rank as usize + usize::from(which == Which::Err), bytes, now);
    }

    /// Reads what is left and closes the streams, as far as the sinks have space. For the time
    /// after the last writer has ended.
    pub fn finish(&mut self, now: Instant) {
        for id in 0..self.streams.len() {
            if self.read(id, now) {
                self.end(id);
            }
        }
    }

    /// Prints the unfinished lines of other hosts, which have ended.
    pub fn release_all(&mut self) {
        (0..self.streams.len()).for_each(|id| self.release(id));
    }

    /// Writes as much as a sink takes.
    pub fn write(&mut self, sink: usize) {
        self.sinks[sink].write();
    }

    /// Writes everything and waits for it.
    pub fn flush(&mut self) {
        self.sinks.iter_mut().for_each(Sink::flush);
    }

    /// Records that the user has typed a line: the cursor is at the start of a line.
    pub fn on_typed_line(&mut self) {
        for sink in self.sinks.iter_mut().filter(|sink| sink.is_terminal) {
            if let Some(stream) = sink.open_line.take() {
                self.streams[stream].is_mid_line = false;
            }
        }
    }

    /// Prints unfinished lines that a terminal has waited for long enough.
    pub fn tick(&mut self, now: Instant) {
        for id in 0..self.streams.len() {
            let stream = &self.streams[id];
            let is_due = stream.held_since.is_some_and(|since| now >= since + OPEN_LINE_DELAY);
            if is_due && self.sinks[stream.sink].is_terminal {
                self.release(id);
            }
        }
    }

    /// Returns the time of the next [`Output::tick`].
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.streams.iter().filter(|stream| self.sinks[stream.sink].is_terminal);
        waiting.filter_map(|stream| stream.held_since).min().map(|since| since + OPEN_LINE_DELAY)
    }

    /// Returns the streams to read, by number.
    pub fn readable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.streams.iter().enumerate().filter_map(|(id, stream)| {
            let has_space = self.sinks[stream.sink].backlog() < MAX_BACKLOG;
            stream.file.as_ref().filter(|_| has_space).map(|file| (id, file.as_fd()))
        })
    }

    /// Returns the sinks with bytes to write, by number.
    pub fn writable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.sinks
            .iter()
            .enumerate()
            .filter(|(_, sink)| sink.backlog() > 0)
            .map(|(id, sink)| (id, sink.file()))
    }

    /// Returns true if all streams have ended and everything is written.
    pub fn is_finished(&self) -> bool {
        self.streams.iter().all(|stream| stream.file.is_none())
            && self.sinks.iter().all(|sink| sink.backlog() == 0)
    }

    /// Returns true while a sink has more bytes than it may hold.
    pub fn is_behind(&self) -> bool {
        self.sinks.iter().any(|sink| sink.backlog() >= MAX_BACKLOG)
    }

    /// Returns true if all output goes to `mpiexec`.
    pub fn is_framed(&self) -> bool {
        self.is_framed
    }

    /// Returns the reason if standard output can no longer be written.
    pub fn broken(&self) -> Option<Errno> {
        self.sinks[0].broken
    }

    fn take(&mut self, id: usize, bytes: &[u8], now: Instant) {
        if self.is_framed {
            return self.send_bytes(id, bytes);
        }
        self.streams[id].tail.push(bytes);
        let is_terminal = self.sinks[self.streams[id].sink].is_terminal;
        let whole = bytes.iter().rposition(|byte| ends_line(*byte, is_terminal));
        let whole = whole.map_or(0, |last| last + 1);
        if whole > 0 {
            self.release(id);
            self.emit(id, &bytes[..whole]);
        }
        let stream = &mut self.streams[id];
        if whole < bytes.len() {
            stream.held.extend_from_slice(&bytes[whole..]);
            stream.held_since.get_or_insert(now);
        }
        if stream.held.len() > MAX_LINE {
            self.release(id);
        }
    }

    fn send_bytes(&mut self, id: usize, bytes: &[u8]) {
        let Stream { rank, which, .. } = self.streams[id];
        for piece in bytes.chunks(MAX_PIECE) {
            let (error, bytes) = (which == Which::Err, piece.to_owned());
            self.send(&FromHost::Output { rank, error, bytes });
        }
    }

    /// Prints the beginning of a line that was held.
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
        let tag = self.options.prefix(stream.rank);
        if !tag.is_empty() {
            let is_terminal = sink.is_terminal;
            for line in bytes.split_inclusive(|byte| ends_line(*byte, is_terminal)) {
                if !stream.is_mid_line {
                    sink.push(tag.as_bytes());
                }
                sink.push(line);
                stream.is_mid_line = !line.last().is_some_and(|byte| ends_line(*byte, is_terminal));
            }
        } else {
            sink.push(bytes);
        }
        sink.open_line = (!bytes.ends_with(b"\n")).then_some(id);
        sink.write();
        if let Some(lost) = sink.take_loss() {
            self.print(&format!("mpiexec: {lost}"));
        }
    }

    /// Ends the line that another stream left unfinished in a sink.
    fn break_line(&mut self, sink: usize, writer: Option<usize>) {
        let sink = &mut self.sinks[sink];
        if sink.open_line.is_some() && sink.open_line != writer {
            sink.push(b"\n");
            if let Some(other) = sink.open_line.take() {
                self.streams[other].is_mid_line = false;
            }
        }
    }
}

impl OutputOptions {
    /// Returns the number of files that the output of so many ranks goes to.
    pub(crate) fn files(&self, ranks: u32) -> u64 {
        if self.folder.is_some() { 2 * u64::from(ranks) } else { 0 }
    }

    /// Returns what stands in front of a line of a rank that is printed now.
    fn prefix(&self, rank: u32) -> String {
        let mut prefix = String::new();
        if self.timestamps {
            prefix = format!("{} ", humantime::format_rfc3339_millis(SystemTime::now()));
        }
        if self.tag {
            prefix += &format!("[{}] ", self.base + rank);
        }
        prefix
    }
}

fn ends_line(byte: u8, is_terminal: bool) -> bool {
    byte == b'\n' || (is_terminal && byte == b'\r')
}
