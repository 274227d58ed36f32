//! The geometry against published numbers, against itself, and against the crate `geo`.

mod cells;
mod independent;
mod parsing;
mod shapes;
