//! The communication that a file needs.

use objects::Result;

/// The processes that opened a file, as one of them sees the others. All calls but `rank` and
/// `size` are collective: each member makes the same ones in the same order.
pub trait Members: Send + Sync {
    /// Returns this process's rank.
    fn rank(&self) -> u32;

    /// Returns the number of processes.
    fn size(&self) -> u32;

    /// Returns the bytes of all members in order of rank. Each gives equally many.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<u8>>;

    /// Replaces the bytes by those of `root`. Each gives equally many.
    fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<()>;

    /// Sends each member a message, and returns those for this one, with their lengths. Messages
    /// are in order of rank, one after the other.
    fn exchange(&self, messages: &[u8], lengths: &[u64]) -> Result<(Vec<u8>, Vec<u64>)>;
}

/// Returns the first error by rank, as every member sees it, or this member's own. Collective.
///
/// Each member gives its own result. If any failed, the first one's error is sent to all, so that
/// each returns one; members that failed themselves return their own.
pub(crate) fn agree(members: &dyn Members, mine: Result<()>) -> Result<()> {
    if members.size() == 1 {
        return mine;
    }
    let class = mine.as_ref().map_or_else(|error| error.class() as i32, |()| 0);
    let all = members.allgather(&class.to_ne_bytes())?;
    let classes =
        all.chunks_exact(4).map(|word| i32::from_ne_bytes(std::array::from_fn(|i| word[i])));
    let failed = classes.enumerate().find(|(_, class)| *class != 0);
    let Some((rank, class)) = failed else { return mine };
    let mut text = [0; 512];
    if rank as u32 == members.rank()
        && let Err(error) = &mine
    {
        let bytes = error.detail().as_bytes();
        let len = bytes.len().min(text.len());
        text[..len].copy_from_slice(&bytes[..len]);
    }
    members.broadcast(rank as u32, &mut text)?;
    mine?;
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let class = objects::Class::from_number(class).unwrap_or(objects::Class::Io);
    let text = String::from_utf8_lossy(&text[..end]).into_owned();
    Err(objects::Error::new(class, format!("rank {rank}: {text}")))
}

/// Fails on all members with MPI_ERR_NOT_SAME if `mine` differs between them. Collective.
pub(crate) fn all_same(members: &dyn Members, mine: &[u8], what: &str) -> Result<()> {
    if members.size() == 1 {
        return Ok(());
    }
    let all = members.allgather(mine)?;
    let first = &all[..mine.len()];
    match all.chunks_exact(mine.len()).position(|other| other != first) {
        None => Ok(()),
        Some(rank) => Err(objects::Error::new(
            objects::Class::NotSame,
            format!("{what} of rank {rank} differs from rank 0's: must be the same on all ranks"),
        )),
    }
}

/// A group of one process.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Members for Alone {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<u8>> {
        Ok(mine.to_vec())
    }

    fn broadcast(&self, _: u32, _: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn exchange(&self, messages: &[u8], lengths: &[u64]) -> Result<(Vec<u8>, Vec<u64>)> {
        Ok((messages.to_vec(), lengths.to_vec()))
    }
}
