//! The same build compared with itself is noise; a slowdown is found, with the function and the counter behind it.

use super::*;
use crate::latency::LatencySummary;
use crate::random::Random;
use crate::result::{FORMAT, InstructionCount, PhaseResult, SecondLatencies};
use crate::throughput::Second;

fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.fraction()).sum::<f64>() - 6.0
}

/// A run of half a minute as a shared machine gives it: its level is off by some percent, its seconds wander and stall.
fn run(random: &mut Random, slowdown: f64) -> RunResult {
    let level = 5000.0 / slowdown * (0.05 * normal(random)).exp();
    let mut drift = 0.0;
    let rates: Vec<f64> = (0..30)
        .map(|_| {
            drift = 0.8 * drift + 0.05 * normal(random);
            let stall = if random.below(40) == 0 { 0.3 } else { 1.0 };
            level * (1.0 + drift).max(0.1) * stall
        })
        .collect();
    let mean = rates.iter().sum::<f64>() / 30.0;
    let p50 = 1e6 * 16.0 / mean * (0.06 * normal(random)).exp();
    let tail = (0.2 * normal(random)).exp();
    let latency = LatencySummary {
        count: 150_000,
        p50,
        p99: p50 * 4.0 * tail,
        p99_9: p50 * 9.0 * tail * tail,
        ..LatencySummary::default()
    };
    let seconds = rates.iter().enumerate().map(|(second, rate)| Second {
        second: second as u32,
        length_seconds: 1.0,
        count: *rate,
        per_second: *rate,
    });
    let phase = PhaseResult {
        name: "run".to_owned(),
        clients: 1,
        complete: true,
        throughput_unit: "operations".to_owned(),
        duration_seconds: 30.0,
        operations: (mean * 30.0) as u64,
        operations_per_second: mean,
        seconds: seconds.collect(),
        second_latencies: SecondLatencies {
            p50: rates.iter().map(|rate| 16e6 / rate).collect(),
            p99: rates.iter().map(|rate| 64e6 / rate).collect(),
            ..SecondLatencies::default()
        },
        latency_microseconds: latency,
        longest_gap: crate::throughput::Gap { start: 1.0, seconds: 0.05 + 0.4 * random.fraction() },
        server_cpu_seconds: Some(20.0),
        server_cpu_microseconds_per_unit: Some(130.0 * slowdown * (0.04 * normal(random)).exp()),
        server_resident_bytes_maximum: Some((5e8 * (0.03 * normal(random)).exp()) as u64),
        ..PhaseResult::default()
    };
    RunResult { format: FORMAT, scenario: "s".to_owned(), complete: true, phases: vec![phase], ..RunResult::default() }
}

fn side(named: &str, runs: Vec<RunResult>) -> Side {
    Side { named: named.to_owned(), runs, profile: None }
}

fn verdicts(runs: usize, slowdown: f64, comparisons: usize) -> Vec<Verdict> {
    let mut random = Random::new(99);
    let mut of = |slowdown| (0..runs).map(|_| run(&mut random, slowdown)).collect::<Vec<_>>();
    let pairs: Vec<_> = (0..comparisons).map(|_| (of(1.0), of(slowdown))).collect();
    pairs.into_iter().map(|(a, b)| compare(&side("a", a), &side("b", b)).unwrap().verdict).collect()
}

#[test]
fn the_same_build_is_noise_nineteen_times_of_twenty() {
    for runs in [1, 3, 5] {
        let verdicts = verdicts(runs, 1.0, 60);
        let false_verdicts = verdicts.iter().filter(|verdict| **verdict != Verdict::Noise).count();
        assert!(false_verdicts <= 3, "{false_verdicts} of 60 with {runs} runs a side");
    }
}

#[test]
fn large_slowdowns_are_found_by_seconds() {
    let found =
        |runs, slowdown| verdicts(runs, slowdown, 40).iter().filter(|verdict| **verdict == Verdict::Worse).count();
    assert!(found(1, 1.6) >= 38, "{} of 40 by one run a side", found(1, 1.6));
    assert!(found(5, 1.25) >= 36, "{} of 40 by five runs a side", found(5, 1.25));
    assert!(found(10, 1.15) >= 38, "{} of 40 by ten runs a side", found(10, 1.15));
}

