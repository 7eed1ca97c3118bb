//! What ranks say on their control sockets, and the answers.

use bootstrap::control::{ToLauncher, ToRank, encode};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Job;
use crate::failure_policy::Event;
use crate::frames::FromHost;

impl Job {
    /// Reads what a rank says, without waiting.
    pub(super) fn read_control(&mut self, rank: usize) {
        loop {
            let mut piece = [0u8; 4096];
            let this = &mut self.started.ranks[rank];
            let Some(control) = &this.control else { return };
            match recv(control, &mut piece[..], RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => this.decoder.push(&piece[..read]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                // Its end: nobody holds the other side any more.
                _ => {
                    this.control = None;
                    return;
                }
            }
            self.answer(rank);
        }
    }

    fn answer(&mut self, rank: usize) {
        loop {
            match self.started.ranks[rank].decoder.message::<ToLauncher>() {
                Ok(None) => return,
                Ok(Some(message)) => self.heard(rank, message),
                Err(malformed) => {
                    self.started.ranks[rank].control = None;
                    let rank = self.first + rank as u32;
                    self.tell(&format!(
                        "rank {rank} sent {malformed}; not listening to it any more"
                    ));
                    return;
                }
            }
        }
    }

    fn heard(&mut self, rank: usize, message: ToLauncher) {
        match message {
            ToLauncher::Abort { code, message } => {
                self.events.push(Event::Aborted { rank: self.first + rank as u32, code, message })
            }
            ToLauncher::Put { key, value } if self.upstream.is_some() => {
                self.started.output.send(&FromHost::Put { key, value });
            }
            ToLauncher::Get { key } if self.upstream.is_some() => {
                self.started.output.send(&FromHost::Get { rank: self.first + rank as u32, key });
            }
            ToLauncher::Put { key, value } => {
                let waiting = self.store.put(key.clone(), value.clone());
                for asker in waiting {
                    self.say(
                        asker as usize,
                        &ToRank::Value { key: key.clone(), value: value.clone() },
                    );
                }
            }
            ToLauncher::Get { key } => {
                if let Some(value) = self.store.value(&key, rank as u32) {
                    let answer = ToRank::Value { value: value.to_owned(), key };
                    self.say(rank, &answer);
                }
            }
            ToLauncher::Explained(explain) if self.upstream.is_some() => {
                self.started
                    .output
                    .send(&FromHost::Explained { rank: self.first + rank as u32, explain });
            }
            ToLauncher::Explained(explain) => {
                if let Some(text) = self.explain.said(rank as u32, explain) {
                    self.tell(&text);
                }
            }
            // The board says these; they only wake us.
            _ => {}
        }
    }

    /// Answers a rank. It waits for the answer, so there is room for it; one
    /// that asks and does not listen is not listened to either.
    pub(super) fn say(&mut self, rank: usize, message: &ToRank) {
        let Some(control) = &self.started.ranks[rank].control else { return };
        let frame = encode(message);
        if send(control, &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) != Ok(frame.len()) {
            self.started.ranks[rank].control = None;
        }
    }
}
