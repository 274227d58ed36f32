//! Tests of plans and stages together, over a store on a simulated disk.

mod equivalence;
mod fixture;
mod geo;
mod plans;
mod sharing;
mod sorting;
mod text;
