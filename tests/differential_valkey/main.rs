//! The differential tests on Valkey. What they print is printed for Redis alone.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "what stands beside the tests fails like them"
)]

#[path = "../differential/calendars.rs"]
mod calendars;
#[path = "../differential/golden.rs"]
mod golden;
#[path = "../differential/leases.rs"]
mod leases;
#[path = "../differential/mistakes.rs"]
mod mistakes;
#[path = "../differential/reports.rs"]
mod reports;
#[path = "../differential/returning.rs"]
mod returning;
#[path = "../differential/server.rs"]
mod server;
#[path = "../differential/walk.rs"]
mod walk;

#[test]
fn no_module_is_missing() {
    let modules = |text: &'static str| -> Vec<_> {
        text.lines()
            .filter(|line| line.starts_with("mod "))
            .collect()
    };
    assert_eq!(
        modules(include_str!("main.rs")),
        modules(include_str!("../differential/main.rs"))
    );
}
