//! Commands made of the fuzzer's choices, on a small store: no panic, a reply to each, and what is stored is consistent.
//!
//! Run by `cargo xtask fuzz commands`. The same commands, from seeds, are in
//! `crates/commands/tests/generated`, which every test run includes.
#![no_main]

#[path = "../../crates/commands/tests/generated/generator.rs"]
mod generator;
#[path = "../../crates/commands/tests/generated/small_server.rs"]
mod small_server;

use generator::{Choices, command};
use libfuzzer_sys::fuzz_target;
use small_server::SmallServer;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let mut server = SmallServer::new();
    while !choices.are_used_up() {
        server.send(&command(&mut choices));
    }
    server.check();
});
