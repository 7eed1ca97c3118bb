//! The messages between the outermost `mpiexec` and that of a spawned job: a length of 4 bytes,
//! then postcard, as along an edge of the tree ([`crate::frames`]).
//!
//! ```text
//! outermost mpiexec                      mpiexec --spawned
//!   Begin (share, settings)       ->     starts the ranks
//!                                 <-     Started, or Refused; at last Over
//!   Store                        <->     Store
//!                                 <-     Spawn, Stalled, Ended
//!   Stop, Table, OthersEnded, End ->
//! ```
//!
//! The end of the stream counts as a message: it ends the ranks of a spawned job, and a spawned job
//! without `Over` has failed.

use bootstrap::spawning::{EndedProcesses, SpawnRequest};
use serde::{Deserialize, Serialize};

use crate::hosts::Host;
use crate::settings::{OutputOptions, Settings};
use crate::share::Share;
use crate::stall::HostStall;
use crate::tree::store::StoreMessage;

/// The option that starts the `mpiexec` of a spawned job.
pub(crate) const SPAWNED_OPTION: &str = "--spawned";

/// A message to the `mpiexec` of a spawned job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToNested {
    /// The first message: run this job.
    Begin(Box<Begin>),
    /// About the store.
    Store(StoreMessage),
    /// Act as on this signal, unless it has come already.
    Stop(i32),
    /// Print the state of each rank.
    Table,
    /// Processes of another job have ended.
    OthersEnded(EndedProcesses),
    /// End all ranks.
    End,
}

/// A message of the `mpiexec` of a spawned job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromNested {
    /// All ranks were started.
    Started,
    /// They were not, and none is left: a text for the user.
    Refused(String),
    /// About the store.
    Store(StoreMessage),
    /// A rank requests further processes.
    Spawn {
        /// Its process number.
        asker: u32,
        /// The request.
        request: SpawnRequest,
    },
    /// The ranks have stalled, or continue after a stall.
    Stalled(HostStall),
    /// No process is left, and all output was written.
    Over {
        /// The exit code of the job.
        code: u8,
        /// No rank called MPI_Init.
        none_in_mpi: bool,
    },
    /// Processes have failed, and their job goes on.
    Ended(EndedProcesses),
}

/// A spawned job. Carries the settings that daemons do not get.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    share: Share,
    settings: Settings,
    output: OutputOptions,
    tree_width: u32,
    hosts: Vec<Host>,
    host_of: Vec<u32>,
    agent: Option<String>,
}

impl Begin {
    /// Packs a job whose ranks are dealt to its hosts.
    pub(crate) fn new(share: Share, settings: Settings) -> Begin {
        let (output, tree_width) = (settings.output.clone(), settings.tree_width);
        let (hosts, host_of) = (settings.hosts.clone(), settings.host_of.clone());
        let agent = settings.agent.clone();
        Begin { share, settings, output, tree_width, hosts, host_of, agent }
    }

    /// Returns the job.
    pub(crate) fn unpack(self) -> (Share, Settings) {
        let Begin { share, settings, output, tree_width, hosts, host_of, agent } = self;
        (share, Settings { output, tree_width, hosts, host_of, agent, ..settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames;

    #[test]
    fn a_job_arrives_with_all_of_its_settings() {
        let settings = Settings {
            output: OutputOptions { tag: true, base: 4, ..OutputOptions::default() },
            tree_width: 7,
            hosts: vec![Host::new("a", 2)],
            host_of: vec![0, 0],
            agent: Some("reach".into()),
            set: vec!["wait.spin=1".into()],
            ..Settings::default()
        };
        let share = Share::whole(&settings).unwrap().spawned(&settings, 4, 1);
        let begin = Begin::new(share.clone(), settings.clone());
        let bytes = frames::encode(&ToNested::Begin(Box::new(begin))).unwrap();
        let mut decoder = frames::decoder();
        decoder.push(&bytes);
        let Ok(Some(ToNested::Begin(begin))) = decoder.next_message() else { panic!() };
        assert_eq!(begin.unpack(), (share, settings));
    }
}
