//! The sampler inside our own server, asked by the command `plimsollProfile`: for machines where perf is missing or refused,
//! and for servers elsewhere. Second by second, so that the samples keep their time.

use std::time::{Duration, Instant};

use bson::doc;
use mongodb::Client;

use super::stacks::Profile;
use super::{plain_name, read};
use crate::error::LabError;

/// As the server takes it.
const HERTZ_MAX: u32 = 1000;

/// Asks again and again until `length` has passed.
pub(super) async fn sample(client: &Client, length: Duration, hertz: u32) -> Result<Profile, LabError> {
    let database = client.database("admin");
    let command = doc! { "plimsollProfile": 1, "seconds": 1, "hertz": i64::from(hertz.min(HERTZ_MAX)) };
    let mut profile = Profile::new("samples");
    let until = Instant::now() + length;
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    while Instant::now() < until {
        let reply = tokio::select! {
            reply = async { database.run_command(command.clone()).await } => reply,
            _ = &mut interrupted => break,
        };
        let reply = reply.map_err(LabError::command("plimsollProfile"))?;
        let text =
            reply.get_str("folded").map_err(|error| LabError::WrongReply(format!("plimsollProfile: {error}")))?;
        // Of the second that is over now.
        add(&mut profile, text, monotonic_seconds() - 0.5)?;
    }
    Ok(profile)
}

fn add(profile: &mut Profile, folded: &str, at: f64) -> Result<(), LabError> {
    if folded.trim().is_empty() {
        return Ok(());
    }
    let sampled = read::parse(folded).map_err(LabError::WrongReply)?;
    for sample in &sampled.samples {
        let names: Vec<String> = sample.stack.iter().map(|frame| plain_name(sampled.name(*frame))).collect();
        profile.add(names.iter().map(String::as_str), sample.weight, Some(at));
    }
    Ok(())
}

fn monotonic_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_several_seconds_keep_their_times() {
        let mut profile = Profile::new("samples");
        add(&mut profile, "busy;main;work 7\nbusy;main 1\n", 1.5).unwrap();
        add(&mut profile, "", 2.5).unwrap();
        add(&mut profile, "busy;main;rest 2\n", 3.5).unwrap();
        assert_eq!((profile.total(), profile.span()), (10, Some((1.5, 3.5))));
        assert_eq!(profile.cut(&[(3.0, 4.0)]).folded(), "busy;main;rest 2\n");
        assert!(add(&mut profile, "no stack", 4.5).is_err());
    }
}
