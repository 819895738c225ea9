//! Patterns by which files are chosen.

use platter_vfs::Name;

/// A pattern for paths on a volume: `*` stands for any characters, `?` for one, and `[a-z]` for one of a set (`[!a-z]` for
/// one that is not in it), none of them for a slash; `**` between slashes stands for any directories. Letters match
/// whatever their case. A pattern without a slash is looked for at every depth, and one that matches a directory chooses
/// everything in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The parts between the slashes, in small letters.
    parts: Vec<Vec<char>>,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Why the text is no pattern.
    pub fn parse(text: &str) -> std::result::Result<Pattern, String> {
        let has_slash = text.trim_end_matches('/').contains('/');
        let parts = text.split('/').filter(|part| !part.is_empty());
        let small = |part: &str| part.chars().flat_map(char::to_lowercase).collect();
        let mut parts: Vec<Vec<char>> = parts.map(small).collect();
        if parts.is_empty() {
            return Err("a pattern has a name or a part of one, such as *.jpg".to_string());
        }
        for part in &parts {
            let mut rest = &part[..];
            while let Some(start) = rest.iter().position(|&c| c == '[') {
                let set =
                    Set::parse(&rest[start..]).ok_or("a set of characters that begins with [ ends with ]")?;
                rest = &rest[start + set.length..];
            }
        }
        if !has_slash {
            parts.insert(0, vec!['*', '*']);
        }
        Ok(Pattern { parts })
    }

    /// Whether the pattern matches a path, or a directory that the path leads through.
    pub fn matches(&self, path: &[Name]) -> bool {
        let small = |name: &Name| name.to_string().chars().flat_map(char::to_lowercase).collect();
        let names: Vec<Vec<char>> = path.iter().map(small).collect();
        // Which numbers of parts match the names so far.
        let mut reached = vec![false; self.parts.len() + 1];
        reached[0] = true;
        self.skip_any(&mut reached);
        for name in &names {
            let mut next = vec![false; self.parts.len() + 1];
            for (number, part) in self.parts.iter().enumerate().filter(|(number, _)| reached[*number]) {
                if is_any(part) {
                    next[number] = true;
                    // At the end it has chosen whatever is in the directory, at the first name.
                    next[number + 1] |= number + 1 == self.parts.len();
                } else {
                    next[number + 1] |= matches(part, name);
                }
            }
            self.skip_any(&mut next);
            reached = next;
            if reached[self.parts.len()] {
                return true;
            }
        }
        false
    }

    /// `**` stands for no directory too.
    fn skip_any(&self, reached: &mut [bool]) {
        for (number, part) in self.parts.iter().enumerate() {
            // At the end it stands for what is in the directory, not for the directory.
            if reached[number] && is_any(part) && number + 1 < self.parts.len() {
                reached[number + 1] = true;
            }
        }
    }
}

fn is_any(part: &[char]) -> bool {
    part == ['*', '*']
}

/// A set of characters such as `[a-z]`.
struct Set<'p> {
    inside: &'p [char],
    is_negated: bool,
    /// The length with both brackets.
    length: usize,
}

impl<'p> Set<'p> {
    fn parse(text: &'p [char]) -> Option<Set<'p>> {
        let is_negated = matches!(text.get(1), Some('!' | '^'));
        let start = 1 + usize::from(is_negated);
        // A bracket that comes first is one of the characters.
        let end = (start + 1..text.len()).find(|&at| text[at] == ']')?;
        Some(Set { inside: &text[start..end], is_negated, length: end + 1 })
    }

    fn has(&self, c: char) -> bool {
        let mut rest = self.inside;
        let mut is_in = false;
        while let Some((&first, behind)) = rest.split_first() {
            match behind {
                ['-', last, behind @ ..] => {
                    is_in |= (first..=*last).contains(&c);
                    rest = behind;
                }
                _ => {
                    is_in |= first == c;
                    rest = behind;
                }
            }
        }
        is_in != self.is_negated
    }
}

/// Whether a part of a pattern matches a name. The time is at most the product of both lengths.
fn matches(part: &[char], name: &[char]) -> bool {
    let (mut at, mut position) = (0, 0);
    // Where to go on if the last `*` stands for one character more.
    let mut again = None;
    loop {
        let step = match (part.get(at), name.get(position)) {
            (None, None) => return true,
            (Some('*'), _) => {
                again = Some((at, position));
                at += 1;
                continue;
            }
            (Some('?'), Some(_)) => Some(1),
            (Some('['), Some(&c)) => Set::parse(&part[at..]).filter(|set| set.has(c)).map(|set| set.length),
            (Some(wanted), Some(c)) if wanted == c => Some(1),
            _ => None,
        };
        match (step, again) {
            (Some(length), _) => (at, position) = (at + length, position + 1),
            (None, Some((star, end))) if end < name.len() => {
                again = Some((star, end + 1));
                (at, position) = (star + 1, end + 1);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, path: &str) -> bool {
        let names: Vec<Name> = path.split('/').map(Name::from).collect();
        Pattern::parse(pattern).unwrap().matches(&names)
    }

    #[test]
    fn patterns_match_names_paths_and_what_is_in_directories() {
        for (pattern, path) in [
            ("*.jpg", "DCIM/100/IMG_1.JPG"),
            ("*", "a"),
            ("a*b*c", "xabc/aXbXbXc"),
            ("dcim", "DCIM/100/IMG_1.JPG"),
            ("/dcim", "DCIM/a"),
            ("/dcim/*/img_[0-9].jpg", "DCIM/100/IMG_1.JPG"),
            ("img_[!a-z].jpg", "IMG_1.JPG"),
            ("/**/100/*", "DCIM/x/100/a"),
            ("/**/100/*", "100/a"),
            ("photos/", "photos/a"),
            ("/a/**", "a/b/c"),
            ("/a/**", "a/b"),
            ("**", "a"),
            ("ÄRGER*", "ärger.txt"),
            ("[]]", "]"),
            ("x[a-c]?", "xb日"),
        ] {
            assert!(is_match(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("*.jpg", "a.jpeg"),
            ("/a", "b/a"),
            ("/dcim/*.jpg", "DCIM/100/a.jpg"),
            ("/a/**", "a"),
            ("a/b", "x/a/b"),
            ("[!a]", "A"),
            ("?", ""),
            ("a?", "a"),
        ] {
            assert!(!is_match(pattern, path), "{pattern} {path}");
        }
        for wrong in ["", "/", "[a", "x/[!"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// What would take for ever by trying every way.
    #[test]
    fn many_stars_are_matched_at_once() {
        assert!(!is_match(&format!("{}c", "a*".repeat(100)), &format!("{}b", "a".repeat(250))));
        assert!(!is_match(&"**/a/".repeat(40), &"a/".repeat(39)));
    }
}
