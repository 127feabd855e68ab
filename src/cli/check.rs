//! `sluice check`: what a file means, and what is wrong with it.

#![expect(clippy::print_stdout, reason = "printing is what this command does")]

use std::process::ExitCode;

use serde_json::json;

use super::{CheckArguments, EXIT_CONFIG, Format, colour_of, environment};
use crate::config::{self, Loaded, Report};

pub(super) fn run(arguments: &CheckArguments) -> ExitCode {
    let checked = config::load(&arguments.file, &environment);
    let text = match arguments.format {
        Format::Text => in_words(&checked),
        Format::Json => in_json(&checked),
    };
    println!("{}", text.trim_end());
    match checked {
        Err(_) => ExitCode::from(EXIT_CONFIG),
        Ok(loaded) if arguments.deny_warnings && !loaded.warnings.is_empty() => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
    }
}

fn in_words(checked: &Result<Loaded, Report>) -> String {
    let colour = colour_of(&std::io::stdout());
    match checked {
        Err(report) => report.render(colour),
        Ok(loaded) if loaded.warnings.is_empty() => loaded.explain(),
        Ok(loaded) => format!("{}\n{}", loaded.explain(), loaded.warnings.render(colour)),
    }
}

/// Each finding as `FILE:LINE:COLUMN: what`, so that editors and CI systems can point at it.
fn in_json(checked: &Result<Loaded, Report>) -> String {
    let lines = |report: &Report| report.lines().collect::<Vec<_>>();
    let found = match checked {
        Err(report) => json!({ "valid": false, "errors": lines(report), "warnings": [] }),
        Ok(loaded) => json!({ "valid": true, "errors": [], "warnings": lines(&loaded.warnings) }),
    };
    format!("{found:#}")
}
