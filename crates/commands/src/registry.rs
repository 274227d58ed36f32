//! The table of commands: what we have, and what MongoDB has and we refuse by name.
//!
//! Used by `dispatcher`, `listCommands` and the compatibility page. A command is declared beside its handler; here is
//! one row for each.

mod refused;

pub(crate) use refused::refusal;

use self::refused::{KNOWN_ELSEWHERE, OF_SHARDED_CLUSTERS};
use crate::handlers::command::Command;
use crate::handlers::{
    apply_ops, crud, diagnostics, fail_points, replication, schema, security, sessions, transactions,
};
use crate::request::declaration::Declaration;
use crate::request::privileges::Privilege;

/// What the documentation says of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDescription {
    /// Its name.
    pub name: &'static str,
    /// One sentence; `None` for commands that are known and refused.
    pub help: Option<&'static str>,
    /// What a user must be allowed to do for it.
    pub privileges: String,
}

/// All commands, sorted by name.
static COMMANDS: &[&Command] = &[
    &security::merge_authz_collections::COMMAND,
    &transactions::abort_transaction::COMMAND,
    &crud::aggregate_command::COMMAND,
    &replication::append_oplog_note::COMMAND,
    &apply_ops::COMMAND,
    &security::authenticate::COMMAND,
    &diagnostics::build_info::COMMAND,
    &crud::bulk_write::COMMAND,
    &schema::capped::CLONE,
    &schema::coll_mod::COMMAND,
    &schema::coll_stats::COMMAND,
    &transactions::commit_transaction::COMMAND,
    &schema::compact::COMMAND,
    &fail_points::configure_fail_point::COMMAND,
    &diagnostics::conn_pool_stats::COMMAND,
    &diagnostics::connection_status::COMMAND,
    &schema::capped::CONVERT,
    &crud::count::COMMAND,
    &schema::create::COMMAND,
    &schema::create_indexes::COMMAND,
    &security::create_role::CREATE,
    &security::create_user::COMMAND,
    &diagnostics::current_op::COMMAND,
    &schema::data_size::COMMAND,
    &schema::db_hash::COMMAND,
    &schema::db_stats::COMMAND,
    &crud::delete::COMMAND,
    &crud::distinct::COMMAND,
    &schema::drop::COMMAND,
    &security::drop_role::ALL,
    &security::drop_user::ALL,
    &schema::drop_database::COMMAND,
    &schema::drop_indexes::COMMAND,
    &security::drop_role::ONE,
    &security::drop_user::ONE,
    &sessions::end_sessions::COMMAND,
    &crud::explain::COMMAND,
    &diagnostics::features::COMMAND,
    &crud::file_md5::COMMAND,
    &crud::find::COMMAND,
    &crud::find_and_modify::COMMAND,
    &diagnostics::fsync::FSYNC,
    &diagnostics::fsync::UNLOCK,
    &diagnostics::get_cmd_line_opts::COMMAND,
    &replication::get_default_rw_concern::COMMAND,
    &diagnostics::get_log::COMMAND,
    &crud::get_more::COMMAND,
    &diagnostics::get_parameter::COMMAND,
    &security::granted_privileges::GRANT,
    &security::granted_roles::GRANT_TO_ROLE,
    &security::granted_roles::GRANT_TO_USER,
    &diagnostics::hello::HELLO,
    &diagnostics::host_info::COMMAND,
    &crud::insert::COMMAND,
    &security::invalidate_user_cache::COMMAND,
    &diagnostics::hello::IS_MASTER,
    &diagnostics::isdbgrid::COMMAND,
    &sessions::kill_all_sessions::COMMAND,
    &sessions::kill_all_sessions_by_pattern::COMMAND,
    &crud::kill_cursors::COMMAND,
    &diagnostics::kill_op::COMMAND,
    &sessions::kill_sessions::COMMAND,
    &schema::list_collections::COMMAND,
    &diagnostics::list_commands::COMMAND,
    &schema::list_databases::COMMAND,
    &schema::list_indexes::COMMAND,
    &diagnostics::lock_info::COMMAND,
    &diagnostics::log_rotate::COMMAND,
    &security::log_in::LOGOUT,
    &crud::map_reduce::COMMAND,
    &diagnostics::ping::COMMAND,
    &crud::plan_cache_clear::COMMAND,
    &crud::plan_cache_clear_filters::COMMAND,
    &crud::plan_cache_list_filters::COMMAND,
    &crud::plan_cache_set_filter::COMMAND,
    &diagnostics::plimsoll_backup::COMMAND,
    &diagnostics::plimsoll_figures::COMMAND,
    &schema::ring_positions::COMMAND,
    &diagnostics::plimsoll_profile::COMMAND,
    &diagnostics::profile::COMMAND,
    &schema::re_index::COMMAND,
    &sessions::refresh_sessions::COMMAND,
    &crud::remove_query_settings::COMMAND,
    &schema::rename_collection::COMMAND,
    &replication::repl_set_freeze::COMMAND,
    &replication::repl_set_get_config::COMMAND,
    &replication::repl_set_get_status::COMMAND,
    &replication::repl_set_initiate::COMMAND,
    &replication::repl_set_reconfig::COMMAND,
    &diagnostics::repl_set_resize_oplog::COMMAND,
    &replication::repl_set_step_down::COMMAND,
    &replication::repl_set_sync_from::COMMAND,
    &security::granted_privileges::REVOKE,
    &security::granted_roles::REVOKE_FROM_ROLE,
    &security::granted_roles::REVOKE_FROM_USER,
    &security::roles_info::COMMAND,
    &diagnostics::rotate_certificates::COMMAND,
    &security::log_in::CONTINUE,
    &security::log_in::START,
    &diagnostics::server_status::COMMAND,
    &replication::set_default_rw_concern::COMMAND,
    &diagnostics::feature_compatibility::COMMAND,
    &diagnostics::set_parameter::COMMAND,
    &crud::set_query_settings::COMMAND,
    &diagnostics::shutdown::COMMAND,
    &sessions::start_session::COMMAND,
    &diagnostics::top::COMMAND,
    &crud::update::COMMAND,
    &security::create_role::UPDATE,
    &security::update_user::COMMAND,
    &security::users_info::COMMAND,
    &schema::validate::COMMAND,
    &schema::validate_db_metadata::COMMAND,
    &fail_points::wait_for_fail_point::COMMAND,
    &diagnostics::whatsmyuri::COMMAND,
];

