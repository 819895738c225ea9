//! Checks a volume and prints what is damaged, with progress: `cargo run --example check disk.img`. Nothing is written.

use platter::{CheckOptions, Progress};

/// Prints each step once.
struct Steps(std::sync::Mutex<&'static str>);

impl Progress for Steps {
    fn progress(&self, what: &'static str, _done: u64, _total: u64) {
        let mut last = self.0.lock().expect("no thread panicked");
        if *last != what {
            eprintln!("{what}");
            *last = what;
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let source = std::env::args_os().nth(1).ok_or("check IMAGE")?;
    let checked = platter::check(source, &CheckOptions::default(), &Steps(std::sync::Mutex::new("")))?;
    for finding in &checked.report.findings {
        println!("{}: {}", finding.code, finding.message);
    }
    println!("{}: {} findings", checked.format, checked.report.found);
    Ok(())
}
