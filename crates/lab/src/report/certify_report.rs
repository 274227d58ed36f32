//! The report of a certification: the verdicts as a table, then each guarantee with its figures and what the load looked like.

use super::page::{Page, Tone};
use crate::certify::Certificate;
use crate::certify::judgement::{Bound, Evidence, Judgement, Verdict, with_unit};
use crate::chart::{LineChart, Series, grouped};

pub(crate) fn certificate(certificate: &Certificate) -> String {
    let mut page = Page::new(&format!("Guarantees of {}", certificate.target.in_one_line()));
    let tone = if certificate.count(Verdict::Fail) > 0 { Tone::Bad } else { Tone::Neutral };
    page.banner(tone, &format!("{}.", certificate.summary()));
    write_rig(&mut page, certificate);
    let rows: Vec<Vec<String>> = certificate
        .judgements
        .iter()
        .map(|judged| {
            let judgement = &judged.judgement;
            vec![
                in_words(judged.verdict, judgement.guarantee),
                format!("{}: {}", judgement.title, judgement.in_one_line()),
            ]
        })
        .collect();
    page.table(&["verdict", "guarantee, figure and bound"], &rows);
    page.faint(
        "Pass: the whole test ran and every figure lies in its bound. Held: every figure lies in its bound, but part of the \
         test was left out or the rig was smaller. What is not judged says why.",
    );
    for judged in &certificate.judgements {
        let judgement = &judged.judgement;
        page.heading(&format!("{}: {}", judgement.guarantee, judgement.title));
        write_judgement(&mut page, judgement, judged.verdict);
    }
    page.finish(certificate)
}

fn in_words(verdict: Verdict, guarantee: &str) -> String {
    match verdict {
        Verdict::Pass => format!("!better {guarantee} \u{25B2} pass"),
        Verdict::Held => format!("{guarantee} held"),
        Verdict::Fail => format!("!worse {guarantee} \u{25BC} FAIL"),
        Verdict::NotJudged => format!("{guarantee} not judged"),
    }
}

fn write_rig(page: &mut Page, certificate: &Certificate) {
    let machine = &certificate.machine;
    let mebibytes = |bytes: Option<f64>| {
        bytes.map_or("unknown".to_owned(), |bytes| format!("{} MiB", grouped((bytes / 1_048_576.0).round())))
    };
    page.figures(&[
        (format!("{}", certificate.scale), "scale of the test".to_owned()),
        (mebibytes(certificate.cache_bytes), "cache of the server".to_owned()),
        (mebibytes(certificate.memory_bytes), "what it may use in all".to_owned()),
        (grouped(certificate.documents as f64), "documents of 1 KB in the working set".to_owned()),
        (format!("{:.0} s", certificate.seconds), "length of a phase".to_owned()),
    ]);
    page.faint(&format!(
        "{}; {} processors ({}), {} MiB of memory, Linux {}; the load generator ran on this machine",
        certificate.started_at,
        machine.processors,
        machine.processor,
        grouped((machine.memory_bytes >> 20) as f64),
        machine.kernel
    ));
    if !certificate.shortcomings.is_empty() {
        page.faint(&format!("Not the founding rig: {}.", certificate.shortcomings.join("; ")));
    }
}

fn write_judgement(page: &mut Page, judgement: &Judgement, verdict: Verdict) {
    if let Some(because) = judgement.not_judged.as_ref().filter(|_| verdict == Verdict::NotJudged) {
        page.text(&format!("Not judged, because {because}."));
        return;
    }
    for broken in &judgement.broken {
        page.banner(Tone::Bad, broken);
    }
    let rows: Vec<Vec<String>> = judgement
        .figures
        .iter()
        .map(|figure| {
            let word = match (figure.bound, figure.holds) {
                (Bound::Shown, _) => String::new(),
                (_, true) => "!better \u{25B2} holds".to_owned(),
                (_, false) => "!worse \u{25BC} BROKEN".to_owned(),
            };
            vec![figure.what.clone(), with_unit(figure.value, &figure.unit), figure.bound.in_words(&figure.unit), word]
        })
        .collect();
    if !rows.is_empty() {
        page.table(&["figure", "#measured", "#bound", ""], &rows);
    }
    if !judgement.left_out.is_empty() {
        page.faint(&format!("Left out: {}.", judgement.left_out.join("; ")));
    }
    for remark in &judgement.remarks {
        page.faint(remark);
    }
    judgement.evidence.iter().for_each(|evidence| write_evidence(page, evidence));
}

fn write_evidence(page: &mut Page, evidence: &Evidence) {
    let phase = &evidence.phase;
    page.small_heading(&evidence.caption);
    page.faint(&phase.in_one_line());
    let middle = |second: &crate::throughput::Second| {
        (f64::from(second.second) + second.length_seconds / 2.0, second.per_second)
    };
    let unit = format!("{}/s", phase.throughput_unit);
    let throughput = vec![Series { name: "throughput", points: phase.seconds.iter().map(middle).collect() }];
    page.raw(&chart("Throughput", &unit, throughput, false).html());
    let latencies = &phase.second_latencies;
    let series = [("p50", &latencies.p50), ("p99", &latencies.p99), ("longest", &latencies.maximum)];
    let series = series.map(|(name, values)| Series { name, points: by_second(values, 1e-3, false) });
    page.raw(&chart("Latency from the due moment", "ms, by powers of ten", series.into(), true).html());
    let server = &phase.server_series;
    let shares = [("used", &server.cache_used_share), ("changed, not on disk yet", &server.cache_dirty_share)];
    let shares = shares.map(|(name, values)| Series { name, points: by_second(values, 100.0, true) });
    page.raw(&chart("Share of the cache", "%", shares.into(), false).html());
    let held_back = vec![Series { name: "delay", points: by_second(&server.held_back_microseconds, 1e-3, true) }];
    if held_back.iter().any(|series| series.points.iter().any(|point| point.1 > 0.0)) {
        page.raw(&chart("How long a write is held back", "ms", held_back, false).html());
    }
}

fn chart<'s>(title: &'s str, unit: &'s str, series: Vec<Series<'s>>, logarithmic: bool) -> LineChart<'s> {
    LineChart { title, unit, across: "seconds", series, shaded: Vec::new(), shaded_meaning: "", logarithmic }
}

fn by_second(values: &[f64], factor: f64, with_zeros: bool) -> Vec<(f64, f64)> {
    let points = values.iter().enumerate().filter(|(_, value)| with_zeros || **value > 0.0);
    points.map(|(second, value)| (second as f64 + 0.5, value * factor)).collect()
}
