//! Registered pages and children of `fork`, as libibverbs treats them after `ibv_fork_init`: the
//! kernel gives them to no child (MADV_DONTFORK) until their last registration ends.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

const PAGE: u64 = 4096;

static INITS: AtomicI32 = AtomicI32::new(0);
/// The number of registrations of each page, by its number.
static PAGES: Mutex<BTreeMap<u64, u32>> = Mutex::new(BTreeMap::new());

/// Keeps pages that are registered from now on away from children.
pub(crate) fn init() {
    INITS.fetch_add(1, Ordering::Relaxed);
}

/// Returns how often [`init`] was called.
pub(crate) fn inits() -> i32 {
    INITS.load(Ordering::Relaxed)
}

/// Records a registration of this range.
pub(crate) fn registered(addr: u64, length: u64) {
    for_each_page(addr, length, |pages, page| {
        let count = pages.entry(page).or_insert(0);
        *count += 1;
        (*count == 1).then_some(libc::MADV_DONTFORK)
    });
}

/// Records the end of a registration.
pub(crate) fn deregistered(addr: u64, length: u64) {
    for_each_page(addr, length, |pages, page| {
        let count = pages.get_mut(&page)?;
        *count -= 1;
        (*count == 0).then(|| {
            pages.remove(&page);
            libc::MADV_DOFORK
        })
    });
}

/// Gives the kernel the advice that `each` returns for a page of the range, if forks are prepared.
fn for_each_page(
    addr: u64,
    length: u64,
    each: impl Fn(&mut BTreeMap<u64, u32>, u64) -> Option<i32>,
) {
    // A registration of all addresses pins nothing.
    if inits() == 0 || length > 1 << 46 {
        return;
    }
    let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    for page in addr / PAGE..(addr + length).div_ceil(PAGE) {
        if let Some(advice) = each(&mut pages, page) {
            // SAFETY: the advice changes what a child gets, and nothing in this process. A page
            // that is gone is an error.
            unsafe { libc::madvise((page * PAGE) as *mut _, PAGE as usize, advice) };
        }
    }
}
