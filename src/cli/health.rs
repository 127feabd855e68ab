//! `sluice health`: whether the gateway on this machine is ready, for the health checks of containers.

#![expect(clippy::print_stderr, reason = "a failed check says why")]

use std::process::ExitCode;

use super::{EXIT_CONFIG, HealthArguments, colour_of, environment};
use crate::{admin, config};

pub(super) fn run(arguments: &HealthArguments) -> ExitCode {
    let address = match &arguments.config {
        None => arguments.admin,
        Some(file) => match config::load(file, &environment) {
            Ok(loaded) => loaded.policy.admin,
            Err(report) => {
                eprintln!("{}", report.render(colour_of(&std::io::stderr())));
                return ExitCode::from(EXIT_CONFIG);
            }
        },
    };
    match admin::probe(address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("not ready: {reason}");
            ExitCode::FAILURE
        }
    }
}
