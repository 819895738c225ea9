//! Paths for the findings of a check. Directories are numbered; the root is 0 and its own parent.

use platter_vfs::Name;

/// The path of a directory, or of an entry in it; of a very deep path only the last 32 names. `above` returns the
/// number of a directory's parent, and the directory's name.
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

/// Whether a directory begins at a cluster, or is below the one that does. `above` returns the number of a directory's
/// parent, and the directory's own first cluster.
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
