//! The control sockets: messages of the ranks, and the answers.

use bootstrap::control::{ToLauncher, ToRank, WITH_OTHER_JOBS, encode};
use bootstrap::spawning::EndedProcesses;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::state::Job;
use crate::failure_policy::Event;
use crate::frames::FromHost;
use crate::start::Rank;

impl Job {
    /// Reads a rank's messages, without waiting.
    pub(super) fn read_control(&mut self, rank: usize) {
        loop {
            let mut piece = [0u8; 4096];
            let this = &mut self.local.ranks[rank];
            let Some(control) = &this.control else { return };
            match recv(control, &mut piece[..], RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => this.decoder.push(&piece[..read]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                // The end: no process holds the other side.
                _ => {
                    this.control = None;
                    return;
                }
            }
            self.decode_control(rank);
        }
    }

    fn decode_control(&mut self, rank: usize) {
        loop {
            match self.local.ranks[rank].decoder.next_message::<ToLauncher>() {
                Ok(None) => return,
                Ok(Some(message)) => self.on_control(rank, message),
                Err(malformed) => {
                    self.local.ranks[rank].control = None;
                    let rank = self.ranks.at(rank as u32);
                    self.print(&format!(
                        "rank {rank} sent {malformed}; its control connection is closed"
                    ));
                    return;
                }
            }
        }
    }

    fn on_control(&mut self, local: usize, message: ToLauncher) {
        let rank = self.ranks.at(local as u32);
        match message {
            ToLauncher::Hello { version, .. } => {
                self.local.ranks[local].version = version;
                self.outcome.rank_has_joined();
            }
            ToLauncher::Abort { code, message } => {
                self.events.push(Event::Aborted { rank, code, message })
            }
            ToLauncher::Put { key, value } => self.put(key, value),
            ToLauncher::Get { key } => self.request(local, key),
            ToLauncher::Explained(lines) => self.explained(rank, lines),
            ToLauncher::Name(request) => {
                let outgoing = self.store.ask_name(self.base + rank, request);
                self.deliver(outgoing);
            }
            ToLauncher::Spawn(request) => self.request_job(self.base + rank, request),
            // The status page has the same content; these messages only wake us.
            _ => {}
        }
    }

    fn put(&mut self, key: String, value: Vec<u8>) {
        let outgoing = self.store.put(key, value);
        self.deliver(outgoing);
    }

    fn request(&mut self, local: usize, key: String) {
        let outgoing = self.store.ask(key, local as u32);
        self.deliver(outgoing);
    }

    fn explained(&mut self, rank: u32, lines: Vec<(String, String)>) {
        if self.upstream.is_some() {
            return self.local.output.send(&FromHost::Explained { rank, lines });
        }
        if let Some(text) = self.outcome.explanations.add(rank, lines) {
            self.print(&text);
        }
    }

    /// Tells the ranks of this host that a rank of the job has failed.
    pub(super) fn announce_failure(&mut self, rank: u32, why: &str) {
        let message = ToRank::Failed { rank, why: why.to_owned() };
        let running: Vec<usize> = (0..self.local.ranks.len())
            .filter(|local| self.local.ranks[*local].exit.is_none())
            .collect();
        running.into_iter().for_each(|local| self.send_to_rank(local, &message));
        // Counted last: a rank that sees the count finds the message.
        self.local.status_page.count_failure();
    }

    /// Tells the ranks of this host that processes of another job have ended. Those that were not
    /// in MPI yet have met none.
    pub(super) fn announce_others(&mut self, ended: EndedProcesses) {
        let message = ToRank::OthersEnded(ended);
        let knows = |rank: &Rank| rank.exit.is_none() && rank.version >= WITH_OTHER_JOBS;
        let ranks = self.local.ranks.iter().enumerate().filter(|(_, rank)| knows(rank));
        let ranks: Vec<usize> = ranks.map(|(local, _)| local).collect();
        ranks.into_iter().for_each(|local| self.send_to_rank(local, &message));
        // Counted last: a rank that sees the count finds the message.
        self.local.status_page.count_other_end();
    }

    /// Sends an answer to a rank. The rank waits for it, so that the socket has space. A rank that
    /// sends requests without reading the answers loses its control connection.
    pub(super) fn send_to_rank(&mut self, local: usize, message: &ToRank) {
        let Some(rank) = self.local.ranks.get_mut(local) else { return };
        let Some(control) = &rank.control else { return };
        let frame = encode(message);
        if send(control, &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) != Ok(frame.len()) {
            rank.control = None;
        }
    }
}
