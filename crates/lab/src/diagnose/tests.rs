//! The report of recorded figures, from a folder made here.

use bson::rawdoc;
use clap::Parser;
use flight_recorder::{ChunkWriter, FILE_HEADER, encode_block};

use super::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: DiagnoseArguments,
}

/// A folder with the figures of a server whose disk says nothing for some seconds.
fn recorded() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join(file_names::DIRECTORY);
    std::fs::create_dir(&folder).unwrap();
    let mut writer = ChunkWriter::default();
    for second in 0..60_i64 {
        let durable = if (20..30).contains(&second) { 20 } else { second };
        let status = rawdoc! {
            "host": "ship<1>", "version": "1", "uptimeMillis": second * 1_000,
            "opLatencies": { "reads": { "ops": second * 5, "latency": second * 5_000 } },
            "plimsoll": { "oplog": { "endPosition": second, "durablePosition": durable },
                "heldBack": { "pressure": { "dirtyPages": if second < 30 { 0.5 } else { 0.0 } }, "explanations": ["it is slow"] } },
        };
        writer.push(1_000_000 + second * 1_000, &status);
    }
    let mut bytes = FILE_HEADER.to_vec();
    bytes.extend(encode_block(&writer.encode()));
    std::fs::write(folder.join(file_names::name(1_000_000)), &bytes).unwrap();
    std::fs::write(folder.join(file_names::CURRENT), &bytes[..bytes.len() - 3]).unwrap();
    directory
}

async fn diagnosed(directory: &Path, options: &[&str]) -> Result<String, LabError> {
    let report = directory.join("report.html");
    let words = [&["x", directory.to_str().unwrap(), "--output", report.to_str().unwrap()], options].concat();
    run(CommandLine::parse_from(words).arguments).await?;
    Ok(std::fs::read_to_string(report).unwrap())
}

#[tokio::test]
async fn the_report_says_what_was_wrong_and_draws_it() {
    let directory = recorded();
    let report = diagnosed(directory.path(), &[]).await.unwrap();
    for text in [
        "What ship&lt;1&gt; went through",
        "the disk answered no write for",
        "1970-01-01T00:17:03Z",
        "What held writes back",
        "dirtyPages",
        "it is slow",
        "<svg class=\"chart\"",
        "Left out: current.figures",
    ] {
        assert!(report.contains(text), "{text}");
    }
    assert!(!report.contains("http://") && !report.contains("https://"), "nothing is loaded from anywhere");
}

#[tokio::test]
async fn a_part_of_the_time() {
    let directory = recorded();
    let report = diagnosed(directory.path(), &["--from", "20s"]).await.unwrap();
    assert!(report.contains("Nothing wrong is seen") && report.contains(">21<"), "{report}");
    let refused = diagnosed(directory.path(), &["--to", "2h"]).await.unwrap_err().to_string();
    assert!(refused.contains("there are figures from 1970-01-01T00:16:40Z"), "{refused}");
}

#[tokio::test]
async fn a_folder_without_figures_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = diagnosed(directory.path(), &[]).await.unwrap_err().to_string();
    assert!(refused.contains("is it a data directory"), "{refused}");
}
