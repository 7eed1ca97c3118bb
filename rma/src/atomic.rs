//! Accumulation by processor atomics, element by element.
//!
//! All accesses of accumulates to elements of 1, 2, 4 or 8 aligned bytes go through here, from
//! whichever process of the target's host. They therefore agree with each other.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use fabric::UserBuf;
use objects::op::{PackedOp, Primitive};

/// Returns true if elements of `size` bytes at that address are changed atomically.
#[inline(always)]
pub(crate) fn is_atomic(at: UserBuf, size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8) && at.addr().is_multiple_of(size as u64)
}

/// Combines the elements of `data` with those at `at`, for which [`is_atomic`] holds; `old` gets
/// what they were. Panics unless all three are equally long.
pub(crate) fn combine(at: UserBuf, op: PackedOp, data: &[u8], old: Option<&mut [u8]>) {
    assert!(at.len() == data.len() && is_atomic(at, op.size()));
    assert!(old.as_ref().is_none_or(|old| old.len() == data.len()));
    match op.size() {
        1 => words::<AtomicU8>(at, op, data, old),
        2 => words::<AtomicU16>(at, op, data, old),
        4 => words::<AtomicU32>(at, op, data, old),
        _ => words::<AtomicU64>(at, op, data, old),
    }
}

/// Replaces the element at `at` by `new` if it equals `expected`; returns what it was. Its size is
/// that of the slices.
pub(crate) fn compare_swap(at: UserBuf, expected: &[u8], new: &[u8], old: &mut [u8]) {
    assert!(at.len() == new.len() && is_atomic(at, new.len()));
    match new.len() {
        1 => swap::<AtomicU8>(at, expected, new, old),
        2 => swap::<AtomicU16>(at, expected, new, old),
        4 => swap::<AtomicU32>(at, expected, new, old),
        _ => swap::<AtomicU64>(at, expected, new, old),
    }
}

/// Does a primitive on the word of 1, 2, 4 or 8 bytes at `at`; `old` gets what it was. The operand
/// is not looked at if the value is kept. False, and nothing changed, for all other sizes and
/// operations.
#[inline(always)]
pub(crate) fn change(
    at: UserBuf,
    primitive: Primitive,
    operand: UserBuf,
    old: Option<UserBuf>,
) -> bool {
    match at.len() {
        1 => change_word::<AtomicU8>(at, 1, primitive, operand, old),
        2 => change_word::<AtomicU16>(at, 2, primitive, operand, old),
        4 => change_word::<AtomicU32>(at, 4, primitive, operand, old),
        8 => change_word::<AtomicU64>(at, 8, primitive, operand, old),
        _ => false,
    }
}

#[inline(always)]
fn change_word<W: Word>(
    at: UserBuf,
    size: usize,
    primitive: Primitive,
    operand: UserBuf,
    old: Option<UserBuf>,
) -> bool {
    let takes = primitive == Primitive::Keep || operand.len() == size;
    let gives = old.is_none_or(|old| old.len() == size);
    if !takes || !gives || !is_atomic(at, size) {
        return false;
    }
    // SAFETY: inside the memory, which its maker vouched for, and aligned to its size.
    let word = unsafe { W::at(at.as_ptr()) };
    let operand = || W::value_at(operand);
    let before = match primitive {
        Primitive::Replace => word.exchange(operand()),
        Primitive::Add => word.add(operand()),
        Primitive::Keep => word.get(),
        Primitive::Other => return false,
    };
    if let Some(old) = old {
        W::store_at(before, old);
    }
    true
}

/// Replaces the word of 1, 2, 4 or 8 bytes at `at` by `new` if it is `expected`; `old` gets what it
/// was. False, and nothing changed, for all other sizes.
#[inline(always)]
pub(crate) fn change_equal(at: UserBuf, expected: UserBuf, new: UserBuf, old: UserBuf) -> bool {
    match at.len() {
        1 => equal_word::<AtomicU8>(at, 1, expected, new, old),
        2 => equal_word::<AtomicU16>(at, 2, expected, new, old),
        4 => equal_word::<AtomicU32>(at, 4, expected, new, old),
        8 => equal_word::<AtomicU64>(at, 8, expected, new, old),
        _ => false,
    }
}

#[inline(always)]
fn equal_word<W: Word>(
    at: UserBuf,
    size: usize,
    expected: UserBuf,
    new: UserBuf,
    old: UserBuf,
) -> bool {
    let fits = expected.len() == size && new.len() == size && old.len() == size;
    if !fits || !is_atomic(at, size) {
        return false;
    }
    // SAFETY: as in `change_word`.
    let word = unsafe { W::at(at.as_ptr()) };
    let before = word.replace(W::value_at(expected), W::value_at(new));
    W::store_at(before.unwrap_or_else(|found| found), old);
    true
}

