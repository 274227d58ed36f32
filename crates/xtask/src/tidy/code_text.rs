//! Rust source with its comments and literals blanked out, so that braces and words can be found by looking for them.
//!
//! Called by the rules about functions, modules and `unsafe`. Not a parser: it knows comments, strings, raw strings and
//! characters, which is enough to keep their content from being taken for code. Lines stay where they are.

/// The source with every byte inside a comment or literal replaced by a blank; line breaks are kept.
pub(super) fn code_only(source: &str) -> String {
    let mut scanner = Scanner { bytes: source.as_bytes(), position: 0, code: Vec::with_capacity(source.len()) };
    while scanner.position < scanner.bytes.len() {
        scanner.step();
    }
    String::from_utf8_lossy(&scanner.code).into_owned()
}

struct Scanner<'s> {
    bytes: &'s [u8],
    position: usize,
    code: Vec<u8>,
}

impl Scanner<'_> {
    fn step(&mut self) {
        let rest = &self.bytes[self.position..];
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            self.blank(length);
        } else if rest.starts_with(b"/*") {
            self.blank(block_comment_length(rest));
        } else if let Some(length) = raw_string_length(rest).filter(|_| !self.is_inside_word()) {
            self.blank(length);
        } else if rest[0] == b'"' {
            self.blank(quoted_length(rest, b'"'));
        } else if is_character_literal(rest) {
            self.blank(quoted_length(rest, b'\''));
        } else {
            self.code.push(rest[0]);
            self.position += 1;
        }
    }

    fn is_inside_word(&self) -> bool {
        self.code.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    }

    fn blank(&mut self, length: usize) {
        let end = (self.position + length).min(self.bytes.len());
        let blanks = self.bytes[self.position..end].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' });
        self.code.extend(blanks);
        self.position = end;
    }
}

fn block_comment_length(text: &[u8]) -> usize {
    let (mut depth, mut position) = (0, 0);
    while position < text.len() {
        if text[position..].starts_with(b"/*") {
            depth += 1;
            position += 2;
        } else if text[position..].starts_with(b"*/") {
            depth -= 1;
            position += 2;
            if depth == 0 {
                return position;
            }
        } else {
            position += 1;
        }
    }
    text.len()
}

/// The length of the raw string that `text` starts with, if it does.
fn raw_string_length(text: &[u8]) -> Option<usize> {
    let prefix = [&b"r"[..], b"br", b"cr"].into_iter().find(|prefix| text.starts_with(prefix))?.len();
    let hashes = text[prefix..].iter().take_while(|&&byte| byte == b'#').count();
    let start = prefix + hashes;
    if text.get(start) != Some(&b'"') {
        return None;
    }
    let mut terminator = vec![b'"'];
    terminator.resize(1 + hashes, b'#');
    let body = &text[start + 1..];
    let end = body.windows(terminator.len()).position(|window| window == terminator)?;
    Some(start + 1 + end + terminator.len())
}

fn quoted_length(text: &[u8], quote: u8) -> usize {
    let mut position = 1;
    while position < text.len() {
        match text[position] {
            b'\\' => position += 2,
            byte if byte == quote => return position + 1,
            _ => position += 1,
        }
    }
    text.len()
}

/// Tells `'a'` from the lifetime `'a`.
fn is_character_literal(text: &[u8]) -> bool {
    if text[0] != b'\'' || text.len() < 3 {
        return false;
    }
    if text[1] == b'\\' {
        return true;
    }
    let width = match text[1] {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    };
    text.get(1 + width) == Some(&b'\'')
}

/// The positions at which `word` stands as a word of its own.
pub(super) fn word_positions<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    code.match_indices(word).map(|(position, _)| position).filter(move |&position| {
        let before = position.checked_sub(1).and_then(|before| code.as_bytes().get(before));
        !is_part(before) && !is_part(code.as_bytes().get(position + word.len()))
    })
}

/// What of a file's code stands before its tests, if they stand in it.
pub(super) fn before_tests(code: &str) -> &str {
    const MARK: &str = "#[cfg(test)]\nmod ";
    let begins_here = |position: &usize| {
        let line = code[position + MARK.len()..].lines().next();
        line.is_some_and(|line| line.trim_end().ends_with('{'))
    };
    let tests = code.match_indices(MARK).map(|(position, _)| position).find(begins_here);
    tests.map_or(code, |position| &code[..position])
}

/// The line of a position, counted from 1.
pub(super) fn line_of(text: &str, position: usize) -> usize {
    1 + text.as_bytes().iter().take(position).filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blanked() {
        let source = "a /* { /* } */ */ b \"{\\\"{\" r#\"{\"#; '{' 'x: &'a T // {\nc";
        let code = code_only(source);
        assert!(!code.contains('{'), "{code}");
        assert_eq!(code.len(), source.len());
        assert!(code.contains("&'a T") && code.ends_with("\nc"));
    }

    #[test]
    fn tests_in_files_of_their_own_end_no_code() {
        let code = "a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\nmod more {\nc";
        assert_eq!(before_tests(code), "a\n#[cfg(test)]\nmod tests;\nb\n");
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(word_positions("unsafe_code unsafe {", "unsafe").collect::<Vec<_>>(), [12]);
    }
}
