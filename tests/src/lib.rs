//! Programs and suites that cross rooms.
