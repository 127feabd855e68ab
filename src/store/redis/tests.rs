pub(crate) mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::Value;

use self::server::Server;
use crate::limit::algorithm::SlidingWindow;
use crate::limit::{Charge, ChargeId, Cost, Key, Meter, Ruling, Stake, When};
use crate::policy::{RedisAddress, RedisSpec, Secret, StoreSpec};
use crate::store::{Clock, Origin, Shared, Store, StoreError};
use crate::telemetry::{Events, Registry};
use crate::time::Micros;

const DEADLINE: Duration = Duration::from_millis(25);
/// Long enough that no busy machine misses it.
const PATIENT: Duration = Duration::from_secs(5);
/// How soon limits apply again.
const RECOVERY: Duration = Duration::from_secs(2);

fn spec(server: &Server, deadline: Duration) -> StoreSpec {
    StoreSpec::Redis(RedisSpec {
        address: RedisAddress::Unix(server.socket()),
        tls: None,
        username: None,
        password: None,
        database: 0,
        prefix: Arc::from("sluice"),
        deadline,
        local_max_keys: 1000,
        instances: Some(std::num::NonZeroU32::MIN),
    })
}

fn open(spec: &StoreSpec) -> Store {
    open_counted(spec, &Registry::new())
}

fn open_counted(spec: &StoreSpec, registry: &Registry) -> Store {
    let events = Events::new(registry);
    let shared = Shared::new(spec, None, Clock::system(), &events).unwrap();
    Store::open(spec, &shared, &events)
}

async fn connected(server: &Server, deadline: Duration) -> Store {
    let store = open(&spec(server, deadline));
    within(RECOVERY, &store, "connects").await;
    store
}

fn charge(who: &str, amount: u64) -> Charge {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Charge {
        key: Key::new(format!("sluice:1:{{{who}}}:test:sw1h:")),
        meter: Meter::SlidingWindow(
            SlidingWindow::new(amount, Micros::new(3_600_000_000)).unwrap(),
        ),
        cost: Cost::ONE,
        id: ChargeId::new(NEXT.fetch_add(1, Ordering::Relaxed)),
        stake: Stake::Binding,
        limit: 0,
        spent: When::Admitted,
    }
}

async fn ask(store: &Store, who: &str, amount: u64) -> Result<Ruling, StoreError> {
    store.admit(&[charge(who, amount)]).await
}

fn passes(ruling: Result<Ruling, StoreError>) -> bool {
    ruling.unwrap().retry().is_none()
}

