#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types)]
//! Measures what one request costs the server under three execution models, with a service that does `--spin`
//! microseconds of work: `inline` (the command runs on the async worker), `hop` (each command is handed to a blocking
//! pool) and `thread` (a thread per connection with blocking reads and writes). The decision drawn from it is
//! `docs/decisions/0002-execution-model.md`.
//!
//! `cargo run --release -p server --example execution_models` runs all; the server is a process of its own, so that
//! its CPU time is known from /proc.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

const REQUEST_BYTES: usize = 100;
const REPLY_BYTES: usize = 250;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("server") => serve(&arguments[1], arguments[2].parse().unwrap()),
        _ => {
            println!("model   conns spin_us    ops/s  server_us/op  user_us  system_us  client_us/op");
            for spin in [0, 5] {
                for connections in [1, 16, 64] {
                    for model in ["inline", "hop", "thread"] {
                        measure(model, connections, spin);
                    }
                }
            }
        }
    }
}

fn spin(micros: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(micros) {
        black_box(0);
    }
}

fn serve(model: &str, spin_micros: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    if model == "thread" {
        for stream in listener.incoming() {
            std::thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn(move || serve_thread(stream.unwrap(), spin_micros))
                .unwrap();
        }
    }
    let inline = model == "inline";
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve_task(stream, spin_micros, inline));
        }
    });
}

fn serve_thread(mut stream: TcpStream, spin_micros: u64) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0; 4096];
    let reply = [7; REPLY_BYTES];
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) | Err(_) => return,
            Ok(read) => filled += read,
        }
        if filled >= REQUEST_BYTES {
            spin(spin_micros);
            stream.write_all(&reply).unwrap();
            filled = 0;
        }
    }
}

async fn serve_task(mut stream: tokio::net::TcpStream, spin_micros: u64, inline: bool) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0; 4096];
    let reply = [7; REPLY_BYTES];
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..]).await {
            Ok(0) | Err(_) => return,
            Ok(read) => filled += read,
        }
        if filled >= REQUEST_BYTES {
            if inline {
                spin(spin_micros);
            } else {
                tokio::task::spawn_blocking(move || spin(spin_micros)).await.unwrap();
            }
            stream.write_all(&reply).await.unwrap();
            filled = 0;
        }
    }
}

/// User and system CPU seconds of a process.
fn cpu_seconds(pid: &str) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() / 100.0, fields[12].parse::<f64>().unwrap() / 100.0)
}

fn measure(model: &str, connections: usize, spin_micros: u64) {
    let program = std::env::current_exe().unwrap();
    let mut server =
        Command::new(program).args(["server", model, &spin_micros.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    let stdout = server.stdout.as_mut().unwrap();
    let mut byte = [0];
    while stdout.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        port.push(char::from(byte[0]));
    }
    let address = format!("127.0.0.1:{port}");
    let (operations, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (operations, stop) = (&operations, &stop);
    std::thread::scope(|scope| {
        for _ in 0..connections {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.set_nodelay(true).unwrap();
            scope.spawn(move || {
                let mut reply = [0; REPLY_BYTES];
                while !stop.load(Ordering::Relaxed) {
                    stream.write_all(&[1; REQUEST_BYTES]).unwrap();
                    stream.read_exact(&mut reply).unwrap();
                    operations.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let pid = server.id().to_string();
        let (before, ops_before, client_before) =
            (cpu_seconds(&pid), operations.load(Ordering::Relaxed), cpu_seconds("self"));
        let start = Instant::now();
        std::thread::sleep(Duration::from_secs(3));
        let (after, client_after) = (cpu_seconds(&pid), cpu_seconds("self"));
        let ops = (operations.load(Ordering::Relaxed) - ops_before) as f64;
        let seconds = start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let (user, system) = ((after.0 - before.0) * 1e6 / ops, (after.1 - before.1) * 1e6 / ops);
        let client = (client_after.0 + client_after.1 - client_before.0 - client_before.1) * 1e6 / ops;
        println!(
            "{model:7} {connections:5} {spin_micros:7} {:8.0} {:13.2} {user:8.2} {system:10.2} {client:13.2}",
            ops / seconds,
            user + system
        );
    });
    server.kill().unwrap();
    server.wait().unwrap();
}
