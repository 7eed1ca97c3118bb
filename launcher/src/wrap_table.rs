//! Tables on a terminal: the last column is wrapped to the terminal's width.

use std::os::fd::AsFd;

/// The narrowest last column, in columns; below that it is indented by [`INDENT`] alone.
const LAST_COLUMN_MIN: usize = 32;
/// The indentation of a wrapped last column that would be too narrow.
const INDENT: usize = 8;

/// Returns a table with its last column, which begins at column `last`, wrapped to the
/// terminal `to`. Returns the table unchanged if `to` is not a terminal, or one without a size.
pub fn wrap_table(table: &str, last: usize, to: &impl AsFd) -> String {
    match rustix::termios::tcgetwinsize(to) {
        Ok(size) if size.ws_col > 0 => wrap_to(table, last, usize::from(size.ws_col)),
        _ => table.to_owned(),
    }
}

fn wrap_to(table: &str, last: usize, width: usize) -> String {
    let indent = " ".repeat(if last + LAST_COLUMN_MIN <= width { last } else { INDENT });
    let options = textwrap::Options::new(width.max(40)).subsequent_indent(&indent);
    table.split('\n').map(|line| textwrap::fill(line, &options)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_a_size_wraps_nothing() {
        let terminal = std::fs::File::open("/dev/ptmx").unwrap();
        let table = format!("a   {}", "word ".repeat(40));
        assert_eq!(wrap_table(&table, 4, &terminal), table);
    }

    #[test]
    fn the_last_column_keeps_its_place_where_it_fits() {
        let table = format!("a   {}\nb   short", "word ".repeat(20).trim_end());
        let wrapped = wrap_to(&table, 4, 60);
        assert!(wrapped.lines().all(|line| line.len() <= 60), "{wrapped}");
        assert_eq!(wrapped.lines().nth(1).unwrap().find("word"), Some(4));
        assert_eq!(wrap_to(&table, 30, 60).lines().nth(1).unwrap().find("word"), Some(INDENT));
    }
}
