//! Rewrites a pattern from PCRE's dialect, which MongoDB documents, into that of `fancy-regex`.
//!
//! Where they differ: in PCRE `\d \w \s \b` are ASCII, `$` also matches before a final line end, `{` is literal unless
//! a quantifier follows, and a class has neither nesting nor set operations. Everything else passes through.

/// The options that change what is to be rewritten.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flags {
    pub(super) multi_line: bool,
    pub(super) extended: bool,
}

/// The same pattern for `fancy-regex`.
pub(super) fn translate(pattern: &str, flags: Flags) -> String {
    let pattern = without_verbs(pattern);
    let mut translation = Translation {
        rest: pattern.chars().collect::<Vec<_>>(),
        at: 0,
        out: String::with_capacity(pattern.len()),
        flags,
    };
    translation.run();
    translation.out
}

/// Drops leading verbs such as `(*UTF8)`, which say what is so anyway.
fn without_verbs(mut pattern: &str) -> &str {
    for verb in ["(*UTF8)", "(*UTF)", "(*UCP)"].iter().cycle().take(6) {
        pattern = pattern.strip_prefix(verb).unwrap_or(pattern);
    }
    pattern
}

struct Translation {
    rest: Vec<char>,
    at: usize,
    out: String,
    flags: Flags,
}

impl Translation {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn run(&mut self) {
        while let Some(each) = self.peek(0) {
            self.at += 1;
            match each {
                '\\' => self.escape(Where::Outside),
                '[' => self.class(),
                '$' if !self.flags.multi_line => self.end_anchor(),
                '{' if !self.quantifier_follows() => self.out.push_str("\\{"),
                '#' if self.flags.extended => self.comment(),
                other => self.out.push(other),
            }
        }
    }

    /// `$`: the end, or before a line end at the end. At the pattern's end it may consume that line end, which is much
    /// faster than looking ahead.
    fn end_anchor(&mut self) {
        let last = self.at == self.rest.len();
        self.out.push_str(if last { "(?:\\n?\\z)" } else { "(?:\\z|(?=\\n\\z))" });
    }

    /// Whether what follows a `{` makes it a quantifier: digits, with a comma and digits perhaps, and `}`.
    fn quantifier_follows(&self) -> bool {
        let rest: String =
            self.rest.get(self.at..).unwrap_or_default().iter().take_while(|each| **each != '}').collect();
        let closed = self.peek(rest.chars().count()) == Some('}');
        let mut parts = rest.splitn(2, ',');
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let least = parts.next().is_some_and(|part| !part.is_empty() && digits(part));
        closed && least && parts.next().is_none_or(digits)
    }

    fn comment(&mut self) {
        self.out.push('#');
        while let Some(each) = self.peek(0) {
            self.at += 1;
            self.out.push(each);
            if each == '\n' {
                break;
            }
        }
    }

    /// What a backslash introduces.
    fn escape(&mut self, place: Where) {
        let Some(escaped) = self.peek(0) else { return self.out.push('\\') };
        self.at += 1;
        let (digit, word, space) = ("0-9", "0-9A-Za-z_", " \\t\\n\\x0b\\f\\r");
        match (escaped, place) {
            ('d', _) => self.set(digit, place),
            ('w', _) => self.set(word, place),
            ('s', _) => self.set(space, place),
            ('h', _) => self.set(" \\t", place),
            ('D', _) => self.complement(digit),
            ('W', _) => self.complement(word),
            ('S', _) => self.complement(space),
            ('b', Where::Outside) => {
                self.out.push_str("(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))")
            }
            ('B', Where::Outside) => {
                self.out.push_str("(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))")
            }
            ('b', Where::Class) => self.out.push_str("\\x08"),
            ('Z', Where::Outside) => self.out.push_str("(?:\\z|(?=\\n\\z))"),
            ('Q', _) => self.quoted(),
            ('E', _) => {}
            (letter, _) if letter.is_alphanumeric() => {
                self.out.push('\\');
                self.out.push(letter);
            }
            (other, _) => self.literal(other),
        }
    }

    fn set(&mut self, members: &str, place: Where) {
        match place {
            Where::Class => self.out.push_str(members),
            Where::Outside => {
                self.out.push('[');
                self.out.push_str(members);
                self.out.push(']');
            }
        }
    }

    fn complement(&mut self, members: &str) {
        self.out.push_str("[^");
        self.out.push_str(members);
        self.out.push(']');
    }

    /// `\Q...\E`: everything is literal.
    fn quoted(&mut self) {
        while let Some(each) = self.peek(0) {
            self.at += 1;
            if each == '\\' && self.peek(0) == Some('E') {
                self.at += 1;
                return;
            }
            self.literal(each);
        }
    }

