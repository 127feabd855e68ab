use std::time::Duration;

use hyper::Method;

use super::*;
use crate::telemetry::{Decided, DecisionSource, Events};

/// The value of a series, by its text.
fn value(registry: &Registry, series: &str) -> Option<f64> {
    let text = registry.encode();
    let mut found = text
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = found.next().map(|value| value.parse().unwrap());
    assert_eq!(found.next(), None, "{series} is there once");
    value
}

fn lines(registry: &Registry) -> usize {
    registry.encode().lines().count()
}

#[test]
fn workers_are_summed() {
    let registry = Registry::new();
    let workers: Vec<_> = (0..3).map(|_| Events::new(&registry)).collect();
    for (n, worker) in workers.iter().enumerate() {
        let limit = worker.limit("per-ip");
        for _ in 0..=n {
            limit.decided(Decided::Rejected);
            limit.source(DecisionSource::Store);
        }
        worker
            .route("api")
            .ended(&Method::GET, 200, Duration::from_millis(3));
    }
    assert_eq!(
        value(
            &registry,
            r#"sluice_decisions_total{limit="per-ip",decision="rejected"}"#
        ),
        Some(6.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_decision_source_total{limit="per-ip",source="store"}"#
        ),
        Some(6.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_requests_total{route="api",method="GET",code="200"}"#
        ),
        Some(3.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_request_duration_seconds_count{route="api"}"#
        ),
        Some(3.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_request_duration_seconds_sum{route="api"}"#
        ),
        Some(0.009)
    );
    let bucket = |le| {
        value(
            &registry,
            &format!(r#"sluice_request_duration_seconds_bucket{{route="api",le="{le}"}}"#),
        )
    };
    assert_eq!(bucket("0.0025"), Some(0.0));
    assert_eq!(bucket("0.005"), Some(3.0));
    assert_eq!(bucket("60"), Some(3.0));
    assert_eq!(bucket("+Inf"), Some(3.0));
}

#[test]
fn series_of_a_limit_start_at_zero() {
    let registry = Registry::new();
    let _held = Events::new(&registry).limit("per-ip");
    for decided in Decided::ALL {
        let series = format!(
            r#"sluice_decisions_total{{limit="per-ip",decision="{}"}}"#,
            decided.label()
        );
        assert_eq!(value(&registry, &series), Some(0.0));
    }
    assert_eq!(
        value(&registry, r#"sluice_key_missing_total{limit="per-ip"}"#),
        Some(0.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_limit_used_ratio_count{limit="per-ip"}"#
        ),
        Some(0.0)
    );
}

#[test]
fn gauges_count_out_on_another_worker() {
    let registry = Registry::new();
    let (one, two) = (Events::new(&registry), Events::new(&registry));
    let guards = [
        one.connection("0.0.0.0:8080"),
        two.connection("0.0.0.0:8080"),
    ];
    assert_eq!(
        value(&registry, r#"sluice_connections{listener="0.0.0.0:8080"}"#),
        Some(2.0)
    );
    drop(guards);
    assert_eq!(
        value(&registry, r#"sluice_connections{listener="0.0.0.0:8080"}"#),
        Some(0.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_connections_total{listener="0.0.0.0:8080"}"#
        ),
        Some(2.0)
    );
    let upstream = one.upstream("api");
    let in_flight = upstream.begin();
    assert_eq!(
        value(&registry, r#"sluice_upstream_in_flight{upstream="api"}"#),
        Some(1.0)
    );
    drop(in_flight);
    upstream.answered(502, Duration::from_millis(1));
    assert_eq!(
        value(&registry, r#"sluice_upstream_in_flight{upstream="api"}"#),
        Some(0.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_upstream_requests_total{upstream="api",code="502"}"#
        ),
        Some(1.0)
    );
}

#[test]
fn a_reload_meets_the_same_cells() {
    let registry = Registry::new();
    let events = Events::new(&registry);
    let series = r#"sluice_decisions_total{limit="per-ip",decision="allowed"}"#;
    let mut in_force = events.limit("per-ip");
    let before = lines(&registry);
    for n in 1..=500 {
        in_force.decided(Decided::Allowed);
        in_force = events.limit("per-ip");
        assert_eq!(value(&registry, series), Some(f64::from(n)));
    }
    // Even where nothing was in force for a moment.
    drop(in_force);
    events.limit("per-ip").decided(Decided::Allowed);
    assert_eq!(value(&registry, series), Some(501.0));
    assert_eq!(lines(&registry), before);
}

#[test]
fn a_worker_that_ended_leaves_its_cells_to_the_next() {
    let registry = Registry::new();
    let series = r#"sluice_decisions_total{limit="per-ip",decision="allowed"}"#;
    for n in 1..=100 {
        let events = Events::new(&registry);
        events.clone().limit("per-ip").decided(Decided::Allowed);
        assert_eq!(events.number(), 0);
        assert_eq!(value(&registry, series), Some(f64::from(n)));
    }
}

#[test]
fn names_that_are_gone_stay_a_while_and_never_pile_up() {
    let registry = Registry::new();
    let workers = [Events::new(&registry), Events::new(&registry)];
    let kept: Vec<_> = workers.iter().map(|worker| worker.route("kept")).collect();
    kept.iter()
        .for_each(|route| route.ended(&Method::GET, 200, Duration::ZERO));
    let count = |name: &str| {
        value(
            &registry,
            &format!(r#"sluice_request_duration_seconds_count{{route="{name}"}}"#),
        )
    };
    let mut most = 0;
    for n in 0..1000 {
        let name = format!("tmp-{n}");
        for worker in &workers {
            worker.route(&name).ended(&Method::GET, 200, Duration::ZERO);
        }
        assert_eq!(count(&name), Some(2.0), "it stays for a last scrape");
        assert_eq!(count("kept"), Some(2.0));
        most = most.max(lines(&registry));
    }
    assert!(most < 67 * 20 + 200, "{most} lines");
}

#[test]
fn labels_do_not_grow_with_what_clients_send() {
    let registry = Registry::new();
    let events = Events::new(&registry);
    let route = events.route("none");
    for n in 0..20_000_u32 {
        let method = Method::from_bytes(format!("M{n}").as_bytes()).unwrap();
        route.ended(
            &method,
            u16::try_from(n % 70_000).unwrap(),
            Duration::from_secs(u64::from(n)),
        );
        route.ended(&Method::GET, 700, Duration::ZERO);
    }
    let text = registry.encode();
    let series: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("sluice_requests_total{"))
        .collect();
    assert_eq!(
        series.len(),
        502,
        "codes 100 to 599 and other under the method other, and one more"
    );
    assert!(
        series.contains(&r#"sluice_requests_total{route="none",method="GET",code="other"} 20000"#)
    );
}

#[test]
fn every_line_is_a_sample_or_about_one() {
    let registry = Registry::new();
    let events = Events::new(&registry);
    let _held = (
        events.limit("a"),
        events.route("/x/{\"quoted\\\"}"),
        events.upstream("u"),
    );
    events.store_error("timeout", &"it took too long");
    events.connection_refused("tls");
    events.reloaded("ok");
    let text = registry.encode();
    for line in text.lines() {
        let fine = line.starts_with("# HELP sluice_")
            || line.starts_with("# TYPE sluice_")
            || (line.starts_with("sluice_")
                && line
                    .rsplit_once(' ')
                    .is_some_and(|(_, value)| value.parse::<f64>().is_ok()));
        assert!(fine, "{line}");
    }
    assert!(text.contains(r#"route="/x/{\"quoted\\\"}""#));
    assert_eq!(
        value(&registry, r#"sluice_store_errors_total{kind="timeout"}"#),
        Some(1.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_refused_connections_total{reason="tls"}"#
        ),
        Some(1.0)
    );
    assert_eq!(
        value(&registry, r#"sluice_config_reloads_total{result="ok"}"#),
        Some(1.0)
    );
    assert_eq!(
        value(
            &registry,
            r#"sluice_config_reloads_total{result="invalid"}"#
        ),
        Some(0.0)
    );
}

#[test]
fn a_used_share_lands_in_its_bucket() {
    let registry = Registry::new();
    let limit = Events::new(&registry).limit("a");
    limit.used(0, 100);
    limit.used(100, 100);
    limit.used(150, 100);
    limit.used(0, 0);
    limit.used(u64::MAX, 1);
    let bucket = |le: &str| {
        value(
            &registry,
            &format!(r#"sluice_limit_used_ratio_bucket{{limit="a",le="{le}"}}"#),
        )
    };
    assert_eq!(bucket("0.1"), Some(1.0));
    assert_eq!(bucket("0.999"), Some(1.0));
    assert_eq!(bucket("1"), Some(3.0));
    assert_eq!(bucket("+Inf"), Some(5.0));
}

#[test]
fn the_store_is_up_until_it_is_not() {
    let registry = Registry::new();
    let (one, two) = (Events::new(&registry), Events::new(&registry));
    assert_eq!(value(&registry, "sluice_store_up"), Some(1.0));
    one.store_up(false);
    one.store_breaker(true);
    one.store_fallback(true);
    one.keys(3, 10);
    assert_eq!(value(&registry, "sluice_store_up"), Some(0.0));
    assert_eq!(value(&registry, "sluice_store_breaker_open"), Some(1.0));
    assert_eq!(value(&registry, "sluice_store_fallback"), Some(1.0));
    assert_eq!(value(&registry, "sluice_keys_max"), Some(10.0));
    two.store_up(true);
    assert_eq!(
        value(&registry, "sluice_store_up"),
        Some(1.0),
        "any worker may find it back"
    );
    assert!(value(&registry, "sluice_config_last_success_timestamp_seconds") > Some(1.7e9));
}

#[test]
fn metrics_are_listed_once() {
    let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        assert_eq!(
            metric.kind == Kind::Counter,
            metric.name.ends_with("_total"),
            "{}",
            metric.name
        );
    }
}
