//! Performance variables: the present state of this process, as numbers.
//!
//! All of them are levels: always running, read-only, and 0 outside of MPI. A session keeps
//! handles; a handle is an index under another name.

use std::collections::BTreeMap;

use super::ToolError;
use crate::lock::with;
use crate::process::Process;

/// A performance variable: a level of type MPI_UNSIGNED_LONG_LONG.
#[derive(Clone, Copy, Debug)]
pub struct Pvar {
    /// Its name: section and variable, separated by a dot.
    pub name: &'static str,
    /// What it counts, without a full stop.
    pub help: &'static str,
    read: fn(&Process) -> u64,
}

/// All variables, by index.
static PVARS: &[Pvar] = &[
    Pvar {
        name: "pt2pt.unexpected_messages",
        help: "messages that have arrived before their receive was posted",
        read: |p| p.core.as_ref().map_or(0, |core| core.stack.protocols.pt2pt.unexpected() as u64),
    },
    Pvar {
        name: "pt2pt.unexpected_now",
        help: "bytes of the eager messages among pt2pt.unexpected_messages",
        read: |p| p.core.as_ref().map_or(0, |core| core.stack.protocols.pt2pt.unexpected_bytes()),
    },
    Pvar {
        name: "coll.active",
        help: "collective operations that have begun and not completed",
        read: |p| p.core.as_ref().map_or(0, |core| core.collectives.len() as u64),
    },
];

/// A session, as its handle in C.
pub type SessionId = usize;
/// A variable in a session, as its handle in C.
pub type VariableId = usize;

/// The sessions and their handles.
#[derive(Debug)]
pub struct PvarSessions {
    sessions: BTreeMap<SessionId, BTreeMap<VariableId, i32>>,
    last: usize,
}

/// Handles begin above the constants of the standard.
const FIRST_HANDLE: usize = 0x100;

/// Returns all variables.
pub fn pvars() -> &'static [Pvar] {
    PVARS
}

/// Returns the variable of that index.
pub fn pvar(index: i32) -> Result<&'static Pvar, ToolError> {
    usize::try_from(index).ok().and_then(|at| PVARS.get(at)).ok_or(ToolError::InvalidIndex)
}

/// Returns the index of a variable.
pub fn pvar_named(name: &str) -> Result<i32, ToolError> {
    let found = PVARS.iter().position(|pvar| pvar.name == name);
    found.map(|at| at as i32).ok_or(ToolError::InvalidName)
}

impl PvarSessions {
    pub(super) const fn new() -> PvarSessions {
        PvarSessions { sessions: BTreeMap::new(), last: FIRST_HANDLE }
    }

    /// Makes a session.
    pub fn create(&mut self) -> SessionId {
        self.last += 1;
        self.sessions.insert(self.last, BTreeMap::new());
        self.last
    }

    /// Ends a session and its handles.
    pub fn free(&mut self, session: SessionId) -> Result<(), ToolError> {
        self.sessions.remove(&session).map(drop).ok_or(ToolError::InvalidSession)
    }

    /// Makes a handle of a variable.
    pub fn alloc(&mut self, session: SessionId, index: i32) -> Result<VariableId, ToolError> {
        pvar(index)?;
        self.last += 1;
        let last = self.last;
        self.session(session)?.insert(last, index);
        Ok(last)
    }

    /// Ends a handle.
    pub fn free_handle(&mut self, session: SessionId, id: VariableId) -> Result<(), ToolError> {
        self.session(session)?.remove(&id).map(drop).ok_or(ToolError::InvalidHandle)
    }

    /// Returns the index of the variable of a handle.
    pub fn index(&mut self, session: SessionId, id: VariableId) -> Result<i32, ToolError> {
        self.session(session)?.get(&id).copied().ok_or(ToolError::InvalidHandle)
    }

    /// Checks the handle of a call that these variables do not permit; all handles of a session at
    /// once are permitted, since the call then skips them.
    pub fn refuse(
        &mut self,
        session: SessionId,
        id: Option<VariableId>,
        why: ToolError,
    ) -> Result<(), ToolError> {
        match id {
            None => self.session(session).map(drop),
            Some(id) => self.index(session, id).and(Err(why)),
        }
    }

    fn session(&mut self, session: SessionId) -> Result<&mut BTreeMap<VariableId, i32>, ToolError> {
        self.sessions.get_mut(&session).ok_or(ToolError::InvalidSession)
    }
}

impl Pvar {
    /// Returns the present value.
    pub fn read(&self) -> u64 {
        with(|p| (self.read)(p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_belong_to_their_session() {
        let mut sessions = PvarSessions::new();
        let (one, other) = (sessions.create(), sessions.create());
        let handle = sessions.alloc(one, 0).unwrap();
        assert_eq!(sessions.index(one, handle), Ok(0));
        assert_eq!(sessions.index(other, handle), Err(ToolError::InvalidHandle));
        assert_eq!(sessions.alloc(one, -1), Err(ToolError::InvalidIndex));
        let refused = sessions.refuse(one, Some(handle), ToolError::PvarNoWrite);
        assert_eq!(refused, Err(ToolError::PvarNoWrite));
        assert_eq!(sessions.refuse(one, None, ToolError::PvarNoWrite), Ok(()));
        assert_eq!(sessions.free(one), Ok(()));
        assert_eq!(sessions.index(one, handle), Err(ToolError::InvalidSession));
    }
}
