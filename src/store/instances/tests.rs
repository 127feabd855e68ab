use super::*;
use crate::policy::{RedisAddress, StoreSpec};
use crate::store::redis::tests::server::Server;
use crate::store::{Backend, Clock, Store};
use crate::telemetry::Registry;

/// One gateway of the store.
struct Gateway {
    shared: Arc<Shared>,
    store: Store,
}

impl Gateway {
    fn of(server: &Server, instances: Option<NonZeroU32>) -> Self {
        let spec = StoreSpec::Redis(RedisSpec {
            address: RedisAddress::Unix(server.socket()),
            tls: None,
            username: None,
            password: None,
            database: 0,
            prefix: Arc::from("sluice"),
            deadline: Duration::from_secs(5),
            local_max_keys: 1000,
            instances,
        });
        let events = Events::new(&Registry::new());
        let shared = Shared::new(&spec, None, Clock::system(), &events).unwrap();
        if let Some(roll) = &shared.instances.roll {
            // The tests say when it counts.
            roll.due.store(u64::MAX, Ordering::Relaxed);
        }
        let store = Store::open(&spec, &shared, &events);
        Self { shared, store }
    }

    /// What it counts, now.
    async fn counts(&self) -> u32 {
        let Backend::Redis(redis) = &self.store.backend else {
            panic!("it is not in memory")
        };
        let roll = self.shared.instances.roll.as_ref().unwrap();
        self.shared.instances.call(roll, redis).await;
        self.shared.instances().get()
    }
}

#[tokio::test]
async fn gateways_count_each_other() {
    let server = Server::start(&[]).await;
    let gateway = || Gateway::of(&server, None);
    let (one, two, three) = (gateway(), gateway(), gateway());
    assert_eq!(one.counts().await, 1);
    assert_eq!(two.counts().await, 2);
    assert_eq!(three.counts().await, 3);
    assert_eq!(one.counts().await, 3);
    assert_eq!(one.counts().await, 3, "a renewal is not one more");
}

#[tokio::test]
async fn one_that_ends_is_missed_once_it_was_not_seen_for_some_counts() {
    let server = Server::start(&[]).await;
    let gateway = || Gateway::of(&server, None);
    let (one, two) = (gateway(), gateway());
    assert_eq!((two.counts().await, one.counts().await), (1, 2));
    two.store.flush(Duration::from_secs(5)).await;
    for expected in [2, 2, 2, 1] {
        assert_eq!(one.counts().await, expected);
    }
}

#[tokio::test]
async fn a_store_that_forgot_everything_makes_nobody_alone() {
    let server = Server::start(&[]).await;
    let gateway = || Gateway::of(&server, None);
    let (one, two) = (gateway(), gateway());
    assert_eq!((two.counts().await, one.counts().await), (1, 2));
    server.command(None, &["FLUSHALL"]).await;
    assert_eq!(one.counts().await, 2);
    assert_eq!((two.counts().await, one.counts().await), (2, 2));
}

#[tokio::test]
async fn what_is_given_is_not_counted() {
    let server = Server::start(&[]).await;
    let gateway = Gateway::of(&server, NonZeroU32::new(7));
    assert_eq!(gateway.shared.instances().get(), 7);
    assert!(gateway.shared.instances.roll.is_none());
}

#[test]
fn one_worker_renews_the_lease_when_it_is_due() {
    let events = Events::new(&Registry::new());
    let roll = Roll::of("sluice", 1, &events).unwrap();
    assert!(roll.claim());
    assert!(!roll.claim(), "another did");
    roll.missed();
    assert!(roll.claim(), "nobody was reached");
    roll.missed();
    roll.left.store(true, Ordering::Relaxed);
    assert!(!roll.claim(), "it has left");
}
