//! MPI_Abort and fatal errors: reports the reason to the launcher, which ends the job, and exits.

#![allow(unsafe_code)]

use std::time::Duration;

use objects::Error;

use crate::lock::with;

/// Time that the process with the cause of an error has to report first, which ends this one.
const CAUSE_DELAY: Duration = Duration::from_millis(500);

/// Ends the job for an error whose handler is MPI_ERRORS_ARE_FATAL. Reports once what happened, in
/// which call, on which rank. The exit code is the error class.
#[cold]
pub(crate) fn fatal(call: &'static str, location: &str, error: &Error) -> ! {
    let location = if location.is_empty() { String::new() } else { format!(" on {location}") };
    let rank = with(|p| p.core().map(|core| core.job.rank()).ok());
    let rank = rank.map_or("a process".to_owned(), |rank| format!("rank {rank}"));
    let detail = without(error.detail(), &location);
    if error.is_consequence() {
        std::thread::sleep(CAUSE_DELAY);
    }
    let message = format!("{rank} in {call}{location}: {}: {detail}", error.class().name());
    end_job(error.class() as i32, &message)
}

/// Removes the location from an error's detail. The detail names it for users who get the text of
/// the error alone.
fn without(detail: &str, location: &str) -> String {
    if location.is_empty() {
        return detail.to_owned();
    }
    let in_brackets = format!(" ({})", location.trim_start());
    detail.replace(&in_brackets, "").replace(location, "")
}

/// Performs MPI_Abort: ends all processes of the job with this exit code.
pub fn abort(comm: &str, code: i32) -> ! {
    let rank = with(|p| p.core().map(|core| core.job.rank()).ok());
    let rank = rank.map_or("a process".to_owned(), |rank| format!("rank {rank}"));
    end_job(code, &format!("{rank} called MPI_Abort on {comm} with code {code}"))
}

/// Reports to the launcher, or to the user if there is none, and exits.
fn end_job(code: i32, message: &str) -> ! {
    // Otherwise what the program printed before would be lost.
    // SAFETY: a null stream means all of them; the C library does the locking.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    let reported = with(|p| p.core().ok().is_some_and(|core| core.job.abort(code, message)));
    if !reported {
        eprintln!("verbena: {message}");
    }
    // The exit code of a process has 8 bits; 0 would look like success.
    let code = if code & 0xff == 0 { 1 } else { code & 0xff };
    // SAFETY: `_exit` runs no handlers, which might wait for threads in MPI.
    unsafe { libc::_exit(code) }
}

/// Exits, since the launcher has exited.
#[cold]
pub(crate) fn orphaned() -> ! {
    eprintln!("verbena: mpiexec has exited; this rank exits too");
    // SAFETY: `_exit` runs no handlers, which might wait for threads in MPI.
    unsafe { libc::_exit(1) }
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn a_detail_does_not_repeat_the_location() {
        let location = " on MPI_COMM_WORLD";
        assert_eq!(without("number 3 on MPI_COMM_WORLD: 8 bytes", location), "number 3: 8 bytes");
        assert_eq!(without("gave it up (on MPI_COMM_WORLD)", location), "gave it up");
        assert_eq!(without("rank 7 on a host", location), "rank 7 on a host");
        assert_eq!(without("a detail", ""), "a detail");
    }
}
