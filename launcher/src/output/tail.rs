//! The last lines that a stream has printed, for the report on its rank.

/// Bytes that are kept of a stream.
const MAX_BYTES: usize = 1024;
/// Lines that are shown.
const MAX_LINES: usize = 3;
/// Letters that are shown of a line.
const MAX_LETTERS: usize = 200;

/// The end of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    /// Adds bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&bytes[bytes.len().saturating_sub(MAX_BYTES)..]);
        if self.0.len() > 2 * MAX_BYTES {
            self.0.drain(..self.0.len() - MAX_BYTES);
        }
    }

    /// Returns the last lines that are not blank, at most [`MAX_LINES`].
    pub(super) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0);
        let mut lines: Vec<String> = text
            .split(['\n', '\r'])
            .rev()
            .filter(|line| !line.trim().is_empty())
            .take(MAX_LINES)
            .map(|line| line.chars().filter(|c| !c.is_control()).take(MAX_LETTERS).collect())
            .collect();
        lines.reverse();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let mut tail = Tail::default();
        assert!(tail.lines().is_empty());
        for number in 0..5000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        tail.push(b"\n  \nhalf a \x1b[1mline");
        assert_eq!(tail.lines(), ["line 4998", "line 4999", "half a [1mline"]);
        tail.push(&[b'x'; 9000]);
        assert_eq!(tail.lines(), ["x".repeat(MAX_LETTERS)]);
        assert!(tail.0.len() <= 3 * MAX_BYTES);
    }
}
