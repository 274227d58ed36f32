//! Patterns with callouts written into them, at which PCRE2 asks whether a search is to go on.
//!
//! Called by `regular_expression`. PCRE2 itself can call back at each item of a pattern, if that is not too long: a callout takes
//! six bytes, and a compiled pattern has 64 KiB. In longer ones callouts are written here: where a group begins, before what is
//! repeated without a bound, and before every so many items. A callout matches nothing, so what is found stays the same.
//!
//! A pattern is read only as far as needed to know where its items begin. What is not understood has no callouts.

/// A callout of PCRE2.
const CALLOUT: &str = "(?C1)";

/// The pattern with a callout before its first item.
pub(super) fn at_start(pattern: &str) -> String {
    let (verbs, rest) = split_verbs(pattern);
    format!("{verbs}{CALLOUT}{rest}")
}

/// The pattern with callouts no further apart than `spacing` items; none when it is written over several lines (`(?x)`), or not
/// understood.
pub(super) fn spaced(pattern: &str, spacing: usize) -> Option<String> {
    let (verbs, rest) = split_verbs(pattern);
    let mut marked = verbs.to_owned();
    let (mut at, mut since, mut group_begins) = (0, 0, true);
    while let Some(left) = rest.get(at..).filter(|left| !left.is_empty()) {
        let part = Part::first_of(left)?;
        let text = left.get(..part.length)?;
        let follows = left.get(part.length..)?;
        if part.kind == Kind::Item {
            if group_begins || since + 1 >= spacing || is_unbounded(follows) {
                marked.push_str(CALLOUT);
                since = 0;
            } else {
                since += 1;
            }
        }
        group_begins = part.kind == Kind::GroupBegin || (group_begins && part.kind == Kind::Other);
        marked.push_str(text);
        at += part.length;
    }
    Some(marked)
}

/// The verbs in capitals, such as `(*UCP)`, that a pattern begins with, and what follows.
pub(super) fn split_verbs(pattern: &str) -> (&str, &str) {
    let mut end = 0;
    while let Some(rest) = pattern.get(end..).and_then(|rest| rest.strip_prefix("(*"))
        && let Some(length) = rest.find(')')
        && rest
            .bytes()
            .take(length)
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'='))
    {
        end += "(*".len() + length + 1;
    }
    pattern.split_at(end)
}

/// Whether what stands before this is repeated without a bound.
fn is_unbounded(follows: &str) -> bool {
    match follows.as_bytes() {
        [b'*' | b'+', ..] => true,
        [b'{', ..] => follows.split('}').next().is_some_and(|bounds| bounds.trim_end().ends_with(',')),
        _ => false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Something that matches or fails; a callout may stand before it.
    Item,
    /// The opening of a group; a callout may stand behind it.
    GroupBegin,
    /// Quantifiers, ends of groups, alternatives, comments.
    Other,
}

/// A part of a pattern, by its length in bytes.
#[derive(Debug, Clone, Copy)]
struct Part {
    kind: Kind,
    length: usize,
}

impl Part {
    fn item(length: usize) -> Option<Self> {
        Some(Self { kind: Kind::Item, length })
    }

    fn other(length: usize) -> Option<Self> {
        Some(Self { kind: Kind::Other, length })
    }

    fn group(length: usize) -> Option<Self> {
        Some(Self { kind: Kind::GroupBegin, length })
    }

    fn first_of(text: &str) -> Option<Self> {
        match text.chars().next()? {
            '\\' => Self::item(escape_length(text)?),
            '[' => Self::item(class_length(text)?),
            '(' => Self::parenthesis(text),
            '{' => Self::other(bounds_length(text).unwrap_or(1)),
            ')' | '|' | '*' | '+' | '?' => Self::other(1),
            character => Self::item(character.len_utf8()),
        }
    }

    fn parenthesis(text: &str) -> Option<Self> {
        let rest = text.get(1..)?;
        if let Some(verb) = rest.strip_prefix('*') {
            let name = verb.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
            let is_assertion = verb.starts_with(|first: char| first.is_ascii_lowercase());
            // `(*pla:` opens a group, `(*SKIP:name)` is whole.
            return match verb.as_bytes().get(name) {
                Some(b':') if is_assertion => Self::group("(*".len() + name + 1),
                _ => Self::other(through(text, ')')?),
            };
        }
        let Some(rest) = rest.strip_prefix('?') else { return Self::group(1) };
        let name_end = |close| through(text, close).and_then(Self::group);
        match rest.as_bytes() {
            [b'#', ..] => Self::other(through(text, ')')?),
            // The condition of a group is no place for callouts: what follows it is read as usual.
            [b'(', b'?' | b'*', ..] => Self::other("(?".len()),
            [b'(', ..] => Self::other(through(text, ')')?),
            [b'<', b'=' | b'!' | b'*', ..] => Self::group("(?<=".len()),
            [b'=' | b'!' | b'>' | b'|' | b':' | b'*', ..] => Self::group("(?:".len()),
            [b'<', ..] | [b'P', b'<', ..] => name_end('>'),
            [b'\'', ..] => through(text.get("(?'".len()..)?, '\'').and_then(|end| Self::group("(?'".len() + end)),
            [b'P' | b'&' | b'R' | b'C' | b'+' | b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..] => {
                Self::item(through(text, ')')?)
            }
            _ => Self::options(rest),
        }
    }

    /// `(?i)` or `(?i:`.
    fn options(rest: &str) -> Option<Self> {
        let letters = rest.bytes().take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'^' | b'-')).count();
        if rest.get(..letters)?.contains('x') {
            return None;
        }
        match rest.as_bytes().get(letters)? {
            b')' => Self::other("(?)".len() + letters),
            b':' => Self::group("(?:".len() + letters),
            _ => None,
        }
    }
}

