//! Commands about the replica set that the server is a member of, and about what goes without saying in it. What they work on is `replica_set` and `default_concerns`.

pub(crate) mod append_oplog_note;
pub(crate) mod get_default_rw_concern;
pub(crate) mod repl_set_freeze;
pub(crate) mod repl_set_get_config;
pub(crate) mod repl_set_get_status;
pub(crate) mod repl_set_initiate;
pub(crate) mod repl_set_reconfig;
pub(crate) mod repl_set_step_down;
pub(crate) mod repl_set_sync_from;
pub(crate) mod set_default_rw_concern;
#[cfg(test)]
mod tests;
