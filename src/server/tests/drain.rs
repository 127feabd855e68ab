//! How connections end: by the clock, and at the end of the worker.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::harness::{Client, House, OK, answering, policy, run, upstream};
use crate::server::{BindError, Bound, ClientTimeouts, Drained};

#[test]
fn what_is_under_way_is_finished_and_nothing_new_is_taken() {
    run(async {
        let (to, _) = upstream(|mut with| async move {
            with.hear("\r\n\r\n").await;
            sleep(Duration::from_millis(200)).await;
            with.say(OK).await;
        })
        .await;
        let house = House::open(policy(to));
        let mut busy = house.client().await;
        busy.say("GET / HTTP/1.1\r\nHost: gw\r\n\r\n").await;
        let mut late = house.client().await;
        sleep(Duration::from_millis(20)).await;
        house.signal.stop(Duration::from_secs(5));
        sleep(Duration::from_millis(20)).await;
        late.say("GET / HTTP/1.1\r\nHost: gw\r\n\r\n").await;
        assert!(TcpStream::connect(house.address).await.is_err());
        for client in [&mut busy, &mut late] {
            let answer = client.hear_all().await;
            assert!(
                answer.contains("connection: close\r\n") && answer.ends_with("ok"),
                "{answer}"
            );
        }
        assert_eq!(house.worker.await.unwrap().unwrap(), Drained { cut: 0 });
    });
}

#[test]
fn what_does_not_finish_is_cut() {
    run(async {
        let (to, _) = upstream(|mut with| async move {
            with.gone().await;
        })
        .await;
        let house = House::open(policy(to));
        let mut hung = house.client().await;
        hung.say("GET / HTTP/1.1\r\nHost: gw\r\n\r\n").await;
        sleep(Duration::from_millis(20)).await;
        house.signal.stop(Duration::from_millis(100));
        assert_eq!(house.worker.await.unwrap().unwrap(), Drained { cut: 1 });
        assert_eq!(hung.hear_all().await, "");
    });
}

#[test]
fn idle_connections_end_soon() {
    run(async {
        let (to, _) = answering(OK).await;
        let house = House::open(policy(to));
        let mut idle = house.client().await;
        idle.say("GET / HTTP/1.1\r\nHost: gw\r\n\r\n").await;
        idle.hear("ok").await;
        house.signal.stop(Duration::from_secs(5));
        assert_eq!(
            timeout(Duration::from_secs(1), house.worker)
                .await
                .unwrap()
                .unwrap()
                .unwrap(),
            Drained { cut: 0 }
        );
        assert!(idle.closes().await);
    });
}

#[test]
fn slow_heads_and_silence_are_closed() {
    run(async {
        let (to, _) = answering(OK).await;
        let quick = ClientTimeouts {
            head: Duration::from_millis(200),
            idle: Duration::from_millis(1500),
            ..ClientTimeouts::default()
        };
        let house = House::with(policy(to), quick);
        assert!(house.client().await.closes().await);

        let mut slow = house.client().await;
        let trickle = async {
            for _ in 0..20 {
                if tokio::io::AsyncWriteExt::write_all(&mut slow.0, b"G")
                    .await
                    .is_err()
                {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
            panic!("still open");
        };
        trickle.await;

        let mut patient = house.client().await;
        patient.say("GET / HTTP/1.1\r\nHost: gw\r\n\r\n").await;
        patient.hear("ok").await;
        sleep(Duration::from_millis(600)).await;
        patient.say("GET / HTTP/1.1\r\nHost: gw\r\n\r\n").await;
        patient.hear("ok").await;
        assert!(!Client::closes(&mut patient).await);
        assert!(patient.closes().await);
    });
}

#[test]
fn heads_have_bounds() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(policy(to));
        let many = format!(
            "GET / HTTP/1.1\r\nHost: gw\r\n{}\r\n",
            "a: b\r\n".repeat(100)
        );
        let long = format!(
            "GET / HTTP/1.1\r\nHost: gw\r\na: {}\r\n\r\n",
            "b".repeat(33 * 1024)
        );
        for head in [many, long] {
            let answer = house.ask(&head).await;
            assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        }
        assert!(seen.borrow().is_empty());
    });
}

#[test]
fn a_port_in_use_is_noticed() {
    let two = 2.try_into().unwrap();
    let bound = Bound::bind(&["127.0.0.1:0".parse().unwrap()], two).unwrap();
    let address = bound.addresses()[0];
    assert_ne!(address.port(), 0);
    let workers = bound.into_workers();
    assert_eq!(workers.len(), 2);
    let BindError { address: taken, .. } = Bound::bind(&[address], two).unwrap_err();
    assert_eq!(taken, address);
    drop(workers);
    let port = address.port();
    let both = [
        format!("0.0.0.0:{port}").parse().unwrap(),
        format!("[::]:{port}").parse().unwrap(),
    ];
    assert_eq!(Bound::bind(&both, two).unwrap().addresses(), both);
}
