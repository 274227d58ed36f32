//! The names of the files of recorded figures, and which of them go.
//!
//! A file is named by the moment of its first figures, so that names sort by time. What is of the last minutes is in a file of its own that is written
//! again and again: a crash loses seconds.

/// The folder, inside the data directory.
pub const DIRECTORY: &str = "figures";
/// The chunk that is being filled.
pub const CURRENT: &str = "current.figures";

const END: &str = ".figures";
/// Milliseconds since 1970 in all years that matter have as many digits.
const DIGITS: usize = 14;

/// The name of a file that begins at this moment, in milliseconds since 1970.
pub fn name(millis: i64) -> String {
    format!("{:0DIGITS$}{END}", millis.max(0))
}

/// The moment that a file's name says, if it is a name of ours.
pub fn begin(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(END)?;
    let is_one = digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| digits.parse().ok())?
}

/// Of files with their sizes, those that go so that the rest has at most `bytes_max`: the oldest.
pub fn outdated(mut files: Vec<(String, u64)>, bytes_max: u64) -> Vec<String> {
    files.retain(|(name, _)| begin(name).is_some());
    files.sort_by_key(|(name, _)| std::cmp::Reverse(begin(name)));
    let mut sum = 0;
    let goes = |(name, bytes): (String, u64)| {
        sum += bytes;
        (sum > bytes_max).then_some(name)
    };
    files.into_iter().filter_map(goes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time_and_the_oldest_go() {
        let names: Vec<String> = [5, 1_000_000_000_000, 1_700_000_000_123].map(name).into();
        assert!(names.is_sorted());
        assert_eq!(names.iter().map(|name| begin(name)).collect::<Option<Vec<_>>>().unwrap()[2], 1_700_000_000_123);
        let mut files: Vec<(String, u64)> = names.iter().map(|name| (name.clone(), 40)).collect();
        files.push((CURRENT.to_owned(), 1_000));
        assert_eq!(outdated(files.clone(), 80), names[..1]);
        assert_eq!(outdated(files, 200), [""; 0]);
    }
}
