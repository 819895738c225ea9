//! Paths, for what a check finds.

use platter_vfs::Name;

/// The path of a directory, or of an entry in it: only the last 32 names of a very deep one. Directories are numbered,
/// the root is 0; `above` tells of another one the number of its parent, and its name.
pub fn path_of<'n>(dir: u32, name: Option<&Name>, above: impl Fn(u32) -> (u32, &'n Name)) -> String {
    let mut names: Vec<String> = name.iter().map(|name| name.to_string()).collect();
    let mut at = dir;
    while at != 0 && names.len() < 32 {
        let (parent, name) = above(at);
        names.push(name.to_string());
        at = parent;
    }
    names.push(if at == 0 { String::new() } else { "…".into() });
    names.reverse();
    if names.len() == 1 { "/".into() } else { names.join("/") }
}
