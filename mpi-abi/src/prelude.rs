//! The imports of the generated entry points.

#![allow(unused_imports, reason = "some serve calls that have no body yet")]

pub(crate) use std::os::raw::{c_char, c_double, c_int, c_void};

pub(crate) use bootstrap::calls::Call;

pub(crate) use crate::abi::*;
pub(crate) use crate::call::{RaiseOn, call, ends_at_once, handle_at, jump, tool, unsupported};
pub(crate) use crate::call_form::CallForm;
pub(crate) use crate::constants;
pub(crate) use crate::convert::{CountOut, Counts, Displs};
