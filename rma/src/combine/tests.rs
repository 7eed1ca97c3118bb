//! Each method against the others.

#![allow(unsafe_code)]

use objects::Datatype;
use objects::op::BuiltinOp;

use super::*;

#[test]
fn each_method_gives_the_same_values() {
    for handle in [0x209, 0x214, 0x202, 0x218, 0x243, 0x208] {
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

/// Returns the memory after an accumulate and two fetches, and what the fetches have found: one
/// with slices, one with memory.
fn run(sharing: Sharing<'_>, op: PackedOp, bytes: usize) -> [Vec<u8>; 3] {
    let mut words = vec![0x0102_0304_0506_0708_u64; bytes.div_ceil(8)];
    let data: Vec<u8> = (0..bytes).map(|at| (at / 8 % 7) as u8).collect();
    let (mut slice, mut memory) = (vec![0; bytes], vec![0; bytes]);
    // SAFETY: the vectors outlive the buffers, through which alone they are accessed meanwhile; the
    // operands are only read.
    let [at, operands, olds] = unsafe {
        let data = data.as_ptr().cast_mut();
        [words.as_mut_ptr().cast(), data, memory.as_mut_ptr()]
            .map(|begin| UserBuf::new(begin, bytes))
    };
    let by = Executor { sharing, ..Executor::default() };
    let combine = |operands: Operands<'_>, olds: Option<Olds<'_>>| {
        combine(by, op, at, operands, olds).expect("no device");
    };
    combine(Operands::Memory(operands), None);
    combine(Operands::Slice(&data), Some(Olds::Slice(&mut slice)));
    combine(Operands::Memory(operands), Some(Olds::Memory(olds)));
    let mut after = vec![0; bytes];
    at.read(0, &mut after);
    [after, slice, memory]
}
