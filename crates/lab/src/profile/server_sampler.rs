//! The sampler inside our own server, asked by the command `plimsollProfile`: for machines where perf is missing or refused,
//! and for servers elsewhere. Second by second, so that the samples keep their time.

use bson::doc;
use mongodb::Client;

use super::sampler::Stop;
use super::stacks::Profile;
use super::{monotonic_seconds, plain_name, read};
use crate::error::LabError;

/// As the server takes it.
const HERTZ_MAX: u32 = 1000;

/// Folded stacks, and when they were sampled.
pub(super) struct Second {
    folded: String,
    at: f64,
}

/// Asks for one second.
pub(super) async fn second(client: &Client, hertz: u32) -> Result<Second, LabError> {
    let command = doc! { "plimsollProfile": 1, "seconds": 1, "hertz": i64::from(hertz.min(HERTZ_MAX)) };
    let reply = client.database("admin").run_command(command).await.map_err(LabError::command("plimsollProfile"))?;
    let folded = reply.get_str("folded").map_err(|error| LabError::WrongReply(format!("plimsollProfile: {error}")))?;
    // Of the second that is over now.
    Ok(Second { folded: folded.to_owned(), at: monotonic_seconds() - 0.5 })
}

/// Asks again and again. A server that dies meanwhile leaves what it had sampled.
pub(super) async fn sample(client: Client, hertz: u32, first: Second, mut stop: Stop) -> Result<Profile, LabError> {
    let mut profile = Profile::new("samples");
    let mut latest = first;
    loop {
        add(&mut profile, &latest.folded, latest.at)?;
        latest = tokio::select! {
            second = second(&client, hertz) => match second {
                Ok(second) => second,
                Err(LabError::Command { .. }) => return Ok(profile),
                Err(error) => return Err(error),
            },
            () = &mut stop => return Ok(profile),
        };
    }
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
