//! `sluice run`: serve until told to stop.

use std::process::ExitCode;

use super::{EXIT_CONFIG, RunArguments, colour_of, environment, start_logging};
use crate::app::{self, Source};
use crate::config;

pub(super) fn run(arguments: &RunArguments) -> ExitCode {
    start_logging();
    let loaded = match &arguments.to {
        Some(url) => config::from_arguments(url, &arguments.limit),
        None => config::load(&arguments.config, &environment),
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(report) => return refuse(&report),
    };
    for warning in loaded.warnings.lines() {
        tracing::warn!("{warning}");
    }
    let source = match &arguments.to {
        Some(_) => Source::Arguments,
        None => Source::File {
            path: arguments.config.clone(),
            environment,
        },
    };
    match app::run(loaded, source, |_| ()) {
        Ok(ended) => ended.exit_code(),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(cause, "the gateway cannot start: {error}");
            ExitCode::from(EXIT_CONFIG)
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the report is for the person at the terminal"
)]
fn refuse(report: &config::Report) -> ExitCode {
    eprintln!("{}", report.render(colour_of(&std::io::stderr())));
    ExitCode::from(EXIT_CONFIG)
}
