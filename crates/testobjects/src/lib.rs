//! Made-up objects for tests: towns in which much happens, drawn by a seed.

pub mod town;
