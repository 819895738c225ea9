//! The command line.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    platter::run(std::env::args_os())
}
