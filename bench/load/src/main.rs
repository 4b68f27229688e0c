//! Sends one command, on many keys, to a server; prints a line of JSON.
//!
//! ```text
//! rl-load paced     --port N --rate N --seconds N [--warm-up N] [OPTIONS] -- COMMAND
//! rl-load pipelined --port N --requests N [--depth N]           [OPTIONS] -- COMMAND
//!
//!   --connections N  50 unless given
//!   --keys N         how many keys there are: 1 unless given
//!   --in-order       one key after the other, instead of any
//! ```
//!
//! The word `{key}` in COMMAND stands for the key, of 17 bytes. *Paced* offers
//! requests at fixed intervals whether or not the server keeps up, one at a
//! time on each connection. *Pipelined* keeps the server busy.

mod command;
mod latencies;
mod options;
mod paced;
mod pipelined;
mod reply;

use options::{Mode, Options};
use std::error::Error;
use std::process::ExitCode;

/// What went wrong, in words.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(run) {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("rl-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Outcome<String> {
    match options.mode {
        Mode::Paced(pace) => paced::run(options.target, pace),
        Mode::Pipelined(amount) => pipelined::run(options.target, amount),
    }
}
