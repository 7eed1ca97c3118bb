//! What entry points and bodies use.

pub(crate) use std::os::raw::{c_char, c_int, c_void};

pub(crate) use abi_client::jump::jump;

pub(crate) use crate::abi::*;
pub(crate) use crate::array::{Neighbors, address, handles, interned, peers, values};
pub(crate) use crate::code;
pub(crate) use crate::code::SUCCESS;
pub(crate) use crate::generated::values::*;
pub(crate) use crate::handle::{Handle, given, read};
pub(crate) use crate::library::library;
pub(crate) use crate::sentinel::buffer;
pub(crate) use crate::status::{StatusOut, given_status, is_ignored, status_in};
pub(crate) use crate::target::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op,
    MPI_Request, MPI_Session, MPI_Status, MPI_Win, graph_weights, pvar_handle,
};
