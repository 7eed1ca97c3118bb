//! The check of how a program uses MPI (knob `check.usage`): what is left at MPI_Finalize, and
//! calls of threads that the thread level does not allow.
//!
//! With the check the process lock is multithreaded, so that each entry takes its general path.
//! Without it nothing here runs. Reports go to standard error, one line each.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::thread::{self, ThreadId};

use bootstrap::calls::Call;
use pt2pt::{Unfinished, Unreceived};

use crate::process::Process;
use crate::status_page;

/// What an entry is checked against.
struct Allowed {
    rank: u32,
    /// The thread that initialised.
    main: ThreadId,
    /// The highest thread level provided so far, as the ABI numbers it.
    level: AtomicI32,
}

static ALLOWED: OnceLock<Allowed> = OnceLock::new();

/// Begins to check entries: the calling thread initialises with this thread level. A later
/// initialisation may raise the level.
pub(crate) fn begin(rank: u32, level: i32) {
    let first = || Allowed { rank, main: thread::current().id(), level: AtomicI32::new(level) };
    // Relaxed: a program that uses a higher level has waited for the call that provided it.
    ALLOWED.get_or_init(first).level.fetch_max(level, Relaxed);
}

/// Has a panic of the library say which rank it ends, and what a program may have done wrong.
pub(crate) fn explain_panics(rank: u32) {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        eprintln!(
            "verbena: rank {rank} ends in {} by the panic above. If several threads of the program \
             call MPI, it must request MPI_THREAD_MULTIPLE: `mpiexec --check` names calls that the \
             thread level does not allow, and `--set threads.multiple=on` allows all. Otherwise it \
             is an error of the library: please report it",
            current_call()
        );
    }));
}

/// Checks the entry of the calling thread; `contended`: another thread was inside.
#[cold]
pub(crate) fn check_entry(contended: bool) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let Some(Allowed { rank, main, level }) = ALLOWED.get() else { return };
    let [serialized, multiple] = [2048, 4096];
    let level = level.load(Relaxed);
    let name = match level {
        level if level >= multiple => return,
        level if level >= serialized => "MPI_THREAD_SERIALIZED",
        level if level > 0 => "MPI_THREAD_FUNNELED",
        _ => "MPI_THREAD_SINGLE",
    };
    let is_wrong = if level >= serialized { contended } else { thread::current().id() != *main };
    // The library's own thread.
    let is_ours = thread::current().name() == Some("mpi-progress");
    if !is_wrong || is_ours || REPORTED.swap(true, Relaxed) {
        return;
    }
    let call = current_call();
    let what = if level >= serialized {
        "two threads are in MPI at once"
    } else {
        "a thread that did not initialise MPI calls it"
    };
    eprintln!(
        "verbena: rank {rank}: {what} (one in {call}), but the thread level is {name}: request \
         MPI_THREAD_MULTIPLE from MPI_Init_thread"
    );
}

impl Process {
    /// Reports the operations that are not complete and the objects that were not freed.
    #[cold]
    pub(crate) fn report_leftovers(&mut self) {
        let Some(rank) = self.core.as_deref().map(|core| core.job.rank()) else { return };
        let mut lines = self.unfinished();
        lines.extend(self.not_freed());
        for line in lines {
            eprintln!("verbena: rank {rank}: at MPI_Finalize, {line}");
        }
    }

    /// Reports the messages that were never received. To be called after the barrier of
    /// MPI_Finalize, when all others have sent theirs.
    #[cold]
    pub(crate) fn report_unreceived(&mut self) {
        let Some(rank) = self.core.as_deref().map(|core| core.job.rank()) else { return };
        let Some(stack) = self.stack() else { return };
        while stack.progress() {}
        let all: Vec<Unreceived> =
            stack.pt2pt().unreceived().filter(|it| is_of_user(it.context)).collect();
        let Some(first) = all.last() else { return };
        let Unreceived { source, tag, bytes, context } = *first;
        let line = counted(all.len(), "message", "never received");
        let comm = self.describe_context(context);
        eprintln!(
            "verbena: rank {rank}: at MPI_Finalize, {line} (the first from rank {source} with tag \
             {tag}, {bytes} bytes, on {comm})"
        );
    }

