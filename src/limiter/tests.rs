mod beside;
mod cost;
mod owed;
mod slots;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName};
use hyper::http::request::Parts;

use super::*;
use crate::identify::ClientRules;
use crate::limit::algorithm::{Bucket, BucketSpec, CalendarWindow, Refill, SlidingWindow};
use crate::limit::key::{IfMissing, KeySpec, Source};
use crate::limit::{Cost, Meter};
use crate::policy::{
    Amount, Answers, CostRule, Count, Drain, Preflight, RedisAddress, RedisSpec, Reply, StoreSpec,
};
use crate::request::{Client, PeerTrust, Target};
use crate::route::{Index, Matcher, PathRules, Width};
use crate::store::redis::tests::server::Server;
use crate::store::{Clock, Shared};
use crate::telemetry::{Events, Registry};
use crate::time::{Calendar, Unit};

const MEMORY: StoreSpec = StoreSpec::Memory { max_keys: 1000 };

fn redis(socket: PathBuf, deadline: Duration) -> StoreSpec {
    StoreSpec::Redis(RedisSpec {
        address: RedisAddress::Unix(socket),
        tls: None,
        username: None,
        password: None,
        database: 0,
        prefix: Arc::from("sluice"),
        deadline,
        local_max_keys: 1000,
        instances: Some(NonZeroU32::MIN),
    })
}

/// The same store, shared by so many gateways.
fn among(instances: u32, store: StoreSpec) -> StoreSpec {
    match store {
        StoreSpec::Redis(spec) => StoreSpec::Redis(RedisSpec {
            instances: NonZeroU32::new(instances),
            ..spec
        }),
        memory @ StoreSpec::Memory { .. } => memory,
    }
}

fn away() -> StoreSpec {
    redis(
        PathBuf::from("/nowhere/redis.sock"),
        Duration::from_millis(25),
    )
}

fn window(amount: u64) -> Meter {
    Meter::SlidingWindow(SlidingWindow::new(amount, Micros::new(3_600_000_000)).unwrap())
}

fn amount(quota: u64) -> Amount {
    let text: Arc<str> = Arc::from("test");
    Amount {
        meter: window(quota),
        calendar: None,
        code: Arc::from("sw1h"),
        shown_as: Arc::clone(&text),
        quota,
        window: Some(Duration::from_secs(3600)),
        burst: None,
        words: text,
    }
}

fn limit(name: &str, amounts: Vec<Amount>) -> Limit {
    let ip = Source::Ip { v4: 32, v6: 64 };
    Limit {
        name: Arc::from(name),
        except: Index::new(Width::Exact, []),
        per: KeySpec {
            parts: vec![vec![ip.clone()]],
            if_missing: IfMissing::Ip,
            fallback: ip,
        },
        per_words: Arc::from("client address"),
        amounts,
        choice: None,
        cost: CostRule::default(),
        count: Count::Every,
        mode: LimitMode::Enforce,
        candidate: None,
        then: None,
        preflight: Preflight::Count,
        if_down: IfDown::Local,
        reply: Reply::default(),
    }
}

fn per_header(limit: Limit, if_missing: IfMissing) -> Limit {
    let parts = vec![vec![Source::Header(HeaderName::from_static("x-user-id"))]];
    Limit {
        per: KeySpec {
            parts,
            if_missing,
            ..limit.per.clone()
        },
        ..limit
    }
}

fn everything() -> Index {
    Index::new(Width::Exact, [(0, Matcher::default())])
}

fn policy(store: StoreSpec, limits: Vec<Limit>) -> Policy {
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    Policy {
        listen: vec![any],
        admin: any,
        workers: NonZeroUsize::MIN,
        store,
        secret: None,
        clients: ClientRules::default(),
        upstreams: Vec::new(),
        routes: Vec::new(),
        route_index: Index::new(Width::Exact, []),
        skip: Index::new(Width::Exact, []),
        body_index: Index::new(Width::Wide, []),
        limit_index: Index::new(
            Width::Wide,
            (0..limits.len()).map(|limit| (limit, Matcher::default())),
        ),
        limits,
        mode: Mode::Enforce,
        paths: PathRules::default(),
        headers: crate::policy::HeaderFields::default(),
        drain: Drain {
            wait: Duration::ZERO,
            grace: Duration::ZERO,
        },
        cors: None,
        access_log: None,
    }
}

