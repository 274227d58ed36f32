//! The console over HTTP: who may ask, how much, as whom, and what becomes of a command whose browser goes away.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use platform::MemoryBudget;

use crate::client::HANGS_AFTER;
use crate::test_service::{TestServer, eventually};

/// What was answered.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// What a browser would send the next time.
    fn cookie(&self) -> String {
        self.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }
}

/// A browser, as far as it is needed.
struct Browser {
    address: SocketAddr,
    cookie: Option<String>,
}

impl Browser {
    fn new(server: &TestServer) -> Self {
        Self { address: server.console, cookie: None }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANGS_AFTER)).unwrap();
        stream
    }

    fn exchange(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        // Who is refused before it has sent everything may find the connection reset behind the answer.
        let read = stream.read_to_string(&mut text);
        assert!(read.is_ok() || !text.is_empty(), "{read:?}");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.replace("\r\n", "\n"), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Answer {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address))
    }

    fn request(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> String {
        let (host, length) = (self.address.to_string(), body.len().to_string());
        let own = [
            ("Host", host.as_str()),
            ("Connection", "close"),
            ("Content-Type", "application/json"),
            ("X-Plimsoll-Console", "1"),
            ("Content-Length", length.as_str()),
            ("Cookie", self.cookie.as_deref().unwrap_or_default()),
        ];
        let given = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        let mut text = format!("POST {path} HTTP/1.1\r\n");
        for (name, value) in own.iter().filter(|(name, _)| given(name).is_none()).chain(headers) {
            if !value.is_empty() {
                text += &format!("{name}: {value}\r\n");
            }
        }
        text + "\r\n" + body
    }

    fn post(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        self.exchange(&self.request(path, body, headers))
    }

    /// Begins a session where nobody has to log in.
    fn arrive(mut self) -> Self {
        let answer = self.post("/api/whoami", "{}", &[]);
        assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"needsLogin":false}"#));
        self.cookie = Some(answer.cookie());
        self
    }

    fn command(&self, command: &str) -> Answer {
        self.post("/api/command", &format!(r#"{{"db":"admin","command":{command}}}"#), &[])
    }
}

#[test]
fn every_answer_tells_the_browser_what_it_may_not() {
    let server = TestServer::start();
    let browser = Browser::new(&server);
    let page = browser.get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    for answer in [page, browser.get("/main.js"), browser.get("/nowhere"), browser.command(r#"{"ping":1}"#)] {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert!(answer.header("cache-control").is_some_and(|kept| kept.starts_with("no-")));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[test]
fn the_page_asks_no_other_host_for_anything() {
    let server = TestServer::start();
    let browser = Browser::new(&server);
    let page = browser.get("/").body;
    assert!(
        page.contains("<script type=\"module\" src=\"main.js\">")
            && !page.contains("style=")
            && !page.contains("onclick")
    );
    let mut files = vec!["main.js".to_owned(), "console.css".to_owned()];
    let mut looked_at = 0;
    while let Some(file) = files.get(looked_at).cloned() {
        looked_at += 1;
        let answer = browser.get(&format!("/{file}"));
        assert_eq!(answer.status, 200, "{file}");
        let foreign = answer.body.match_indices("://").filter(|(at, _)| !answer.body[..*at].ends_with("file"));
        let foreign: Vec<&str> = foreign.map(|(at, _)| answer.body[at..].split_whitespace().next().unwrap()).collect();
        assert!(foreign.iter().all(|address| address.starts_with("://www.w3.org/2000/svg")), "{file}: {foreign:?}");
        for imported in answer.body.split("from \"./").skip(1) {
            let name = imported.split('"').next().unwrap().to_owned();
            if !files.contains(&name) {
                files.push(name);
            }
        }
    }
    assert!(looked_at > 15, "{files:?}");
}

#[test]
fn other_pages_and_other_names_are_refused_before_anything_is_done() {
    let server = TestServer::start();
    let browser = Browser::new(&server).arrive();
    let ping = r#"{"db":"admin","command":{"ping":1}}"#;
    let status = |headers: &[(&str, &str)]| browser.post("/api/command", ping, headers).status;
    let own = format!("http://{}", browser.address);
    assert_eq!(status(&[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]), 200);
    assert_eq!(status(&[("Host", "DB.example.com:80")]), 200, "the operator's own name for it");
    assert_eq!(status(&[("Host", "localhost")]), 200);
    assert_eq!(status(&[("Host", "rebound.evil.example")]), 421);
    assert_eq!(status(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "null")]), 403);
    assert_eq!(status(&[("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(status(&[("X-Plimsoll-Console", "")]), 403);
    assert_eq!(status(&[("Content-Type", "text/plain")]), 415);
    let rebound = "GET / HTTP/1.1\r\nHost: rebound.evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(browser.exchange(rebound).status, 421);
    assert_eq!(browser.get("/api/command").status, 405);
}

#[test]
fn a_command_is_answered_in_either_format() {
    let server = TestServer::start();
    let browser = Browser::new(&server).arrive();
    let (first, second) = (browser.command(r#"{"count":1}"#), browser.command(r#"{"count":1}"#));
    assert_eq!((first.status, first.header("content-type")), (200, Some("application/json")));
    // The greeting was another client's.
    assert_eq!((first.body.as_str(), second.body.as_str()), (r#"{"ok":1.0,"n":1}"#, r#"{"ok":1.0,"n":2}"#));
    let exact = browser.post("/api/command", r#"{"db":"a","format":"canonical","command":{"count":1}}"#, &[]);
    assert_eq!(exact.body, r#"{"ok":{"$numberDouble":"1.0"},"n":{"$numberInt":"3"}}"#);
    let unknown = browser.command(r#"{"noSuch":1}"#);
    assert!(unknown.status == 200 && unknown.body.contains(r#""codeName":"CommandNotFound""#), "{}", unknown.body);
    let waits = r#"{"hello":1,"topologyVersion":{},"maxAwaitTimeMS":60000}"#;
    assert!(browser.command(waits).body.contains("helloOk"), "nothing is waited for here");
    assert_eq!(browser.command(r#"{"close":1}"#).status, 502);
    assert_eq!(browser.command(r#"{"panic":1}"#).status, 500);
    assert_eq!(browser.command(r#"{"ping":1}"#).status, 200);
}

#[test]
fn what_is_no_request_is_told_so() {
    let server = TestServer::start();
    let browser = Browser::new(&server).arrive();
    for body in ["", "{", "[]", "{}", r#"{"db":"a"}"#, r#"{"db":"a","command":1}"#, "\u{fffd}", &"[".repeat(5000)] {
        let answer = browser.post("/api/command", body, &[]);
        assert!(answer.status == 400 && answer.body.contains("error"), "{body}: {} {}", answer.status, answer.body);
    }
    assert_eq!(browser.post("/api/command", "{}", &[("Content-Length", "")]).status, 411);
    let chunked = [("Content-Length", ""), ("Transfer-Encoding", "chunked")];
    assert_eq!(browser.post("/api/command", "2\r\n{}\r\n0\r\n\r\n", &chunked).status, 411);
    assert_eq!(browser.post("/api/login", "{\"user\":1}", &[]).status, 400);
    let other_paths = [browser.post("/api/other", "{}", &[]).status, browser.post("/", "{}", &[]).status];
    assert!(other_paths.iter().all(|status| [404, 405].contains(status)), "{other_paths:?}");
}

#[test]
fn requests_are_bounded_in_size_and_by_the_memory_budget() {
    let server = TestServer::with_memory(100, Duration::from_secs(5), MemoryBudget::new(8 << 20));
    let browser = Browser::new(&server).arrive();
    let claims = |length: usize| browser.post("/api/command", "", &[("Content-Length", &length.to_string())]);
    assert_eq!(claims((32 << 20) + 1).status, 413);
    assert_eq!(claims(4 << 20).status, 503, "four times that does not fit into 8 MiB");
    let stranger = Browser::new(&server);
    server.seen.wants_login.store(true, Ordering::SeqCst);
    assert_eq!(stranger.post("/api/command", "", &[("Content-Length", "16385")]).status, 413);
    assert_eq!(stranger.post("/api/login", "", &[("Content-Length", "4097")]).status, 413);
    server.seen.wants_login.store(false, Ordering::SeqCst);
    assert_eq!(browser.command(r#"{"long":2000000}"#).status, 503, "nor does a reply of 2 MB as text");
    assert_eq!(browser.command(r#"{"long":100000}"#).status, 200);
}

#[test]
fn who_has_to_log_in_acts_as_himself_until_he_leaves() {
    let server = TestServer::start();
    server.seen.wants_login.store(true, Ordering::SeqCst);
    let mut browser = Browser::new(&server);
    let answer = browser.post("/api/whoami", "{}", &[]);
    assert_eq!((answer.body.as_str(), answer.header("set-cookie")), (r#"{"needsLogin":true}"#, None));
    // As nobody: what nobody may do is the dispatcher's to say.
    assert!(browser.command(r#"{"user":1}"#).body.contains("nobody"));
    let wrong = browser.post("/api/login", r#"{"user":"ada","password":"Secret"}"#, &[]);
    assert_eq!((wrong.status, wrong.body.as_str()), (401, r#"{"error":"Authentication failed."}"#));
    assert_eq!(wrong.header("set-cookie"), None);
    let login = browser.post("/api/login", r#"{"user":"ada","password":"secret","database":"admin"}"#, &[]);
    let kept = login.header("set-cookie").unwrap();
    assert!(kept.starts_with(&format!("plimsoll-console-{}=", browser.address.port())), "{kept}");
    assert!(kept.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{kept}");
    browser.cookie = Some(login.cookie());
    assert!(browser.command(r#"{"user":1}"#).body.contains("ada"));
    // A session that somebody has put into the browser before is not the one that has logged in.
    let again = browser.post("/api/login", r#"{"user":"ada","password":"secret"}"#, &[]);
    assert_ne!(again.cookie(), login.cookie());
    assert!(browser.command(r#"{"user":1}"#).body.contains("nobody"));
    browser.cookie = Some(again.cookie());
    let left = browser.post("/api/logout", "{}", &[]);
    assert!(left.header("set-cookie").unwrap().ends_with("Max-Age=0"));
    assert!(browser.command(r#"{"user":1}"#).body.contains("nobody"));
    let made_up = Browser { cookie: Some(format!("plimsoll-console-{}=00", browser.address.port())), ..browser };
    assert!(made_up.command(r#"{"user":1}"#).body.contains("nobody"));
}

#[test]
fn a_user_who_is_gone_is_logged_out() {
    let server = TestServer::start();
    server.seen.wants_login.store(true, Ordering::SeqCst);
    let mut browser = Browser::new(&server);
    browser.cookie = Some(browser.post("/api/login", r#"{"user":"ada","password":"secret"}"#, &[]).cookie());
    assert_eq!(browser.command(r#"{"dropUser":1}"#).status, 401);
    assert!(browser.command(r#"{"user":1}"#).body.contains("nobody"));
}

#[test]
fn commands_run_at_the_same_time_and_a_browser_that_leaves_ends_its_own() {
    let server = TestServer::start();
    let browser = Browser::new(&server).arrive();
    let body = r#"{"db":"admin","command":{"untilGone":1}}"#;
    let mut leaving = browser.connect();
    leaving.write_all(browser.request("/api/command", body, &[]).as_bytes()).unwrap();
    eventually("it runs", || server.seen.until_gone.lock().unwrap().len() == 1);
    assert_eq!(browser.command(r#"{"ping":1}"#).status, 200, "while the other one runs");
    assert!(server.seen.gone.lock().unwrap().is_empty());
    let began = Instant::now();
    drop(leaving);
    eventually("it is told", || !server.seen.gone.lock().unwrap().is_empty());
    eventually("it has ended", || server.handle.connections().active == 0);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(*server.seen.gone.lock().unwrap().first().unwrap(), server.seen.until_gone.lock().unwrap()[0]);
    assert_eq!(browser.command(r#"{"ping":1}"#).status, 200);
}

#[test]
fn no_more_commands_of_a_session_run_at_once() {
    let server = TestServer::start();
    let (browser, other) = (Browser::new(&server).arrive(), Browser::new(&server).arrive());
    let body = r#"{"db":"admin","command":{"runUntilReleased":1}}"#;
    let mut waiting: Vec<TcpStream> = (0..10).map(|_| browser.connect()).collect();
    for stream in &mut waiting {
        stream.write_all(browser.request("/api/command", body, &[]).as_bytes()).unwrap();
    }
    eventually("eight run", || server.handle.connections().active == 8);
    assert_eq!(other.command(r#"{"ping":1}"#).status, 200);
    assert_eq!(server.handle.connections().active, 8);
    server.seen.gate.release();
    eventually("the others follow", || {
        server.seen.gate.release();
        server.handle.connections().active == 0
    });
    for stream in &mut waiting {
        let mut answer = String::new();
        while !answer.contains("200 OK") {
            let mut bytes = [0; 64];
            let length = stream.read(&mut bytes).unwrap();
            answer += std::str::from_utf8(&bytes[..length]).unwrap();
        }
        server.seen.gate.release();
    }
}

#[test]
fn a_server_that_stops_takes_no_more_of_them() {
    let mut server = TestServer::start();
    let browser = Browser::new(&server).arrive();
    let mut waiting = browser.connect();
    let body = r#"{"db":"admin","command":{"runUntilReleased":1}}"#;
    waiting.write_all(browser.request("/api/command", body, &[]).as_bytes()).unwrap();
    eventually("it runs", || server.handle.connections().active == 1);
    server.handle.request_stop();
    eventually("it stops", || server.handle.is_stopping());
    server.seen.gate.release();
    server.stop();
    assert!(server.seen.stopped.load(Ordering::SeqCst));
}
