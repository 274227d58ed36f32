//! A slowdown on purpose, of five percent: each change of a leaf costs some 460 instructions more.
//!
//! Behind the feature `slowdown-demonstration`, which is off by default and refused in release builds. It exists so that
//! `cargo xtask sensitivity` can show how often `plimsoll compare` finds so small a difference, and names the function; see
//! `docs/benchmarks.md`. What is done stays the same: only time is lost.

#[cfg(not(debug_assertions))]
compile_error!("slowdown-demonstration makes the engine slow on purpose: it is not for release builds");

/// Of four instructions each. One document of the workload `server-44991` is about 13.6 changes of leaves and 125,000
/// instructions, of which these are five percent.
const ROUNDS: u32 = 115;

/// Loses the time in the function that calls it.
#[inline(always)]
pub(crate) fn lose_time() {
    for round in 0..ROUNDS {
        std::hint::black_box(round);
    }
}
