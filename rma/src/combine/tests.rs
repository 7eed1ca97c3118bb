//! Each method against the others.

#![allow(unsafe_code)]

use objects::Datatype;
use objects::op::BuiltinOp;

use super::*;

#[test]
fn each_method_gives_the_same_values() {
    for handle in [0x209, 0x214, 0x202, 0x218] {
        let Some(basic) = Datatype::predefined(handle).and_then(Datatype::basic) else {
            continue;
        };
        for op in [BuiltinOp::Sum, BuiltinOp::Replace, BuiltinOp::NoOp, BuiltinOp::Max] {
            let Some(op) = PackedOp::new(op, basic) else { continue };
            let size = op.size();
            for bytes in [size, 64, 64 + size, 512, 4096 + size, 20_000 / size * size] {
                let alone = run(Sharing::Alone, op, bytes);
                let atomic = run(Sharing::Unguarded, op, bytes);
                assert_eq!(alone, atomic, "{handle:#x}, {bytes} bytes");
            }
        }
    }
}

/// Returns the memory after an accumulate and a fetch, and what the fetch has found.
fn run(sharing: Sharing<'_>, op: PackedOp, bytes: usize) -> [Vec<u8>; 2] {
    let mut words = vec![0x0102_0304_0506_0708_u64; bytes.div_ceil(8)];
    let data: Vec<u8> = (0..bytes).map(|at| (at / 8 % 7) as u8).collect();
    // SAFETY: the vector outlives the buffer, through which alone it is accessed meanwhile.
    let at = unsafe { UserBuf::new(words.as_mut_ptr().cast(), bytes) };
    let by = Executor { sharing, ..Executor::default() };
    // SAFETY: as before; it is only read.
    let memory = unsafe { UserBuf::new(data.as_ptr().cast_mut(), bytes) };
    let mut old = vec![0; bytes];
    let mut olds = |begin: usize, found: &[u8]| {
        old[begin..begin + found.len()].copy_from_slice(found);
    };
    combine(by, op, at, Operands::Memory(memory), None).expect("no device");
    combine(by, op, at, Operands::Slice(&data), Some(&mut olds)).expect("no device");
    let mut after = vec![0; bytes];
    at.read(0, &mut after);
    [after, old]
}
