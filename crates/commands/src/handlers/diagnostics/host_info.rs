//! `hostInfo`: the machine the server runs on.

use bson::DateTime;
use platform::Clock;
use rustix::system::{sysinfo, uname};

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::context::ServerFacts;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.facts, &*context.server.clock, arguments, reply),
    Declaration {
        aliases: &["hostinfo"],
        ..Declaration::new(
            "hostInfo",
            "The machine the server runs on.",
            Needs::Nothing,
            &[on_cluster(Action::HostInfo)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    facts: &ServerFacts,
    clock: &dyn Clock,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    let memory = sysinfo();
    let memory_bytes = memory.totalram as u64 * u64::from(memory.mem_unit);
    let cores = platform::processors() as i32;
    let machine = uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    reply.document("system", |system| {
        system.date("currentTime", DateTime::from_millis(clock.wall_millis()));
        system.string("hostname", &facts.host_name);
        system.int32("cpuAddrSize", usize::BITS as i32);
        system.size("memSizeMB", memory_bytes >> 20);
        system.size("memLimitMB", facts.memory_bytes >> 20);
        system.int32("numCores", cores);
        system.int32("numCoresAvailableToProcess", cores);
        system.string("cpuArch", &text(machine.machine()));
    });
    reply.document("os", |os| {
        os.string("type", &text(machine.sysname()));
        os.string("name", &text(machine.sysname()));
        os.string("version", &text(machine.release()));
    });
    reply.document("extra", |extra| {
        extra.string("versionString", &text(machine.version()));
        extra.string("kernelVersion", &text(machine.release()));
        let page_bytes = rustix::param::page_size() as u64;
        extra.size("pageSize", page_bytes);
        extra.size("numPages", memory_bytes / page_bytes.max(1));
        if let Some(files) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            extra.size("maxOpenFiles", files);
        }
    });
    Ok(())
}
