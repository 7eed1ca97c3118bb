//! Two-phase collective access (Thakur, Gropp and Lusk, "Data Sieving and Collective I/O in ROMIO",
//! 1999): members exchange pieces with aggregators, which move large ranges of the file.
//!
//! The file is divided into domains, one for each aggregator, and each domain into windows, one for
//! each round. In a round each member sends each aggregator a list of its pieces in that
//! aggregator's window ([`pieces`]), with the data for writing. For reading, the aggregator answers
//! with the data. All members make the same exchanges in all rounds, also if a call of the system
//! fails; the caller lets them agree on the outcome.
//!
//! What an aggregator does with a window is in [`window`](crate::window).

use std::ops::Range;

use objects::Result;

use crate::access::Direction;
use crate::collective::Domains;
use crate::datarep::UserData;
use crate::members::{Exchange, Messages};
use crate::pieces::{self, Piece};
use crate::spare;
use crate::steps::{self, Steps, Work};
use crate::view::View;
use crate::window::{Window, cut};

/// One member's part in a collective access.
pub(crate) struct TwoPhase<'a> {
    pub(crate) steps: &'a Steps<'a>,
    pub(crate) window: Window,
    pub(crate) view: &'a View,
    /// The first packed byte of the view.
    pub(crate) packed: u64,
    pub(crate) data: &'a UserData,
    pub(crate) domains: Domains,
    /// The ranks of the aggregators.
    pub(crate) aggregators: Vec<u32>,
}