/// Bytes of a quantifier in braces. Another brace is a plain character.
fn bounds_length(text: &str) -> Option<usize> {
    let length = through(text, '}')?;
    let inside = text.get(1..length - 1)?;
    inside.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b' ')).then_some(length)
}

/// Bytes through the first `end`.
fn through(text: &str, end: char) -> Option<usize> {
    text.find(end).map(|at| at + end.len_utf8())
}

/// Bytes of what a backslash begins.
fn escape_length(text: &str) -> Option<usize> {
    let escaped = text.get(1..)?.chars().next()?;
    let length = 1 + escaped.len_utf8();
    let rest = text.get(length..)?;
    let closing = match (escaped, rest.chars().next()) {
        ('Q', _) => return Some(rest.find("\\E").map_or(text.len(), |end| length + end + "\\E".len())),
        ('x' | 'o' | 'p' | 'P' | 'k' | 'g' | 'N', Some('{')) => Some('}'),
        ('k' | 'g', Some('<')) => Some('>'),
        ('k' | 'g', Some('\'')) => Some('\''),
        ('c' | 'p' | 'P', Some(next)) => return Some(length + next.len_utf8()),
        _ => None,
    };
    if let Some(closing) = closing {
        let inside = rest.get(1..)?;
        return Some(length + 1 + through(inside, closing)?);
    }
    // Digits that belong to it, or follow it: both are no place for a callout that is missed.
    let digits = if escaped.is_ascii_digit() || matches!(escaped, 'x' | 'g') {
        rest.bytes().take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'+')).count()
    } else {
        0
    };
    // A sign that stands behind the digits repeats them.
    let digits = rest.get(..digits)?.trim_end_matches('+').len();
    Some(length + digits)
}

/// Bytes of a class in brackets.
fn class_length(text: &str) -> Option<usize> {
    let mut at = 1 + usize::from(text.get(1..)?.starts_with('^'));
    // A bracket that comes first is a member.
    at += usize::from(text.get(at..)?.starts_with(']'));
    loop {
        let rest = text.get(at..)?;
        at += match rest.as_bytes() {
            [b']', ..] => return Some(at + 1),
            [b'\\', b'Q', ..] => rest.find("\\E")? + "\\E".len(),
            [b'\\', ..] => 1 + rest.get(1..)?.chars().next()?.len_utf8(),
            [b'[', mark @ (b':' | b'.' | b'='), ..] => {
                let end = format!("{}]", char::from(*mark));
                let named = rest.get(2..)?.find(&end).filter(|length| {
                    rest.get(2..2 + length).is_some_and(|name| {
                        name.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'^' | b'<' | b'>'))
                    })
                });
                named.map_or(1, |length| 2 + length + end.len())
            }
            _ => rest.chars().next()?.len_utf8(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callouts_stand_where_groups_begin_and_between_items() {
        for (pattern, marked) in [
            ("abcd", "(?C1)ab(?C1)cd"),
            ("(?:ab|cd)*", "(?:(?C1)ab|(?C1)cd)*"),
            ("(*UCP)ab*", "(*UCP)(?C1)a(?C1)b*"),
            ("ab{2}c{3,}", "(?C1)ab{2}(?C1)c{3,}"),
            (r"\x{e9}\p{L}\Qa(b\Ec", r"(?C1)\x{e9}\p{L}(?C1)\Qa(b\Ec"),
            ("[]a(]b(?#c(d)e", "(?C1)[]a(]b(?#c(d)(?C1)e"),
            ("[[:alpha:](]b[^]]c", "(?C1)[[:alpha:](]b(?C1)[^]]c"),
            ("(?<n>a)(?(<n>)b|c)(?&n)", "(?<n>(?C1)a)(?(<n>)b|(?C1)c)(?&n)"),
            ("(?i)(?=a)(?<!b)c", "(?i)(?=(?C1)a)(?<!(?C1)b)c"),
        ] {
            assert_eq!(spaced(pattern, 2).as_deref(), Some(marked), "{pattern}");
        }
    }

    #[test]
    fn patterns_over_several_lines_and_unfinished_ones_have_none() {
        for pattern in ["(?x)a # (b", "(?ix:a)", "[a", "(?<n", r"\", "(?#a"] {
            assert_eq!(spaced(pattern, 2), None, "{pattern}");
        }
    }
}
