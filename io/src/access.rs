//! The words that describe a data access (MPI-5.0 §14.4.1).

/// Which way the data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At an offset in etypes of the view.
    At(i64),
    /// At the individual pointer, which moves on.
    Individual,
    /// At the shared pointer, which moves on.
    Shared,
}

/// Whether the members act together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordination {
    /// Each for itself.
    Independent,
    /// All make the call.
    Collective,
}
