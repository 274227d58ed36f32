//! Profiles of every form give the same table; files of other kinds are refused with what they are.

use super::*;
use record::Recording;
use table::shares;

/// FlameGraph's own form: the root at the bottom, titles with grouped numbers, positions rounded to 0.1.
const PERL_GRAPH: &str = r#"<?xml version="1.0" standalone="no"?>
<svg version="1.1" width="1200" height="102">
<title>Flame Graph</title>
<g ><title>all (1,000 samples, 100%)</title><rect x="10.0" y="70" width="1180.0" height="15.0" fill="red" /></g>
<g ><title>main (1,000 samples, 100.00%)</title><rect x="10.0" y="54" width="1180.0" height="15.0" /></g>
<g ><title>std::map&lt;int&gt;::find (100 samples, 10.00%)</title><rect x="10.0" y="38" width="118.0" height="15.0" /></g>
<g ><title>write (700 samples, 70.00%)</title><rect x="128.0" y="38" width="826.0" height="15.0" /></g>
<g ><title>copy (234 samples, 23.40%)</title><rect x="128.0" y="22" width="276.1" height="15.0" /></g>
<g ><title>copy (50 samples, 5.00%)</title><rect x="10.0" y="22" width="59.0" height="15.0" /></g>
</svg>"#;

#[test]
fn a_flame_graph_of_the_perl_script_is_unfolded() {
    let profile = read::parse(PERL_GRAPH).unwrap();
    assert_eq!(profile.total(), 1000);
    let shares = shares(&profile);
    let row = |name: &str| shares.get(name).map(|row| (row.own, row.total, row.largest)).unwrap();
    assert_eq!(row("copy"), (284, 284, 234));
    assert_eq!(row("write"), (466, 700, 700));
    assert_eq!(row("std::map<int>::find"), (50, 100, 100));
    assert_eq!(row("main"), (200, 1000, 1000));
    assert!((shares["copy"].largest_percent - 23.4).abs() < 1e-9);
}

#[test]
fn inferno_s_graphs_give_back_what_was_drawn() {
    let folded = "main;a;b 30\nmain;a;c 20\nmain;a;b;a 10\nmain;d 40\nother 7\n";
    let profile = read::parse(folded).unwrap();
    let drawn = flame::draw(&profile, "t", "s").unwrap();
    let again = read::parse(&drawn).unwrap();
    assert_eq!(again.folded(), profile.folded());
    // Recursion counts once: 60 of 107 have `a` somewhere.
    assert_eq!(shares(&again)["a"].total, 60);
}

const SCRIPT: &str = "\
server 7/8 100.050000: cpu-clock:
\t    aa10 leaf+0x3 (/bin/server)
\t    bb20 main+0x5 (/bin/server)

server 7/9 100.950000: cpu-clock:
\t    aa10 leaf+0x4 (/bin/server)
\t    bb20 main+0x5 (/bin/server)

server 7/8 103.000000: cpu-clock:
\t    cc30 [unknown] (/bin/server)
";

#[test]
fn perf_script_is_read_with_its_times() {
    let profile = read::parse(SCRIPT).unwrap();
    assert_eq!(profile.folded(), "server;[unknown] 1\nserver;main;leaf 2\n");
    assert_eq!(profile.cut(&[(100.0, 100.5), (102.0, 104.0)]).total(), 2);
    let again = read::parse(&profile.timed()).unwrap();
    assert_eq!((again.folded(), again.span()), (profile.folded(), Some((100.0, 103.0))));
}

