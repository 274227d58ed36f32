#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types)]
//! Loads a running server with `ping` and says what each costs it, and what idle connections cost.
//!
//! `cargo run --release -p server --example connection_load -- ADDRESS PID [BUSY] [SECONDS] [IDLE] [PAUSE_MS]`: opens IDLE
//! connections (default 0) that ping once, then BUSY connections (default 16) that ping with a pause of PAUSE_MS (default
//! none) in between, for SECONDS (default 3).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bson::rawdoc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pid] = &arguments[..2] else { panic!("ADDRESS PID [BUSY] [SECONDS] [IDLE] [PAUSE_MS]") };
    let number =
        |position: usize, default: usize| arguments.get(position).map_or(default, |text| text.parse().unwrap());
    let (busy, seconds, idle) = (number(2, 16), number(3, 3), number(4, 0));
    let pause = Duration::from_millis(number(5, 0) as u64);
    let request = ping();
    println!("start: {}", memory(pid));
    let opening = Instant::now();
    let mut idle_connections: Vec<TcpStream> = (0..idle).map(|_| connect(address)).collect();
    for connection in &mut idle_connections {
        exchange(connection, &request, &mut Vec::new());
    }
    println!("{idle} idle opened and used once in {:?}: {}", opening.elapsed(), memory(pid));
    std::thread::sleep(Duration::from_millis(200));
    println!("after 0.2 s: {}", memory(pid));
    if idle > 0 {
        std::thread::sleep(Duration::from_secs(7));
        println!("after 7 s: {}", memory(pid));
    }
    load(address, pid, busy, seconds as u64, pause, &request);
    println!("end: {}", memory(pid));
}

fn load(address: &str, pid: &str, busy: usize, seconds: u64, pause: Duration, request: &[u8]) {
    let (operations, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (operations, stop) = (&operations, &stop);
    std::thread::scope(|scope| {
        for _ in 0..busy {
            let mut connection = connect(address);
            scope.spawn(move || {
                let mut reply = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    exchange(&mut connection, request, &mut reply);
                    operations.fetch_add(1, Ordering::Relaxed);
                    if !pause.is_zero() {
                        std::thread::sleep(pause);
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let (cpu, count, start) = (cpu_seconds(pid), operations.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(Duration::from_secs(seconds));
        let done = (operations.load(Ordering::Relaxed) - count) as f64;
        let elapsed = start.elapsed().as_secs_f64();
        let used = cpu_seconds(pid);
        stop.store(true, Ordering::Relaxed);
        println!(
            "{busy} busy: {:.0} ops/s, server CPU {:.2} us/op (user {:.2}, system {:.2}): {}",
            done / elapsed,
            (used.0 + used.1 - cpu.0 - cpu.1) * 1e6 / done,
            (used.0 - cpu.0) * 1e6 / done,
            (used.1 - cpu.1) * 1e6 / done,
            memory(pid)
        );
    });
}

fn ping() -> Vec<u8> {
    let body = rawdoc! { "ping": 1, "$db": "admin" };
    let length = i32::try_from(21 + body.as_bytes().len()).unwrap();
    let mut frame = Vec::new();
    for field in [length, 1, 0, 2013, 0] {
        frame.extend_from_slice(&field.to_le_bytes());
    }
    frame.push(0);
    frame.extend_from_slice(body.as_bytes());
    frame
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn exchange(connection: &mut TcpStream, request: &[u8], reply: &mut Vec<u8>) {
    connection.write_all(request).unwrap();
    reply.resize(4096, 0);
    let mut received = connection.read(reply).unwrap();
    assert!(received >= 16, "the server closed the connection");
    let length = usize::try_from(i32::from_le_bytes(reply[..4].try_into().unwrap())).unwrap();
    while received < length {
        received += connection.read(&mut reply[received..]).unwrap();
    }
}

/// User and system CPU seconds of a process.
fn cpu_seconds(pid: &str) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() / 100.0, fields[12].parse::<f64>().unwrap() / 100.0)
}

/// Resident memory and threads of a process.
fn memory(pid: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    format!("RSS {}, {} threads", field("VmRSS:"), field("Threads:"))
}
