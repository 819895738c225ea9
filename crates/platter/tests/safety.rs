//! The lab overwrites nothing that was not named.

mod common;

use common::{Place, content};
use std::fs;
use std::process::Command;

const JOB: &str = "[a]\ndirect=1\nsize=1m\ntime_based\nruntime=0.05\nrw=randwrite\nbs=4k\nioengine=io_uring\n";

/// What temporary files were once called: the process's number could be foreseen, and a link of that name was followed.
#[test]
fn a_link_of_a_temporary_files_name_is_not_written_through() {
    let here = Place::new("temporary-link");
    fs::create_dir(here.path("d")).unwrap();
    fs::write(here.path("victim"), content(1, 5000)).unwrap();
    fs::write(here.path("j.fio"), JOB).unwrap();
    let script = "ln -s ../victim d/platter-$$.tmp; exec \"$0\" run j.fio --device mem:64M --target dir:d";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_platter")]).current_dir(&here.0);
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(here.path("victim")).unwrap() == content(1, 5000));
}
