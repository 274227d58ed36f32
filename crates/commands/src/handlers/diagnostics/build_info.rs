//! `buildInfo`: the version of MongoDB that we are like, and our own.

use std::env::consts;

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Authentication, Declaration, Needs};
use crate::request::error::Result;
use crate::state::context::{BuildFacts, ServerFacts};
use crate::state::versions::{DOCUMENT_BYTES_MAX, VERSION_ARRAY};

pub(crate) use crate::state::versions::VERSION as COMPATIBLE_VERSION;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.facts, arguments, reply),
    Declaration {
        aliases: &["buildinfo"],
        authentication: Authentication::NotNeeded,
        ..Declaration::new("buildInfo", "Version and build of the server.", Needs::Nothing, &[])
    },
);

/// Runs the command.
pub(crate) fn run(facts: &ServerFacts, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    only_generic(&mut arguments)?;
    write(&facts.build, reply);
    Ok(())
}

/// Writes what it says.
pub(crate) fn write(build: &BuildFacts, reply: &mut DocumentWriter<'_>) {
    reply.string("version", COMPATIBLE_VERSION);
    reply.string("gitVersion", build.git_version);
    reply.array("modules", |_| {});
    reply.string("allocator", "system");
    reply.string("javascriptEngine", "none");
    reply.string("sysInfo", "deprecated");
    reply.array("versionArray", |parts| VERSION_ARRAY.iter().for_each(|part| parts.push_int32(*part)));
    reply.document("openssl", |openssl| {
        openssl.string("running", "disabled");
        openssl.string("compiled", "disabled");
    });
    reply.document("buildEnvironment", |environment| {
        environment.string("distarch", consts::ARCH);
        environment.string("target_arch", consts::ARCH);
        environment.string("target_os", consts::OS);
    });
    reply.int32("bits", usize::BITS as i32);
    reply.boolean("debug", cfg!(debug_assertions));
    reply.int32("maxBsonObjectSize", DOCUMENT_BYTES_MAX);
    reply.array("storageEngines", |engines| engines.push_string("plimsoll"));
    reply.document("plimsoll", |ours| ours.string("version", build.version));
}
