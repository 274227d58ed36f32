//! The commands that set failures made on purpose, and wait for them. What they set is `state::fail_points`.

pub(crate) mod configure_fail_point;
pub(crate) mod wait_for_fail_point;
