//! `--explain`: collects the ranks' reports on the transports of their messages. Equal lines of
//! several ranks are merged.
//!
//! States: collecting -> printed, when the last rank has reported in MPI_Init, or at the end
//! of a job in which some rank never did.

use std::collections::BTreeSet;

use crate::binding::ranges;
use crate::wrap_table::wrap_table;

/// The lines reported so far.
#[derive(Debug)]
pub(crate) struct Explanations {
    /// The number of ranks in the job.
    size: u32,
    /// The user gave `--explain`.
    is_wanted: bool,
    /// The ranks that have reported.
    reported: BTreeSet<usize>,
    /// In the order of first mention.
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    topic: String,
    text: String,
    ranks: BTreeSet<usize>,
}

impl Explanations {
    /// Starts to collect for a job of `size` ranks. `is_wanted`: the user gave `--explain`.
    pub(crate) fn new(size: u32, is_wanted: bool) -> Explanations {
        Explanations { size, is_wanted, reported: BTreeSet::new(), lines: Vec::new() }
    }

    /// Adds a rank's lines (topic and text). Returns the text to print after the last rank.
    pub(crate) fn add(&mut self, rank: u32, lines: Vec<(String, String)>) -> Option<String> {
        let rank = rank as usize;
        for (topic, text) in lines {
            match self.lines.iter_mut().find(|line| line.topic == topic && line.text == text) {
                Some(line) => _ = line.ranks.insert(rank),
                None => self.lines.push(Line { topic, text, ranks: [rank].into() }),
            }
        }
        let is_last = self.reported.insert(rank) && self.reported.len() == self.size as usize;
        is_last.then(|| self.take_text())
    }

    /// Returns the text to print at the end of the job, if some rank never reported.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let silent: BTreeSet<usize> =
            (0..self.size as usize).filter(|rank| !self.reported.contains(rank)).collect();
        if silent.is_empty() || (!self.is_wanted && self.reported.is_empty()) {
            return None;
        }
        if self.reported.is_empty() {
            return Some("nothing to explain: no rank completed MPI_Init".into());
        }
        let text = "unknown: MPI_Init was not completed".into();
        self.lines.push(Line { topic: "transports".into(), text, ranks: silent });
        Some(self.take_text())
    }

    fn take_text(&mut self) -> String {
        // Topics in the order of first mention, then by rank.
        let topics: Vec<String> = self.lines.iter().map(|line| line.topic.clone()).collect();
        let position = |topic: &String| topics.iter().position(|other| other == topic);
        self.lines.sort_by_key(|line| (position(&line.topic), line.ranks.first().copied()));
        let rows: Vec<(String, String)> = std::mem::take(&mut self.lines)
            .into_iter()
            .map(|line| {
                let noun = if line.ranks.len() == 1 { "rank" } else { "ranks" };
                (format!("{}, {noun} {}:", line.topic, ranges(&line.ranks)), line.text)
            })
            .collect();
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = "transports of this job:".to_owned();
        rows.iter().for_each(|(name, line)| text += &format!("\n  {name:width$}  {line}"));
        wrap_table(&text, 2 + width + 2, &std::io::stderr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(topic, text)| ((*topic).into(), (*text).into())).collect()
    }

    #[test]
    fn ranks_that_never_reported_are_named_at_the_end() {
        let mut all = Explanations::new(4, true);
        all.add(2, lines(&[("host", "b")]));
        let text = all.rest().unwrap();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "  host, rank 2:             b",
            "  transports, ranks 0-1,3:  unknown: MPI_Init was not completed",
        ];
        assert_eq!(rows, expected);
        assert!(Explanations::new(2, true).rest().unwrap().contains("no rank completed MPI_Init"));
        assert_eq!(Explanations::new(2, false).rest(), None, "not wanted");
        let mut all = Explanations::new(1, true);
        assert!(all.add(0, lines(&[("host", "a")])).is_some());
        assert_eq!(all.rest(), None, "already printed");
    }

    #[test]
    fn equal_lines_are_merged() {
        let mut all = Explanations::new(4, true);
        assert_eq!(all.add(2, lines(&[("host", "b"), ("wait", "spins")])), None);
        assert_eq!(all.add(0, lines(&[("host", "a"), ("wait", "spins")])), None);
        assert_eq!(
            all.add(1, lines(&[("host", "a"), ("wait", "spins"), ("knobs", "x = 1")])),
            None
        );
        let text = all.add(3, lines(&[("host", "b"), ("wait", "sleeps")])).unwrap();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "  host, ranks 0-1:  a",
            "  host, ranks 2-3:  b",
            "  wait, ranks 0-2:  spins",
            "  wait, rank 3:     sleeps",
            "  knobs, rank 1:    x = 1",
        ];
        assert_eq!(rows, expected);
        assert_eq!(all.add(3, Vec::new()), None, "only once");
    }
}