impl TwoPhase<'_> {
    /// Moves the data; returns the bytes moved and the error of this member's own system calls. An
    /// outer error is one of communication, which ends the access.
    pub(crate) async fn run(&self, direction: Direction) -> Result<(u64, Result<()>)> {
        let own = self.aggregators.iter().position(|&rank| rank == self.steps.members().rank());
        let own = own.map(|at| at as u32);
        let (end, outcome) = match direction {
            Direction::Write => {
                let outcome = self.write(own).await;
                self.steps.members().report_progress(0, 0);
                (self.data.buffer.len(), outcome?)
            }
            Direction::Read => self.read(own).await?,
        };
        Ok((if outcome.is_ok() { end } else { 0 }, outcome))
    }

    /// Writes all rounds. While an aggregator writes one, it receives the data of the next.
    async fn write(&self, own: Option<u32>) -> Result<Result<()>> {
        let (mut outcome, mut writing) = (Ok(()), None);
        let rounds = self.domains.rounds();
        for round in 0..rounds {
            self.report_progress(round);
            let received = self.exchange(self.lists(round, true)).await?;
            if let Some(work) = writing.take() {
                outcome = outcome.and(self.steps.join(work).await?);
            }
            let Some(own) = own else { continue };
            let (window, part) = (self.window.clone(), self.domains.window_of(own, round));
            let is_short = self.window.is_short(part);
            let job = move || window.write(part, received);
            if round + 1 < rounds {
                writing = Some(steps::start(job));
            } else {
                outcome = outcome.and(self.steps.work(is_short, job).await?);
            }
        }
        Ok(outcome)
    }

    /// Tells observers that so many rounds are over.
    fn report_progress(&self, rounds: i64) {
        let Domains { start, end, aggregators, window, .. } = self.domains;
        let done = rounds.saturating_mul(window).saturating_mul(aggregators.into());
        let all = end - start;
        self.steps.members().report_progress(done.min(all) as u64, all as u64);
    }

    /// Reads all rounds; returns the number of the buffer's bytes before the end of the file. While
    /// an aggregator reads one, it receives the requests of the next.
    async fn read(&self, own: Option<u32>) -> Result<(u64, Result<()>)> {
        let (mut outcome, mut end) = (Ok(()), self.data.buffer.len());
        let rounds = self.domains.rounds();
        let mut requested = self.exchange(self.lists(0, false)).await?;
        for round in 0..rounds {
            let is_last = round + 1 == rounds;
            let part = own.map(|own| self.domains.window_of(own, round));
            let is_short = part.is_some_and(|part| self.window.is_short(part));
            let reading = part.map(|part| {
                let window = self.window.clone();
                let requested = std::mem::take(&mut requested);
                move || window.read(part, &requested)
            });
            let answers = if is_last {
                match reading {
                    Some(job) => self.steps.work(is_short, job).await?,
                    None => Ok(Messages::none(self.window.size)),
                }
            } else {
                let reading = reading.map(steps::start);
                requested = self.exchange(self.lists(round + 1, false)).await?;
                self.join_read(reading).await?
            };
            let (answers, result) = match answers {
                Ok(answers) => (answers, Ok(())),
                Err(error) => (Messages::none(self.window.size), Err(error)),
            };
            outcome = outcome.and(result);
            let received = self.exchange(answers).await?;
            self.unpack(&received, round, &mut end);
            spare::give_back(received.bytes);
        }
        Ok((end, outcome))
    }

    async fn join_read(&self, work: Option<Work<Result<Messages>>>) -> Result<Result<Messages>> {
        match work {
            Some(work) => self.steps.join(work).await,
            None => Ok(Ok(Messages::none(self.window.size))),
        }
    }

    /// Unpacks what the aggregators read in a round; `end` is the number of the buffer's bytes
    /// before the end of the file.
    fn unpack(&self, received: &Messages, round: i64, end: &mut u64) {
        let answers: Vec<&[u8]> = received.each().collect();
        for aggregator in 0..self.domains.aggregators {
            let (first, len) = self.part(aggregator, round);
            let from = answers[self.aggregators[aggregator as usize] as usize];
            let got = (from.len() as u64).min(len);
            self.data.buffer.unpack(first, &from[..got as usize]);
            if got < len {
                *end = (*end).min(first + got);
            }
        }
    }

    /// Returns the bytes of the buffer that lie in an aggregator's window: the first and how many.
    fn part(&self, aggregator: u32, round: i64) -> (u64, u64) {
        let (from, to) = self.domains.window_of(aggregator, round);
        let inside = |byte: i64| {
            self.view.packed_before(byte).saturating_sub(self.packed).min(self.data.buffer.len())
        };
        let first = inside(from);
        (first, inside(to) - first)
    }

    /// Returns the list of pieces for each aggregator, with the data if it is written.
    fn lists(&self, round: i64, with_data: bool) -> Messages {
        let mut messages = Messages::none(self.steps.members().size());
        let (mut lists, mut parts, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for aggregator in 0..self.domains.aggregators {
            let (first, len) = self.part(aggregator, round);
            if len == 0 {
                continue;
            }
            let (window, _) = self.domains.window_of(aggregator, round);
            self.find_pieces(first, len, window, &mut found);
            let before = lists.len();
            pieces::encode(&mut lists, &found);
            let rank = self.aggregators[aggregator as usize];
            let with = if with_data { len as usize } else { 0 };
            messages.lengths[rank as usize] = (lists.len() - before + with) as u64;
            parts.push((before..lists.len(), first, with));
        }
        messages.bytes = match with_data {
            true => self.with_data(&lists, &parts),
            false => lists,
        };
        messages
    }

    /// Returns lists, each with its part of the data: the first byte of the buffer and how many.
    fn with_data(&self, lists: &[u8], parts: &[(Range<usize>, u64, usize)]) -> Vec<u8> {
        let data: usize = parts.iter().map(|(_, _, len)| len).sum();
        let mut bytes = spare::take(lists.len() + data);
        let mut rest = &mut bytes[..];
        for (list, first, len) in parts {
            cut(&mut rest, list.len()).copy_from_slice(&lists[list.clone()]);
            self.data.buffer.pack(*first, cut(&mut rest, *len));
        }
        bytes
    }

    /// Finds the pieces of a part, relative to the window.
    fn find_pieces(&self, first: u64, len: u64, window: i64, found: &mut Vec<Piece>) {
        found.clear();
        let (mut runs, mut done) = (self.view.runs(self.packed + first), 0);
        while done < len {
            let Some(run) = runs.take(len - done) else { return };
            let at = (run.at + self.view.disp - window) as u64;
            found.push(Piece { at, len: run.len });
            done += run.len;
        }
    }

    async fn exchange(&self, messages: Messages) -> Result<Messages> {
        self.steps.exchange(Exchange::Messages(messages)).await
    }
}
