//! The environment variable by which the launcher passes a rank its parameters.
//!
//! ```text
//! VERBENA_BOOTSTRAP="v1 rank=2 size=4 local_rank=2 local_size=4 processors=2 control=198 ..."
//! ```
//!
//! It holds no secret. Unknown parameters are skipped, so that later launchers may add some; a
//! change in the meaning of the others gets a new version.

use std::fmt;
use std::os::fd::RawFd;

use crate::spawning::MAX_PROCESSES;

/// The variable that the library reads.
pub const VARIABLE: &str = "VERBENA_BOOTSTRAP";

/// The parameters of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankParams {
    /// The rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// The size of MPI_COMM_WORLD.
    pub size: u32,
    /// The rank among the ranks of this host.
    pub local_rank: u32,
    /// The number of ranks on this host.
    pub local_size: u32,
    /// The number of processors that the ranks of this host share.
    pub processors: u32,
    /// The descriptor of the control socket.
    pub control: RawFd,
    /// The descriptor of the status page, the same number in the launcher.
    pub status_page: RawFd,
    /// The process id of the launcher.
    pub launcher: u32,
    /// The job's number.
    pub job: u64,
    /// The number of the rank's program on the command line of the launcher, if it tells.
    pub appnum: Option<u32>,
    /// The process number of rank 0, see [`crate::spawning`].
    pub first: u32,
    /// The process that has spawned the job; `None` if the user has started it.
    pub parent: Option<u32>,
}

/// The reason why the variable cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamError {
    /// The launcher has another version.
    #[error(
        "its version is {0:?}, this library reads \"v1\": use the mpiexec that was installed with \
         the library"
    )]
    Version(String),
    /// A parameter is missing, or its value is not a number.
    #[error("its parameter {0:?} is missing or not a number")]
    Parameter(&'static str),
    /// A rank is not below its size, or the host has more ranks than the job.
    #[error("its numbers contradict each other: ranks must be below their sizes")]
    Contradiction,
}

impl RankParams {
    /// Returns those of this process; `None` if a launcher of this project has not started it.
    pub fn of_this_process() -> Option<RankParams> {
        RankParams::parse(&std::env::var(VARIABLE).ok()?).ok()
    }

    /// Parses the variable's value. Total: any text gives parameters or an error.
    pub fn parse(text: &str) -> Result<RankParams, ParamError> {
        let mut tokens = text.split_ascii_whitespace();
        let version = tokens.next().unwrap_or("");
        if version != "v1" {
            return Err(ParamError::Version(version.chars().take(32).collect()));
        }
        let pairs: Vec<(&str, &str)> = tokens.filter_map(|token| token.split_once('=')).collect();
        let find = |name: &'static str| {
            let value = pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
            value.ok_or(ParamError::Parameter(name))
        };
        let number = |name| find(name)?.parse::<u32>().map_err(|_| ParamError::Parameter(name));
        let descriptor =
            |name| find(name)?.parse::<RawFd>().map_err(|_| ParamError::Parameter(name));
        let optional = |name| find(name).is_ok().then(|| number(name)).transpose();
        let params = RankParams {
            rank: number("rank")?,
            size: number("size")?,
            local_rank: number("local_rank")?,
            local_size: number("local_size")?,
            processors: number("processors")?,
            control: descriptor("control")?,
            status_page: descriptor("board")?,
            launcher: number("launcher")?,
            job: u64::from_str_radix(find("job")?, 16).map_err(|_| ParamError::Parameter("job"))?,
            // Missing where the launcher is older.
            appnum: optional("appnum")?,
            first: optional("first")?.unwrap_or(0),
            parent: optional("parent")?,
        };
        let is_consistent = params.rank < params.size
            && params.first.checked_add(params.size).is_some_and(|end| end <= MAX_PROCESSES)
            && params.local_rank < params.local_size
            && params.local_size <= params.size;
        if is_consistent { Ok(params) } else { Err(ParamError::Contradiction) }
    }
}

impl fmt::Display for RankParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RankParams {
            rank,
            size,
            local_rank,
            local_size,
            processors,
            control,
            status_page,
            launcher,
            job,
            appnum,
            first,
            parent,
        } = self;
        write!(f, "v1 rank={rank} size={size} local_rank={local_rank} local_size={local_size} ")?;
        write!(
            f,
            "processors={processors} control={control} board={status_page} launcher={launcher} \
             job={job:x}"
        )?;
        appnum.map_or(Ok(()), |appnum| write!(f, " appnum={appnum}"))?;
        if *first > 0 {
            write!(f, " first={first}")?;
        }
        parent.map_or(Ok(()), |parent| write!(f, " parent={parent}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARAMS: RankParams = RankParams {
        rank: 2,
        size: 8,
        local_rank: 1,
        local_size: 4,
        processors: 2,
        control: 198,
        status_page: 199,
        launcher: 77,
        job: u64::MAX,
        appnum: Some(3),
        first: 5,
        parent: Some(4),
    };

    #[test]
    fn parameters_survive_the_environment() {
        assert_eq!(RankParams::parse(&PARAMS.to_string()), Ok(PARAMS));
        assert_eq!(RankParams::parse(&format!("{PARAMS} colour=blue ready")), Ok(PARAMS));
        let unknown = RankParams { appnum: None, first: 0, parent: None, ..PARAMS };
        assert_eq!(RankParams::parse(&unknown.to_string()), Ok(unknown));
    }

    #[test]
    fn unusable_values_are_refused() {
        assert_eq!(RankParams::parse("v2 rank=0"), Err(ParamError::Version("v2".into())));
        assert_eq!(RankParams::parse(""), Err(ParamError::Version(String::new())));
        assert_eq!(RankParams::parse("v1 rank=0 size=x"), Err(ParamError::Parameter("size")));
        let outside = RankParams { rank: 8, ..PARAMS };
        assert_eq!(RankParams::parse(&outside.to_string()), Err(ParamError::Contradiction));
    }

    proptest! {
        #[test]
        fn any_text_is_parameters_or_an_error(
            text in "v1( (rank|size|local_(rank|size)|processors|control|board|launcher|job\
                     |appnum|first|parent)=[0-9a-f-]{0,12}){0,13}|\\PC*",
        ) {
            if let Ok(params) = RankParams::parse(&text) {
                prop_assert!(params.rank < params.size && params.local_rank < params.local_size);
                prop_assert_eq!(RankParams::parse(&params.to_string()), Ok(params));
            }
        }
    }
}
