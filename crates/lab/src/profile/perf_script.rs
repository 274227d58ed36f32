//! The output of `perf script`: a line for each sample (program, thread, time, event), then its stack from the innermost
//! function outwards.
//!
//! With `--show-switch-events`, samples of the event `context-switches` weigh the time until their thread runs again: where
//! threads wait (off-CPU).

use std::collections::HashMap;

use super::read::DEPTH_MAX;
use super::stacks::Profile;

/// The first line of a sample.
#[derive(Debug, PartialEq)]
struct Header<'l> {
    program: &'l str,
    thread: u64,
    at: f64,
    rest: &'l str,
}

/// A sample being read.
struct Pending<'t> {
    header: Header<'t>,
    /// Innermost first.
    stack: Vec<String>,
}

/// Whether a text is of this kind: its first line that says something is a sample's.
pub(super) fn looks_like(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| header(line).is_some())
}

pub(super) fn parse(text: &str) -> Result<Profile, String> {
    let mut reader = Reader { profile: Profile::new("samples"), pending: None, waiting: HashMap::new() };
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            reader.finish();
        } else if line.starts_with(char::is_whitespace) && reader.pending.is_some() && frame(line).is_some() {
            if let (Some(pending), Some(name)) = (&mut reader.pending, frame(line)) {
                pending.stack.push(name);
            }
        } else if let Some(header) = header(line) {
            reader.finish();
            reader.begin(header);
        } else {
            let shown: String = line.chars().take(60).collect();
            return Err(format!("line {} is not of `perf script`: {shown:?}", number + 1));
        }
    }
    reader.finish();
    Ok(reader.profile)
}

struct Reader<'t> {
    profile: Profile,
    pending: Option<Pending<'t>>,
    /// Stacks of threads that were switched out, and when.
    waiting: HashMap<u64, (Vec<String>, f64)>,
}

impl<'t> Reader<'t> {
    fn begin(&mut self, header: Header<'t>) {
        if header.rest.contains("PERF_RECORD_SWITCH") {
            if header.rest.contains(" OUT preempt")
                && let Some((stack, _)) = self.waiting.get_mut(&header.thread)
            {
                stack.push("(waits for a processor)".to_owned());
            }
            if header.rest.contains(" IN")
                && let Some((stack, since)) = self.waiting.remove(&header.thread)
            {
                let microseconds = ((header.at - since).max(0.0) * 1e6) as u64;
                self.profile.unit = "microseconds of waiting".to_owned();
                self.profile.add(stack.iter().map(String::as_str), microseconds, Some(since));
            }
            return;
        }
        self.pending = Some(Pending { header, stack: Vec::new() });
    }

    fn finish(&mut self) {
        let Some(Pending { header, mut stack }) = self.pending.take() else { return };
        stack.truncate(DEPTH_MAX - 1);
        stack.push(header.program.to_owned());
        stack.reverse();
        if header.rest.contains("context-switches") {
            self.waiting.insert(header.thread, (stack, header.at));
        } else {
            self.profile.add(stack.iter().map(String::as_str), 1, Some(header.at));
        }
    }
}

/// `plimsoll-write 123/456 [001] 789.012345:   10101 cpu-clock:`; processor, process and period may be missing.
fn header(line: &str) -> Option<Header<'_>> {
    if line.starts_with(char::is_whitespace) && !line.contains(": ") {
        return None;
    }
    let mut before = 0;
    for (position, _) in line.match_indices(": ").chain(std::iter::once((line.trim_end().len().saturating_sub(1), ":")))
    {
        let word_start = line.get(before..position)?.rfind(' ').map_or(before, |space| before + space + 1);
        let word = line.get(word_start..position)?;
        before = position + 1;
        let Some(at) = word.parse::<f64>().ok().filter(|_| word.contains('.')) else { continue };
        let head = line.get(..word_start)?.trim();
        let head =
            head.strip_suffix(']').map_or(head, |head| head.rsplit_once('[').map_or(head, |(head, _)| head.trim()));
        let (program, ids) = head.rsplit_once(char::is_whitespace)?;
        let thread = ids.rsplit('/').next()?.parse().ok()?;
        return Some(Header { program: program.trim(), thread, at, rest: line.get(position..)? });
    }
    None
}

/// `    55d0a1b2 function+0x1f (program)`; the function alone.
fn frame(line: &str) -> Option<String> {
    let (address, rest) = line.trim().split_once(' ')?;
    if !address.chars().all(|character| character.is_ascii_hexdigit()) {
        return None;
    }
    let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name).trim();
    Some(plain_name(name))
}

/// Without offset, mangling and the hash that Rust adds; `;` would end a frame in folded stacks.
pub(crate) fn plain_name(name: &str) -> String {
    let name = match name.rsplit_once("+0x") {
        Some((name, offset)) if offset.chars().all(|character| character.is_ascii_hexdigit()) => name,
        _ => name,
    };
    let demangled = format!("{:#}", rustc_demangle::demangle(name));
    let is_hash =
        |text: &str| text.len() == 17 && text.starts_with('h') && text.chars().skip(1).all(|c| c.is_ascii_hexdigit());
    let plain = match demangled.rsplit_once("::") {
        Some((path, last)) if is_hash(last) => path.to_owned(),
        _ => demangled,
    };
    plain.replace(';', ":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_kinds_are_read() {
        let line = "my prog 1 123/456 [001]  789.012345:   10101010 cpu-clock:pppH: ";
        let found = header(line).unwrap();
        assert_eq!((found.program, found.thread, found.at), ("my prog 1", 456, 789.012_345));
        assert_eq!(header("mongod 77 5.250000: cycles:").unwrap().thread, 77);
        assert_eq!(header("a;b;c 12"), None);
        assert_eq!(header("\t  55d0 main+0x1 (/bin/x)"), None);
    }

    #[test]
    fn names_lose_offset_mangling_and_hash() {
        for (raw, plain) in [
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE+0x1f", "core::ptr::drop_in_place"),
            ("storage_engine::leaf::insert::h0123456789abcdef+0x2", "storage_engine::leaf::insert"),
            ("__wt_page_in_func+0xaa0", "__wt_page_in_func"),
            ("operator+(int, int)", "operator+(int, int)"),
            ("[unknown]", "[unknown]"),
        ] {
            assert_eq!(plain_name(raw), plain);
        }
    }
}
