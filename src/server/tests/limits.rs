//! What a client is told about its limits. Stand-in.

use std::cell::RefCell;

use super::harness::{House, OK, answering, policy, run};
use crate::limit::Retry;
use crate::limiter::{Limiter, Refusal};
use crate::server::ClientTimeouts;
use crate::time::Micros;

pub(super) fn open_limiter() -> Limiter {
    Limiter {
        says: RefCell::new(None),
        shown: Vec::new(),
        delay: Micros::ZERO,
    }
}

pub(super) fn closed_limiter() -> Limiter {
    let retry = Retry::After(Micros::new(11_000_001));
    Limiter {
        says: RefCell::new(Some(Refusal::Limited {
            retry,
            shown: Vec::new(),
        })),
        ..open_limiter()
    }
}

#[test]
fn over_the_limit() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::with(policy(to), closed_limiter(), ClientTimeouts::default());
        let answer = house
            .ask("GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")
            .await;
        assert!(
            answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"),
            "{answer}"
        );
        assert!(
            answer.contains("retry-after: 12\r\n")
                && answer.contains("cache-control: no-store\r\n"),
            "{answer}"
        );
        assert!(seen.borrow().is_empty());
    });
}
