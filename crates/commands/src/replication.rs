//! Commands about the replica set that the server is a member of. What they work on is `replica_set`.

pub(crate) mod append_oplog_note;
pub(crate) mod repl_set_freeze;
pub(crate) mod repl_set_get_config;
pub(crate) mod repl_set_get_status;
pub(crate) mod repl_set_initiate;
pub(crate) mod repl_set_reconfig;
pub(crate) mod repl_set_step_down;
pub(crate) mod repl_set_sync_from;
#[cfg(test)]
mod tests;
