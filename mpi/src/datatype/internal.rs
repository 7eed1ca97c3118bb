//! What the code of `derive(Equivalence)` calls. It is no part of the interface.
