//! PMI-2: counted messages over a socket that the manager opened (`PMI_FD`). Spoken by Slurm and
//! Hydra.
//!
//! States: greeted (a line as in PMI-1) -> joined (`fullinit`) -> in use -> finalized. A manager
//! that refuses the greeting speaks PMI-1: Flux in a step of Slurm, whose variables remain.

use super::client::{Client, ManagerError, Variable};
use super::host_map;
use super::pmi1::{self, inherited};
use super::wire::{Pairs, Stream, value};

const NAME: &str = "a PMI-2 launcher (Slurm's srun)";
/// The longest value, in bytes.
const MAX_VALUE: usize = 1023;

struct Pmi2 {
    stream: Stream,
    rank: u32,
    size: u32,
    appnum: Option<u32>,
    job: String,
}

/// Connects to the manager that the variables name.
pub(super) fn connect(variable: Variable<'_>) -> Result<Option<Box<dyn Client>>, ManagerError> {
    let Some(socket) = variable("PMI_FD").and_then(|number| inherited(&number)) else {
        return Ok(None);
    };
    let mut stream = Stream::new(socket, NAME);
    let greeting = stream.ask("cmd=init pmi_version=2 pmi_subversion=0", "response_to_init")?;
    if value(&greeting, "rc").is_some_and(|code| code != "0") {
        return pmi1::join(stream.named(pmi1::NAME), pmi1::place(variable)).map(Some);
    }
    let job = variable("PMI_JOBID").unwrap_or_default();
    let rank = variable("PMI_RANK").unwrap_or_default();
    let join = format!("cmd=fullinit;pmijobid={job};pmirank={rank};threaded=FALSE;");
    let joined = stream.ask_counted(&join, "fullinit-response")?;
    check(&stream, &joined, "fullinit")?;
    let number = |key: &str, name: &str| {
        let known = value(&joined, key).map(str::to_owned).or_else(|| variable(name));
        known.and_then(|text| text.trim().parse::<u32>().ok())
    };
    let place = number("rank", "PMI_RANK").zip(number("size", "PMI_SIZE"));
    let (rank, size) = place.ok_or_else(|| stream.broken("it gives no rank and size"))?;
    // Slurm's is -1: not known.
    let appnum = value(&joined, "appnum").and_then(|number| number.parse().ok());
    Ok(Some(Box::new(Pmi2 { stream, rank, size, appnum, job })))
}

/// Returns the error of an answer that has one.
fn check(stream: &Stream, answer: &Pairs, what: &str) -> Result<(), ManagerError> {
    match value(answer, "rc") {
        Some("0") | None => Ok(()),
        Some(code) => {
            let why = value(answer, "errmsg").unwrap_or("without a reason");
            Err(stream.broken(&format!("{what} was refused ({code}, {why})")))
        }
    }
}

impl Pmi2 {
    fn ask(&mut self, command: &str, rest: &str) -> Result<Pairs, ManagerError> {
        let body = format!("cmd={command};{rest}");
        let answer = self.stream.ask_counted(&body, &format!("{command}-response"))?;
        check(&self.stream, &answer, command)?;
        Ok(answer)
    }
}

/// Returns the value of an answer that has found one.
fn found(answer: &Pairs) -> Option<String> {
    let is_found = value(answer, "found").is_some_and(|found| found == "TRUE");
    value(answer, "value").filter(|_| is_found).map(str::to_owned)
}

impl Client for Pmi2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn place(&self) -> (u32, u32) {
        (self.rank, self.size)
    }

    fn appnum(&mut self) -> Result<Option<u32>, ManagerError> {
        Ok(self.appnum)
    }

    fn max_value(&self) -> usize {
        MAX_VALUE
    }

    fn local_ranks(&mut self) -> Result<Option<Vec<u32>>, ManagerError> {
        let answer = self.ask("info-getjobattr", "key=PMI_process_mapping;")?;
        let map = found(&answer);
        Ok(map.and_then(|map| host_map::ranks_of_node(&map, self.rank, self.size)))
    }

    fn put(&mut self, key: &str, text: &str) -> Result<(), ManagerError> {
        self.ask("kvs-put", &format!("key={key};value={text};")).map(|_| ())
    }

    fn get(&mut self, key: &str, _from: Option<u32>) -> Result<Option<String>, ManagerError> {
        let job = &self.job;
        let rest = format!("jobid={job};srcid=-1;key={key};");
        let answer = self.stream.ask_counted(&format!("cmd=kvs-get;{rest}"), "kvs-get-response")?;
        Ok(found(&answer))
    }

    fn fence(&mut self) -> Result<(), ManagerError> {
        self.ask("kvs-fence", "").map(|_| ())
    }

    fn abort(&mut self, _code: i32, message: &str) {
        let message: String =
            message.chars().filter(|letter| !matches!(letter, ';' | '\n')).take(200).collect();
        let body = format!("cmd=abort;isworld=TRUE;msg={message};");
        let _ = self.stream.send(format!("{:>6}{body}", body.len()).as_bytes());
    }

    fn finalize(&mut self) -> Result<(), ManagerError> {
        self.ask("finalize", "").map(|_| ())
    }

    fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }
}
