//! Commands that read and write documents.

pub(crate) mod aggregate;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod distinct;
pub(crate) mod explain;
pub(crate) mod file_md5;
pub(crate) mod find;
pub(crate) mod find_and_modify;
pub(crate) mod get_more;
pub(crate) mod insert;
pub(crate) mod kill_cursors;
pub(crate) mod needed_privileges;
pub(crate) mod pipeline_host;
pub(crate) mod plan_cache_clear;
pub(crate) mod plan_cache_clear_filters;
pub(crate) mod plan_cache_list_filters;
pub(crate) mod plan_cache_set_filter;
pub(crate) mod query_arguments;
mod query_memory;
mod records_to_change;
mod shape_arguments;
mod spill_files;
pub(crate) mod update;
pub(crate) mod write_errors;
pub(crate) mod write_statements;