    /// A character that stands for itself, inside and outside classes.
    fn literal(&mut self, each: char) {
        if each.is_ascii() && !each.is_ascii_alphanumeric() {
            self.out.push_str(&format!("\\x{:02x}", each as u32));
        } else {
            self.out.push(each);
        }
    }

    /// A class in brackets; the opening one has been read.
    fn class(&mut self) {
        self.out.push('[');
        if self.peek(0) == Some('^') {
            self.at += 1;
            self.out.push('^');
        }
        let start = self.at;
        while let Some(each) = self.peek(0) {
            let first = self.at == start;
            self.at += 1;
            match each {
                ']' if !first => return self.out.push(']'),
                '\\' => self.escape(Where::Class),
                '[' if self.peek(0) == Some(':') && self.posix_class() => {}
                ']' | '[' | '&' | '~' => self.literal(each),
                white if white.is_ascii_whitespace() => self.literal(white),
                '#' => self.literal(each),
                other => self.out.push(other),
            }
        }
    }

    /// `[:alpha:]` and the like, copied; tells whether it was one.
    fn posix_class(&mut self) -> bool {
        let rest: String = self.rest.get(self.at..).unwrap_or_default().iter().take(12).collect();
        let Some(end) = rest.find(":]") else { return false };
        let name = rest.get(..end + 2).unwrap_or_default();
        self.out.push('[');
        self.out.push_str(name);
        self.at += name.chars().count();
        true
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Outside,
    Class,
}

#[cfg(test)]
mod tests {
    use super::super::compile;

    #[track_caller]
    fn check(pattern: &str, options: &str, matching: &[&str], others: &[&str]) {
        let regex = compile(pattern, options).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        for text in matching {
            assert!(regex.is_match(*text).unwrap(), "/{pattern}/{options} should match {text:?}");
        }
        for text in others {
            assert!(!regex.is_match(*text).unwrap(), "/{pattern}/{options} should not match {text:?}");
        }
    }

    #[test]
    fn the_end_anchor_allows_a_final_line_end() {
        check("^abc$", "", &["abc", "abc\n"], &["abc\n\n", "abcd", "xabc"]);
        check("a$|b", "", &["a\n", "xb"], &["ax"]);
        check("^abc$", "m", &["x\nabc\ny"], &["abcd"]);
        check("(a$)\\n", "", &["a\n"], &["a"]);
    }

    #[test]
    fn classes_are_ascii() {
        check("^\\w+$", "", &["abc_1"], &["é"]);
        check("^\\d$", "", &["5"], &["٣"]);
        check("^\\W$", "", &["é"], &["a"]);
        check("^[\\w.-]+$", "", &["a.b-c"], &["a b"]);
        check("^[^\\s]+$", "", &["ab"], &["a b"]);
        check("^[\\D]$", "", &["x"], &["1"]);
        check("\\bword\\b", "", &["a word.", "éwordé"], &["swords"]);
        check("^[[:alpha:]]+$", "", &["abc"], &["ab1"]);
    }

    #[test]
    fn literals_stay_literal() {
        check("a{", "", &["xa{"], &["a"]);
        check("a{2}", "", &["aa"], &["a"]);
        check("{x}", "", &["{x}"], &["x"]);
        check("a{2,}b", "", &["aaab"], &["ab"]);
        check("[[]", "", &["["], &["x"]);
        check("[]a]", "", &["]", "a"], &["b"]);
        check("^[a&&b]+$", "", &["a&b"], &["c"]);
        check("\\<b\\>", "", &["<b>"], &["b"]);
        check("\\Qa.b*\\E+", "", &["a.b*"], &["axb"]);
        check("a\\/b\\-c\\ d", "", &["a/b-c d"], &[]);
        check("[a b]", "x", &[" "], &["c"]);
    }

    #[test]
    fn options_and_fancy_constructs() {
        check("ABC", "i", &["xabcx"], &["ab"]);
        check("a.c", "", &["abc"], &["a\nc"]);
        check("a.c", "s", &["a\nc"], &[]);
        check("a b # comment $ {\n c", "x", &["abc"], &["a b c"]);
        check("^(?=.*a)(?=.*b)", "", &["xbya"], &["xb"]);
        check("(?<!x)y", "", &["ay"], &["xy"]);
        check("(a)\\1", "", &["aa"], &["a"]);
        check("(?i)abc", "", &["ABC"], &[]);
        check("(?<word>a+)b", "", &["aab"], &["b"]);
        check("É", "i", &["é"], &["e"]);
        check("(*UTF8)é", "", &["é"], &[]);
    }

    #[test]
    fn what_is_invalid() {
        for pattern in ["[", "(", "*a", "a)", "(?<!a*)b)"] {
            assert!(compile(pattern, "").is_err(), "{pattern}");
        }
        assert!(compile("a", "z").is_err());
    }
}
