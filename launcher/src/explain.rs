//! Which ways messages take: what ranks say of that (`--explain`), put together. What several
//! say alike is one line.
//!
//! States: ranks say their sentences, in MPI_Init -> told, when the last one has, or at the end of a job in
//! which some never do.

use std::collections::BTreeSet;

use crate::binding::ranges;
use crate::wrap_table::wrap_table;

/// What ranks have said.
#[derive(Debug)]
pub(crate) struct Explanations {
    /// Ranks of the job.
    size: u32,
    /// The user wants to know.
    asked: bool,
    who: BTreeSet<usize>,
    /// In the order in which they were first said.
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    topic: String,
    text: String,
    ranks: BTreeSet<usize>,
}

impl Explanations {
    /// Of a job with so many ranks, which the user asked for or not.
    pub(crate) fn of(size: u32, asked: bool) -> Explanations {
        Explanations { size, asked, who: BTreeSet::new(), lines: Vec::new() }
    }

    /// A rank says its topics and sentences; the text for the user when it was the last one.
    pub(crate) fn said(&mut self, rank: u32, explain: Vec<(String, String)>) -> Option<String> {
        let rank = rank as usize;
        for (topic, text) in explain {
            match self.lines.iter_mut().find(|line| line.topic == topic && line.text == text) {
                Some(line) => _ = line.ranks.insert(rank),
                None => self.lines.push(Line { topic, text, ranks: [rank].into() }),
            }
        }
        (self.who.insert(rank) && self.who.len() == self.size as usize).then(|| self.text())
    }

    /// At the end of the job: the text for the user if some rank has never said anything.
    pub(crate) fn at_the_end(&mut self) -> Option<String> {
        let silent: BTreeSet<usize> =
            (0..self.size as usize).filter(|rank| !self.who.contains(rank)).collect();
        if silent.is_empty() || (!self.asked && self.who.is_empty()) {
            return None;
        }
        if self.who.is_empty() {
            return Some(
                "no rank has come through MPI_Init, so none has said which ways its messages take"
                    .into(),
            );
        }
        let text = "not known, as MPI_Init was never completed there".into();
        self.lines.push(Line { topic: "ways".into(), text, ranks: silent });
        Some(self.text())
    }

    fn text(&mut self) -> String {
        // Topics in the order of the first rank's, ranks in theirs.
        let topics: Vec<String> = self.lines.iter().map(|line| line.topic.clone()).collect();
        let place = |topic: &String| topics.iter().position(|other| other == topic);
        self.lines.sort_by_key(|line| (place(&line.topic), line.ranks.first().copied()));
        let of = |line: &Line| if line.ranks.len() == 1 { "rank" } else { "ranks" };
        let rows: Vec<(String, String)> = std::mem::take(&mut self.lines)
            .into_iter()
            .map(|line| {
                let name = format!("{}, {} {}:", line.topic, of(&line), ranges(&line.ranks));
                (name, line.text)
            })
            .collect();
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = "which ways messages take:".to_owned();
        rows.iter().for_each(|(name, line)| text += &format!("\n  {name:width$}  {line}"));
        wrap_table(&text, 2 + width + 2, &std::io::stderr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(topic, text)| ((*topic).into(), (*text).into())).collect()
    }

    #[test]
    fn at_the_end_those_are_named_that_said_nothing() {
        let mut all = Explanations::of(4, true);
        all.said(2, explain(&[("host", "b")]));
        let text = all.at_the_end().unwrap();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "  host, rank 2:       b",
            "  ways, ranks 0-1,3:  not known, as MPI_Init was never completed there",
        ];
        assert_eq!(rows, expected);
        assert!(
            Explanations::of(2, true)
                .at_the_end()
                .unwrap()
                .starts_with("no rank has come through MPI_Init")
        );
        assert_eq!(Explanations::of(2, false).at_the_end(), None, "nobody asked");
        let mut all = Explanations::of(1, true);
        assert!(all.said(0, explain(&[("host", "a")])).is_some());
        assert_eq!(all.at_the_end(), None, "it was told");
    }

    #[test]
    fn what_is_said_alike_is_one_line() {
        let mut all = Explanations::of(4, true);
        assert_eq!(all.said(2, explain(&[("host", "b"), ("wait", "spins")])), None);
        assert_eq!(all.said(0, explain(&[("host", "a"), ("wait", "spins")])), None);
        assert_eq!(
            all.said(1, explain(&[("host", "a"), ("wait", "spins"), ("knobs", "x = 1")])),
            None
        );
        let text = all.said(3, explain(&[("host", "b"), ("wait", "sleeps")])).unwrap();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "  host, ranks 0-1:  a",
            "  host, ranks 2-3:  b",
            "  wait, ranks 0-2:  spins",
            "  wait, rank 3:     sleeps",
            "  knobs, rank 1:    x = 1",
        ];
        assert_eq!(rows, expected);
        assert_eq!(all.said(3, Vec::new()), None, "only once");
    }
}
