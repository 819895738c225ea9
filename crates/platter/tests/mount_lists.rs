//! Access control lists of POSIX on mounts. Needs root, `/dev/fuse`, setfacl, getfacl and setpriv.

use crate::common::mount::{FORMATS, Mount, WITH_OWNERS};
use std::fs;

impl Mount {
    /// The entries of a list without those who own the file.
    fn list(&self, path: &str) -> String {
        let said = self.shell(&format!("getfacl --numeric --omit-header --absolute-names m/{path}"));
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Whether a user, in no group but one of the same number, may do this.
    fn may(&self, user: u32, what: &str) -> bool {
        let number = user.to_string();
        let line = ["--reuid", &number, "--regid", &number, "--clear-groups", "sh", "-c", what];
        self.place.command("setpriv", &line).output().expect("setpriv is needed").status.success()
    }
}

#[test]
fn whom_a_list_names_may_do_what_it_says() {
    for format in WITH_OWNERS {
        let mount = Mount::new("lists", format);
        mount.shell("umask 077; echo content > m/file; setfacl -m u:1000:r m/file");
        assert_eq!(mount.list("file"), "user::rw- user:1000:r-- group::--- mask::r-- other::---", "{format}");
        assert_eq!(mount.shell("stat -c %a m/file"), "640\n");
        assert!(mount.may(1000, "cat m/file") && !mount.may(1000, "echo x > m/file"), "{format}");
        assert!(!mount.may(1001, "cat m/file"));
        mount.end();
        mount.mount("");
        assert!(mount.may(1000, "cat m/file") && !mount.may(1001, "cat m/file"), "{format}");
        // The permissions of the group are those that all who are named have at most.
        mount.shell("chmod 600 m/file");
        assert_eq!(
            mount.list("file"),
            "user::rw- user:1000:r-- #effective:--- group::--- mask::--- other::---",
            "{format}"
        );
        assert!(!mount.may(1000, "cat m/file"));
        mount.shell("chmod 660 m/file; setfacl -m u:1000:rw m/file");
        assert!(
            mount.may(1000, "echo more >> m/file") && !mount.may(1001, "echo more >> m/file"),
            "{format}"
        );
        // Only who owns the file may change its list.
        assert!(!mount.may(1000, "setfacl -m u:1001:rw m/file"));
        mount.shell("cp -a m/file m/copy; setfacl -b m/file");
        assert_eq!(mount.list("file"), "user::rw- group::--- other::---", "{format}");
        assert!(!mount.may(1000, "cat m/file") && mount.may(1000, "cat m/copy"), "{format}");
        assert!(!mount.shell("getfattr -d -m - m/file").contains("posix_acl"));
        mount.end();
    }
}

#[test]
fn new_entries_get_the_list_that_the_directory_has_for_them() {
    for format in WITH_OWNERS {
        let mount = Mount::new("lists-of-new", format);
        mount.shell("mkdir m/shared; setfacl -d -m u:1000:rwx,g::rx,o::- m/shared");
        // The umask counts where the directory has no such list.
        mount.shell(
            "umask 077; echo x > m/shared/file; mkdir m/shared/below; mkfifo m/shared/fifo; echo x > m/other",
        );
        assert_eq!(
            mount.list("shared/file"),
            "user::rw- user:1000:rwx #effective:rw- group::r-x #effective:r-- mask::rw- other::---",
            "{format}"
        );
        assert_eq!(
            mount.shell("stat -c %a m/shared/file m/shared/fifo m/other"),
            "660\n660\n600\n",
            "{format}"
        );
        let below = "user::rwx user:1000:rwx group::r-x mask::rwx other::--- default:user::rwx \
                     default:user:1000:rwx default:group::r-x default:mask::rwx default:other::---";
        assert_eq!(mount.list("shared/below"), below, "{format}");
        assert!(
            mount.may(1000, "echo more >> m/shared/file") && !mount.may(1001, "cat m/shared/file"),
            "{format}"
        );
        mount.end();
        mount.mount("");
        assert_eq!(mount.list("shared/below"), below, "{format}");
        mount.shell("setfacl -k m/shared; umask 027; echo x > m/shared/later");
        assert_eq!(mount.list("shared/later"), "user::rw- group::r-- other::---", "{format}");
        let refused = mount.place.command("setfacl", &["-d", "-m", "u:1000:r", "m/other"]).output().unwrap();
        assert!(!refused.status.success(), "{format}: {refused:?}");
        mount.end();
    }
}

#[test]
fn formats_without_owners_keep_no_lists() {
    for format in FORMATS.into_iter().filter(|format| !WITH_OWNERS.contains(format)) {
        let mount = Mount::new("no-lists", format);
        fs::write(mount.at("file"), "content").unwrap();
        let refused = mount.place.command("setfacl", &["-m", "u:1000:r", "m/file"]).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("not supported"), "{format}: {said}");
        mount.shell("umask 077; echo x > m/new");
        mount.end();
    }
}
