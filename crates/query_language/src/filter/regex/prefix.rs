//! The literal beginning of an anchored pattern, from which index bounds are made.

/// The prefix of every match and whether the pattern asks for nothing more; `None` when there is no such prefix.
pub(super) fn of(pattern: &str, options: &str) -> Option<(String, bool)> {
    // Other flags change what letters, spaces or anchors mean; `s` and `u` do not.
    if !options.chars().all(|flag| matches!(flag, 's' | 'u')) || pattern.contains('|') {
        return None;
    }
    let rest = pattern.strip_prefix('^').or_else(|| pattern.strip_prefix("\\A"))?;
    let mut prefix = String::new();
    let mut characters = rest.chars().peekable();
    let mut complete = true;
    while let Some(each) = characters.next() {
        match each {
            '*' | '?' | '{' => {
                // The character before is optional, or a number of times.
                prefix.pop();
                complete = false;
                break;
            }
            '\\' => match characters.peek() {
                Some(escaped) if !escaped.is_ascii_alphanumeric() => {
                    prefix.push(*escaped);
                    characters.next();
                }
                _ => {
                    complete = false;
                    break;
                }
            },
            '.' | '[' | ']' | '(' | ')' | '$' | '^' | '+' | '}' => {
                // `.*` to the end asks for nothing more, when the dot matches line ends.
                let is_rest = each == '.' && characters.clone().eq(['*']) && options.contains('s');
                complete = is_rest;
                break;
            }
            literal => prefix.push(literal),
        }
    }
    if prefix.is_empty() { None } else { Some((prefix, complete)) }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn prefixes() {
        let some = |text: &str, complete| Some((text.to_owned(), complete));
        assert_eq!(of("^abc", ""), some("abc", true));
        assert_eq!(of("\\Aab", ""), some("ab", true));
        assert_eq!(of("^a\\.b", ""), some("a.b", true));
        assert_eq!(of("^abc*", ""), some("ab", false));
        assert_eq!(of("^abc+", ""), some("abc", false));
        assert_eq!(of("^ab\\d", ""), some("ab", false));
        assert_eq!(of("^ab$", ""), some("ab", false));
        assert_eq!(of("^ab.*", "s"), some("ab", true));
        assert_eq!(of("^ab.*", ""), some("ab", false));
        for (pattern, options) in [("abc", ""), ("^abc", "i"), ("^a|b", ""), ("^a?", ""), ("^.", ""), ("^", "")] {
            assert_eq!(of(pattern, options), None, "{pattern}");
        }
    }
}