/// Waits until the store rules; fails when that takes longer than `span`.
async fn within(span: Duration, store: &Store, what: &str) {
    let started = Instant::now();
    while let Err(error) = ask(store, "waiting", u64::from(u32::MAX)).await {
        assert!(
            started.elapsed() < span,
            "{what}: still {error:?} after {span:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_thousand_at_once_over_three_gateways_pass_exactly_ten() {
    let server = Server::start(&[]).await;
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(connected(&server, PATIENT).await);
    }
    let mut asked = Vec::new();
    for n in 0..1000 {
        let store = stores[n % 3].clone();
        asked.push(tokio::spawn(async move {
            passes(ask(&store, "crowd", 10).await)
        }));
    }
    let mut passed = 0;
    for answer in asked {
        passed += usize::from(answer.await.unwrap());
    }
    assert_eq!(passed, 10);
    for key in ["sluice:1:{crowd}:test:sw1h:", "sluice:1:secret"] {
        assert!(
            matches!(server.command(None, &["TTL", key]).await, Value::Int(1..)),
            "{key} expires"
        );
    }
}

#[tokio::test]
async fn a_process_learns_what_the_clock_of_the_store_shows() {
    let server = Server::start(&[]).await;
    let spec = spec(&server, PATIENT);
    let events = Events::new(&Registry::new());
    let wrong = Clock::Manual(Arc::new(AtomicU64::new(1_000_000)));
    let shared = Shared::new(&spec, None, wrong, &events).unwrap();
    let store = Store::open(&spec, &shared, &events);
    assert_eq!(shared.now().as_micros(), 1_000_000);
    within(RECOVERY, &store, "connects").await;
    let at = ask(&store, "clock", 1).await.unwrap().at;
    let apart = at.since(shared.now()).max(shared.now().since(at));
    // Learned from the answer before.
    assert!(apart < Micros::new(10_000_000), "{apart:?}");
}

#[tokio::test]
async fn every_reply_reaches_its_own_request() {
    let server = Server::start(&[]).await;
    let store = connected(&server, PATIENT).await;
    let mut asked = Vec::new();
    for n in 1..=600_u64 {
        let store = store.clone();
        asked.push(tokio::spawn(async move {
            (n, ask(&store, &format!("client-{n}"), n).await)
        }));
    }
    for answer in asked {
        let (n, ruling) = answer.await.unwrap();
        assert_eq!(ruling.unwrap().decisions[0].quota.remaining, n - 1);
    }
}

#[tokio::test]
async fn a_server_that_comes_late_is_found() {
    let mut server = Server::absent(&[]);
    let store = open(&spec(&server, DEADLINE));
    assert!(ask(&store, "a", 1).await.is_err());
    let started = Instant::now();
    for _ in 0..100 {
        assert!(ask(&store, "a", 1).await.is_err());
    }
    assert!(
        started.elapsed() < DEADLINE,
        "nobody waits for a server that is not there"
    );
    server.up().await;
    within(RECOVERY, &store, "a server that comes late").await;
}

#[tokio::test]
async fn a_killed_server_is_found_again() {
    let mut server = Server::start(&[]).await;
    let store = connected(&server, DEADLINE).await;
    for _ in 0..2 {
        server.kill();
        let started = Instant::now();
        for _ in 0..200 {
            assert!(ask(&store, "a", 1).await.is_err());
        }
        assert!(
            started.elapsed() < DEADLINE * 10,
            "took {:?}",
            started.elapsed()
        );
        server.up().await;
        within(RECOVERY, &store, "a restarted server").await;
    }
}

#[tokio::test]
async fn a_frozen_server_costs_a_deadline_and_then_nothing() {
    let server = Server::start(&[]).await;
    let registry = Registry::new();
    let store = open_counted(&spec(&server, DEADLINE), &registry);
    within(RECOVERY, &store, "connects").await;
    server.freeze();
    let frozen = Instant::now();
    while frozen.elapsed() < Duration::from_millis(1500) {
        let started = Instant::now();
        assert!(ask(&store, "a", 1000).await.is_err());
        let took = started.elapsed();
        assert!(took < DEADLINE * 4, "took {took:?}");
        if frozen.elapsed() > DEADLINE * 10 {
            assert!(
                took < DEADLINE,
                "the breaker keeps requests away, yet one took {took:?}"
            );
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let says = |line: &str| {
        assert!(
            registry.encode().contains(line),
            "{line}: {}",
            registry.encode()
        );
    };
    says("sluice_store_breaker_open 1");
    says("sluice_store_fallback 1");
    says("sluice_store_up 0");
    server.thaw();
    within(RECOVERY, &store, "a server that goes on").await;
    says("sluice_store_breaker_open 0");
    says("sluice_store_fallback 0");
    says("sluice_store_up 1");
}

#[tokio::test]
async fn what_a_late_reply_spent_is_given_back() {
    let server = Server::start(&[]).await;
    let store = connected(&server, DEADLINE).await;
    server.freeze();
    assert_eq!(ask(&store, "late", 1).await, Err(StoreError::Timeout));
    server.thaw();
    store.flush(RECOVERY).await;
    within(RECOVERY, &store, "a server that was late once").await;
    assert!(passes(ask(&store, "late", 1).await));
    assert!(!passes(ask(&store, "late", 1).await));
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_waits_spends_nothing() {
    let server = Server::start(&[]).await;
    let store = connected(&server, DEADLINE).await;
    server.freeze();
    for _ in 0..5 {
        let hung_up = tokio::time::timeout(Duration::from_millis(2), ask(&store, "gone", 1)).await;
        assert!(hung_up.is_err(), "it was still waiting");
    }
    server.thaw();
    store.flush(RECOVERY).await;
    within(RECOVERY, &store, "a server that was late once").await;
    assert!(passes(ask(&store, "gone", 1).await));
}

#[tokio::test]
async fn a_lost_script_is_sent_again() {
    let server = Server::start(&[]).await;
    let registry = Registry::new();
    let store = open_counted(&spec(&server, PATIENT), &registry);
    for n in 0..50 {
        assert_eq!(passes(ask(&store, "flushed", 25).await), n < 25);
        server.command(None, &["SCRIPT", "FLUSH"]).await;
    }
    let page = registry.encode();
    assert!(
        page.contains("sluice_store_errors_total{kind=\"noscript\"} 49"),
        "{page}"
    );
    assert!(page.contains("sluice_store_up 1"), "{page}");
}

#[tokio::test]
async fn a_foreign_value_fails_its_request_alone() {
    let server = Server::start(&[]).await;
    let store = connected(&server, PATIENT).await;
    server
        .command(None, &["LPUSH", "sluice:1:{foreign}:test:sw1h:", "x"])
        .await;
    let (foreign, own) = tokio::join!(ask(&store, "foreign", 1), ask(&store, "own", 1));
    assert_eq!(foreign, Err(StoreError::Refused));
    assert!(passes(own));
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_left() {
    let server = Server::start(&[]).await;
    let store = connected(&server, DEADLINE).await;
    server.command(None, &["REPLICAOF", "127.0.0.1", "1"]).await;
    assert!(ask(&store, "a", 1).await.is_err());
    server.command(None, &["REPLICAOF", "NO", "ONE"]).await;
    within(RECOVERY, &store, "a primary again").await;
}

#[tokio::test]
async fn a_wrong_password_is_tried_until_it_is_right() {
    let server = Server::start(&["--requirepass", "old"]).await;
    let StoreSpec::Redis(redis) = spec(&server, DEADLINE) else {
        return;
    };
    let spec = StoreSpec::Redis(RedisSpec {
        password: Some(Secret::new("new")),
        ..redis
    });
    let store = open(&spec);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(ask(&store, "a", 1).await.is_err());
    server
        .command(Some("old"), &["CONFIG", "SET", "requirepass", "new"])
        .await;
    within(RECOVERY, &store, "the right password").await;
}

#[tokio::test]
async fn a_full_server_still_limits() {
    let server = Server::start(&[]).await;
    let store = connected(&server, PATIENT).await;
    server
        .command(None, &["CONFIG", "SET", "maxmemory", "1"])
        .await;
    assert!(passes(ask(&store, "full", 1).await));
    assert!(!passes(ask(&store, "full", 1).await));
}

#[tokio::test]
async fn more_than_1024_waiting_charges_are_not_asked() {
    let server = Server::start(&[]).await;
    let store = connected(&server, PATIENT).await;
    server.freeze();
    let mut asked = Vec::new();
    for _ in 0..1200 {
        let store = store.clone();
        asked.push(tokio::spawn(
            async move { ask(&store, "crowd", 10_000).await },
        ));
    }
    tokio::task::yield_now().await;
    server.thaw();
    let mut turned_away = 0;
    for answer in asked {
        turned_away += usize::from(answer.await.unwrap() == Err(StoreError::NotAsked));
    }
    assert!((100..=176).contains(&turned_away), "{turned_away}");
}

#[tokio::test]
async fn receipts_go_back_and_flush_waits_for_them() {
    let server = Server::start(&[]).await;
    let store = connected(&server, PATIENT).await;
    let charges: Vec<_> = (0..500).map(|_| charge("refund", 500)).collect();
    let mut receipts = Vec::new();
    for one in &charges {
        let one = std::slice::from_ref(one);
        receipts.extend(store.admit(one).await.unwrap().receipts(one));
    }
    assert!(!passes(ask(&store, "refund", 500).await));
    store.give_back(Origin::Store, &receipts);
    store.flush(PATIENT).await;
    let other = connected(&server, PATIENT).await;
    assert_eq!(
        ask(&other, "refund", 500).await.unwrap().decisions[0]
            .quota
            .remaining,
        499
    );
}

#[tokio::test]
async fn gateways_of_one_store_share_a_secret() {
    let server = Server::start(&[]).await;
    let (one, other) = (
        connected(&server, PATIENT).await,
        connected(&server, PATIENT).await,
    );
    one.ready().await;
    other.ready().await;
    let secret = |store: &Store| store.shared().keys.offer();
    assert!(secret(&one).is_some());
    assert_eq!(secret(&one), secret(&other));
}

#[tokio::test]
async fn speaks_tcp_with_a_user_and_a_database() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let number = port.to_string();
    let server = Server::start(&[
        "--port",
        &number,
        "--bind",
        "127.0.0.1",
        "--user",
        "gate",
        "on",
        ">word",
        "~*",
        "+@all",
    ])
    .await;
    let StoreSpec::Redis(redis) = spec(&server, PATIENT) else {
        return;
    };
    let store = open(&StoreSpec::Redis(RedisSpec {
        address: RedisAddress::Tcp {
            host: "127.0.0.1".to_owned(),
            port,
        },
        username: Some("gate".to_owned()),
        password: Some(Secret::new("word")),
        database: 3,
        ..redis
    }));
    assert!(passes(ask(&store, "tcp", 1).await));
    assert!(!passes(ask(&store, "tcp", 1).await));
    let Value::BulkString(keyspace) = server.command(None, &["INFO", "keyspace"]).await else {
        return;
    };
    assert!(String::from_utf8_lossy(&keyspace).contains("db3:"));
}
