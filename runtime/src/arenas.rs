//! Which communicators have an arena: memory in which their members meet, where
//! all of them are on this host (see [`fabric::arena`]).

use std::sync::Arc;

use collectives::Found;
use fabric::Arena;
use objects::{Class, Comm, Error};

use crate::process::Core;
use crate::routes::Routes;
use bootstrap::WORLD_CONTEXT;

impl Core {
    /// The arena of a communicator. MPI_ERR_NO_MEM when others have it, and this process
    /// can't have it in its memory.
    pub(crate) fn arena_of(&self, comm: &Comm) -> Found {
        let Routes::Shm(shm) = self.engine.transport() else { return Ok(None) };
        if comm.context() != WORLD_CONTEXT {
            return Ok(None);
        }
        let members: Vec<u32> = comm.group().iter().map(|peer| peer.0).collect();
        let arena = shm.segment().arena(0, 0, &members, comm.rank());
        let arena = arena.map_err(|error| Error::new(Class::NoMem, error.to_string()))?;
        Ok(arena.map(|arena| -> Arc<dyn Arena> { Arc::new(arena) }))
    }
}
