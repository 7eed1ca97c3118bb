//! `derive(Equivalence)`.
