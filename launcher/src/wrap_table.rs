//! Tables on a terminal.

use std::os::fd::AsFd;

/// The table, lines and all, with its last column, which begins at `last`, broken into lines of the terminal
/// `to`. Unchanged if it is none.
pub fn wrap_table(table: &str, last: usize, to: &impl AsFd) -> String {
    let Ok(width) = rustix::termios::tcgetwinsize(to).map(|size| usize::from(size.ws_col)) else {
        return table.to_owned();
    };
    let indent = " ".repeat(if last + 48 <= width { last } else { 8 });
    let options = textwrap::Options::new(width.max(40)).subsequent_indent(&indent);
    table.split('\n').map(|line| textwrap::fill(line, &options)).collect::<Vec<_>>().join("\n")
}