struct House {
    limiter: Limiter,
    policy: Policy,
    cells: Vec<LimitEvents>,
}

impl House {
    fn new(policy: Policy) -> Self {
        Self::at(Clock::system(), policy)
    }

    /// A house whose memory tells the time by `clock`.
    fn at(clock: Clock, policy: Policy) -> Self {
        let events = Events::new(&Registry::new());
        let shared = Shared::new(&policy.store, policy.secret.as_ref(), clock, &events).unwrap();
        let cells = policy
            .limits
            .iter()
            .map(|limit| events.limit(&limit.name))
            .collect();
        let store = Store::open(&policy.store, &shared, &events);
        Self {
            limiter: Limiter::new(store).unwrap(),
            policy,
            cells,
        }
    }

    async fn admit(&self) -> Result<Admission, Refusal> {
        self.request(&[], 1).await
    }

    async fn request(
        &self,
        headers: &[(&str, &str)],
        last_octet: u8,
    ) -> Result<Admission, Refusal> {
        let head = head(headers);
        let target = Target {
            exact: "/".to_owned(),
            wide: "/".to_owned(),
            query: None,
        };
        let address = IpAddr::from([192, 0, 2, last_octet]);
        let client = Client {
            peer: (address, 1).into(),
            trust: PeerTrust::Untrusted,
            address,
        };
        let facts = Facts {
            head: &head,
            client,
            host: "api.test",
            target: &target,
            route: None,
            route_params: &[],
            body: None,
        };
        self.limiter.admit(&self.policy, &self.cells, &facts).await
    }
}

