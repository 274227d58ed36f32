//! Arithmetic expressions, one file each; families share one.

mod absolute;
mod add;
mod bitwise;
mod divide;
mod logarithm;
mod modulo;
mod multiply;
mod numeric_argument;
mod power;
mod random;
mod rounding;
mod sigmoid;
mod subtract;
mod trigonometry;

use super::prelude::Operator;

pub(super) const FAMILIES: &[&[Operator]] = &[
    absolute::OPERATORS,
    add::OPERATORS,
    bitwise::OPERATORS,
    divide::OPERATORS,
    logarithm::OPERATORS,
    modulo::OPERATORS,
    multiply::OPERATORS,
    power::OPERATORS,
    random::OPERATORS,
    rounding::OPERATORS,
    sigmoid::OPERATORS,
    subtract::OPERATORS,
    trigonometry::OPERATORS,
];