#[test]
fn switched_out_threads_weigh_the_time_until_they_run_again() {
    let script = "\
server 7/8 1.000000: context-switches:
\t    aa10 lock+0x3 (/bin/server)

server 7/8 1.000010: PERF_RECORD_SWITCH OUT
server 7/9 1.200000: PERF_RECORD_SWITCH IN
server 7/8 1.500000: PERF_RECORD_SWITCH IN
";
    let profile = read::parse(script).unwrap();
    assert_eq!((profile.folded().as_str(), profile.unit.as_str()), ("server;lock 500000\n", "microseconds of waiting"));
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    for (text, part) in [
        ("hello world", "neither of folded stacks"),
        ("<svg><title>x</title></svg>", "not the SVG of a flame graph"),
        ("", "no samples"),
        ("{\"a\": 1}", "neither of folded stacks"),
    ] {
        let message = read::parse(text).unwrap_err();
        assert!(message.contains(part), "{text}: {message}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"PERFILE2....").unwrap();
    assert!(read::read(file.path()).unwrap_err().to_string().contains("perf script"));
    assert!(read::read(Path::new("not-there.svg")).unwrap_err().to_string().contains("not-there.svg"));
}

#[test]
fn tables_of_two_profiles_show_a_function_of_either() {
    let old = read::parse("main;fast 99\nmain;copy 1\n").unwrap();
    let new = read::parse("main;fast 60\nmain;copy 40\n").unwrap();
    let table = table::side_by_side(&[("old".to_owned(), old), ("new".to_owned(), new)], SortBy::Own, 1);
    let row = table.lines().find(|line| line.ends_with("  fast")).unwrap();
    assert!(row.contains("99.00") && row.contains("60.00"), "{table}");
}

fn sampling_of(pid: Option<u32>, directory: &Path) -> Sampling {
    let file = directory.join("perf.data");
    Sampling { pid, client: None, frequency: 199, unwinding: Unwinding::Fp, what: What::OnCpu, file }
}

#[tokio::test]
async fn what_cannot_be_sampled_by_any_means_says_why() {
    let sampling = sampling_of(None, Path::new("never-made"));
    let error = Sampler::start(&sampling, None).await.err().unwrap().to_string();
    assert!(error.contains("does not run on this machine") && error.contains("--target URI"), "{error}");
    let off_cpu = Sampling { what: What::OffCpu, ..sampling };
    let error = Sampler::start(&off_cpu, Some(Means::Server)).await.err().unwrap().to_string();
    assert!(error.contains("only where it computes"), "{error}");
}

#[tokio::test]
async fn a_process_is_sampled_without_perf() {
    let sampling = sampling_of(Some(std::process::id()), Path::new("never-made"));
    let sampler = Sampler::start(&Sampling { what: What::OffCpu, ..sampling }, Some(Means::Threads)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let profile = sampler.finish().await.unwrap();
    assert!(profile.total() > 0 && profile.span().is_some());
}

/// The program itself, computing in a function with a name that can be found.
#[test]
fn perf_samples_a_process_of_this_machine() {
    if !record::is_available() {
        eprintln!("SKIPPED: there is no perf on this machine");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let sampling = sampling_of(Some(busy.id()), directory.path());
    let recording = Recording::start(&sampling, busy.id());
    // On a crowded machine it takes a while until a process has computed for half a second.
    let used =
        || crate::server_process::ServerProcess { pid: busy.id() }.sample().map_or(0, |used| used.cpu_microseconds);
    let (started, before) = (std::time::Instant::now(), used());
    while used() - before < 500_000 && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let profile = recording.and_then(Recording::finish);
    busy.kill().unwrap();
    busy.wait().unwrap();
    match profile {
        Ok(profile) => {
            assert!(profile.total() > 20, "{} samples", profile.total());
            assert!(profile.folded().starts_with("sh;"), "{}", profile.folded());
            let (first, last) = profile.span().unwrap();
            // How soon it begins after it was asked to is the machine's business.
            assert!((0.01..61.0).contains(&(last - first)), "{first} to {last}");
        }
        Err(error) => eprintln!("SKIPPED: perf is not allowed to sample here: {error}"),
    }
    let error = Recording::start(&sampling, u32::MAX >> 2).err();
    assert!(error.is_some(), "a process that is not there was sampled");
}
