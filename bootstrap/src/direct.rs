//! A job that another process manager has started directly, without our launcher.
//!
//! The manager knows ranks, sizes and hosts. The rest lies in its store: process 0 puts the job's
//! number and secret. The first rank of each host (its leader) creates the memory file and puts
//! its process, its descriptor and the ranks of its host. Each rank puts its processors. After one
//! fence the ranks of a host open the leader's descriptor through /proc; nothing has a name.
//!
//! Where the manager knows no hosts, each rank puts the name of its host and of its boot, and
//! reads those of all others after a further fence.

use std::collections::BTreeSet;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::getpid;
use rustix::thread::sched_getaffinity;

use crate::error::BootstrapError;
use crate::host_table::{encode_ranks, enter_ranks};
use crate::process_manager::{ManagerError, ProcessManager};
use crate::secret::{Secret, random};
use crate::status_entry::RankState;
use crate::status_page::StatusPage;
use crate::versions::PEERS;

/// The largest number of a processor that is looked at.
const MAX_PROCESSORS: usize = 1024;

/// What a process learns by the store of a process manager.
pub(crate) struct Direct {
    /// The ranks of this host, in rising order.
    pub(crate) local: Vec<u32>,
    pub(crate) local_rank: u32,
    /// The number of processors that they share.
    pub(crate) processors: u32,
    /// The job's number.
    pub(crate) id: u64,
    pub(crate) secret: Secret,
    /// Shared by the ranks of this host; this rank is shown as running.
    pub(crate) status_page: StatusPage,
}

/// Joins the job of a process that `manager` has started.
pub(crate) fn join(manager: &ProcessManager) -> Result<Direct, BootstrapError> {
    let rank = manager.rank();
    let local = match manager.local_ranks().map_err(failed)? {
        Some(local) => local,
        None => exchange_hosts(manager).map_err(failed)?,
    };
    let local_rank = local.iter().position(|local| *local == rank).unwrap_or(0) as u32;
    let local_size = local.len() as u32;
    let own_page = if local_rank == 0 { Some(create(manager, local_size)?) } else { None };
    if rank == 0 {
        let (job, secret) = (random()?, Secret::random()?);
        let value = [&job.to_le_bytes()[..], secret.bytes()].concat();
        manager.put("job", &value).map_err(failed)?;
    }
    if local_rank == 0 {
        let ranks = encode_ranks(&local);
        manager.put(&format!("ranks/{rank}"), ranks.as_bytes()).map_err(failed)?;
    }
    manager.put(&format!("cpus/{rank}"), &own_processors()).map_err(failed)?;
    manager.fence().map_err(failed)?;
    let (id, secret) = job_and_secret(manager)?;
    let status_page = match own_page {
        Some(page) => page,
        None => attach(manager, local[0], local_size)?,
    };
    let pid = getpid().as_raw_nonzero().get() as u32;
    status_page.agree_on_peers(PEERS).map_err(BootstrapError::Peers)?;
    let entry = status_page.entry(local_rank);
    entry.claim(pid).map_err(|pid| BootstrapError::Used { rank, pid })?;
    entry.set_rank(rank);
    entry.set_state(RankState::Running);
    let processors = count_processors(manager, &local).map_err(failed)?;
    Ok(Direct { local, local_rank, processors, id, secret, status_page })
}

/// Returns the host of each rank. A rank that none of the hosts before has is the lowest one of the
/// next host, which has put the ranks there.
pub(crate) fn host_table(manager: &ProcessManager) -> Result<Vec<u32>, ManagerError> {
    let mut host_of = vec![None; manager.size() as usize];
    let mut hosts = 0;
    while let Some(leader) = host_of.iter().position(Option::is_none) {
        let ranks = manager.get(&format!("ranks/{leader}"))?.unwrap_or_default();
        let entered = enter_ranks(&String::from_utf8_lossy(&ranks), hosts, &mut host_of);
        entered.filter(|()| host_of[leader] == Some(hosts)).ok_or_else(|| {
            ManagerError(format!("{} has no list of the host of rank {leader}", manager.name()))
        })?;
        hosts += 1;
    }
    Ok(host_of.into_iter().flatten().collect())
}

