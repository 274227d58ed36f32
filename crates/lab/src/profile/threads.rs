//! The sampler that needs nothing: from `/proc`, which threads of a process use the processors, and what the others wait
//! for. It knows threads and kernel functions, not functions of the program; it serves where perf is missing or refused.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::record::What;
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

/// Looks at the threads `frequency` times a second for some time.
pub(crate) async fn sample(pid: u32, length: Duration, frequency: u32, what: What) -> Result<Profile, LabError> {
    let tasks = Path::new("/proc").join(pid.to_string()).join("task");
    let until = Instant::now() + length;
    let interval = Duration::from_secs_f64(1.0 / f64::from(frequency.clamp(1, 100)));
    let mut profile = Profile::new("microseconds");
    let mut before: HashMap<String, Thread> = HashMap::new();
    loop {
        let entries =
            fs::read_dir(&tasks).map_err(|error| LabError::Input { path: tasks.clone(), reason: error.to_string() })?;
        let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let at = at.tv_sec as f64 + at.tv_nsec as f64 / 1e9;
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
        if Instant::now() >= until {
            return Ok(profile);
        }
        tokio::time::sleep(interval).await;
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

    #[tokio::test]
    async fn busy_and_waiting_threads_are_told_apart() {
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut idle = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        // On a crowded machine it takes a while until a process computes at all.
        let mut computing = sample(busy.id(), Duration::from_millis(500), 20, What::OnCpu).await;
        for _ in 0..40 {
            if computing.as_ref().is_ok_and(|computing| computing.folded().contains("sh;(program)")) {
                break;
            }
            computing = sample(busy.id(), Duration::from_millis(500), 20, What::OnCpu).await;
        }
        let waiting = sample(idle.id(), Duration::from_millis(200), 20, What::OffCpu).await;
        for child in [&mut busy, &mut idle] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(computing.unwrap().folded().contains("sh;(program)"));
        assert!(waiting.unwrap().folded().starts_with("sleep;"));
        assert!(sample(u32::MAX >> 2, Duration::ZERO, 1, What::OnCpu).await.is_err());
    }
}
