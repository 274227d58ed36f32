//! Commands made up at random: none ends the server, each has a reply, and what is stored afterwards is consistent, also for the next life.
//!
//! GENERATED_CASES says how many servers are tried (default 30), GENERATED_SEED from which seed on. The same commands are tried for as long as one likes, guided by
//! what code they reach, with `cargo fuzz run commands` in `fuzz/`.

#![allow(clippy::unwrap_used)]

mod access_documents;
mod generator;
mod small_server;

use generator::{Choices, command};
use platform::{Random, SeededRandom};
use small_server::SmallServer;

const BYTES: usize = 8 << 10;
/// A start looks at all of an oplog segment, which takes seconds in a build without optimisation.
const RESTARTS_ONE_IN: u64 = 20;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs for each seed with choices made of it and a server of its own.
fn with_each_seed(mut run: impl FnMut(u64, Choices<'_>, SmallServer)) {
    let first = setting("GENERATED_SEED", 0);
    for seed in first..first + setting("GENERATED_CASES", 30) {
        let random = SeededRandom::new(seed);
        let bytes: Vec<u8> = (0..BYTES).map(|_| random.below(256) as u8).collect();
        run(seed, Choices::new(&bytes), SmallServer::new());
    }
}

#[test]
fn made_up_commands_do_no_harm() {
    with_each_seed(|seed, mut choices, mut server| {
        while !choices.are_used_up() {
            let command = command(&mut choices);
            // Told when the test fails.
            println!("seed {seed}: {command}");
            server.send(&command);
        }
        server.check();
        if seed % RESTARTS_ONE_IN == 0 {
            server.restarted().check();
        }
    });
}

#[test]
fn made_up_users_and_roles_do_no_harm() {
    with_each_seed(|seed, mut choices, mut server| {
        println!("seed {seed}:");
        while !choices.are_used_up() {
            access_documents::try_one(&mut choices, &mut server);
        }
        server.check();
    });
}
