//! Paths, for what a check finds. Directories are numbered; the root is 0, and its own parent.

use platter_vfs::Name;

/// The path of a directory, or of an entry in it: only the last 32 names of a very deep one. `above` tells of a directory
/// the number of its parent, and its name.
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

/// Whether a directory is the one that starts at a cluster, or lies below it. `above` tells of a directory the number of
/// its parent, and its own first cluster.
pub fn is_inside(dir: u32, cluster: u32, above: impl Fn(u32) -> (u32, u32)) -> bool {
    let mut at = dir;
    loop {
        let (parent, first) = above(at);
        if first == cluster || at == 0 {
            return first == cluster;
        }
        at = parent;
    }
}
