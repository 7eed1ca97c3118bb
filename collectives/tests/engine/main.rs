//! Collectives over the engine on a simulated fabric: every operation, several at once, with
//! delays, exhausted slots and refused reads, from seeds.

mod cases;
mod gets;
#[path = "../hierarchy/mod.rs"]
mod hierarchy;
mod inline_runs;
mod levels;
mod long_slots;
mod long_vectors;
mod mismatches;
mod pieces;
#[path = "../placement/mod.rs"]
mod placement;
#[path = "../random/mod.rs"]
mod random;
mod reproducible;
mod requests;
mod runs;
#[path = "../world/mod.rs"]
mod world;
