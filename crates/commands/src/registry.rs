//! The table of commands: what we have, and what MongoDB has and we refuse by name.
//!
//! Used by `dispatcher`, `listCommands` and the compatibility page. One row a command.

mod refused;

pub(crate) use refused::refusal;

use self::refused::{KNOWN_ELSEWHERE, OF_SHARDED_CLUSTERS};
use crate::DocumentWriter;
use crate::dispatcher::Outcome;
use crate::handlers::{apply_ops, crud, diagnostics, fail_points, replication, schema, sessions, transactions};
use crate::request::arguments::Arguments;
use crate::request::error::Result;
use crate::state::admission::Class;
use crate::state::context::Context;

/// How a command is run.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// It always replies.
    Reply(fn(&mut Context<'_>, Arguments<'_>, &mut DocumentWriter<'_>) -> Result<()>),
    /// It may ask to be run again, before its reply or after it.
    MayWait(fn(&mut Context<'_>, Arguments<'_>, &mut DocumentWriter<'_>) -> Result<Outcome>),
}

/// A command that we have.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Other names it answers to.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) help: &'static str,
    pub(crate) handler: Handler,
    pub(crate) is_admin_only: bool,
    /// Whether `opcounters.command` counts it; CRUD has counters of its own.
    pub(crate) counts_as_command: bool,
    /// The one field that may come as a document sequence.
    pub(crate) sequence: Option<&'static str>,
    /// What it needs in order to run.
    pub(crate) class: Class,
    pub(crate) session_use: SessionUse,
    /// What becomes of it when its client goes away.
    pub(crate) without_client: WithoutClient,
}

/// What becomes of a command whose client has closed the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutClient {
    /// It ends: nobody wants its reply, and it has no other use.
    Ends,
    /// It goes on: it changes something.
    GoesOn,
}

/// What a command can be in a session, beside a use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionUse {
    /// Nothing.
    Plain,
    /// A part of a transaction.
    InTransaction,
    /// A part of a transaction, or a retryable write.
    RetryableWrite,
    /// The end of a transaction.
    EndsTransaction,
}

/// What the documentation says of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDescription {
    /// Its name.
    pub name: &'static str,
    /// One sentence; `None` for commands that are known and refused.
    pub help: Option<&'static str>,
}

macro_rules! command {
    ($name:literal, $handler:path, $help:literal) => {
        Command {
            name: $name,
            aliases: &[],
            help: $help,
            handler: Handler::Reply($handler),
            is_admin_only: false,
            counts_as_command: true,
            sequence: None,
            class: Class::Exempt,
            session_use: SessionUse::Plain,
            without_client: WithoutClient::Ends,
        }
    };
}

