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

/// Whether a directory is, or lies below, one that a repair found without an entry and put into the root directory as
/// `FSCKnnnn.DIR`. Such a directory may be only a copy of another one's clusters, so if an entry in it names the same
/// cluster as an entry elsewhere, the other entry is kept. `of` returns the number of a directory's parent, and the
/// directory's name.
pub fn is_found<'n>(mut dir: u32, of: impl Fn(u32) -> (u32, &'n Name)) -> bool {
    let mut above = dir;
    while dir != 0 {
        (above, dir) = (dir, of(dir).0);
    }
    let name = of(above).1.to_string();
    above != 0 && name.len() == 12 && name.starts_with("FSCK") && name.ends_with(".DIR")
}
