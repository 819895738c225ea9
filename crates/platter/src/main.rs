//! The command line.
#![forbid(unsafe_code)]

mod command;

fn main() -> std::process::ExitCode {
    command::run(std::env::args_os())
}
