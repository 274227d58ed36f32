//! `plimsoll health`: whether a server serves, as an exit code for whoever watches it (a container's health check, a service manager).
//!
//! Called by `main`. It asks `hello` and prints what is wrong: 0, reads and writes are served; 1, writes are not; 2, nobody
//! answers. It speaks the protocol by hand: one message and its reply need no driver, and no login. What is set aside, so that the rest is served, is
//! listed as far as `serverStatus` tells it without a login; it is no reason to start the server again.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use clap::Args;
use platform::{Clock, SystemClock};
use wire_protocol::{FrameHeader, HEADER_SIZE_BYTES, OpCode, Request};

const WRITES_STOPPED: u8 = 1;
const NO_ANSWER: u8 = 2;
const PORT: u16 = 27017;
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct HealthArguments {
    /// Its connection string, of one host
    #[arg(default_value = "mongodb://127.0.0.1:27017/?directConnection=true", value_name = "URI")]
    uri: String,
    /// How long it may take to answer
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Ask again until reads and writes are served, for so long: behind the start of a server
    #[arg(long, default_value_t = 0, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    wait: u64,
}

/// Asks, prints, and gives the exit code.
pub(crate) fn run(arguments: &HealthArguments) -> Result<ExitCode, String> {
    let (host, port) = address(&arguments.uri)?;
    let patience = Duration::from_secs(arguments.timeout);
    let clock = SystemClock::new();
    let (line, code) = loop {
        let found = health(&host, port, patience);
        if found.1 == 0 || clock.monotonic() >= Duration::from_secs(arguments.wait) {
            break found;
        }
        clock.sleep(ASKED_AGAIN_AFTER);
    };
    println!("{line}");
    let status = rawdoc! { "serverStatus": 1, "none": true, "plimsoll": true, "$db": "admin" };
    if code != NO_ANSWER
        && let Ok(status) = ask(&host, port, patience, &status)
    {
        set_aside(&status).iter().for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::from(code))
}

/// What is told, and the exit code.
fn health(host: &str, port: u16, patience: Duration) -> (String, u8) {
    match ask(host, port, patience, &hello()) {
        Ok(hello) => judge(&hello),
        Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            (format!("no answer within {} s", patience.as_secs()), NO_ANSWER)
        }
        Err(error) => (format!("no answer: {error}"), NO_ANSWER),
    }
}

fn judge(hello: &RawDocument) -> (String, u8) {
    if hello.get_bool("isWritablePrimary").unwrap_or(false) {
        return ("reads and writes are served".to_owned(), 0);
    }
    (hello.get_str("info").unwrap_or("the server is no primary").to_owned(), WRITES_STOPPED)
}

/// A line for each thing that is set aside.
fn set_aside(status: &RawDocument) -> Vec<String> {
    let reports = status.get_document("plimsoll").and_then(|section| section.get_array("setAside"));
    let line = |report: &RawDocument| {
        let text = |name| report.get_str(name).unwrap_or_default();
        let name = [text("ns"), text("index")].join(" ");
        format!("set aside: {} {}: {}; {}", text("what"), name.trim(), text("reason"), text("advice"))
    };
    let reports = reports.into_iter().flatten().filter_map(|report| report.ok()?.as_document());
    reports.map(line).collect()
}

/// Host and port of a connection string. What is said of logins does not matter: `hello` needs none.
fn address(uri: &str) -> Result<(String, u16), String> {
    let refuse = |reason: &str| Err(format!("'{uri}' cannot be asked: {reason}"));
    let Some(rest) = uri.strip_prefix("mongodb://") else {
        return refuse("a connection string begins with mongodb://, and mongodb+srv:// is not known here");
    };
    let (before_options, options) = rest.split_once('?').unwrap_or((rest, ""));
    let encrypted = |option: &str| matches!(option.split_once('='), Some(("tls" | "ssl", "true")));
    if options.split('&').any(encrypted) {
        return refuse("TLS is not spoken here");
    }
    let hosts = before_options.split('/').next().unwrap_or_default();
    let host = hosts.rsplit_once('@').map_or(hosts, |(_, host)| host);
    if host.contains(',') {
        return refuse("it names several hosts, and health is of one");
    }
    let bracketed = host.strip_prefix('[').and_then(|host| host.split_once(']'));
    let (name, port) = match bracketed {
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or(rest)),
        None => host.split_once(':').unwrap_or((host, "")),
    };
    if name.is_empty() || name.contains('%') {
        return refuse("it names no host; sockets of the file system are not known here");
    }
    match port {
        "" => Ok((name.to_owned(), PORT)),
        _ => port.parse().map(|port| (name.to_owned(), port)).or_else(|_| refuse("its port is no number")),
    }
}