    /// Returns the description of the communicator that a context id on the wire belongs to.
    fn describe_context(&self, context: u64) -> String {
        let comm = self.comm(self.comm_with(context / 2));
        comm.map_or_else(|_| "a freed communicator".to_owned(), |comm| comm.describe())
    }

    fn unfinished(&mut self) -> Vec<String> {
        let mut all: Vec<Unfinished> = Vec::new();
        if let Some(stack) = self.stack() {
            all.extend(stack.pt2pt().unfinished().filter(|it| is_of_user(it.context)));
        }
        let lines = [(true, "send"), (false, "receive")].map(|(is_send, noun)| {
            let these = all.iter().filter(|it| !it.is_done && it.is_send == is_send);
            let these: Vec<&Unfinished> = these.collect();
            let first = these.first()?;
            let mut line = counted(these.len(), noun, "not complete");
            let comm = self.describe_context(first.context);
            let preposition = if is_send { "to" } else { "from" };
            let peer = first.rank.map_or("any rank".to_owned(), |rank| format!("rank {rank}"));
            let tag = first.tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
            let _ = write!(line, " (the first {preposition} {peer} with {tag} on {comm})");
            Some(line)
        });
        let mut lines: Vec<String> = lines.into_iter().flatten().collect();
        let done = all.iter().filter(|it| it.is_done).count();
        if done > 0 {
            let what = "complete, and MPI_Wait or MPI_Test was not called for it";
            lines.push(counted(done, "message", what));
        }
        let objects = self.requests.iter().filter(|(_, request)| !request.is_inactive()).count();
        if objects > 0 {
            lines.push(counted(objects, "other request", "not complete"));
        }
        lines
    }

    fn not_freed(&self) -> Vec<String> {
        let (files, wins) = (&self.tables.files.table, &self.tables.wins);
        // The user has no handle of their communicators.
        let inner: Vec<usize> = (files.iter().map(|(_, open)| open.comm))
            .chain(wins.iter().map(|(_, win)| win.comm))
            .collect();
        let of_user = self.comms.iter().filter(|(handle, _)| !inner.contains(&(*handle as usize)));
        let comms = of_user.map(|(_, comm)| comm.describe()).collect::<Vec<_>>();
        let file = files.iter().next().map(|(_, open)| open.file.path().display().to_string());
        let win = wins.iter().next().map(|(_, win)| win.describe());
        let persistent = self.requests.iter().filter(|(_, request)| request.is_inactive()).count();
        let types = self.tables.datatypes.iter().map(|(_, datatype)| datatype.name());
        let types = types.map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
        let named = |names: &[String]| names.iter().find(|name| *name != "\"\"").cloned();
        [
            (comms.len(), "communicator", "freed", comms.first().cloned()),
            (files.len(), "file", "closed", file),
            (wins.len(), "window", "freed", win),
            (persistent, "persistent request", "freed", None),
            (types.len(), "datatype", "freed", named(&types)),
            (self.tables.groups.len(), "group", "freed", None),
            (self.tables.ops.len(), "operation", "freed", None),
            (self.tables.infos.len(), "info object", "freed", None),
        ]
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, noun, end, first)| {
            let among = if count == 1 { "" } else { "among them " };
            let first = first.map_or(String::new(), |first| format!(" ({among}{first})"));
            counted(count, noun, &format!("never {end}")) + &first
        })
        .collect()
    }
}

/// Returns the name of the call that this rank is in.
pub(crate) fn current_call() -> &'static str {
    let index = status_page::entry().current_call().load(Relaxed);
    Call::all().nth((index as usize).wrapping_sub(1)).map_or("MPI", Call::name)
}

/// Returns true for the context of a user's message.
fn is_of_user(context: u64) -> bool {
    !crate::context_id::is_control(context) && context.is_multiple_of(2)
}

fn counted(count: usize, noun: &str, what: &str) -> String {
    match count {
        1 => format!("1 {noun} was {what}"),
        _ => format!("{count} {noun}s were {what}"),
    }
}
