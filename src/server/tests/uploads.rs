//! Requests with bodies, answered before, while and after they come.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::harness::{House, OK, answering, policy, run, upstream, with_timeouts};
use super::limits::closed;

#[test]
fn the_verdict_comes_before_100_continue() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(closed(policy(to)));
        let answer = house
            .ask("POST /up HTTP/1.1\r\nHost: gw\r\nContent-Length: 10485760\r\nExpect: 100-continue\r\n\r\n")
            .await;
        assert!(
            answer.starts_with("HTTP/1.1 429 ") && answer.contains("connection: close\r\n"),
            "{answer}"
        );
        assert!(seen.borrow().is_empty());
    });
}

#[test]
fn an_admitted_upload_is_asked_for_once() {
    run(async {
        let (to, seen) = upstream(|mut with| async move {
            with.hear("hello").await;
            with.say("HTTP/1.1 100 Continue\r\n\r\n").await;
            with.say(OK).await;
            with.gone().await;
        })
        .await;
        let house = House::open(policy(to));
        let mut client = house.client().await;
        client.say("POST /up HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n").await;
        assert_eq!(
            client.hear("\r\n\r\n").await,
            "HTTP/1.1 100 Continue\r\n\r\n"
        );
        client.say("hello").await;
        assert!(client.hear("ok").await.starts_with("HTTP/1.1 200 "));
        assert!(!seen.borrow()[0].contains("expect"), "{seen:?}");
    });
}

#[test]
fn a_429_during_a_large_upload_is_readable() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(closed(policy(to)));
        for _ in 0..20 {
            let client = house.client().await;
            let (mut read, mut write) = client.0.into_split();
            let upload = tokio::task::spawn_local(async move {
                let head = "POST /up HTTP/1.1\r\nHost: gw\r\nContent-Length: 10485760\r\n\r\n";
                write.write_all(head.as_bytes()).await.unwrap();
                for _ in 0..160 {
                    if write.write_all(&[b'x'; 65536]).await.is_err() {
                        break;
                    }
                    sleep(Duration::from_micros(500)).await;
                }
            });
            let mut answer = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(Ok(read @ 1..)) =
                timeout(Duration::from_secs(2), read.read(&mut piece)).await
            {
                answer.extend_from_slice(&piece[..read]);
            }
            let answer = String::from_utf8(answer).unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 429 ") && answer.ends_with('}'),
                "{answer}"
            );
            assert!(answer.contains("connection: close\r\n"), "{answer}");
            upload.await.unwrap();
        }
        assert!(seen.borrow().is_empty());
    });
}

#[test]
fn a_small_body_that_is_refused_does_not_cost_the_connection() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(closed(policy(to)));
        let mut client = house.client().await;
        for _ in 0..3 {
            client
                .say("POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 34\r\n\r\n")
                .await;
            assert!(client.hear("}").await.starts_with("HTTP/1.1 429 "));
            client.say("GET /admin HTTP/1.1\r\nX: yyyyyyyyy\r\n").await;
        }
        client
            .say("HEAD / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")
            .await;
        let answer = client.hear_all().await;
        assert!(
            answer.starts_with("HTTP/1.1 429 ") && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        assert!(seen.borrow().is_empty());
    });
}

#[test]
fn an_upstream_may_answer_before_the_end_of_the_upload() {
    run(async {
        let (to, _) = upstream(|mut with| async move {
            with.hear("\r\n\r\n").await;
            with.say("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
                .await;
            with.hear("end").await;
            with.say(OK).await;
            with.gone().await;
        })
        .await;
        let house = House::open(policy(to));
        let mut client = house.client().await;
        client
            .say("POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 8\r\n\r\nbegin")
            .await;
        assert!(client.hear("no").await.starts_with("HTTP/1.1 401 "));
        client
            .say("endPOST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 0\r\n\r\n")
            .await;
        assert!(client.hear("\r\n\r\n").await.starts_with("HTTP/1.1 "));
    });
}

#[test]
fn an_upload_that_stops_is_408_and_one_that_breaks_aborts_the_upstream() {
    run(async {
        let (to, seen) = upstream(|mut with| async move {
            with.gone().await;
        })
        .await;
        let quick = with_timeouts(policy(to), |timeouts| {
            timeouts.idle = Duration::from_millis(100);
        });
        let house = House::open(quick);
        let answer = house
            .ask("POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 100000\r\n\r\nbegin")
            .await;
        assert!(
            answer.starts_with("HTTP/1.1 408 ") && answer.contains("connection: close\r\n"),
            "{answer}"
        );
        let answer = house
            .ask(
                "POST / HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!!\r\n",
            )
            .await;
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.contains("connection: close\r\n"),
            "{answer}"
        );
        assert_eq!(seen.borrow().len(), 2);
    });
}
