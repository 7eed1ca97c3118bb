//! PMI-1: lines over a socket that the manager opened (`PMI_FD`), or over TCP (`PMI_PORT`).
//!
//! States: greeted (`init`) -> known sizes (`get_maxes`) and store (`get_my_kvsname`) -> in use ->
//! finalized. Spoken by Hydra (MPICH, Intel MPI) and Flux.

use std::os::fd::OwnedFd;

use super::client::{Client, ManagerError, Variable};
use super::host_map;
use super::wire::{Stream, value};
use crate::inherited_fd;

pub(super) const NAME: &str = "a PMI-1 launcher (MPICH's or Intel's mpiexec, Flux)";

struct Pmi1 {
    stream: Stream,
    rank: u32,
    size: u32,
    /// The name of the job's store.
    store: String,
    max_value: usize,
}

/// Connects to the manager that the variables name.
pub(super) fn connect(variable: Variable<'_>) -> Result<Option<Box<dyn Client>>, ManagerError> {
    let mut place = place(variable);
    let stream = match (variable("PMI_FD"), variable("PMI_PORT")) {
        (Some(fd), _) => match inherited(&fd) {
            Some(socket) => Stream::new(socket, NAME),
            None => return Ok(None),
        },
        (None, Some(port)) => {
            let mut stream = dial(&port)?;
            place = introduce(&mut stream, &variable("PMI_ID").unwrap_or_default())?.or(place);
            stream
        }
        (None, None) => return Ok(None),
    };
    join(stream, place).map(Some)
}

/// Joins the job over the manager's stream; `place` is the rank and the size.
pub(super) fn join(
    mut stream: Stream,
    place: Option<(u32, u32)>,
) -> Result<Box<dyn Client>, ManagerError> {
    let (rank, size) = place.ok_or_else(|| {
        ManagerError("PMI_FD or PMI_PORT is set, but PMI_RANK and PMI_SIZE are not".into())
    })?;
    let greeting = stream.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
    if value(&greeting, "rc").is_some_and(|code| code != "0") {
        return Err(stream.broken("it does not speak PMI-1"));
    }
    let sizes = stream.ask("cmd=get_maxes", "maxes")?;
    let max_value = value(&sizes, "vallen_max").and_then(|text| text.parse::<usize>().ok());
    let answer = stream.ask("cmd=get_my_kvsname", "my_kvsname")?;
    let store = value(&answer, "kvsname").unwrap_or_default().to_owned();
    let max_value = max_value.unwrap_or(256).saturating_sub(1);
    Ok(Box::new(Pmi1 { stream, rank, size, store, max_value }))
}

/// Returns rank and size as the variables tell them.
pub(super) fn place(variable: Variable<'_>) -> Option<(u32, u32)> {
    let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u32>().ok());
    number("PMI_RANK").zip(number("PMI_SIZE"))
}

/// Takes over the descriptor that a variable names, if it is a socket.
pub(super) fn inherited(number: &str) -> Option<OwnedFd> {
    let number = number.trim().parse().ok()?;
    inherited_fd::is_socket(number).then(|| inherited_fd::take(number)).flatten()
}

fn dial(port: &str) -> Result<Stream, ManagerError> {
    let stream = std::net::TcpStream::connect(port.trim())
        .map_err(|error| ManagerError(format!("cannot connect to PMI_PORT {port}: {error}")))?;
    // Requests are small and wait for their answers.
    let _ = stream.set_nodelay(true);
    Ok(Stream::new(stream.into(), NAME))
}

/// Names this process to a manager that was dialled. Returns rank and size, if it tells them.
fn introduce(stream: &mut Stream, id: &str) -> Result<Option<(u32, u32)>, ManagerError> {
    let answer = stream.ask(&format!("cmd=initack pmiid={id}"), "initack")?;
    let mut pairs = answer;
    for _ in 0..3 {
        pairs.extend(stream.read_line()?);
    }
    let number = |key| value(&pairs, key).and_then(|text| text.parse::<u32>().ok());
    Ok(number("rank").zip(number("size")))
}

impl Client for Pmi1 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn place(&self) -> (u32, u32) {
        (self.rank, self.size)
    }

    fn appnum(&mut self) -> Result<Option<u32>, ManagerError> {
        let answer = self.stream.ask("cmd=get_appnum", "appnum")?;
        // Slurm's is -1: not known.
        Ok(value(&answer, "appnum").and_then(|number| number.parse().ok()))
    }

    fn max_value(&self) -> usize {
        self.max_value
    }

    fn local_ranks(&mut self) -> Result<Option<Vec<u32>>, ManagerError> {
        let map = self.get("PMI_process_mapping", None)?;
        Ok(map.and_then(|map| host_map::ranks_of_node(&map, self.rank, self.size)))
    }

    fn put(&mut self, key: &str, text: &str) -> Result<(), ManagerError> {
        let line = format!("cmd=put kvsname={} key={key} value={text}", self.store);
        let answer = self.stream.ask(&line, "put_result")?;
        match value(&answer, "rc") {
            Some("0") | None => Ok(()),
            Some(_) => Err(self.stream.broken(&format!("it refuses the value of {key}"))),
        }
    }

    fn get(&mut self, key: &str, _from: Option<u32>) -> Result<Option<String>, ManagerError> {
        let line = format!("cmd=get kvsname={} key={key}", self.store);
        let answer = self.stream.ask(&line, "get_result")?;
        let is_found = value(&answer, "rc").is_none_or(|code| code == "0");
        Ok(value(&answer, "value").filter(|_| is_found).map(str::to_owned))
    }

    fn fence(&mut self) -> Result<(), ManagerError> {
        self.stream.ask("cmd=barrier_in", "barrier_out").map(|_| ())
    }

    fn abort(&mut self, code: i32, _message: &str) {
        // The manager ends this process for an answer.
        let _ = self.stream.send(format!("cmd=abort exitcode={code}\n").as_bytes());
    }

    fn finalize(&mut self) -> Result<(), ManagerError> {
        self.stream.ask("cmd=finalize", "finalize_ack").map(|_| ())
    }

    fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }
}