fn head(headers: &[(&str, &str)]) -> Parts {
    let mut request = hyper::Request::builder().uri("/");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn met(admission: &Admission) -> Vec<Decided> {
    admission.met.iter().map(|(_, decided)| *decided).collect()
}

#[tokio::test]
async fn a_calendar_holds_in_memory_and_while_the_store_is_away() {
    let calendar = Arc::new(Calendar::new(Unit::Month, "Europe/Paris").unwrap());
    let meter = Meter::CalendarWindow(CalendarWindow::new(2, Micros::SECOND).unwrap());
    for store in [MEMORY, away()] {
        let held = Amount {
            meter,
            calendar: Some(Arc::clone(&calendar)),
            ..amount(2)
        };
        let house = House::new(policy(store, vec![limit("month", vec![held])]));
        assert_eq!(house.admit().await.unwrap().shown[0].quota.remaining, 1);
        assert!(house.admit().await.is_ok());
        let Err(Refusal::Limited { retry, .. }) = house.admit().await else {
            panic!("a third of two")
        };
        let now = house.limiter.store().shared().now();
        let [_, _, end, _] = calendar.around(now);
        let Retry::After(wait) = retry else {
            panic!("{retry:?}")
        };
        let left = end.since(now);
        assert!(wait >= left && wait.get() - left.get() < 60_000_000);
    }
}

#[tokio::test]
async fn all_limits_allow_or_none_spends() {
    let house = House::new(policy(
        MEMORY,
        vec![
            limit("wide", vec![amount(10)]),
            limit("narrow", vec![amount(1)]),
        ],
    ));
    let admission = house.admit().await.unwrap();
    assert_eq!(
        admission
            .shown
            .iter()
            .map(|shown| shown.quota.remaining)
            .collect::<Vec<_>>(),
        [9, 0]
    );
    admission.settle(Outcome::Unknown);
    let Err(Refusal::Limited {
        retry: Retry::After(_),
        shown,
        ..
    }) = house.admit().await
    else {
        panic!("it passed")
    };
    assert_eq!(shown[0].quota.remaining, 9);
    assert_eq!(shown[0].rejected, None);
    assert!(shown[1].rejected.is_some());
}

#[tokio::test]
async fn an_amount_that_can_never_pass_says_so() {
    let mut dear = limit("dear", vec![amount(5)]);
    dear.cost = CostRule::Fixed(Cost::new(6));
    let house = House::new(policy(MEMORY, vec![dear, limit("spent", vec![amount(1)])]));
    assert!(matches!(
        house.admit().await,
        Err(Refusal::Limited {
            retry: Retry::Never,
            ..
        })
    ));
}

#[tokio::test]
async fn a_limit_in_shadow_counts_and_shows_nothing() {
    for switch in [Mode::Enforce, Mode::Shadow] {
        let mut shadow = limit("shadow", vec![amount(1)]);
        shadow.mode = if switch == Mode::Enforce {
            LimitMode::Shadow
        } else {
            LimitMode::Enforce
        };
        let mut policy = policy(MEMORY, vec![shadow]);
        policy.mode = switch;
        let house = House::new(policy);
        for decided in [Decided::Allowed, Decided::ShadowRejected] {
            let admission = house.admit().await.unwrap();
            assert_eq!(met(&admission), [decided]);
            assert!(admission.shown.is_empty());
        }
    }
}

#[tokio::test]
async fn skipped_requests_spend_nothing() {
    let mut excepted = limit("excepted", vec![amount(1)]);
    excepted.except = everything();
    let mut skipped = policy(MEMORY, vec![limit("skipped", vec![amount(1)])]);
    skipped.skip = everything();
    for policy in [policy(MEMORY, vec![excepted]), skipped] {
        let house = House::new(policy);
        for _ in 0..3 {
            let admission = house.admit().await.unwrap();
            assert_eq!(met(&admission), [Decided::Skipped]);
            assert!(admission.shown.is_empty());
        }
    }
}

#[tokio::test]
async fn unlimited_is_allowed() {
    let house = House::new(policy(MEMORY, vec![limit("unlimited", Vec::new())]));
    assert_eq!(met(&house.admit().await.unwrap()), [Decided::Allowed]);
}

#[tokio::test]
async fn a_missing_key_does_what_the_limit_says() {
    let with = |if_missing| {
        House::new(policy(
            MEMORY,
            vec![per_header(limit("user", vec![amount(1)]), if_missing)],
        ))
    };
    let skip = with(IfMissing::Skip);
    assert_eq!(met(&skip.admit().await.unwrap()), [Decided::Skipped]);
    assert_eq!(met(&skip.admit().await.unwrap()), [Decided::Skipped]);
    assert_eq!(
        with(IfMissing::Reject).admit().await.unwrap_err(),
        Refusal::Unkeyed { limit: 0 }
    );
    let share = with(IfMissing::Share);
    assert!(share.request(&[], 1).await.is_ok());
    assert!(share.request(&[], 2).await.is_err());
    let ip = with(IfMissing::Ip);
    assert!(ip.request(&[], 1).await.is_ok());
    assert!(ip.request(&[], 2).await.is_ok());
    assert!(ip.request(&[], 1).await.is_err());
}

#[tokio::test]
async fn a_key_that_comes_twice_is_refused() {
    let user = per_header(limit("user", vec![amount(9)]), IfMissing::Ip);
    let house = House::new(policy(MEMORY, vec![user]));
    let twice = [("x-user-id", "a"), ("x-user-id", "b")];
    assert_eq!(
        house.request(&twice, 1).await.unwrap_err(),
        Refusal::AmbiguousKey { limit: 0 }
    );
}

#[tokio::test]
async fn a_queue_makes_the_request_wait() {
    let spec = BucketSpec {
        amount: 10,
        window: Micros::SECOND,
        burst: 1,
        queue: 1,
        max_wait: Micros::new(10_000_000),
        refill: Refill::Continuous,
    };
    let meter = Meter::Bucket(Bucket::new(spec).unwrap());
    let queue = Amount {
        meter,
        burst: Some(1),
        ..amount(10)
    };
    let house = House::new(policy(MEMORY, vec![limit("queue", vec![queue])]));
    assert_eq!(house.admit().await.unwrap().delay, Micros::ZERO);
    let second = house.admit().await.unwrap();
    assert!(second.delay > Micros::ZERO);
    assert_eq!(met(&second), [Decided::Delayed]);
    assert!(house.admit().await.is_err());
}

#[tokio::test]
async fn settles_exactly_once() {
    let house = House::new(policy(MEMORY, vec![limit("two", vec![amount(2)])]));
    let left = |admission: &Admission| admission.shown[0].quota.remaining;
    let first = house.admit().await.unwrap();
    assert_eq!(left(&first), 1);
    first.settle(Outcome::NotSent);
    let second = house.admit().await.unwrap();
    assert_eq!(
        left(&second),
        1,
        "given back once, and not again when it was dropped"
    );
    let rest = second.answered(StatusCode::UNAUTHORIZED, &HeaderMap::new());
    assert!(rest.is_none(), "nothing waits for the end");
    let third = house.admit().await.unwrap();
    assert_eq!(left(&third), 0, "what was answered stays");
    drop(third);
    assert!(
        house.admit().await.is_err(),
        "so does what nobody knows the end of"
    );
}

#[tokio::test]
async fn without_a_store_each_limit_does_as_it_says() {
    let says = |if_down| Limit {
        if_down,
        ..limit("one", vec![amount(100)])
    };
    let local = House::new(policy(among(100, away()), vec![says(IfDown::Local)]));
    assert_eq!(
        local.admit().await.unwrap().shown[0].quota.remaining,
        0,
        "under the share of one gateway"
    );
    assert!(matches!(local.admit().await, Err(Refusal::Limited { .. })));

    let open = House::new(policy(away(), vec![says(IfDown::Allow)]));
    for _ in 0..3 {
        let admission = open.admit().await.unwrap();
        assert_eq!(met(&admission), [Decided::Allowed]);
        assert!(admission.shown.is_empty());
    }

    let closed = House::new(policy(
        away(),
        vec![
            says(IfDown::Local),
            Limit {
                name: Arc::from("two"),
                ..says(IfDown::Deny)
            },
        ],
    ));
    assert!(matches!(
        closed.admit().await,
        Err(Refusal::StoreDown { limit: 1, .. })
    ));
    let shadow = Limit {
        mode: LimitMode::Shadow,
        ..says(IfDown::Deny)
    };
    let shadow = House::new(policy(away(), vec![shadow]));
    assert_eq!(met(&shadow.admit().await.unwrap()), [Decided::StoreDown]);
}

#[tokio::test]
async fn without_a_store_local_limits_are_all_or_nothing() {
    let limits = vec![
        limit("wide", vec![amount(9)]),
        Limit {
            if_down: IfDown::Allow,
            ..limit("open", vec![amount(1)])
        },
        limit("narrow", vec![amount(1)]),
    ];
    let house = House::new(policy(away(), limits));
    house.admit().await.unwrap().settle(Outcome::NotSent);
    assert_eq!(
        house.admit().await.unwrap().shown[0].quota.remaining,
        8,
        "it was given back locally"
    );
    let Err(Refusal::Limited { shown, .. }) = house.admit().await else {
        panic!("it passed")
    };
    assert_eq!(
        shown
            .iter()
            .map(|shown| (shown.limit, shown.quota.remaining))
            .collect::<Vec<_>>(),
        [(0, 8), (2, 0)]
    );
}

#[tokio::test]
async fn going_over_to_this_process_is_no_fresh_allowance() {
    let mut server = Server::start(&[]).await;
    let store = redis(server.socket(), Duration::from_secs(5));
    let store = among(2, store);
    let house = House::new(policy(store, vec![limit("user", vec![amount(4)])]));
    for _ in 0..2 {
        house.admit().await.unwrap().settle(Outcome::NotSent);
    }
    assert_eq!(
        house.admit().await.unwrap().shown[0].quota.remaining,
        3,
        "Redis got back what was not sent"
    );
    server.kill();
    assert_eq!(
        house.admit().await.unwrap().shown[0].quota.remaining,
        0,
        "this process knows of one"
    );
    assert!(matches!(house.admit().await, Err(Refusal::Limited { .. })));
}

#[tokio::test]
async fn the_answer_gives_back_in_shadow_and_locally_too() {
    let mut answers = Answers::default();
    answers.insert(401);
    let counted = |mode| Limit {
        mode,
        count: Count::Answers(answers),
        ..limit("failed", vec![amount(100)])
    };
    let shadow = Limit {
        amounts: vec![amount(1)],
        ..counted(LimitMode::Shadow)
    };
    let shadow = House::new(policy(MEMORY, vec![shadow]));
    let store = among(100, away());
    let local = House::new(policy(store, vec![counted(LimitMode::Enforce)]));
    for house in [&shadow, &local] {
        for status in [200, 302, 401] {
            let admission = house.admit().await.unwrap();
            assert_eq!(met(&admission), [Decided::Allowed], "before {status}");
            let status = StatusCode::from_u16(status).unwrap();
            drop(admission.answered(status, &HeaderMap::new()));
        }
    }
    assert_ne!(met(&shadow.admit().await.unwrap()), [Decided::Allowed]);
    assert!(matches!(local.admit().await, Err(Refusal::Limited { .. })));
}