fn counted(random: &mut Random, extra: f64) -> RunResult {
    let mut run = run(random, 1.0);
    let mut functions = std::collections::BTreeMap::new();
    for (name, each) in [("leaf::insert", 4000.0), ("encode", 3000.0), ("write_frame", 3000.0)] {
        let grown = if name == "encode" { each + extra } else { each };
        functions.insert(name.to_owned(), (grown * 1000.0 * (1.0 + 0.003 * normal(random))) as u64);
    }
    let instructions = functions.values().sum();
    run.instructions =
        Some(InstructionCount { counted_by: "callgrind".to_owned(), instructions, operations: 1000, functions });
    run.phases.iter_mut().for_each(|phase| phase.preparation = true);
    run
}

#[test]
fn five_percent_in_one_function_is_found_by_instructions() {
    let mut random = Random::new(5);
    let mut found = 0;
    let mut false_verdicts = 0;
    for _ in 0..100 {
        let a = side("a", vec![counted(&mut random, 0.0)]);
        let slow = compare(&a, &side("b", vec![counted(&mut random, 500.0)])).unwrap();
        found += usize::from(slow.verdict == Verdict::Worse && slow.sentence.contains("`encode`"));
        let same = compare(&a, &side("b", vec![counted(&mut random, 0.0)])).unwrap();
        false_verdicts += usize::from(same.verdict != Verdict::Noise);
    }
    assert!(found >= 95 && false_verdicts <= 5, "{found} found, {false_verdicts} false, of 100");
}

#[test]
fn the_sentence_names_function_and_counter() {
    let mut random = Random::new(3);
    let (mut a, mut b) = (run(&mut random, 1.0), run(&mut random, 3.0));
    a.phases[0].counters.insert("metrics.plain".to_owned(), 150_000.0);
    b.phases[0].counters.insert("metrics.plain".to_owned(), 50_000.0);
    b.phases[0].counters.insert("storage.keysMaterialised".to_owned(), 9e7);
    b.phases[0].server_cpu_microseconds_per_unit = Some(390.0);
    let profile = |folded| Some(crate::profile::read::parse(folded).unwrap());
    let mut a = side("old", vec![a]);
    let mut b = side("new", vec![b]);
    a.profile = profile("server;update 90\nserver;write_page 10\n");
    // The time itself is spent in what the guilty function calls.
    b.profile = profile(
        "server;update 30\nserver;write_page 4\nserver;write_page;rebuild_keys 3\nserver;write_page;rebuild_keys;copy 33\n\
         server;write_page;rebuild_keys;copy;memmove 30\n",
    );
    let comparison = compare(&a, &b).unwrap();
    assert_eq!(comparison.verdict, Verdict::Worse);
    for part in [
        "B is worse",
        "lies in `rebuild_keys` and what it calls",
        "By itself `copy` changed most",
        "`storage.keysMaterialised`",
    ] {
        assert!(comparison.sentence.contains(part), "{}", comparison.sentence);
    }
    assert!(comparison.remarks.iter().any(|remark| remark.contains("fewer than three")));
    let text = in_text(&comparison);
    assert!(text.contains("worse") && text.contains("throughput"), "{text}");
}

#[test]
fn sides_without_anything_in_common_are_refused() {
    let mut random = Random::new(3);
    let mut other = run(&mut random, 1.0);
    other.phases[0].name = "scan".to_owned();
    let error = compare(&side("a", vec![run(&mut random, 1.0)]), &side("b", vec![other])).err().unwrap().to_string();
    assert!(error.contains("nothing to compare") && error.contains("scan"), "{error}");
    assert!(read_side("not-there").err().unwrap().to_string().contains("result.json"));
}

#[test]
fn on_a_crowded_machine_seconds_decide_nothing_but_instructions_do() {
    let mut random = Random::new(8);
    let mut crowded = |slowdown, extra| {
        let mut run = counted(&mut random, extra);
        run.phases = vec![self::run(&mut random, slowdown).phases.remove(0)];
        run.phases[0].overhead.others_share_of_machine = 0.8;
        run
    };
    let a = side("a", vec![crowded(1.0, 0.0)]);
    let same = compare(&a, &side("b", vec![crowded(1.8, 0.0)])).unwrap();
    assert_eq!(same.verdict, Verdict::Noise, "{}", in_text(&same));
    assert!(same.remarks.iter().any(|remark| remark.contains("80 % of the machine")), "{:?}", same.remarks);
    let slower = compare(&a, &side("b", vec![crowded(1.8, 500.0)])).unwrap();
    assert_eq!(slower.verdict, Verdict::Worse);
    assert!(slower.sentence.contains("instructions"), "{}", slower.sentence);
}
