//! Statuses.
//!
//! The user's has the byte count and the flag of cancellation in fields of its own; the standard's
//! has them where the library below likes. They are read and written by MPI_Get_elements_c,
//! MPI_Test_cancelled and MPI_Status_set_*, unless a trial shows that the library has them where
//! Verbena's has: in the first two of the five words, with the flag at the top.

use std::os::raw::c_int;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::abi::StandardStatus;
use crate::code;
use crate::generated::values::{rank_in, rank_out, tag_in, tag_out};
use crate::library::library;
use crate::target::{MPI_Status, STATUS_IGNORE};

/// MPI_BYTE of the standard ABI.
const BYTE: usize = 0x247;
const CANCELLED: u32 = 1 << 31;
/// The source of a status, and the error of one, that no call has set.
const UNSET: c_int = c_int::MIN;

impl StandardStatus {
    /// A status that no call has set.
    pub(crate) const UNSET: StandardStatus =
        StandardStatus { MPI_SOURCE: UNSET, MPI_TAG: 0, MPI_ERROR: UNSET, internal: [0; 5] };
}

/// How the library has count and flag.
static LAYOUT: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const BY_CALLS: u8 = 1;
const IN_WORDS: u8 = 2;

#[inline]
fn is_in_words() -> bool {
    // Relaxed: every thread that tries comes to the same result.
    match LAYOUT.load(Ordering::Relaxed) {
        UNKNOWN => try_layout(),
        layout => layout == IN_WORDS,
    }
}

#[cold]
#[inline(never)]
fn try_layout() -> bool {
    const BYTES: i64 = 0x1234_5678_9abc;
    let is_in_words = [0, 1].into_iter().all(|flag| {
        let mut status = StandardStatus::default();
        set(&mut status, BYTES, flag != 0);
        let expected = words(BYTES, flag != 0);
        status.internal == [expected[0], expected[1], 0, 0, 0]
    });
    LAYOUT.store(if is_in_words { IN_WORDS } else { BY_CALLS }, Ordering::Relaxed);
    is_in_words
}

/// Count and flag as Verbena has them.
#[inline]
fn words(bytes: i64, is_cancelled: bool) -> [u32; 2] {
    [bytes as u32, (bytes >> 32) as u32 | if is_cancelled { CANCELLED } else { 0 }]
}

#[cold]
#[inline(never)]
fn set(status: &mut StandardStatus, bytes: i64, is_cancelled: bool) {
    // SAFETY: a status of ours.
    unsafe {
        (library().PMPI_Status_set_elements_c)(status, BYTE, bytes);
        (library().PMPI_Status_set_cancelled)(status, c_int::from(is_cancelled));
    }
}

#[cold]
#[inline(never)]
fn get(status: &StandardStatus) -> (i64, bool) {
    let (mut bytes, mut flag) = (0, 0);
    // SAFETY: a status of ours.
    unsafe {
        (library().PMPI_Get_elements_c)(status, BYTE, &raw mut bytes);
        (library().PMPI_Test_cancelled)(status, &raw mut flag);
    }
    (bytes.max(0), flag != 0)
}

impl MPI_Status {
    /// The status for the library below.
    pub(crate) fn to_standard(self) -> StandardStatus {
        let (bytes, is_cancelled) = self.count();
        let mut status = StandardStatus {
            MPI_SOURCE: rank_in(self.MPI_SOURCE),
            MPI_TAG: tag_in(self.MPI_TAG),
            MPI_ERROR: code::to_standard(self.MPI_ERROR),
            internal: [0; 5],
        };
        if is_in_words() {
            status.internal[..2].copy_from_slice(&words(bytes, is_cancelled));
        } else {
            set(&mut status, bytes, is_cancelled);
        }
        status
    }

    /// Takes over a status, and its error if that was set: calls that complete one operation leave
    /// it alone, unless the status is the empty one.
    #[inline]
    pub(crate) fn assign(&mut self, status: &StandardStatus) {
        let (bytes, is_cancelled) = if is_in_words() {
            let [low, high, ..] = status.internal;
            (i64::from(high & !CANCELLED) << 32 | i64::from(low), high & CANCELLED != 0)
        } else {
            get(status)
        };
        self.set_count(bytes, is_cancelled);
        self.MPI_SOURCE = rank_out(status.MPI_SOURCE);
        self.MPI_TAG = tag_out(status.MPI_TAG);
        if status.MPI_ERROR != UNSET {
            self.MPI_ERROR = code::from_standard(status.MPI_ERROR);
        }
    }
}

/// A status that a call may set.
pub(crate) struct StatusOut {
    status: StandardStatus,
    users: *mut MPI_Status,
}

impl StatusOut {
    #[inline]
    pub(crate) fn new(users: *mut MPI_Status) -> StatusOut {
        StatusOut { status: StandardStatus::UNSET, users }
    }

    /// What the call gets.
    #[inline]
    pub(crate) fn address(&mut self) -> *mut StandardStatus {
        if is_ignored(self.users) { std::ptr::null_mut() } else { &raw mut self.status }
    }

    /// Gives the user what the call has set.
    ///
    /// # Safety
    /// The user's status is valid or ignored.
    #[inline]
    pub(crate) unsafe fn finish(self) {
        if self.status.MPI_SOURCE != UNSET {
            // SAFETY: the caller's promise; a status that is ignored is not set.
            unsafe { (*self.users).assign(&self.status) };
        }
    }
}

/// The standard ABI's status for the user's.
///
/// # Safety
/// `status` is valid or ignored.
pub(crate) unsafe fn status_in(status: *const MPI_Status) -> StandardStatus {
    // SAFETY: the caller's promise.
    if is_ignored(status) { StandardStatus::UNSET } else { unsafe { *status }.to_standard() }
}

/// The address of `ours`, which stands for the user's; null if that is ignored.
pub(crate) fn given_status(
    users: *const MPI_Status,
    ours: *mut StandardStatus,
) -> *mut StandardStatus {
    if is_ignored(users) { std::ptr::null_mut() } else { ours }
}

/// Whether the user wants no status. A null pointer says so in MPICH's ABI, too.
#[inline]
pub(crate) fn is_ignored(status: *const MPI_Status) -> bool {
    status.is_null() || status.addr() == STATUS_IGNORE
}
