//! Random numbers that repeat: SplitMix64 (Steele, Lea, Flood 2014).

/// A stream of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Any seed will do.
    pub const fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Less than `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True so often of 1,000 times.
    pub fn chance(&mut self, of_thousand: u32) -> bool {
        self.below(1000) < u64::from(of_thousand)
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len() as u64) as usize).copied()
    }
}