const _: () = {
    let mut position = 1;
    while position < COMMANDS.len() {
        let (name, next) = (COMMANDS[position - 1].declaration.name, COMMANDS[position].declaration.name);
        assert!(precedes(name.as_bytes(), next.as_bytes()), "the table of commands is sorted by name");
        position += 1;
    }
};

/// Whether a name comes before another one.
const fn precedes(name: &[u8], next: &[u8]) -> bool {
    let mut position = 0;
    while position < name.len() && position < next.len() {
        if name[position] != next[position] {
            return name[position] < next[position];
        }
        position += 1;
    }
    name.len() < next.len()
}

/// Finds a command.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    if let Ok(position) = COMMANDS.binary_search_by(|command| command.declaration.name.cmp(name)) {
        return COMMANDS.get(position).copied();
    }
    COMMANDS.iter().find(|command| command.declaration.has_name(name)).copied()
}

/// What a command declares.
pub(crate) fn declaration(name: &str) -> Option<&'static Declaration> {
    find(name).map(|command| &command.declaration)
}

/// What all commands that we have declare, sorted by name.
pub(crate) fn declarations() -> impl Iterator<Item = &'static Declaration> {
    COMMANDS.iter().map(|command| &command.declaration)
}

/// Every command, ours and those refused by name, for the compatibility page.
pub fn command_descriptions() -> Vec<CommandDescription> {
    let ours = declarations().map(|command| CommandDescription {
        name: command.name,
        help: Some(command.help),
        privileges: privileges(command),
    });
    let refused = KNOWN_ELSEWHERE.iter().chain(OF_SHARDED_CLUSTERS);
    let refused = refused.map(|name| CommandDescription { name, help: None, privileges: String::new() });
    let mut all: Vec<CommandDescription> = ours.chain(refused).collect();
    all.sort_by_key(|command| command.name);
    all
}

