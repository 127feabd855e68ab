//! Connections to upstreams: kept, lost, slow, broken.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::harness::{House, OK, answering, policy, run, upstream, with_timeouts};
use crate::snapshot::Snapshot;

const GET: &str = "GET /a?b=c HTTP/1.1\r\nHost: gw\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n";

#[test]
fn connections_are_kept_and_shared() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(policy(to));
        for _ in 0..3 {
            let mut client = house.client().await;
            for _ in 0..3 {
                client.say(GET).await;
                client.hear("ok").await;
            }
        }
        assert_eq!(seen.borrow().len(), 1);
        assert_eq!(
            seen.borrow()[0].matches("GET /a?b=c HTTP/1.1\r\n").count(),
            9
        );
    });
}

#[test]
fn an_unchanged_upstream_keeps_its_connections_over_a_reload() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(policy(to));
        house.ask(LAST).await;
        let next = Snapshot::next(&house.snapshots.load(), std::sync::Arc::new(policy(to)));
        house.snapshots.store(std::sync::Arc::new(next));
        house.ask(LAST).await;
        assert_eq!(seen.borrow().len(), 1);
    });
}

#[test]
fn a_connection_that_was_closed_while_idle_is_replaced() {
    run(async {
        let (to, seen) = upstream(|mut with| async move {
            with.hear("\r\n\r\n").await;
            with.say(OK).await;
            // Closes without a word, as servers do with idle connections.
        })
        .await;
        let house = House::open(policy(to));
        let mut client = house.client().await;
        for _ in 0..5 {
            client
                .say("POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 0\r\n\r\n")
                .await;
            client.hear("ok").await;
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(seen.borrow().len(), 5);
    });
}

#[test]
fn a_get_that_meets_the_close_is_sent_again_and_a_post_is_not() {
    run(async {
        let (to, seen) = upstream(|mut with| async move {
            with.hear("\r\n\r\n").await;
            with.say(OK).await;
            // Takes the second request of the connection, and closes.
            with.hear("\r\n\r\n").await;
        })
        .await;
        let house = House::open(policy(to));
        let mut client = house.client().await;
        for _ in 0..4 {
            client.say(GET).await;
            client.hear("ok").await;
        }
        assert_eq!(seen.borrow().len(), 4);
        client
            .say("POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 0\r\n\r\n")
            .await;
        let answer = client.hear("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(
            answer.contains("proxy-status: sluice; error=connection_terminated\r\n"),
            "{answer}"
        );
        let posts: usize = seen
            .borrow()
            .iter()
            .map(|seen| seen.matches("POST").count())
            .sum();
        assert_eq!(posts, 1);
    });
}

#[test]
fn failures_have_their_status() {
    run(async {
        let nobody = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let answer = House::open(policy(nobody)).ask(LAST).await;
        assert!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains("error=connection_refused"),
            "{answer}"
        );
        assert!(
            answer.contains("content-type: application/problem+json\r\n"),
            "{answer}"
        );

        for (said, status) in [
            ("", "502"),
            ("HTTP/1.1 200 OK\r\nContent-Le", "502"),
            ("NONSENSE\r\n\r\n", "502"),
            (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                "502",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                "502",
            ),
            (
                "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                "200",
            ),
        ] {
            let (to, _) = upstream(move |mut with| async move {
                with.hear("\r\n\r\n").await;
                with.say(said).await;
            })
            .await;
            let answer = House::open(policy(to)).ask(LAST).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{said}: {answer}"
            );
        }
    });
}

#[test]
fn silence_is_504() {
    run(async {
        let (to, _) = upstream(|mut with| async move {
            with.gone().await;
        })
        .await;
        let quick = with_timeouts(policy(to), |timeouts| {
            timeouts.response = Duration::from_millis(50);
        });
        let answer = House::open(quick).ask(LAST).await;
        assert!(
            answer.starts_with("HTTP/1.1 504 ") && answer.contains("http_response_timeout"),
            "{answer}"
        );
    });
}