/// The reply to a command.
fn ask(host: &str, port: u16, patience: Duration, command: &RawDocument) -> io::Result<RawDocumentBuf> {
    let clock = SystemClock::new();
    let left = || match patience.checked_sub(clock.monotonic()).filter(|left| !left.is_zero()) {
        Some(left) => Ok(left),
        None => Err(io::Error::from(io::ErrorKind::TimedOut)),
    };
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left()?) {
            Ok(stream) => return exchange(stream, command, &left),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn exchange(
    mut stream: TcpStream,
    command: &RawDocument,
    left: &dyn Fn() -> io::Result<Duration>,
) -> io::Result<RawDocumentBuf> {
    let malformed = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(&message(command))?;
    let mut header = [0; HEADER_SIZE_BYTES];
    read_whole(&mut stream, &mut header, left)?;
    let length = FrameHeader::parse(&header).map_err(|error| malformed(error.to_string()))?.message_length;
    let mut frame = header.to_vec();
    frame.resize(length, 0);
    read_whole(&mut stream, &mut frame[HEADER_SIZE_BYTES..], left)?;
    match Request::parse(&frame).map_err(|error| malformed(error.to_string()))? {
        Request::Msg(reply) => Ok(reply.body.to_owned()),
        Request::Query(_) => Err(malformed("the reply is no OP_MSG".to_owned())),
    }
}

/// Fills the buffer, in what is left of the time altogether.
fn read_whole(
    stream: &mut TcpStream,
    mut buffer: &mut [u8],
    left: &dyn Fn() -> io::Result<Duration>,
) -> io::Result<()> {
    while !buffer.is_empty() {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(buffer) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
            Ok(length) => buffer = &mut buffer[length..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn hello() -> RawDocumentBuf {
    rawdoc! { "hello": 1, "$db": "admin" }
}

fn message(body: &RawDocument) -> Vec<u8> {
    // No flags, then the kind of the section.
    let beginning = [0; 5];
    let message_length = HEADER_SIZE_BYTES + beginning.len() + body.as_bytes().len();
    let header = FrameHeader { message_length, request_id: 1, response_to: 0, op_code: OpCode::Msg };
    [&header.to_bytes(), &beginning[..], body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_write_is_not_healthy() {
        assert_eq!(judge(&rawdoc! { "isWritablePrimary": true }).1, 0);
        let stopped = rawdoc! { "isWritablePrimary": false, "info": "writes have stopped: the disk" };
        assert_eq!(judge(&stopped), ("writes have stopped: the disk".to_owned(), 1));
        assert_eq!(judge(&rawdoc! {}).1, 1);
    }

    #[test]
    fn what_is_set_aside_is_listed() {
        let report =
            rawdoc! { "what": "an index", "ns": "db.c", "index": "x", "reason": "page 7", "advice": "reIndex" };
        let status = rawdoc! { "plimsoll": { "setAside": [report] } };
        assert_eq!(set_aside(&status), ["set aside: an index db.c x: page 7; reIndex"]);
        assert!(set_aside(&rawdoc! {}).is_empty());
    }

    #[test]
    fn a_connection_string_gives_host_and_port() {
        let found = |uri: &str| address(uri).unwrap();
        let of = |host: &str, port: u16| (host.to_owned(), port);
        assert_eq!(found("mongodb://localhost"), of("localhost", 27017));
        assert_eq!(found("mongodb://ada:se%40cret@db.example:27018/app?tls=false&x=1"), of("db.example", 27018));
        assert_eq!(found("mongodb://127.0.0.1:1?directConnection=true"), of("127.0.0.1", 1));
        assert_eq!(found("mongodb://[::1]:27019/"), of("::1", 27019));
        assert_eq!(found("mongodb://[::1]"), of("::1", 27017));
    }

    #[test]
    fn what_cannot_be_asked_is_refused_by_name() {
        let refused = |uri: &str| address(uri).unwrap_err();
        assert!(refused("mongodb+srv://example").contains("mongodb+srv"));
        assert!(refused("mongodb://a/?tls=true").contains("TLS"));
        assert!(refused("mongodb://a/?x=1&ssl=true").contains("TLS"));
        assert!(refused("mongodb://a,b/").contains("several hosts"));
        assert!(refused("mongodb://%2Ftmp%2Fmongodb.sock").contains("sockets"));
        assert!(refused("mongodb://:1").contains("no host"));
        assert!(refused("mongodb://a:port").contains("port"));
    }

    #[test]
    fn a_reply_that_is_none_is_told() {
        for answer in
            [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9]]
        {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut stream, _) = listener.accept().unwrap();
                    stream.read_exact(&mut vec![0; message(&hello()).len()]).unwrap();
                    stream.write_all(answer).unwrap();
                });
                let error = ask("127.0.0.1", port, Duration::from_secs(60), &hello()).unwrap_err();
                assert!(matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData), "{error}");
            });
        }
    }
}