/// A command's privileges in words.
fn privileges(command: &Declaration) -> String {
    let in_words = |privilege: &Privilege| format!("{} on {}", privilege.action.name(), privilege.resource.name());
    command.privileges.iter().map(in_words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::declaration::{
        Authentication, Changes, Class, Needs, SessionUse, StableApi, WithoutClient, WriteConcernUse,
    };

    #[test]
    fn the_tables_are_sorted_and_disjoint() {
        for refused in [KNOWN_ELSEWHERE, OF_SHARDED_CLUSTERS] {
            assert!(refused.is_sorted_by(|a, b| a < b));
            assert!(refused.iter().all(|name| find(name).is_none()));
        }
        for command in declarations() {
            let others = |name: &&str| declarations().filter(|other| other.has_name(name)).count() == 1;
            assert!(others(&command.name) && command.aliases.iter().all(others), "{}", command.name);
        }
        assert_eq!(declaration("findandmodify").map(|command| command.name), Some("findAndModify"));
    }

    #[test]
    fn what_a_command_declares_fits_together() {
        for command in declarations() {
            let name = command.name;
            let changes = command.changes == Changes::Stored;
            assert!(!name.is_empty() && command.help.ends_with('.'), "{name}");
            assert!(command.class != Class::Write || changes, "{name} is admitted as a write");
            assert!(command.class != Class::Read || command.needs == Needs::Data, "{name} reads data");
            assert!(!changes || command.without_client == WithoutClient::GoesOn, "{name} changes what is stored");
            assert!(command.session_use != SessionUse::RetryableWrite || command.class == Class::Write, "{name}");
            let is_about_the_server = command.needs == Needs::Nothing;
            let resizes_oplog = name == "replSetResizeOplog";
            assert!(!changes || !is_about_the_server || resizes_oplog, "{name} needs a primary");
            assert!(!changes || command.read_concerns.is_empty(), "{name} reads with a concern");
            let is_open = command.authentication == Authentication::NotNeeded;
            assert!(!is_open || (is_about_the_server && command.privileges.is_empty()), "{name} is for everybody");
            assert!(command.privileges.iter().all(|privilege| !privilege.action.name().is_empty()), "{name}");
        }
    }

    #[test]
    fn what_takes_write_concerns_and_is_in_the_stable_api_is_as_the_manual_has_it() {
        let names = |is: fn(&Declaration) -> bool| {
            declarations().filter(|command| is(command)).map(|command| command.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            names(|command| command.stable_api == StableApi::Version1),
            "abortTransaction aggregate bulkWrite collMod commitTransaction count create createIndexes \
             delete drop dropDatabase dropIndexes endSessions explain find findAndModify \
             getMore hello insert killCursors listCollections listDatabases listIndexes ping \
             refreshSessions update"
        );
        assert_eq!(
            names(|command| command.write_concern == WriteConcernUse::Taken),
            "_mergeAuthzCollections abortTransaction aggregate appendOplogNote applyOps bulkWrite \
             cloneCollectionAsCapped \
             collMod commitTransaction convertToCapped create createIndexes createRole createUser \
             delete drop dropAllRolesFromDatabase dropAllUsersFromDatabase dropDatabase dropIndexes \
             dropRole dropUser findAndModify grantPrivilegesToRole grantRolesToRole grantRolesToUser \
             insert mapReduce reIndex renameCollection replSetReconfig revokePrivilegesFromRole \
             revokeRolesFromRole revokeRolesFromUser setDefaultRWConcern \
             setFeatureCompatibilityVersion update updateRole updateUser"
        );
        assert_eq!(
            names(|command| command.session_use == SessionUse::RetryableWrite),
            "bulkWrite delete findAndModify insert update"
        );
        assert_eq!(
            names(|command| command.authentication == Authentication::NotNeeded),
            "authenticate buildInfo connectionStatus endSessions features hello isMaster isdbgrid \
             listCommands logout ping saslContinue saslStart whatsmyuri"
        );
    }
}
