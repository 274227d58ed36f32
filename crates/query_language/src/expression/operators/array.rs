//! Array expressions, one file each.

mod array_elem_at;
mod array_to_object;
mod concat_arrays;
mod filter;
mod first_n;
mod in_array;
mod index_of_array;
mod map;
mod max_n;
mod object_to_array;
mod range;
mod reduce;
mod reverse_array;
mod size;
mod slice;
mod sort_array;
mod zip;

use super::prelude::Operator;

pub(super) const FAMILIES: &[&[Operator]] = &[
    array_elem_at::OPERATORS,
    array_to_object::OPERATORS,
    concat_arrays::OPERATORS,
    filter::OPERATORS,
    first_n::OPERATORS,
    in_array::OPERATORS,
    index_of_array::OPERATORS,
    map::OPERATORS,
    max_n::OPERATORS,
    object_to_array::OPERATORS,
    range::OPERATORS,
    reduce::OPERATORS,
    reverse_array::OPERATORS,
    size::OPERATORS,
    slice::OPERATORS,
    sort_array::OPERATORS,
    zip::OPERATORS,
];