fn failed(error: ManagerError) -> BootstrapError {
    BootstrapError::Manager(error.to_string())
}

/// Creates the status page of this host and puts where it is.
fn create(manager: &ProcessManager, local_size: u32) -> Result<StatusPage, BootstrapError> {
    let check = random()?;
    let page = StatusPage::create(local_size, check)
        .map_err(|errno| BootstrapError::System("shared memory (memfd_create)", errno))?;
    let descriptor = page.file().map_or(-1, |file| std::os::fd::AsRawFd::as_raw_fd(&file));
    let place = format!("{} {descriptor} {check:x}", getpid().as_raw_nonzero());
    manager.put(&format!("host/{}", manager.rank()), place.as_bytes()).map_err(failed)?;
    Ok(page)
}

/// Opens the status page of this host's leader.
fn attach(
    manager: &ProcessManager,
    leader: u32,
    local_size: u32,
) -> Result<StatusPage, BootstrapError> {
    let unusable = |why: &str| {
        BootstrapError::Manager(format!(
            "cannot open the shared memory of rank {leader}, which {} places on this host: {why}",
            manager.name()
        ))
    };
    let place = manager.get(&format!("host/{leader}")).map_err(failed)?;
    let place = place.ok_or_else(|| unusable("it has not published any"))?;
    let place = String::from_utf8_lossy(&place).into_owned();
    let mut words = place.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
    let (Some(pid), Some(descriptor)) = (number(), number()) else {
        return Err(unusable("what it has published is not understood (another version?)"));
    };
    let check = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let file = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| {
        unusable(&format!("{path}: {errno} (the ranks of a host must see each other's processes)"))
    })?;
    let page = StatusPage::attach(file).map_err(|error| unusable(&error.to_string()))?;
    if Some(page.job()) != check || page.local_size() != local_size {
        return Err(unusable("it is another file (ranks with process numbers of their own?)"));
    }
    Ok(page)
}

fn job_and_secret(manager: &ProcessManager) -> Result<(u64, Secret), BootstrapError> {
    let value = manager.get("job").map_err(failed)?.unwrap_or_default();
    let parts = value.split_first_chunk::<8>();
    let parts = parts.and_then(|(job, secret)| {
        Some((u64::from_le_bytes(*job), Secret::from_bytes(secret.try_into().ok()?)))
    });
    parts.ok_or_else(|| {
        BootstrapError::Manager(format!(
            "{} has no value of rank 0 after the fence: are all ranks programs of this Verbena?",
            manager.name()
        ))
    })
}

/// Returns the ranks with the same host name in the same boot.
fn exchange_hosts(manager: &ProcessManager) -> Result<Vec<u32>, ManagerError> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let own = format!("{name} {}", boot.trim());
    manager.put(&format!("name/{}", manager.rank()), own.as_bytes())?;
    manager.fence()?;
    let mut local = Vec::new();
    for rank in 0..manager.size() {
        if manager.get(&format!("name/{rank}"))?.as_deref() == Some(own.as_bytes()) {
            local.push(rank);
        }
    }
    Ok(local)
}

/// Returns the numbers of this process's processors, two bytes each.
fn own_processors() -> Vec<u8> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    let own = (0..MAX_PROCESSORS).filter(|cpu| set.is_set(*cpu));
    own.flat_map(|cpu| (cpu as u16).to_le_bytes()).collect()
}

/// Returns the number of processors that the ranks of this host may use together.
fn count_processors(manager: &ProcessManager, local: &[u32]) -> Result<u32, ManagerError> {
    let mut all = BTreeSet::new();
    for rank in local {
        let cpus = manager.get(&format!("cpus/{rank}"))?.unwrap_or_default();
        all.extend(cpus.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])));
    }
    Ok(all.len().max(1) as u32)
}
