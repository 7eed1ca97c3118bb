//! MPI_INFO_ENV: how the process was started (MPI-5.0 §11.2.3).

use bootstrap::environment::RankParams;
use objects::Info;
use runtime::Process;

/// Returns the info object of MPI_INFO_ENV.
pub(crate) fn info_env(p: &mut Process) -> Info {
    let mut info = Info::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            // A value that is too long for an info object is left out, like a key without a value.
            let _ = info.set(key, value.as_str());
        }
    };
    let mut arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    add("command", arguments.next());
    add("argv", Some(arguments.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty()));
    // The launcher has passed the size, which is known before MPI_Init.
    let by_launcher = || RankParams::of_this_process().map(|params| params.size);
    let size = p.core().ok().map(|core| core.job.size).or_else(by_launcher);
    add("maxprocs", size.map(|size| size.to_string()));
    add("wdir", std::env::current_dir().ok().map(|path| path.to_string_lossy().into_owned()));
    add("host", hostname());
    add("arch", Some(std::env::consts::ARCH.to_owned()));
    add("thread_level", thread_level(p.world_model.thread_level));
    info
}

/// The names of [`runtime::THREAD_LEVELS`] as values of the key "thread_level".
const LEVEL_NAMES: [&str; 4] =
    ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];

/// Returns the name of a thread level.
pub(crate) fn thread_level(level: i32) -> Option<String> {
    let at = runtime::THREAD_LEVELS.iter().position(|&known| known == level)?;
    LEVEL_NAMES.get(at).map(|&name| name.to_owned())
}

/// Returns the thread level of a name.
pub(crate) fn level_named(name: &[u8]) -> Option<i32> {
    let at = LEVEL_NAMES.iter().position(|known| known.as_bytes() == name)?;
    runtime::THREAD_LEVELS.get(at).copied()
}

fn hostname() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned())
}
