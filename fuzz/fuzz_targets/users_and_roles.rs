//! Documents of users and roles made of the fuzzer's choices, by commands and as a restore writes them: no panic, a reply to each.
//!
//! Run by `cargo xtask fuzz users_and_roles`. The same documents, from seeds, are in `crates/commands/tests/generated`, which every
//! test run includes.
#![no_main]

#[path = "../../crates/commands/tests/generated/access_documents.rs"]
mod access_documents;
#[path = "../../crates/commands/tests/generated/generator.rs"]
#[allow(dead_code)]
mod generator;
#[path = "../../crates/commands/tests/generated/small_server.rs"]
mod small_server;

use generator::Choices;
use libfuzzer_sys::fuzz_target;
use small_server::SmallServer;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let mut server = SmallServer::new();
    while !choices.are_used_up() {
        access_documents::try_one(&mut choices, &mut server);
    }
    server.check();
});
