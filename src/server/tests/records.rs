//! Every request is recorded once, however it ends.

use super::harness::{House, OK, answering, policy, run};
use super::limits::closed;

#[test]
fn what_was_forwarded() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(policy(to));
        let mut client = house.client().await;
        client
            .say("GET /a?token=secret&b=c HTTP/1.1\r\nHost: GW\r\nX-Request-Id: a b\r\n\r\n")
            .await;
        client.hear("ok").await;
        client
            .say("GET /a HTTP/1.1\r\nHost: gw\r\nX-Request-Id: mine-1\r\n\r\n")
            .await;
        client.hear("ok").await;
        let log = house.log();
        assert_eq!(log.len(), 2, "{log:?}");
        for part in [
            r#""host":"gw""#,
            r#""path":"/a?token=***&b=c""#,
            r#""route":"all""#,
            r#""upstream":"api""#,
            r#""status":200"#,
            r#""bytes_out":2"#,
            r#""decision":"skipped""#,
        ] {
            assert!(log[0].contains(part), "no {part} in {}", log[0]);
        }
        assert!(log[1].contains(r#""request_id":"mine-1""#), "{}", log[1]);
        let seen = seen.borrow();
        assert!(
            seen[0].contains("x-request-id: mine-1\r\n") && !seen[0].contains("x-request-id: a b"),
            "{seen:?}"
        );
        assert_eq!(seen[0].matches("x-request-id").count(), 2);
        let metrics = house.registry.encode();
        for line in [
            r#"sluice_requests_total{route="all",method="GET",code="200"} 2"#,
            r#"sluice_request_duration_seconds_count{route="all"} 2"#,
            r#"sluice_upstream_requests_total{upstream="api",code="200"} 2"#,
            r#"sluice_connections{listener="127.0.0.1:0"} 1"#,
        ] {
            assert!(metrics.contains(line), "no {line} in {metrics}");
        }
    });
}

#[test]
fn what_was_refused() {
    run(async {
        let (to, _) = answering(OK).await;
        let house = House::open(closed(policy(to)));
        house
            .ask("GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")
            .await;
        house
            .ask("TRACE / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")
            .await;
        let log = house.log();
        assert!(
            log[0].contains(r#""status":429"#) && log[0].contains(r#""decision":"never""#),
            "{log:?}"
        );
        assert!(
            log[1].contains(r#""status":405"#) && log[1].contains(r#""route":"none""#),
            "{log:?}"
        );
        let metrics = house.registry.encode();
        for line in [
            r#"sluice_requests_total{route="all",method="GET",code="429"} 1"#,
            r#"sluice_requests_total{route="none",method="TRACE",code="405"} 1"#,
        ] {
            assert!(metrics.contains(line), "no {line} in {metrics}");
        }
        assert!(
            !metrics.contains("sluice_upstream_requests_total{"),
            "{metrics}"
        );
    });
}
