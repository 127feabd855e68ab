use super::*;
use crate::telemetry::Registry;

fn guard() -> Arc<Guard> {
    Guard::new(&Health::new(Events::new(&Registry::new())))
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

#[test]
fn the_store_is_up_while_every_server_is_and_open_while_any_is() {
    let registry = Registry::new();
    let health = Health::new(Events::new(&registry));
    let says = |up: u8, open: u8, fallback: u8| {
        let page = registry.encode();
        for line in [
            format!("sluice_store_up {up}\n"),
            format!("sluice_store_breaker_open {open}\n"),
            format!("sluice_store_fallback {fallback}\n"),
        ] {
            assert!(page.contains(&line), "{line}: {page}");
        }
    };
    let [one, other] = [Guard::new(&health), Guard::new(&health)];
    one.linked();
    other.linked();
    says(1, 0, 0);
    for _ in 0..FAILURES {
        other.failed();
    }
    health.fell_back(Fallback::Active);
    health.fell_back(Fallback::Inactive);
    says(0, 1, 1);
    assert!(one.is_up() && !one.is_open(), "the other's requests go on");
    drop(other);
    says(1, 0, 1);
    health.fell_back(Fallback::Inactive);
    says(1, 0, 0);
    one.unlinked();
    one.failed();
    says(0, 0, 0);
    one.linked();
    says(1, 0, 0);
}
