//! Agreements of the members on the outcome of a step.
//!
//! An agreement is one allgather: each member gives the outcome of its own work and some bytes. If
//! any member failed, a broadcast of the first error's text follows, so that all return an error.
//! What only some calls need rides on the agreement that they make anyway: values that must be the
//! same on all members, or that the others want to know.

use objects::{Class, Error, Result};

use crate::members::Members;
use crate::steps::{Steps, block_on};

/// Bytes of an error's text that the other members get.
const TEXT_BYTES: usize = 512;

/// Returns the first error by rank, as every member sees it, or this member's own. Collective.
///
/// Each member gives its own result. If any failed, the first one's error is sent to all, so that
/// each returns one; members that failed themselves return their own.
pub(crate) fn agree(members: &dyn Members, mine: Result<()>) -> Result<()> {
    agree_with(members, mine, &[]).map(|_| ())
}

/// Agrees like [`agree`], and returns the bytes of all members in order of rank. Each gives equally
/// many, also with an error. Collective.
pub(crate) fn agree_with(members: &dyn Members, mine: Result<()>, bytes: &[u8]) -> Result<Vec<u8>> {
    block_on(members, async |steps| agree_by(&steps, mine, bytes).await)
}

/// Agrees like [`agree_with`], by steps. Collective.
pub(crate) async fn agree_by(steps: &Steps<'_>, mine: Result<()>, bytes: &[u8]) -> Result<Vec<u8>> {
    if steps.members().size() == 1 {
        return mine.map(|()| bytes.to_vec());
    }
    let class = mine.as_ref().map_or_else(|error| error.class() as i32, |()| 0);
    let mut message = class.to_ne_bytes().to_vec();
    message.extend_from_slice(bytes);
    let all = steps.allgather(&message).await?;
    let each = || all.chunks_exact(message.len());
    let mut classes = each().map(|one| i32::from_ne_bytes(std::array::from_fn(|i| one[i])));
    match classes.by_ref().enumerate().find(|(_, class)| *class != 0) {
        None => Ok(each().flat_map(|one| &one[4..]).copied().collect()),
        Some((rank, class)) => Err(first_error_by(steps, mine, rank as u32, class).await?),
    }
}

/// Returns the error of the call after the member `rank` failed with this class. Collective.
pub(crate) fn first_error(
    members: &dyn Members,
    mine: Result<()>,
    rank: u32,
    class: i32,
) -> Result<Error> {
    block_on(members, async |steps| first_error_by(&steps, mine, rank, class).await)
}

/// Returns the error like [`first_error`], by steps. Collective.
pub(crate) async fn first_error_by(
    steps: &Steps<'_>,
    mine: Result<()>,
    rank: u32,
    class: i32,
) -> Result<Error> {
    let mut text = [0; TEXT_BYTES];
    if rank == steps.members().rank()
        && let Err(error) = &mine
    {
        let bytes = error.detail().as_bytes();
        let len = bytes.len().min(text.len());
        text[..len].copy_from_slice(&bytes[..len]);
    }
    steps.broadcast(rank, &mut text).await?;
    if let Err(own) = mine {
        return Ok(own);
    }
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let class = Class::from_number(class).unwrap_or(Class::Io);
    let text = String::from_utf8_lossy(&text[..end]);
    Ok(Error::new(class, format!("rank {rank}: {text}")))
}

/// Agrees like [`agree`]; also fails on all members with MPI_ERR_NOT_SAME if `bytes` differ between
/// them. `bytes` of a member that failed count for nothing. Collective.
pub(crate) fn agree_same(
    members: &dyn Members,
    mine: Result<()>,
    bytes: &[u8],
    what: &str,
) -> Result<()> {
    let all = agree_with(members, mine, bytes)?;
    match all.chunks_exact(bytes.len()).position(|other| *other != all[..bytes.len()]) {
        None => Ok(()),
        Some(rank) => Err(Error::new(
            Class::NotSame,
            format!("{what} of rank {rank} differs from rank 0's: must be the same on all ranks"),
        )),
    }
}
