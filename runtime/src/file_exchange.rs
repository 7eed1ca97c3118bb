//! Exchanges of a file's members: collectives on the file's communicator that own their memory.
//!
//! An exchange is one collective, or two for messages: the lengths first, then the data. States:
//! the collective `id` runs; when it has ended, the next stage begins or the result is taken. The
//! id is also kept where progress sees it, so that it resumes the access when the collective ends.

#![allow(unsafe_code)]

use std::sync::PoisonError;

use collectives::CollectiveId;
use collectives::operation::{Blocks, Data, Operation, Types};
use fabric::CollectiveKind;
use io::{Exchange, Messages, Transit, spare};
use objects::buffer::Area;
use objects::{Comm, Datatype, Error, Result};

use crate::collective::{poll_for, starts, wait_for};
use crate::file_tasks::Current;
use crate::lock::with;

/// An exchange that has begun.
pub(crate) struct FileExchange {
    comm: usize,
    current: Current,
    id: CollectiveId,
    stage: Stage,
}

/// What the running collective moves. The system may write the memory until it has ended.
enum Stage {
    /// The lengths of messages: own ones, those of the others, and then the messages.
    Lengths { own: Vec<u64>, theirs: Vec<u64>, bytes: Vec<u8> },
    /// The result, what is sent, and the lengths of the result's messages.
    Data { result: Vec<u8>, sent: Vec<u8>, lengths: Vec<u64> },
}

impl FileExchange {
    /// Begins an exchange on a communicator.
    pub(crate) fn begin(
        comm: usize,
        current: &Current,
        exchange: Exchange,
    ) -> Result<FileExchange> {
        let members = with(|p| p.comm(comm).map(Comm::local))?;
        let ((id, stage), current) = (start(comm, &members, exchange)?, current.clone());
        let begun = FileExchange { comm, current, id, stage };
        begun.show();
        Ok(begun)
    }

    /// Waits until it is complete; returns what this member gets.
    pub(crate) fn wait(mut self) -> Result<Messages> {
        loop {
            wait_for(self.id, self.comm).map_err(of_file)?;
            if let Some(result) = self.go_on()? {
                return Ok(result);
            }
        }
    }

    /// Takes the result when a collective has ended, or begins the next one.
    fn go_on(&mut self) -> Result<Option<Messages>> {
        match &mut self.stage {
            Stage::Data { result, sent, lengths } => {
                spare::give_back(std::mem::take(sent));
                let (bytes, lengths) = (std::mem::take(result), std::mem::take(lengths));
                Ok(Some(Messages { bytes, lengths }))
            }
            Stage::Lengths { own, theirs, bytes } => {
                let members = with(|p| p.comm(self.comm).map(Comm::local))?;
                let data = (std::mem::take(bytes), std::mem::take(theirs));
                (self.id, self.stage) = start_data(self.comm, &members, own, data)?;
                self.show();
                Ok(None)
            }
        }
    }

    fn show(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.id);
    }
}

impl Transit for FileExchange {
    fn result(&mut self) -> Option<Result<Messages>> {
        loop {
            if let Err(error) = poll_for(self.id, self.comm)? {
                return Some(Err(of_file(error)));
            }
            if let Some(result) = self.go_on().transpose() {
                return Some(result);
            }
        }
    }
}

/// Starts the first collective of an exchange.
fn start(comm: usize, members: &Comm, exchange: Exchange) -> Result<(CollectiveId, Stage)> {
    let ty = Datatype::byte();
    match exchange {
        Exchange::Allgather(mut mine) => {
            let mut all = vec![0u8; members.peers().size() as usize * mine.len()];
            let (send, recv) = (block_of(&mut mine), block_of(&mut all));
            let recv = Data { count: mine.len() as u64, ..recv };
            let operation = Operation::Allgather { send: Some(send), recv };
            let id = start_one(comm, members, &operation)?;
            Ok((id, Stage::Data { result: all, sent: mine, lengths: Vec::new() }))
        }
        Exchange::Broadcast { root, mut bytes } => {
            let data = block_of(&mut bytes);
            let id = start_one(comm, members, &Operation::Bcast { root, data })?;
            Ok((id, Stage::Data { result: bytes, sent: Vec::new(), lengths: Vec::new() }))
        }
        Exchange::Messages(Messages { bytes, lengths: mut own }) => {
            let mut theirs = vec![0u64; own.len()];
            let word = |words: &mut [u64]| Data { area: area_of(words), count: 8, ty };
            let (send, recv) = (word(&mut own), word(&mut theirs));
            let id = start_one(comm, members, &Operation::Alltoall { send: Some(send), recv })?;
            Ok((id, Stage::Lengths { own, theirs, bytes }))
        }
    }
}

/// Starts the second collective of an exchange of messages, when their lengths are known.
fn start_data(
    comm: usize,
    members: &Comm,
    own: &[u64],
    (mut bytes, theirs): (Vec<u8>, Vec<u64>),
) -> Result<(CollectiveId, Stage)> {
    let mut result = spare::take(theirs.iter().sum::<u64>() as usize);
    let (send_at, recv_at) = (starts(own), starts(&theirs));
    let types = Types::One(Datatype::byte());
    let (send, recv) = (area_of(&mut bytes), area_of(&mut result));
    let send = Some(Blocks { area: send, counts: own, displs: &send_at, types });
    let recv = Blocks { area: recv, counts: &theirs, displs: &recv_at, types };
    let id = start_one(comm, members, &Operation::Alltoallv { send, recv })?;
    Ok((id, Stage::Data { result, sent: bytes, lengths: theirs }))
}

/// Starts a collective of the library's own as the next of `comm`.
fn start_one(comm: usize, members: &Comm, operation: &Operation<'_>) -> Result<CollectiveId> {
    with(|p| {
        let plan = p.plan(members, operation)?.of_kind(CollectiveKind::Internal);
        p.start_plan(comm, plan)
    })
    .map_err(of_file)
}

/// Returns bytes as one block of a collective.
fn block_of(bytes: &mut [u8]) -> Data<'static> {
    Data { area: area_of(bytes), count: bytes.len() as u64, ty: Datatype::byte() }
}

/// Returns a vector's memory for a collective.
fn area_of<T: Copy>(memory: &mut [T]) -> Area {
    let bytes = std::mem::size_of_val(memory) as u64;
    // SAFETY: the vector is moved into the stage of the exchange, which keeps it, unread and
    // unchanged, until the collective has ended. Moving a vector does not move its memory. An
    // exchange is kept until it is complete, by the caller that waits or by its file's access.
    unsafe { Area::of(memory.as_mut_ptr().cast(), bytes, Datatype::byte()) }
}

/// Makes an error of the file's communicator an error of the call.
pub(crate) fn of_file(error: Error) -> Error {
    Error::new(error.class(), error.detail())
}
