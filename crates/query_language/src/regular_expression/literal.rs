//! Patterns that are plain text, perhaps anchored, and the plain text that an anchored pattern begins with.
//!
//! Called by `regular_expression`, which searches plain text without PCRE2, and by `filter`, from whose prefixes the planner
//! makes index bounds. A pattern that is not understood here is none of these; PCRE2 has the last word on what it means.

use std::iter::Peekable;
use std::str::Chars;

use memchr::memmem::Finder;

/// A pattern that finds a plain text.
#[derive(Debug)]
pub(super) struct Literal {
    text: String,
    start: Start,
    end: End,
    finder: Finder<'static>,
}

/// Where a match may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Anywhere,
    Beginning,
}

/// What follows the plain text at the beginning of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing.
    Pattern,
    /// `$`: the text ends here, or before a line end at its end.
    Text,
    /// `.*`, which matches whatever follows.
    Anything,
    /// Something else.
    Other,
}

/// The beginning of a pattern.
struct Beginning {
    start: Start,
    text: String,
    end: End,
}

impl Literal {
    /// The pattern as a plain text to find; `None` when it is more than that.
    pub(super) fn of(pattern: &str, options: &str) -> Option<Self> {
        let Beginning { start, text, end } = Beginning::of(pattern, options)?;
        let is_anchored = start == Start::Beginning || end == End::Text;
        if matches!(end, End::Other | End::Anything) || is_anchored && options.contains('m') {
            return None;
        }
        let finder = Finder::new(text.as_bytes()).into_owned();
        Some(Self { text, start, end, finder })
    }

    /// Whether the text has it where it must be.
    pub(super) fn is_match(&self, text: &[u8]) -> bool {
        let wanted = self.text.as_bytes();
        match (self.start, self.end) {
            (Start::Anywhere, End::Text) => without_line_end(text, |text| text.ends_with(wanted)),
            (Start::Anywhere, _) => self.finder.find(text).is_some(),
            (Start::Beginning, End::Text) => without_line_end(text, |text| text == wanted),
            (Start::Beginning, _) => text.starts_with(wanted),
        }
    }
}

/// Whether the text, or what stands before the line end at its end, is as wanted.
fn without_line_end(text: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    is_wanted(text) || text.strip_suffix(b"\n").is_some_and(is_wanted)
}

/// The prefix of every match and whether the pattern asks for nothing more; `None` when there is no such prefix.
pub(crate) fn prefix(pattern: &str, options: &str) -> Option<(String, bool)> {
    let Beginning { start, text, end } = Beginning::of(pattern, options)?;
    if start == Start::Anywhere || text.is_empty() || options.contains('m') {
        return None;
    }
    Some((text, matches!(end, End::Pattern | End::Anything)))
}

impl Beginning {
    fn of(pattern: &str, options: &str) -> Option<Self> {
        // `i` and `x` change what letters and spaces mean.
        if !options.chars().all(|letter| matches!(letter, 'm' | 's' | 'u')) {
            return None;
        }
        let anchored = pattern.strip_prefix('^').or_else(|| pattern.strip_prefix("\\A"));
        let start = if anchored.is_some() { Start::Beginning } else { Start::Anywhere };
        let mut rest = anchored.unwrap_or(pattern).chars().peekable();
        let mut text = String::new();
        let end = read_text(&mut rest, &mut text, options);
        if end == End::Other && has_alternative(rest) {
            return None;
        }
        Some(Self { start, text, end })
    }
}

/// Reads plain text up to what is none.
fn read_text(rest: &mut Peekable<Chars<'_>>, text: &mut String, options: &str) -> End {
    while let Some(each) = rest.peek().copied() {
        match each {
            '*' | '?' | '{' => {
                // The character before is optional, or there a number of times.
                text.pop();
                return End::Other;
            }
            '\\' => {
                if !read_escape(rest, text) {
                    return End::Other;
                }
                continue;
            }
            '$' if rest.clone().eq(['$']) => return End::Text,
            '.' if options.contains('s') && rest.clone().eq(['.', '*']) => return End::Anything,
            '.' | '[' | ']' | '(' | ')' | '$' | '^' | '+' | '}' | '|' => return End::Other,
            plain => text.push(plain),
        }
        rest.next();
    }
    End::Pattern
}

