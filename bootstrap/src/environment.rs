//! The first words from the launcher: one environment variable.
//!
//! ```text
//! VERBENA_BOOTSTRAP="v1 rank=2 size=4 local_rank=2 local_size=4 processors=2 control=198 board=199 ..."
//! ```
//!
//! Nothing secret is in it. Unknown words are skipped, so later launchers may
//! add some; what changes the meaning of the others gets a new version.

use std::fmt;
use std::os::fd::RawFd;

/// The variable the library reads.
pub const VARIABLE: &str = "VERBENA_BOOTSTRAP";

/// What a rank is told before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankParams {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: u32,
    /// Rank among the ranks of this host.
    pub local_rank: u32,
    /// Number of ranks on this host.
    pub local_size: u32,
    /// Processors that the ranks of this host have in all.
    pub processors: u32,
    /// Descriptor of the control socket.
    pub control: RawFd,
    /// Descriptor of the board, the same number in the launcher.
    pub status_page: RawFd,
    /// Process id of the launcher.
    pub launcher: u32,
    /// The job's number.
    pub job: u64,
}

/// Why the variable can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamError {
    /// The launcher speaks a version that this library doesn't.
    #[error(
        "it is of version {0:?} and this library reads \"v1\": use the mpiexec that was installed with the library"
    )]
    Version(String),
    /// A word that must be there is not, or its value is no number.
    #[error("its word {0:?} is missing or not a number")]
    Word(&'static str),
    /// The numbers contradict each other.
    #[error("its numbers contradict each other")]
    Contradiction,
}

impl RankParams {
    /// Reads the variable's value.
    pub fn parse(text: &str) -> Result<RankParams, ParamError> {
        let mut tokens = text.split_ascii_whitespace();
        let version = tokens.next().unwrap_or("");
        if version != "v1" {
            return Err(ParamError::Version(version.chars().take(32).collect()));
        }
        let pairs: Vec<(&str, &str)> = tokens.filter_map(|token| token.split_once('=')).collect();
        let find = |name: &'static str| {
            let value = pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
            value.ok_or(ParamError::Word(name))
        };
        let number = |name| find(name)?.parse::<u32>().map_err(|_| ParamError::Word(name));
        let descriptor = |name| find(name)?.parse::<RawFd>().map_err(|_| ParamError::Word(name));
        let words = RankParams {
            rank: number("rank")?,
            size: number("size")?,
            local_rank: number("local_rank")?,
            local_size: number("local_size")?,
            processors: number("processors")?,
            control: descriptor("control")?,
            status_page: descriptor("board")?,
            launcher: number("launcher")?,
            job: u64::from_str_radix(find("job")?, 16).map_err(|_| ParamError::Word("job"))?,
        };
        let sane = words.rank < words.size
            && words.local_rank < words.local_size
            && words.local_size <= words.size;
        if sane { Ok(words) } else { Err(ParamError::Contradiction) }
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
        } = self;
        write!(f, "v1 rank={rank} size={size} local_rank={local_rank} local_size={local_size} ")?;
        write!(
            f,
            "processors={processors} control={control} board={status_page} launcher={launcher} job={job:x}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: RankParams = RankParams {
        rank: 2,
        size: 8,
        local_rank: 1,
        local_size: 4,
        processors: 2,
        control: 198,
        status_page: 199,
        launcher: 77,
        job: u64::MAX,
    };

    #[test]
    fn words_survive_the_environment() {
        assert_eq!(RankParams::parse(&WORDS.to_string()), Ok(WORDS));
        assert_eq!(RankParams::parse(&format!("{WORDS} colour=blue ready")), Ok(WORDS));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(RankParams::parse("v2 rank=0"), Err(ParamError::Version("v2".into())));
        assert_eq!(RankParams::parse(""), Err(ParamError::Version(String::new())));
        assert_eq!(RankParams::parse("v1 rank=0 size=x"), Err(ParamError::Word("size")));
        let outside = RankParams { rank: 8, ..WORDS };
        assert_eq!(RankParams::parse(&outside.to_string()), Err(ParamError::Contradiction));
    }
}
