//! The sampler that needs nothing: from `/proc`, which threads of a process use the processors, and what the others wait
//! for. It knows threads and kernel functions, not functions of the program; it serves where perf is missing or refused.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::monotonic_seconds;
use super::record::What;
use super::sampler::Stop;
use super::stacks::Profile;
use crate::error::LabError;

/// Microseconds of a clock tick in `/proc`.
const TICK_MICROSECONDS: u64 = 10_000;

/// What `/proc/PID/task/TID/stat` says of a thread.
#[derive(Debug, Clone, PartialEq)]
struct Thread {
    name: String,
    state: char,
    user_ticks: u64,
    system_ticks: u64,
}

/// Looks at the threads `frequency` times a second until it is stopped or the process has ended.
pub(super) async fn sample(pid: u32, frequency: u32, what: What, mut stop: Stop) -> Result<Profile, LabError> {
    let tasks = Path::new("/proc").join(pid.to_string()).join("task");
    let interval = Duration::from_secs_f64(1.0 / f64::from(frequency.clamp(1, 100)));
    let mut profile = Profile::new("microseconds");
    let mut before: HashMap<String, Thread> = HashMap::new();
    loop {
        let entries = match fs::read_dir(&tasks) {
            Ok(entries) => entries,
            Err(_) if !before.is_empty() => return Ok(profile),
            Err(error) => return Err(LabError::Input { path: tasks, reason: error.to_string() }),
        };
        let at = monotonic_seconds();
        for entry in entries.flatten() {
            let Some(thread) = fs::read_to_string(entry.path().join("stat")).ok().and_then(|stat| parse(&stat)) else {
                continue;
            };
            let number = entry.file_name().to_string_lossy().into_owned();
            match what {
                What::OnCpu => {
                    if let Some(earlier) = before.get(&number) {
                        add_used(&mut profile, earlier, &thread, at);
                    }
                }
                What::OffCpu if thread.state != 'R' => {
                    let place = fs::read_to_string(entry.path().join("wchan")).unwrap_or_default();
                    let place = if place.is_empty() || place == "0" { "(waits)".to_owned() } else { place };
                    profile.add(
                        [thread.name.as_str(), place.as_str()].into_iter(),
                        interval.as_micros() as u64,
                        Some(at),
                    );
                }
                What::OffCpu => {}
            }
            before.insert(number, thread);
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = &mut stop => return Ok(profile),
        }
    }
}

/// What a thread used of the processors since it was looked at before.
fn add_used(profile: &mut Profile, earlier: &Thread, now: &Thread, at: f64) {
    for (place, before, after) in
        [("(program)", earlier.user_ticks, now.user_ticks), ("(kernel)", earlier.system_ticks, now.system_ticks)]
    {
        let used = after.saturating_sub(before) * TICK_MICROSECONDS;
        if used > 0 {
            profile.add([now.name.as_str(), place].into_iter(), used, Some(at));
        }
    }
}

fn parse(stat: &str) -> Option<Thread> {
    // The name in parentheses may hold spaces and parentheses.
    let (start, rest) = stat.rsplit_once(')')?;
    let name = start.split_once('(')?.1.replace(';', ":");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Thread {
        name,
        state: fields.first()?.chars().next()?,
        user_ticks: fields.get(11)?.parse().ok()?,
        system_ticks: fields.get(12)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sample_for(pid: u32, milliseconds: u64, what: What) -> Result<Profile, LabError> {
        sample(pid, 20, what, Box::pin(tokio::time::sleep(Duration::from_millis(milliseconds)))).await
    }

    #[tokio::test]
    async fn busy_and_waiting_threads_are_told_apart() {
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut idle = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        // On a crowded machine it takes a while until a process computes at all.
        let mut computing = sample_for(busy.id(), 500, What::OnCpu).await;
        for _ in 0..40 {
            if computing.as_ref().is_ok_and(|computing| computing.folded().contains("sh;(program)")) {
                break;
            }
            computing = sample_for(busy.id(), 500, What::OnCpu).await;
        }
        let waiting = sample_for(idle.id(), 200, What::OffCpu).await;
        for child in [&mut busy, &mut idle] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(computing.unwrap().folded().contains("sh;(program)"));
        assert!(waiting.unwrap().folded().starts_with("sleep;"));
        assert!(sample_for(u32::MAX >> 2, 0, What::OnCpu).await.is_err());
    }
}