fn words<W: Word>(at: UserBuf, op: PackedOp, data: &[u8], mut old: Option<&mut [u8]>) {
    let size = op.size();
    let primitive = op.primitive();
    for (index, operand) in data.chunks_exact(size).enumerate() {
        // SAFETY: inside the memory, which its maker vouched for, and aligned to its size.
        let word = unsafe { W::at(at.as_ptr().add(index * size)) };
        let before = match primitive {
            Primitive::Replace => word.exchange(W::value(operand)),
            Primitive::Keep => word.get(),
            Primitive::Add => word.add(W::value(operand)),
            Primitive::Other => compute(word, op, operand),
        };
        if let Some(old) = &mut old {
            W::store(before, &mut old[index * size..(index + 1) * size]);
        }
    }
}

/// Computes the new value until no other access came between.
fn compute<W: Word>(word: &W, op: PackedOp, operand: &[u8]) -> W::Value {
    let mut found = word.get();
    loop {
        let mut bytes = [0; 8];
        let new = &mut bytes[..op.size()];
        W::store(found, new);
        op.apply(operand, new);
        match word.replace(found, W::value(new)) {
            Ok(before) => return before,
            Err(other) => found = other,
        }
    }
}

fn swap<W: Word>(at: UserBuf, expected: &[u8], new: &[u8], old: &mut [u8]) {
    // SAFETY: as in `words`.
    let word = unsafe { W::at(at.as_ptr()) };
    let before = word.replace(W::value(expected), W::value(new)).unwrap_or_else(|found| found);
    W::store(before, old);
}

/// An atomic integer of any size.
trait Word {
    type Value: Copy;

    /// # Safety
    /// The address is aligned to its size and valid while the reference lives.
    unsafe fn at<'a>(address: *mut u8) -> &'a Self;
    fn value(bytes: &[u8]) -> Self::Value;
    fn store(value: Self::Value, out: &mut [u8]);
    fn value_at(memory: UserBuf) -> Self::Value;
    fn store_at(value: Self::Value, memory: UserBuf);
    fn get(&self) -> Self::Value;
    fn exchange(&self, new: Self::Value) -> Self::Value;
    fn add(&self, more: Self::Value) -> Self::Value;
    fn replace(&self, expected: Self::Value, new: Self::Value) -> Result<Self::Value, Self::Value>;
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word for $atomic {
            type Value = $value;

            #[inline(always)]
            unsafe fn at<'a>(address: *mut u8) -> &'a Self {
                // SAFETY: the caller's promise.
                unsafe { <$atomic>::from_ptr(address.cast()) }
            }

            fn value(bytes: &[u8]) -> $value {
                <$value>::from_ne_bytes(std::array::from_fn(|index| bytes[index]))
            }

            fn store(value: $value, out: &mut [u8]) {
                out.copy_from_slice(&value.to_ne_bytes());
            }

            #[inline(always)]
            fn value_at(memory: UserBuf) -> $value {
                let mut bytes = [0; size_of::<$value>()];
                memory.read(0, &mut bytes);
                <$value>::from_ne_bytes(bytes)
            }

            #[inline(always)]
            fn store_at(value: $value, memory: UserBuf) {
                memory.write(0, &value.to_ne_bytes());
            }

            #[inline(always)]
            fn get(&self) -> $value {
                self.load(Ordering::Acquire)
            }

            #[inline(always)]
            fn exchange(&self, new: $value) -> $value {
                self.swap(new, Ordering::AcqRel)
            }

            #[inline(always)]
            fn add(&self, more: $value) -> $value {
                self.fetch_add(more, Ordering::AcqRel)
            }

            #[inline(always)]
            fn replace(&self, expected: $value, new: $value) -> Result<$value, $value> {
                self.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
            }
        }
    };
}

word!(AtomicU8, u8);
word!(AtomicU16, u16);
word!(AtomicU32, u32);
word!(AtomicU64, u64);

#[cfg(test)]
mod tests {
    use objects::Datatype;
    use objects::op::BuiltinOp;

    use super::*;

    #[test]
    fn adjacent_elements_lose_no_operand() {
        const COUNT: usize = 199;
        const ROUNDS: usize = 300;
        let double = Datatype::predefined(0x214).and_then(Datatype::basic).expect("MPI_DOUBLE");
        let mut memory = vec![0.0_f64; COUNT];
        let address = memory.as_mut_ptr() as usize;
        let ones: Vec<u8> = [1.0_f64; COUNT].iter().flat_map(|one| one.to_ne_bytes()).collect();
        let add = |old: Option<&mut [u8]>| {
            // SAFETY: the vector outlives the threads, which access it atomically.
            let at = unsafe { UserBuf::new(address as *mut u8, COUNT * 8) };
            let sum = PackedOp::new(BuiltinOp::Sum, double).expect("a packed operation");
            combine(at, sum, &ones, old);
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut last = vec![-1.0; COUNT];
                    for _ in 0..ROUNDS {
                        let mut old = vec![0; COUNT * 8];
                        add(Some(&mut old));
                        for (last, now) in last.iter_mut().zip(old.chunks_exact(8)) {
                            let now = f64::from_ne_bytes(std::array::from_fn(|at| now[at]));
                            assert!(now > *last, "{now} after {last}");
                            *last = now;
                        }
                        add(None);
                    }
                });
            }
        });
        assert!(memory.iter().all(|&sum| sum == (4 * 2 * ROUNDS) as f64), "{memory:?}");
    }
}
