use super::*;
use crate::telemetry::Registry;

fn guard() -> Guard {
    Guard::new(Events::new(&Registry::new()))
}

#[test]
fn opens_after_five_failures_in_a_row() {
    let guard = guard();
    for _ in 0..4 {
        guard.failed();
    }
    guard.succeeded();
    for _ in 0..4 {
        guard.failed();
    }
    assert!(
        !guard.is_open(),
        "a success between them starts the count again"
    );
    guard.failed();
    assert!(guard.is_open());
    guard.succeeded();
    assert!(guard.is_open(), "only a try closes it");
    guard.recovered();
    assert!(!guard.is_open());
}

#[test]
fn one_of_many_tries_every_250_ms() {
    let guard = guard();
    assert!(!guard.claim_probe(), "nothing to try while it is closed");
    for _ in 0..FAILURES {
        guard.failed();
    }
    assert!(!guard.claim_probe(), "not at once");
    guard.probe_at.store(0, Ordering::Relaxed);
    assert!(guard.claim_probe());
    assert!(!guard.claim_probe(), "someone else tries already");
}
