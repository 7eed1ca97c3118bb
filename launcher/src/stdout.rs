//! What commands print on standard output.
//!
//! `print!` panics when nobody reads the output or the disk is full. Here that is an error of the
//! command, as of any other program.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write as _};

/// Prints to standard output; returns why that is not possible. If the reader has gone, the process
/// ends with the code that a shell gives to SIGPIPE, and says nothing.
pub fn print(text: Arguments<'_>) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            std::process::exit(128 + libc::SIGPIPE)
        }
        written => written.map_err(|error| format!("cannot write to standard output: {error}")),
    }
}
