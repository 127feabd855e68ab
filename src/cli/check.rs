//! `sluice check`: what a file means, and what is wrong with it.

#![expect(clippy::print_stdout, reason = "printing is what this command does")]

use std::process::ExitCode;

use super::{CheckArguments, EXIT_CONFIG, Format, environment};
use crate::config;

pub(super) fn run(arguments: &CheckArguments) -> ExitCode {
    let (text, code) = match config::load(&arguments.file, &environment) {
        Err(report) => match arguments.format {
            Format::Text => (report.to_string(), EXIT_CONFIG),
            Format::Json => (report.to_json(), EXIT_CONFIG),
        },
        Ok(loaded) => {
            let denied = arguments.deny_warnings && !loaded.warnings.is_empty();
            (accepted(arguments.format, &loaded), u8::from(denied))
        }
    };
    println!("{}", text.trim_end());
    ExitCode::from(code)
}

fn accepted(format: Format, loaded: &config::Loaded) -> String {
    match format {
        Format::Json => loaded.to_json(),
        Format::Text => {
            let mut text = config::explain(&loaded.policy);
            for warning in &loaded.warnings {
                text.push_str(&format!("\n{warning}"));
            }
            text
        }
    }
}
