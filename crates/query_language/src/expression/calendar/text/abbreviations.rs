//! Zones as they are written in dates: offsets, and abbreviations such as `CEST`, `PDT` or `A`.
//!
//! Abbreviations are not unique; each has the meaning that MongoDB gives it. Those of local mean times from before there were
//! time zones are refused.

use super::super::zone::Zone;

/// The abbreviations of zones and their minutes ahead of UTC.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("acdt", 630),
    ("acst", 570),
    ("addt", -120),
    ("adt", -180),
    ("aedt", 660),
    ("aest", 600),
    ("ahdt", -540),
    ("ahst", -600),
    ("akdt", -480),
    ("akst", -540),
    ("apt", -180),
    ("ast", -240),
    ("awdt", 540),
    ("awst", 480),
    ("awt", -180),
    ("bdst", 120),
    ("bdt", -600),
    ("bst", 60),
    ("cast", 570),
    ("cat", 120),
    ("cddt", -240),
    ("cdt", -300),
    ("cemt", 180),
    ("cest", 120),
    ("cet", 60),
    ("chst", 600),
    ("cpt", -300),
    ("cst", -360),
    ("cwt", -300),
    ("eat", 180),
    ("edt", -240),
    ("eest", 180),
    ("eet", 120),
    ("ept", -240),
    ("est", -300),
    ("ewt", -240),
    ("gdt", 660),
    ("gmt", 0),
    ("gst", 600),
    ("hdt", -570),
    ("hkst", 540),
    ("hkt", 480),
    ("hpt", -570),
    ("hst", -600),
    ("hwt", -570),
    ("iddt", 240),
    ("idt", 180),
    ("ist", 120),
    ("jdt", 600),
    ("jst", 540),
    ("kdt", 600),
    ("kst", 510),
    ("mddt", -300),
    ("mdt", -360),
    ("mest", 120),
    ("met", 60),
    ("mpt", -360),
    ("msd", 240),
    ("msk", 180),
    ("mst", -420),
    ("mwt", -360),
    ("nddt", -90),
    ("npt", -150),
    ("nst", -210),
    ("nwt", -150),
    ("nzdt", 780),
    ("nzmt", 690),
    ("nzst", 720),
    ("pddt", -360),
    ("pdt", -420),
    ("pkst", 360),
    ("pkt", 300),
    ("ppt", -420),
    ("pst", -480),
    ("pwt", -420),
    ("sast", 120),
    ("sst", -660),
    ("uct", 0),
    ("utc", 0),
    ("wast", 120),
    ("wat", 60),
    ("wemt", 120),
    ("west", 60),
    ("wet", 0),
    ("wib", 420),
    ("wit", 540),
    ("wita", 480),
    ("yddt", -420),
    ("ydt", -480),
    ("ypt", -480),
    ("yst", -540),
    ("ywt", -480),
];

/// Newfoundland's daylight saving time, which MongoDB reads with the seconds of St. John's old local time.
const NDT_S: i32 = -9_052;

/// The zone that a text begins with and how many bytes it takes; `None` when that is no zone.
pub(in super::super) fn parse_zone_text(text: &str) -> Option<(Zone, usize)> {
    let opened = text.len() - text.trim_start_matches([' ', '\t', '(']).len();
    let mut rest = text.get(opened..)?;
    if rest.starts_with("GMT+") || rest.starts_with("GMT-") {
        rest = rest.get(3..)?;
    }
    let (seconds, length) = match rest.bytes().next()? {
        sign @ (b'+' | b'-') => {
            let length = rest.bytes().skip(1).take_while(|byte| byte.is_ascii_digit() || *byte == b':').count();
            let seconds = correction(rest.get(1..=length)?);
            (if sign == b'-' { -seconds } else { seconds }, length + 1)
        }
        _ => {
            let length = rest.find([')', ' ']).unwrap_or(rest.len());
            (abbreviation(rest.get(..length)?)?, length)
        }
    };
    let rest = rest.get(length..)?;
    Some((Zone::Fixed(seconds), text.len() - rest.trim_start_matches(')').len()))
}

/// The seconds of `h`, `hh`, `hmm`, `hhmm`, `h:mm`, `hh:m`, `hh:mm`; zero for anything else, as timelib has it.
fn correction(digits: &str) -> i32 {
    let (hours, minutes) = match (digits.len(), digits.find(':')) {
        (1..=2, None) => (digits, ""),
        (3..=5, Some(colon @ 1..=2)) => (digits.get(..colon).unwrap_or(""), digits.get(colon + 1..).unwrap_or("")),
        (length @ 3..=4, None) => digits.split_at(length - 2),
        _ => return 0,
    };
    let number = |digits: &str| digits.parse::<i32>().unwrap_or(0);
    (number(hours) * 60 + number(minutes)) * 60
}

/// The seconds of an abbreviation; a single letter is a zone of the military.
fn abbreviation(text: &str) -> Option<i32> {
    let lower = text.to_ascii_lowercase();
    if let [letter] = lower.as_bytes() {
        let hours = match *letter {
            letter @ b'a'..=b'i' => i32::from(letter - b'a') + 1,
            letter @ b'k'..=b'm' => i32::from(letter - b'k') + 10,
            letter @ b'n'..=b'y' => -i32::from(letter - b'n') - 1,
            b'z' => 0,
            _ => return None,
        };
        return Some(hours * 3_600);
    }
    if lower == "ndt" {
        return Some(NDT_S);
    }
    let position = ABBREVIATIONS.binary_search_by_key(&lower.as_str(), |(name, _)| name).ok()?;
    ABBREVIATIONS.get(position).map(|(_, minutes)| minutes * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_names_are_found() {
        assert!(ABBREVIATIONS.is_sorted_by_key(|(name, _)| name));
        assert_eq!(parse_zone_text("KST"), Some((Zone::Fixed(30_600), 3)));
        assert_eq!(parse_zone_text("(HDT)"), Some((Zone::Fixed(-34_200), 5)));
    }
}
