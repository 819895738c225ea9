//! Lists everything on a volume: `cargo run --example list disk.img`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(source) = std::env::args_os().nth(1) else {
        eprintln!("list IMAGE|IMAGE@PARTITION|mirror:IMAGE,IMAGE");
        return ExitCode::from(2);
    };
    let listed = platter::open(source).and_then(|volume| {
        for entry in volume.walk("/")? {
            // A directory that cannot be read is an error among the entries, and the walk goes on after it.
            match entry {
                Ok(entry) => println!("{:>12} {}", entry.metadata().size, entry.path().display()),
                Err(error) => eprintln!("{error}"),
            }
        }
        Ok(())
    });
    match listed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
