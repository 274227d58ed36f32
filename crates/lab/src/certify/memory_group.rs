//! The part of G14 that is about containers: a server that is told nothing of its memory, in a control group with a limit.
//!
//! Called by `memory`. Relies on control groups (version 1 or 2) and on being allowed to make one, as root usually is.

use std::path::{Path, PathBuf};

use bson::{Document, doc};

use super::judgement::{Bound, Judgement};
use super::rig::{BUDGET, DATABASE, Rig};
use crate::error::LabError;
use crate::launch::{DEFAULT_COMMAND, LaunchedServer};
use crate::random::Random;
use crate::scenario::text;
use crate::server_counters::ServerStatus;
use crate::target::Target;

const LIMIT_BYTES: u64 = 512 << 20;
/// What is inserted, by the limit.
const LIMITS_OF_DATA: u64 = 2;
const DOCUMENT_BYTES: u64 = 1000;
const BATCH: u64 = 1000;
const LIMIT_MIB: f64 = (LIMIT_BYTES >> 20) as f64;

/// Where groups of each version are made, and the file that limits them.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A group of this test's own; goes when it is dropped.
struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Nothing where this user may make none.
    fn create(limit_bytes: u64) -> Option<Self> {
        HIERARCHIES.iter().find_map(|(hierarchy, file)| {
            let folder = Path::new(hierarchy).join(format!("plimsoll-certify-{}", std::process::id()));
            std::fs::create_dir(&folder).ok()?;
            let group = Self { folder };
            let limit = group.folder.join(file);
            // A folder that the kernel has put nothing into is none of its groups.
            (limit.exists() && std::fs::write(limit, limit_bytes.to_string()).is_ok()).then_some(group)
        })
    }

    /// A program for the shell, which joins the group and becomes what its arguments say.
    fn joining(&self) -> String {
        format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"\n", self.folder.display())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Refused while a process is in it; then there is nothing better to do.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Judges what a server makes of the limit of its group: the budget it gives itself, and what it takes.
pub(super) async fn judge(rig: &Rig, judgement: &mut Judgement) -> Result<(), LabError> {
    let Some(program) = rig.program() else {
        judgement.leaves_out("limits of a cgroup: that needs a server that the test may start");
        return Ok(());
    };
    let Some(group) = MemoryGroup::create(LIMIT_BYTES) else {
        judgement.leaves_out("limits of a cgroup: this user may make none");
        return Ok(());
    };
    let scratch = rig.scratch("server-in-group");
    std::fs::create_dir_all(&scratch).map_err(LabError::output(&scratch))?;
    let script = scratch.join("join");
    std::fs::write(&script, group.joining()).map_err(LabError::output(&script))?;
    let command = format!("sh {{data}}/../join {DEFAULT_COMMAND}");
    let server = LaunchedServer::start(Path::new(program), &command, &scratch, false).await?;
    let used = use_it(&server, judgement).await;
    server.stop()?;
    if let Err(error) = used {
        judgement.breaks(format!("in a cgroup of {LIMIT_MIB:.0} MiB: {error}"));
    }
    Ok(())
}

async fn use_it(server: &LaunchedServer, judgement: &mut Judgement) -> Result<(), LabError> {
    let target = Target::connect_to(&server.uri, Some(server.pid()), 1).await?;
    let status = ServerStatus::fetch(&target.observing_client).await?;
    let Some(budget) = status.numbers.get(BUDGET).copied() else {
        return Err(LabError::Unsupported(format!("serverStatus does not say {BUDGET}")));
    };
    judgement.figure("budget in a cgroup / its limit", budget / LIMIT_BYTES as f64, "x", Bound::Below(1.0));
    let documents = LIMIT_BYTES * LIMITS_OF_DATA / DOCUMENT_BYTES;
    let collection = target.client.database(DATABASE).collection::<Document>("in_group");
    for first in (0..documents).step_by(BATCH as usize) {
        let batch = (first..documents.min(first + BATCH)).map(document);
        collection.insert_many(batch).await.map_err(LabError::command("insert"))?;
    }
    let pipeline = [doc! { "$sort": { "state": 1 } }, doc! { "$count": "documents" }];
    let mut counted =
        collection.aggregate(pipeline).allow_disk_use(true).await.map_err(LabError::command("aggregate"))?;
    let is_counted = counted.advance().await.map_err(LabError::command("aggregate"))?;
    let count = if is_counted { counted.current().get_i32("documents").unwrap_or(0) } else { 0 };
    if count as u64 != documents {
        judgement.breaks(format!("of {documents} documents {count} are found in a cgroup of {LIMIT_MIB:.0} MiB"));
    }
    match target.process.and_then(|process| process.sample()) {
        Some(sample) => {
            let share = sample.resident_peak_bytes as f64 / budget;
            judgement.figure("highest resident memory in a cgroup / budget", share, "x", Bound::AtMost(1.1));
        }
        None => {
            judgement.breaks(format!("the server is gone that ran in a cgroup of {LIMIT_MIB:.0} MiB"));
        }
    }
    Ok(())
}

/// Of about a thousand bytes, in no order.
fn document(number: u64) -> Document {
    doc! { "_id": number as i64, "state": text(&mut Random::stream(1, number), 900, 900) }
}
