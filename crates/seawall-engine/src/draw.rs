/// A repeatable stream of random draws, each named by what it is for (W4).
///
/// Counter-based: draw `(purpose, index)` depends on the seed alone, not on how many draws were
/// made before, so a change of policy does not shift the draws of anything else. The mixing is
/// SplitMix64's finalizer (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014); the same on every machine and in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    seed: u64,
}

impl Draws {
    /// The stream of `seed`.
    #[inline]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The seed this stream was made from.
    #[inline]
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// Draw number `index` for `purpose`: uniform over all of `u64`.
    #[inline]
    pub const fn draw(self, purpose: u64, index: u64) -> u64 {
        mix(mix(self.seed ^ mix(purpose)).wrapping_add(index.wrapping_mul(GOLDEN)))
    }
}

/// A uniform draw over `0..=max` from a uniform `u64` (multiply and shift; the bias is below
/// `max / 2^64`).
#[inline]
pub(crate) const fn up_to(draw: u64, max: u64) -> u64 {
    ((draw as u128 * (max as u128 + 1)) >> 64) as u64
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w4_same_seed_same_draws_other_seed_other_draws() {
        let (a, b) = (Draws::new(1), Draws::new(2));
        assert_eq!(a.draw(3, 4), Draws::new(1).draw(3, 4));
        assert_ne!(a.draw(3, 4), b.draw(3, 4));
        assert_ne!(a.draw(3, 4), a.draw(3, 5));
        assert_ne!(a.draw(3, 4), a.draw(4, 4));
    }

    #[test]
    fn w3_up_to_covers_both_ends() {
        assert_eq!(up_to(0, 10), 0);
        assert_eq!(up_to(u64::MAX, 10), 10);
        assert_eq!(up_to(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(up_to(u64::MAX, 0), 0);
    }
}
