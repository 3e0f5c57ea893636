//! Nothing: the counts are in `benches/`.