/// All commands, sorted by name.
static COMMANDS: &[Command] = &[
    Command {
        is_admin_only: true,
        session_use: SessionUse::EndsTransaction,
        without_client: WithoutClient::GoesOn,
        ..command!("abortTransaction", transactions::abort_transaction::run, "Gives up a transaction's changes.")
    },
    Command {
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        ..command!("aggregate", crud::aggregate::run, "Runs an aggregation pipeline on a collection.")
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!("appendOplogNote", replication::append_oplog_note::run, "Logs a note, which changes nothing.")
    },
    Command {
        is_admin_only: true,
        class: Class::Write,
        without_client: WithoutClient::GoesOn,
        ..command!("applyOps", apply_ops::run, "Does what entries of an oplog say.")
    },
    Command {
        aliases: &["buildinfo"],
        ..command!("buildInfo", diagnostics::build_info::run, "Version and build of the server.")
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!(
            "cloneCollectionAsCapped",
            schema::capped::clone_collection,
            "Makes a capped collection with the newest documents of another collection."
        )
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("collMod", schema::coll_mod::run, "Changes options of a collection or of one of its indexes.")
    },
    Command { aliases: &["collstats"], ..command!("collStats", schema::coll_stats::run, "Figures of a collection.") },
    Command {
        is_admin_only: true,
        session_use: SessionUse::EndsTransaction,
        without_client: WithoutClient::GoesOn,
        ..command!("commitTransaction", transactions::commit_transaction::run, "Commits a transaction.")
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("compact", schema::compact::run, "Gives back the space that a collection does not need.")
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!(
            "configureFailPoint",
            fail_points::configure_fail_point::run,
            "Has something fail, for tests; only with --enable-test-commands."
        )
    },
    Command {
        is_admin_only: true,
        ..command!("connPoolStats", diagnostics::conn_pool_stats::run, "Connections of the server to others: none.")
    },
    command!("connectionStatus", diagnostics::connection_status::run, "Who the client is to the server."),
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!(
            "convertToCapped",
            schema::capped::convert,
            "Replaces a collection by a capped one with its newest documents."
        )
    },
    Command { class: Class::Read, ..command!("count", crud::count::run, "Counts the documents that match.") },
    Command {
        session_use: SessionUse::InTransaction,
        without_client: WithoutClient::GoesOn,
        ..command!("create", schema::create::run, "Creates a collection.")
    },
    Command {
        session_use: SessionUse::InTransaction,
        without_client: WithoutClient::GoesOn,
        ..command!("createIndexes", schema::create_indexes::run, "Builds indexes of a collection.")
    },
    Command {
        is_admin_only: true,
        ..command!(
            "currentOp",
            diagnostics::current_op::run,
            "Lists the commands that are running, and those that wait for a ticket (`currentQueue`)."
        )
    },
    command!("dataSize", schema::data_size::run, "How many documents are in a range of an index, and their bytes."),
    command!("dbHash", schema::db_hash::run, "A hash of each collection of a database."),
    Command { aliases: &["dbstats"], ..command!("dbStats", schema::db_stats::run, "Figures of a database.") },
    Command {
        class: Class::Write,
        sequence: Some("deletes"),
        session_use: SessionUse::RetryableWrite,
        counts_as_command: false,
        without_client: WithoutClient::GoesOn,
        ..command!("delete", crud::delete::run, "Deletes documents.")
    },
    Command {
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        ..command!("distinct", crud::distinct::run, "The distinct values of a field.")
    },
    Command { without_client: WithoutClient::GoesOn, ..command!("drop", schema::drop::run, "Drops a collection.") },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("dropDatabase", schema::drop_database::run, "Drops a database.")
    },
    Command {
        aliases: &["deleteIndexes"],
        without_client: WithoutClient::GoesOn,
        ..command!("dropIndexes", schema::drop_indexes::run, "Drops indexes of a collection.")
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("endSessions", sessions::end_sessions::run, "Ends sessions.")
    },
    command!("explain", crud::explain::run, "Says how a query would be run."),
    command!("features", diagnostics::features::run, "The number by which ObjectIds are of this process."),
    Command { class: Class::Read, ..command!("filemd5", crud::file_md5::run, "The MD5 hash of a file in GridFS.") },
    Command {
        class: Class::Read,
        counts_as_command: false,
        session_use: SessionUse::InTransaction,
        ..command!("find", crud::find::run, "Finds documents.")
    },
    Command {
        class: Class::Write,
        aliases: &["findandmodify"],
        session_use: SessionUse::RetryableWrite,
        without_client: WithoutClient::GoesOn,
        ..command!("findAndModify", crud::find_and_modify::run, "Changes one document and returns it.")
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!(
            "fsync",
            diagnostics::fsync::run,
            "Makes everything durable with a checkpoint, which takes up to two seconds longer while others write, so that they do not notice; with `lock`, keeps others from writing."
        )
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!("fsyncUnlock", diagnostics::fsync::run_unlock, "Lets others write again.")
    },
    Command {
        is_admin_only: true,
        ..command!("getCmdLineOpts", diagnostics::get_cmd_line_opts::run, "How the server was started.")
    },
    Command {
        is_admin_only: true,
        ..command!(
            "getDefaultRWConcern",
            replication::get_default_rw_concern::run,
            "The read and write concerns of commands that name none."
        )
    },
    Command {
        is_admin_only: true,
        ..command!("getLog", diagnostics::get_log::run, "Recent lines of the diagnostics log.")
    },
    Command {
        name: "getMore",
        aliases: &[],
        help: "The next batch of a cursor.",
        handler: Handler::MayWait(crud::get_more::run),
        is_admin_only: false,
        counts_as_command: false,
        sequence: None,
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        without_client: WithoutClient::Ends,
    },
    Command { is_admin_only: true, ..command!("getParameter", diagnostics::get_parameter::run, "Server parameters.") },
    Command {
        name: "hello",
        aliases: &[],
        help: "What the server is and can do.",
        handler: Handler::MayWait(diagnostics::hello::run_hello),
        is_admin_only: false,
        counts_as_command: true,
        sequence: None,
        class: Class::Exempt,
        session_use: SessionUse::Plain,
        without_client: WithoutClient::Ends,
    },
    Command {
        aliases: &["hostinfo"],
        ..command!("hostInfo", diagnostics::host_info::run, "The machine the server runs on.")
    },
    Command {
        class: Class::Write,
        sequence: Some("documents"),
        session_use: SessionUse::RetryableWrite,
        counts_as_command: false,
        without_client: WithoutClient::GoesOn,
        ..command!("insert", crud::insert::run, "Inserts documents.")
    },
    Command {
        name: "isMaster",
        aliases: &["ismaster"],
        help: "What the server is and can do; the older name of hello.",
        handler: Handler::MayWait(diagnostics::hello::run_is_master),
        is_admin_only: false,
        counts_as_command: true,
        sequence: None,
        class: Class::Exempt,
        session_use: SessionUse::Plain,
        without_client: WithoutClient::Ends,
    },
    command!("isdbgrid", diagnostics::isdbgrid::run, "Whether this is a router, as a server by itself says."),
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("killAllSessions", sessions::kill_all_sessions::run, "Ends all sessions of users.")
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("killAllSessionsByPattern", sessions::kill_all_sessions_by_pattern::run, "Ends sessions that match.")
    },
    Command {
        session_use: SessionUse::InTransaction,
        without_client: WithoutClient::GoesOn,
        ..command!("killCursors", crud::kill_cursors::run, "Closes cursors.")
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!("killOp", diagnostics::kill_op::run, "Ends a running command.")
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("killSessions", sessions::kill_sessions::run, "Ends sessions and what runs in them.")
    },
    command!("listCollections", schema::list_collections::run, "Lists the collections of a database."),
    command!("listCommands", diagnostics::list_commands::run, "Lists the commands of the server."),
    Command { is_admin_only: true, ..command!("listDatabases", schema::list_databases::run, "Lists the databases.") },
    command!("listIndexes", schema::list_indexes::run, "Lists the indexes of a collection."),
    Command {
        is_admin_only: true,
        ..command!("lockInfo", diagnostics::lock_info::run, "Who holds the lock of fsync, and who waits for it.")
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!("logRotate", diagnostics::log_rotate::run, "Starts a new diagnostics log file.")
    },
    command!("ping", diagnostics::ping::run, "Answers."),
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!(
            "planCacheClear",
            crud::plan_cache_clear::run,
            "Forgets the plans chosen for a collection's queries."
        )
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("planCacheClearFilters", crud::plan_cache_clear_filters::run, "Removes index filters.")
    },
    command!("planCacheListFilters", crud::plan_cache_list_filters::run, "Lists the index filters of a collection."),
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!(
            "planCacheSetFilter",
            crud::plan_cache_set_filter::run,
            "Says which indexes may be used for a shape of query, whatever the hint; kept in memory, for the collection: it follows a rename, and ends with a drop or the process."
        )
    },
    command!(
        "plimsollPositions",
        schema::ring_positions::run,
        "Where the documents of a capped collection lie in its file."
    ),
    Command {
        is_admin_only: true,
        ..command!(
            "plimsollProfile",
            diagnostics::plimsoll_profile::run,
            "Samples for some seconds where the server computes."
        )
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!(
            "profile",
            diagnostics::profile::run,
            "Which operations on a database are recorded in its system.profile."
        )
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!(
            "reIndex",
            schema::re_index::run,
            "Builds all indexes of a collection anew, beside other clients' reads and writes; not on a member of a replica set."
        )
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("refreshSessions", sessions::refresh_sessions::run, "Keeps sessions alive.")
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!("renameCollection", schema::rename_collection::run, "Renames a collection.")
    },
    Command {
        is_admin_only: true,
        ..command!(
            "replSetFreeze",
            replication::repl_set_freeze::run,
            "Refused: the only member of a replica set is its primary, which cannot be frozen."
        )
    },
    Command {
        is_admin_only: true,
        ..command!("replSetGetConfig", replication::repl_set_get_config::run, "The configuration of the replica set.")
    },
    Command {
        is_admin_only: true,
        ..command!(
            "replSetGetStatus",
            replication::repl_set_get_status::run,
            "The replica set as its only member sees it."
        )
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!(
            "replSetInitiate",
            replication::repl_set_initiate::run,
            "Begins a replica set of which this server is the only member."
        )
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!(
            "replSetReconfig",
            replication::repl_set_reconfig::run,
            "Changes the member's address, priority and tags, and the settings."
        )
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!(
            "replSetResizeOplog",
            diagnostics::repl_set_resize_oplog::run,
            "For how many bytes and hours the oplog is kept."
        )
    },
    Command {
        is_admin_only: true,
        ..command!(
            "replSetStepDown",
            replication::repl_set_step_down::run,
            "Refused: nobody could take the place of the only member of a replica set."
        )
    },
    Command {
        is_admin_only: true,
        ..command!(
            "replSetSyncFrom",
            replication::repl_set_sync_from::run,
            "Refused: the only member of a replica set is its primary, which syncs from nobody."
        )
    },
    command!("serverStatus", diagnostics::server_status::run, "Figures of the server."),
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!(
            "setDefaultRWConcern",
            replication::set_default_rw_concern::run,
            "Sets the read and write concerns of commands that name none."
        )
    },
    Command {
        is_admin_only: true,
        ..command!(
            "setFeatureCompatibilityVersion",
            diagnostics::feature_compatibility::run,
            "Confirms the feature compatibility version, which is that of the server."
        )
    },
    Command {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..command!("setParameter", diagnostics::set_parameter::run, "Changes a server parameter.")
    },
    Command {
        name: "shutdown",
        aliases: &[],
        help: "Stops the server in an orderly way.",
        handler: Handler::MayWait(diagnostics::shutdown::run),
        is_admin_only: true,
        counts_as_command: true,
        sequence: None,
        class: Class::Exempt,
        session_use: SessionUse::Plain,
        without_client: WithoutClient::GoesOn,
    },
    Command {
        without_client: WithoutClient::GoesOn,
        ..command!("startSession", sessions::start_session::run, "Starts a session.")
    },
    Command { is_admin_only: true, ..command!("top", diagnostics::top::run, "Use of each collection.") },
    Command {
        class: Class::Write,
        sequence: Some("updates"),
        session_use: SessionUse::RetryableWrite,
        counts_as_command: false,
        without_client: WithoutClient::GoesOn,
        ..command!("update", crud::update::run, "Updates documents.")
    },
    command!("validate", schema::validate::run, "Checks a collection's records, indexes and pages."),
    command!(
        "validateDBMetadata",
        schema::validate_db_metadata::run,
        "What version 1 of the stable API does not have."
    ),
    Command {
        is_admin_only: true,
        ..command!(
            "waitForFailPoint",
            fail_points::wait_for_fail_point::run,
            "Waits until a fail point has struck so often; only with --enable-test-commands."
        )
    },
    command!("whatsmyuri", diagnostics::whatsmyuri::run, "The client's address."),
];

