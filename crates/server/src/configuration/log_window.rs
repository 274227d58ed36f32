//! How much of a shared log is kept for members that are away, as people write it: `7d`, `12h`, `10GiB`, or `off`. Parsed by `configuration` for `--log-window`.

use std::str::FromStr;
use std::time::Duration;

use super::Size;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// See the module's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogWindow {
    /// What was logged within so long.
    Time(Duration),
    /// The last so many bytes of the oplog.
    Bytes(u64),
    /// The log is not trimmed by itself.
    Off,
}

impl Default for LogWindow {
    fn default() -> LogWindow {
        LogWindow::Time(Duration::from_secs(7 * DAY))
    }
}

impl FromStr for LogWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<LogWindow, String> {
        if text == "off" {
            return Ok(LogWindow::Off);
        }
        // `m` is minutes: a size has its B.
        if text.ends_with('B')
            && let Ok(Size::Bytes(bytes)) = text.parse()
        {
            return Ok(LogWindow::Bytes(bytes));
        }
        let time = text.char_indices().next_back().and_then(|(place, unit)| {
            let unit = match unit {
                's' => 1,
                'm' => MINUTE,
                'h' => HOUR,
                'd' => DAY,
                _ => return None,
            };
            let count: u32 = text.get(..place)?.parse().ok().filter(|count| *count > 0)?;
            Some(LogWindow::Time(Duration::from_secs(u64::from(count) * unit)))
        });
        time.ok_or_else(|| format!("'{text}' is neither a time, as 12h or 7d, nor a size, as 10GiB, nor 'off'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sizes_and_off() {
        let time = |seconds| Ok(LogWindow::Time(Duration::from_secs(seconds)));
        assert_eq!("7d".parse(), Ok(LogWindow::default()));
        assert_eq!(("90m".parse(), "12h".parse(), "15s".parse()), (time(5_400), time(43_200), time(15)));
        assert_eq!("10GiB".parse(), Ok(LogWindow::Bytes(10 << 30)));
        assert_eq!("off".parse(), Ok(LogWindow::Off));
        for wrong in ["", "7", "0s", "-1d", "1w", "10G", "25%", "B", "\u{fc}"] {
            assert!(wrong.parse::<LogWindow>().is_err(), "{wrong}");
        }
    }
}
