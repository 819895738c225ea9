//! Volumes that mkntfs made and that were filled through ntfs-3g.

use crate::judges::{ImageFile, Mount, made};
use platter_testing::model::Random;

/// A tree with everything that ntfs-3g writes: directories deep and wide, files that are resident, in clusters,
/// fragmented, sparse and compressed, names and streams that need several records, hard links and symbolic links.
const FILL: &str = r#"
noise() { tail -c +$1 NOISE | head -c $2; }
mkdir deep many z links Ünï gone
p=deep; for i in 1 2 3 4 5 6 7 8; do p="$p/level $i"; mkdir "$p"; echo "deep $i" > "$p/f"; done
for i in $(seq 1 FILES); do echo "content $i" > "many/file number $i.txt"; done
for i in $(seq 1 3 FILES); do rm "many/file number $i.txt"; done
PACKED
seq 1 30000 > z/seq; seq 7 20000 | tr 1 2 > z/other; head -c 300000 /dev/zero > z/zero
(noise 1 100000; seq 1 9000; noise 200000 70000) > z/mixed
noise 300000 400000 > large
truncate -s 5M sparse; noise 700000 50000 | dd of=sparse bs=4096 seek=700 conv=notrunc 2>/dev/null
for i in $(seq 1 40); do ln large "links/a rather long name of a hard link, number $i"; done
ln -s ../large links/symlink; mkfifo links/fifo
setfattr -n user.stream -v "a named stream" large
for i in $(seq 1 25); do setfattr -n user.s$i -v "$(head -c 300 /dev/zero | tr '\0' x)" "deep/level 1/f"; done
for r in $(seq 1 60); do for f in one two three; do noise $((r * 5000)) 5000 >> $f; done; done
rm two
echo x > "Ünï/ÄÖÜ ß €"; echo y > many/A; echo z > many/a
for i in 1 2 3 4 5 6 7 8 9; do seq $i 3000 > gone/$i; done
for i in 2 4 6 8; do rm gone/$i; done
"#;

/// A volume made by mkntfs with clusters of `cluster` bytes, filled with some `files` small files and the rest of the
/// tree.
pub(crate) fn filled(length: u64, cluster: u64, files: u32) -> ImageFile {
    let image = made(length, cluster);
    fill(&image, cluster, files);
    image
}

/// Fills a new volume with the tree.
pub(crate) fn fill(image: &ImageFile, cluster: u64, files: u32) {
    let mount = Mount::writing(image).expect("a new volume can be mounted");
    let packed = if cluster <= 4096 { "setfattr -h -v 0x00000810 -n system.ntfs_attrib_be z" } else { ":" };
    let mut noise = vec![0; 1 << 20];
    Random::new(8664).fill(&mut noise);
    let noise = ImageFile::new(&noise);
    let script = FILL.replace("NOISE", noise.path()).replace("FILES", &files.to_string());
    mount.script(&script.replace("PACKED", packed));
}