/// Reads an escaped character that stands for itself, or a quotation; leaves anything else and says so.
fn read_escape(rest: &mut Peekable<Chars<'_>>, text: &mut String) -> bool {
    let mut ahead = rest.clone();
    ahead.next();
    match ahead.next() {
        Some('Q') => {
            *rest = ahead;
            read_quotation(rest, |quoted| text.push(quoted));
            true
        }
        Some('E') => {
            *rest = ahead;
            true
        }
        Some(escaped) if !escaped.is_ascii_alphanumeric() => {
            text.push(escaped);
            *rest = ahead;
            true
        }
        _ => false,
    }
}

/// Reads on behind `\Q` to behind the `\E`, or to the end.
fn read_quotation(rest: &mut Peekable<Chars<'_>>, mut each: impl FnMut(char)) {
    while let Some(quoted) = rest.next() {
        if quoted == '\\' && rest.peek() == Some(&'E') {
            rest.next();
            return;
        }
        each(quoted);
    }
}

/// Whether there is a `|` that is not plain text. One inside a group or a class counts, too: what begins with the prefix is
/// then merely not known.
fn has_alternative(mut rest: Peekable<Chars<'_>>) -> bool {
    while let Some(each) = rest.next() {
        let escaped = if each == '\\' { rest.next() } else { None };
        if escaped == Some('Q') {
            read_quotation(&mut rest, |_| ());
        }
        if each == '|' {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Literal, prefix};

    #[test]
    fn prefixes() {
        let some = |text: &str, complete| Some((text.to_owned(), complete));
        assert_eq!(prefix("^abc", ""), some("abc", true));
        assert_eq!(prefix("\\Aab", ""), some("ab", true));
        assert_eq!(prefix("^a\\.b", ""), some("a.b", true));
        assert_eq!(prefix("^a\\|", ""), some("a|", true));
        assert_eq!(prefix("^a\\|b\\|.c", ""), some("a|b|", false));
        assert_eq!(prefix("^\\Qa|b\\E\\.c", ""), some("a|b.c", true));
        assert_eq!(prefix("^\\Qa.b", ""), some("a.b", true));
        assert_eq!(prefix("^\\Qab\\E*c", ""), some("a", false));
        assert_eq!(prefix("^abc*", ""), some("ab", false));
        assert_eq!(prefix("^abc+", ""), some("abc", false));
        assert_eq!(prefix("^ab\\d", ""), some("ab", false));
        assert_eq!(prefix("^ab\\d\\|", ""), some("ab", false));
        assert_eq!(prefix("^ab$", ""), some("ab", false));
        assert_eq!(prefix("^ab$c", ""), some("ab", false));
        assert_eq!(prefix("^ab.*", "s"), some("ab", true));
        assert_eq!(prefix("^ab.*", ""), some("ab", false));
        assert_eq!(prefix("^é\\é", "u"), some("éé", true));
        for (pattern, options) in [
            ("abc", ""),
            ("^abc", "i"),
            ("^abc", "m"),
            ("^ab c", "x"),
            ("^a|b", ""),
            ("^a(b|c)", ""),
            ("^a\\d|b", ""),
            ("^a\\\\|b", ""),
            ("^a\\Qb\\E|c", ""),
            ("^a?", ""),
            ("^.", ""),
            ("^", ""),
        ] {
            assert_eq!(prefix(pattern, options), None, "{pattern}");
        }
    }

    #[test]
    fn plain_texts() {
        for pattern in ["abc", "^abc", "abc$", "^abc$", "", "^", "$", "a\\.b", "\\Qa*b\\E", "a b#", "\\Aabc"] {
            assert!(Literal::of(pattern, "").is_some(), "{pattern}");
        }
        for pattern in ["a.c", "a|b", "ab*", "a\\d", "(a)", "[a]", "a\\z", "a\\n", "$a", "a$b", "a^"] {
            assert!(Literal::of(pattern, "").is_none(), "{pattern}");
        }
        for (pattern, options) in [("abc", "i"), ("a b", "x"), ("^a", "m"), ("a$", "m"), ("^a.*", "s")] {
            assert!(Literal::of(pattern, options).is_none(), "{pattern}");
        }
        assert!(Literal::of("abc", "msu").is_some());
    }
}
