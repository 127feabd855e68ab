//! More requests wait their turn than a worker has room for.

use std::time::Duration;

use tokio::time::sleep;

use super::harness::{House, OK, answering, run};
use crate::policy::Policy;

const GET: &str = "GET / HTTP/1.1\r\nHost: gw\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n";

/// One passes at once, the others wait for ten seconds each, behind one another; and there are no more than four.
fn queueing(upstream: std::net::SocketAddr) -> Policy {
    let text = format!(
        "upstream: http://{upstream}
store: memory
limits:
  line: {{per: everyone, allow: 1 per 10 seconds, algorithm: leaky_bucket, queue: 9, max_wait: 50s}}
  four: {{per: everyone, allow: 4 per day, algorithm: fixed_window}}
  now: {{per: everyone, allow: 2 concurrent}}
"
    );
    crate::config::parse("gateway.yaml", &text, &|_| None)
        .unwrap()
        .policy
}

#[test]
fn who_finds_no_room_to_wait_is_told_when_and_pays_nothing() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::with_room_for(queueing(to), 1);
        assert!(house.ask(LAST).await.starts_with("HTTP/1.1 200 "));
        let mut waiting = house.client().await;
        waiting.say(GET).await;
        let delayed = r#"sluice_decisions_total{limit="line",decision="delayed"} 1"#;
        while !house.registry.encode().contains(delayed) {
            sleep(Duration::from_millis(1)).await;
        }

        // Did each keep its place, the wait would grow; or its charge, the fifth would be rejected; or its slot, the second.
        for _ in 0..6 {
            let answer = house.ask(LAST).await;
            assert!(
                answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
                "{answer}"
            );
            let field = answer.split("\r\nretry-after: ").nth(1).unwrap();
            let seconds: u64 = field.split("\r\n").next().unwrap().parse().unwrap();
            assert!((11..=20).contains(&seconds), "{seconds}");
            assert!(answer.contains("\"four\";r=1;"), "{answer}");
        }
        assert_eq!(house.log().len(), 7);
        assert!(house.log()[6].contains(r#""reason":"too_many_waiting""#));
        assert_eq!(seen.borrow().concat().matches("GET").count(), 1);
    });
}
