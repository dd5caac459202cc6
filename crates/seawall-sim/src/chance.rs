//! Random numbers of the world, each named by what it is for.
//!
//! Every draw hangs on (seed, fleet, client, call, attempt, purpose) and on nothing that happened
//! before it, so a change of policy leaves all other draws where they were (common random
//! numbers): two policies meet the same arrivals, the same delays, the same failing requests.

use seawall_engine::Draws;

/// What a draw is for. The engine's own purposes are below 100.
pub(crate) const NETWORK: u64 = 100;
pub(crate) const LOSS: u64 = 110;
pub(crate) const SERVICE: u64 = 120;
pub(crate) const FAILURE: u64 = 130;
pub(crate) const TARGET: u64 = 140;
pub(crate) const GAP: u64 = 150;
pub(crate) const PICK: u64 = 160;
pub(crate) const THIN: u64 = 170;
pub(crate) const LOTTERY: u64 = 180;
pub(crate) const CLIENT: u64 = 190;
pub(crate) const GUARD: u64 = 200;
/// The second draw of a law that takes two.
pub(crate) const SECOND: u64 = 1_000;

/// The stream of one thing inside another's: a fleet's in the run's, a call's in its client's.
pub(crate) fn stream(of: Draws, purpose: u64, index: u64) -> Draws {
    Draws::new(of.draw(purpose, index))
}

/// A uniform number above 0 and below 1.
#[inline]
pub(crate) fn unit(draw: u64) -> f64 {
    ((draw >> 12) as f64 + 0.5) * (1.0 / 4_503_599_627_370_496.0)
}

/// A uniform choice among `n` things.
#[inline]
pub(crate) fn choice(draw: u64, n: usize) -> usize {
    ((u128::from(draw) * n as u128) >> 64) as usize
}

/// The standard normal quantile: M. J. Wichura, "Algorithm AS 241", Applied Statistics 37 (1988),
/// PPND16; relative error about 1e-16. One draw per number, and no library of the system's in it.
pub(crate) fn normal(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(&CENTRE_A, r) / polynomial(&CENTRE_B, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-libm::log(tail)).sqrt();
    let value = if r <= 5.0 {
        let r = r - 1.6;
        polynomial(&MIDDLE_A, r) / polynomial(&MIDDLE_B, r)
    } else {
        let r = r - 5.0;
        polynomial(&FAR_A, r) / polynomial(&FAR_B, r)
    };
    if q < 0.0 { -value } else { value }
}

#[inline]
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients
        .iter()
        .rev()
        .fold(0.0, |sum, coefficient| sum * x + coefficient)
}

const CENTRE_A: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_B: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_854e3,
];
const MIDDLE_A: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const MIDDLE_B: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_A: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_B: [f64; 8] = [
    1.0,
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (p, z) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_813_5),
            (1e-10, -6.361_340_902_404_056),
            (1e-20, -9.262_340_089_798_409),
        ] {
            assert!((normal(p) - z).abs() < 1e-9, "{p}: {}", normal(p));
        }
    }

    #[test]
    fn units_stay_inside_zero_and_one() {
        assert!(unit(0) > 0.0 && unit(u64::MAX) < 1.0);
    }
}