/// Finds a command.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    if let Ok(position) = COMMANDS.binary_search_by(|command| command.name.cmp(name)) {
        return COMMANDS.get(position);
    }
    COMMANDS.iter().find(|command| command.aliases.contains(&name))
}

/// Whether a command changes what is stored.
pub(crate) fn writes(command: &Command) -> bool {
    const DEFINITIONS: [&str; 14] = [
        "applyOps",
        "cloneCollectionAsCapped",
        "collMod",
        "commitTransaction",
        "compact",
        "convertToCapped",
        "create",
        "createIndexes",
        "drop",
        "dropDatabase",
        "dropIndexes",
        "reIndex",
        "renameCollection",
        "replSetResizeOplog",
    ];
    command.class == Class::Write || DEFINITIONS.contains(&command.name)
}

/// The command's place among all.
pub(crate) fn position(command: &Command) -> Option<usize> {
    COMMANDS.binary_search_by(|other| other.name.cmp(command.name)).ok()
}

/// All commands that we have.
pub(crate) fn all() -> &'static [Command] {
    COMMANDS
}

/// Every command, ours and those refused by name, for the compatibility page.
pub fn command_descriptions() -> Vec<CommandDescription> {
    let ours = COMMANDS.iter().map(|command| CommandDescription { name: command.name, help: Some(command.help) });
    let refused = KNOWN_ELSEWHERE.iter().chain(OF_SHARDED_CLUSTERS).map(|name| CommandDescription { name, help: None });
    let mut all: Vec<CommandDescription> = ours.chain(refused).collect();
    all.sort_by_key(|command| command.name);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_and_disjoint() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        for refused in [KNOWN_ELSEWHERE, OF_SHARDED_CLUSTERS] {
            assert!(refused.is_sorted_by(|a, b| a < b));
            assert!(refused.iter().all(|name| find(name).is_none()));
        }
        let goes_on = |name: &str| find(name).map(|command| command.without_client) == Some(WithoutClient::GoesOn);
        assert!(COMMANDS.iter().all(|command| command.class != Class::Write || goes_on(command.name)));
        assert_eq!(find("findandmodify").map(|command| command.name), Some("findAndModify"));
    }
}
