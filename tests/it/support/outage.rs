//! What must hold whatever is wrong with the store.

use std::time::{Duration, Instant};

use super::{Client, Gateway, Upstream, eventually};

/// How long a request waits for the store.
const DEADLINE: Duration = Duration::from_millis(50);
/// How soon limits apply again, times four.
pub(crate) const RECOVERY: Duration = Duration::from_secs(8);
/// How much more memory a gateway may hold at the end of an outage than at its beginning, in KiB.
const GROWTH: u64 = 16 * 1024;
/// How many more files: the connection that is being made, and what it takes to make it.
const FILES: usize = 4;

/// A gateway whose three limits do without the store what can be done: let pass, refuse, count here.
#[derive(Debug)]
pub(crate) struct Outage {
    pub(crate) gateway: Gateway,
    files: usize,
    memory: u64,
    /// Each recovery is seen by keys of its own.
    keys: std::cell::Cell<u32>,
}

impl Outage {
    /// A gateway in front of a store that answers.
    pub(crate) fn before(store: &str, upstream: &Upstream) -> Self {
        let mut outage = Self::during(store, upstream);
        outage.recovers();
        outage.files = outage.gateway.open_files();
        outage.memory = outage.gateway.memory();
        outage
    }

    /// A gateway in front of one that does not.
    pub(crate) fn during(store: &str, upstream: &Upstream) -> Self {
        let limit = |name: &str, if_down: &str| {
            format!(
                "  {name}: {{when: /{name}/*, per: path, if_down: {if_down}, allow: 2 per hour}}\n"
            )
        };
        let gateway = Gateway::start(&format!(
            "access_log: off\nworkers: 1\nstore:\n{store}  deadline: {}ms\nupstream: {}\nlimits:\n{}{}{}",
            DEADLINE.as_millis(),
            upstream.url(),
            limit("open", "allow"),
            limit("closed", "deny"),
            limit("local", "local")
        ));
        let mut outage = Self {
            files: 0,
            memory: 0,
            keys: std::cell::Cell::new(0),
            gateway,
        };
        // The connections to the client, the upstream and the admin endpoint are there before any is counted.
        for path in ["/open/first", "/local/first"] {
            outage.gateway.get(path);
        }
        outage.files = outage.gateway.open_files();
        outage.memory = outage.gateway.memory();
        outage
    }

    /// Asks through the outage: each limit does what it says, no request waits longer than four deadlines, hardly any
    /// waits once the breaker is open, nothing piles up, and one of `kinds` is in the metrics and in the log.
    pub(crate) fn holds(&self, kinds: &[&str]) {
        self.is_over_the_edge();
        let mut client = Client::connect(self.gateway.address);
        let mut slow = 0;
        for i in 0..60 {
            let mut ask = |path: &str| {
                let begun = Instant::now();
                let answer = client.send("GET", path, &[], b"");
                let took = begun.elapsed();
                assert!(took < DEADLINE * 4, "{path} took {took:?}");
                slow += usize::from(took > DEADLINE / 2);
                answer
            };
            assert_eq!(ask("/open/a").status, 200);
            let closed = ask("/closed/a");
            assert_eq!(closed.status, 503);
            assert!(closed.field("retry-after").is_some());
            let local = ask("/local/a").status;
            assert_eq!(local, if i < 2 { 200 } else { 429 }, "request {i}");
        }
        assert!(slow <= 18, "the breaker is open: {slow} of 180 waited");
        let (files, memory) = (self.gateway.open_files(), self.gateway.memory());
        assert!(files <= self.files + FILES, "{files} after {}", self.files);
        assert!(
            memory <= self.memory + GROWTH,
            "{memory} after {}",
            self.memory
        );
        let metrics = self.gateway.metrics();
        assert_eq!(metrics.value("sluice_store_up"), 0.0);
        assert_eq!(metrics.value("sluice_store_fallback"), 1.0);
        for (limit, source) in [("open", "open"), ("closed", "closed"), ("local", "local")] {
            let series =
                format!("sluice_decision_source_total{{limit=\"{limit}\",source=\"{source}\"}}");
            assert!(metrics.value(&series) >= 58.0, "{series}");
        }
        self.says(kinds);
    }

    /// Keeps asking for `span`: nothing piles up, and nobody waits.
    pub(crate) fn holds_on(&self, span: Duration) {
        let mut client = Client::connect(self.gateway.address);
        let begun = Instant::now();
        let (mut asked, mut slow) = (0, 0);
        while begun.elapsed() < span {
            let started = Instant::now();
            assert_eq!(client.send("GET", "/open/a", &[], b"").status, 200);
            slow += usize::from(started.elapsed() > DEADLINE / 2);
            asked += 1;
            // So many requests are enough.
            std::thread::park_timeout(Duration::from_millis(5));
        }
        assert!(slow * 10 < asked, "{slow} of {asked} waited");
        let (files, memory) = (self.gateway.open_files(), self.gateway.memory());
        assert!(files <= self.files + FILES, "{files} after {}", self.files);
        assert!(
            memory <= self.memory + GROWTH,
            "{memory} after {}",
            self.memory
        );
    }

    /// Waits until one of `kinds` is in the metrics and in the log.
    pub(crate) fn says(&self, kinds: &[&str]) {
        eventually(&format!("one of {kinds:?}"), RECOVERY, || {
            let (metrics, log) = (self.gateway.metrics(), self.gateway.log());
            kinds
                .iter()
                .any(|kind| {
                    let series = format!("sluice_store_errors_total{{kind=\"{kind}\"}}");
                    metrics.value(&series) > 0.0 && log.contains(&format!("kind=\"{kind}\""))
                })
                .then_some(())
        });
    }

    /// Asks until the breaker is open: up to then requests may wait.
    fn is_over_the_edge(&self) {
        eventually("the breaker opens", RECOVERY, || {
            let begun = Instant::now();
            assert_eq!(self.gateway.get("/open/edge").status, 200);
            assert!(begun.elapsed() < DEADLINE * 4, "took {:?}", begun.elapsed());
            (self.gateway.metrics().value("sluice_store_breaker_open") == 1.0).then_some(())
        });
    }

    /// Waits until limits apply again: the store rules, and what it counts is rejected.
    pub(crate) fn recovers(&self) {
        let ask = |path: &str| self.gateway.get(path).status;
        eventually("limits apply again", RECOVERY, || {
            let key = self.keys.get() + 1;
            self.keys.set(key);
            let path = format!("/closed/recovery-{key}");
            let codes = [ask(&path), ask(&path), ask(&path)];
            (codes == [200, 200, 429]).then_some(())
        });
        assert_eq!(self.gateway.metrics().value("sluice_store_up"), 1.0);
        assert_eq!(
            self.gateway.metrics().value("sluice_store_breaker_open"),
            0.0
        );
    }
}