#[test]
fn a_broken_answer_never_looks_complete() {
    run(async {
        for said in [
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        ] {
            let (to, _) = upstream(move |mut with| async move {
                with.hear("\r\n\r\n").await;
                with.say(said).await;
            })
            .await;
            let answer = House::open(policy(to)).ask(GET).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(
                answer.ends_with("hello") || answer.ends_with("hello\r\n"),
                "{answer}"
            );
        }
        let (to, _) = upstream(|mut with| async move {
            with.hear("\r\n\r\n").await;
            with.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
                .await;
            with.gone().await;
        })
        .await;
        let quick = with_timeouts(policy(to), |timeouts| {
            timeouts.idle = Duration::from_millis(50);
        });
        let answer = House::open(quick).ask(GET).await;
        assert!(answer.ends_with("hello"), "{answer}");
    });
}

#[test]
fn a_client_that_leaves_takes_the_upstream_connection_along() {
    run(async {
        let left = Rc::new(Cell::new(0));
        let count = Rc::clone(&left);
        let (to, _) = upstream(move |mut with| {
            let count = Rc::clone(&count);
            async move {
                with.hear("\r\n\r\n").await;
                if with.number == 1 {
                    with.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
                        .await;
                }
                with.gone().await;
                count.set(count.get() + 1);
            }
        })
        .await;
        let house = House::open(policy(to));
        for said in [None, Some("hello")] {
            let mut client = house.client().await;
            client.say(GET).await;
            match said {
                Some(said) => drop(client.hear(said).await),
                None => sleep(Duration::from_millis(50)).await,
            }
            client.0.shutdown().await.unwrap();
        }
        while left.get() < 2 {
            sleep(Duration::from_millis(5)).await;
        }
        let log = house.log();
        assert_eq!(log.len(), 2, "{log:?}");
        assert!(
            log.iter()
                .all(|line| line.contains(r#""status":499"#) && line.contains("client_gone")),
            "{log:?}"
        );
        let metrics = house.registry.encode();
        assert!(
            metrics.contains(r#"sluice_requests_total{route="all",method="GET",code="499"} 1"#),
            "{metrics}"
        );
        assert!(
            metrics.contains(r#"sluice_requests_total{route="all",method="GET",code="200"} 1"#),
            "{metrics}"
        );
        assert!(
            metrics.contains(r#"sluice_upstream_in_flight{upstream="api"} 0"#),
            "{metrics}"
        );
    });
}

#[test]
fn frames_pass_as_they_come() {
    run(async {
        let (to, _) = upstream(|mut with| async move {
            with.hear("\r\n\r\n").await;
            with.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
                .await;
            for event in ["data: 1\n\n", "data: 2\n\n"] {
                with.say(event).await;
                sleep(Duration::from_millis(100)).await;
            }
            with.gone().await;
        })
        .await;
        let house = House::open(policy(to));
        let mut client = house.client().await;
        client.say(GET).await;
        client.hear("data: 1\n\n").await;
        client.hear("data: 2\n\n").await;
    });
}

#[test]
fn the_next_server_takes_over() {
    run(async {
        let nobody = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let (to, seen) = answering(OK).await;
        let mut policy = policy(nobody);
        let mut spec = (*policy.upstreams[0]).clone();
        spec.servers.push(crate::policy::ServerSpec {
            host: "localhost".into(),
            port: to.port(),
        });
        spec.host = crate::policy::HostRule::Upstream;
        policy.upstreams[0] = std::sync::Arc::new(spec);
        let house = House::open(policy);
        for _ in 0..4 {
            assert!(house.ask(LAST).await.starts_with("HTTP/1.1 200 "));
        }
        assert!(
            seen.borrow()[0].contains(&format!("host: localhost:{}\r\n", to.port())),
            "{seen:?}"
        );
    });
}
