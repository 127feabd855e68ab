//! The command line: one file a command. Only here does anything print, read the environment or choose an exit code.

mod check;
mod demo;
mod health;
mod run;
mod sample;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::config::Colour;

/// The configuration, the command line or the addresses it names cannot be used (`EX_CONFIG` of sysexits).
const EXIT_CONFIG: u8 = 78;

/// A reverse proxy that limits rates.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until told to stop; reload the file when it changes and on SIGHUP
    Run(RunArguments),
    /// Serve a sample upstream behind the shipped gateway.yaml, and print what to try
    Demo,
    /// Say what a file means in plain words, and everything that is wrong with it
    Check(CheckArguments),
    /// Exit with 0 when the gateway on this machine is ready
    Health(HealthArguments),
}

#[derive(Args, Debug)]
struct RunArguments {
    /// The configuration
    #[arg(short, long, value_name = "FILE", default_value = "gateway.yaml", conflicts_with_all = ["to", "limit"])]
    config: PathBuf,
    /// Without a file: where every request goes
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Without a file: a limit, as "100 per minute per ip" or "POST /login: 5 per hour per ip"
    #[arg(long, value_name = "LIMIT", requires = "to")]
    limit: Vec<String>,
}

#[derive(Args, Debug)]
struct CheckArguments {
    /// The configuration
    #[arg(value_name = "FILE", default_value = "gateway.yaml")]
    file: PathBuf,
    /// How the findings are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Exit with 1 when there are warnings
    #[arg(long)]
    deny_warnings: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Args, Debug)]
struct HealthArguments {
    /// The configuration that names the admin endpoint
    #[arg(short, long, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
    /// The address of the admin endpoint
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9900")]
    admin: std::net::SocketAddr,
}

/// Parses the arguments, runs one command, and turns its result into an exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Demo => demo::run(),
        Command::Check(arguments) => check::run(&arguments),
        Command::Health(arguments) => health::run(&arguments),
    }
}

/// Logs go to standard error; standard output belongs to the access log. `SLUICE_LOG` filters them (`info` by default).
fn start_logging() {
    let filter = EnvFilter::try_from_env("SLUICE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false)
        .init();
}

/// A variable of the environment, for `${NAME}` in a configuration.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Colours for a person at a terminal, none for a file or a pipe.
fn colour_of(stream: &impl std::io::IsTerminal) -> Colour {
    if stream.is_terminal() {
        Colour::On
    } else {
        Colour::Off
    }
}
