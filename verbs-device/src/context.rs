//! An open device: the engine behind its lock, the thread that runs it, and a channel for tests.
//!
//! The thread holds a reference; it ends within a moment after the device is closed. A program
//! that polls does the thread's work; meanwhile the thread looks less often.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use verbs_transport::ibv::layout::event;

use crate::engine::{AsyncEvent, Engine};
use crate::options::Options;

/// Time after a poll in which the thread leaves the work to the program.
const POLLING: Duration = Duration::from_micros(100);

pub(crate) struct Context {
    name: String,
    state: Mutex<State>,
    kick: OwnedFd,
}

struct State {
    engine: Engine,
    /// When the thread wakes; `None` while it runs.
    asleep_until: Option<Instant>,
}

static OPEN: Mutex<Vec<Weak<Context>>> = Mutex::new(Vec::new());

impl Context {
    /// Opens device `index` of the options.
    pub(crate) fn open(options: &Options, index: u16) -> io::Result<Arc<Context>> {
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let engine = Engine::new(options.clone(), index, &kick)?;
        let descriptor = engine.descriptor()?;
        let name = options.devices[usize::from(index)].0.clone();
        let state = Mutex::new(State { engine, asleep_until: None });
        let context = Arc::new(Context { name, state, kick });
        let thread = Arc::clone(&context);
        std::thread::Builder::new()
            .name("verbs-device".into())
            .spawn(move || thread.run(&descriptor))?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|context| context.strong_count() > 0);
        open.push(Arc::downgrade(&context));
        Ok(context)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on the engine; wakes the thread if something is due earlier than it wakes.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Engine) -> R) -> R {
        let mut state = self.lock();
        let result = work(&mut state.engine);
        let deadline = state.engine.deadline;
        if state.asleep_until.is_some_and(|until| deadline < until) {
            state.asleep_until = Some(deadline);
            drop(state);
            let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
        }
        result
    }

    fn run(&self, descriptor: &OwnedFd) {
        loop {
            let mut state = self.lock();
            if state.engine.is_closed {
                return;
            }
            let now = Instant::now();
            state.engine.step(now);
            let is_polled = state.engine.polled_at.is_some_and(|at| now - at < POLLING);
            let deadline = state.engine.deadline;
            state.asleep_until = Some(deadline);
            drop(state);
            let left = deadline.saturating_duration_since(Instant::now());
            if is_polled {
                std::thread::sleep(left.min(POLLING));
            } else if let Ok(timeout) = Timespec::try_from(left) {
                let _ = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&timeout));
            }
            let _ = rustix::io::read(&self.kick, &mut [0u8; 8][..]);
            self.lock().asleep_until = None;
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.with(|engine| {
            engine.is_closed = true;
            engine.deadline = Instant::now();
        });
    }
}

/// Carries out what a test wants of the open devices of this process: words as in the options
/// change them; `device=NAME` restricts the words after it to one device; `down=PORT`, `up=PORT`
/// and `move=PORT` change a port, `second=PORT` gives it a second address, `withdraw=PORT` and
/// `restore=PORT` take its IPv4 address and give it back, `fatal=1` lets the device fail,
/// `remove=1` removes it, `dump=1` prints the state (from a debugger, in a process that hangs).
/// Returns false if a word is unknown.
pub(crate) fn control(text: &str) -> bool {
    let mut only = None;
    text.split_whitespace().all(|word| match word.split_once('=') {
        Some(("device", name)) => {
            only = Some(name);
            true
        }
        Some((what, value)) => {
            let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            let open = open.iter().filter_map(Weak::upgrade);
            let mut meant = open.filter(|context| only.is_none_or(|name| name == context.name));
            meant.all(|context| context.with(|engine| engine.control(what, value, word)))
        }
        None => false,
    })
}

impl Engine {
    fn control(&mut self, what: &str, value: &str, word: &str) -> bool {
        self.deadline = Instant::now();
        let port = value.parse::<u8>().unwrap_or(0);
        let changed = self.ports.get_mut(usize::from(port).wrapping_sub(1));
        let mut kinds = Vec::new();
        match (what, changed) {
            ("down", Some(port)) => {
                port.is_up = false;
                kinds.push(event::PORT_ERR);
            }
            ("up", Some(port)) => {
                port.is_up = true;
                kinds.push(event::PORT_ACTIVE);
            }
            ("move", Some(port)) => {
                port.generation = port.generation.wrapping_add(1);
                kinds.extend([event::LID_CHANGE, event::GID_CHANGE]);
            }
            ("second", Some(port)) => {
                port.has_second = true;
                kinds.push(event::GID_CHANGE);
            }
            ("withdraw" | "restore", Some(port)) => {
                port.is_withdrawn = what == "withdraw";
                kinds.push(event::GID_CHANGE);
            }
            ("dump", _) => eprintln!("{}", self.dump()),
            ("fatal" | "remove", _) => {
                self.is_removed = true;
                kinds.push(event::DEVICE_FATAL);
            }
            _ => return self.options.apply(word).is_ok(),
        }
        for kind in kinds {
            self.events.push(AsyncEvent { kind, element: port.into(), qpn: 0 });
        }
        true
    }
}
