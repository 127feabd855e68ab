//! `candidate`: an amount that is tried beside the enforced one.

use std::time::Duration;

use crate::support::{Gateway, RedisServer, Upstream, eventually};

#[test]
fn a_candidate_counts_as_if_it_had_replaced_its_limit() {
    let redis = RedisServer::start();
    for (store, count) in [
        ("store: memory".to_owned(), 1),
        (redis.store(), 1),
        (redis.store(), 3),
    ] {
        redis.command(&["FLUSHALL"]);
        let upstream = Upstream::echo();
        let yaml = format!(
            "{store}\nupstream: {}\nlimits:\n  loose:\n    per: ip\n    allow: 4 per minute\n    candidate: 6 per minute\n  tight:\n    per: ip\n    when: /tight\n    allow: 1 per minute\n    candidate: 2 per minute\n",
            upstream.url()
        );
        let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::start(&yaml)).collect();
        let ask = |turn: usize, path: &str| gateways[turn % count].get(path);
        let decisions = |limit: &str, decision: &str| -> f64 {
            let series =
                format!("sluice_decisions_total{{decision=\"{decision}\",limit=\"{limit}\"}}");
            let values = gateways.iter().map(|one| one.metrics().value(&series));
            values.sum()
        };

        // `tight` rejects three of four: its own candidate would have let the second pass, and `loose` and its candidate
        // see one request.
        let statuses: Vec<u16> = (0..4).map(|turn| ask(turn, "/tight").status).collect();
        assert_eq!(statuses, [200, 429, 429, 429], "{store}");
        assert!((decisions("tight", "rejected") - 3.0).abs() < 0.1);
        assert!((decisions("tight", "candidate_rejected") - 2.0).abs() < 0.1);
        assert!((decisions("tight", "allowed") - 1.0).abs() < 0.1);

        // The candidate of `loose` counts on where `loose` rejects.
        let statuses: Vec<u16> = (0..7).map(|turn| ask(turn, "/").status).collect();
        assert_eq!(statuses, [200, 200, 200, 429, 429, 429, 429], "{store}");
        assert!((decisions("loose", "rejected") - 4.0).abs() < 0.1);
        assert!((decisions("loose", "candidate_rejected") - 2.0).abs() < 0.1);

        let last = ask(0, "/");
        let told = last.field("ratelimit").unwrap();
        assert!(
            told.starts_with("\"loose\";r=0;t=") && !told.contains(','),
            "{told}"
        );
        assert!(
            last.text().contains("at most 4 per minute"),
            "{}",
            last.text()
        );
        eventually("the access log says so", Duration::from_secs(10), || {
            let said = "{\"name\":\"loose\",\"decision\":\"candidate_rejected\"}";
            let mut lines = gateways.iter().flat_map(Gateway::access);
            lines.any(|line| line.contains(said)).then_some(())
        });
    }
}

#[test]
fn a_stricter_candidate_rejects_nobody() {
    let upstream = Upstream::echo();
    let yaml = format!(
        "upstream: {}\nlimits:\n  open:\n    per: ip\n    allow: unlimited\n    candidate: 2 per minute\n  shadow:\n    per: ip\n    allow: 9 per minute\n    mode: shadow\n    candidate: \"1 per minute, burst 3\"\n",
        upstream.url()
    );
    let gateway = Gateway::start(&yaml);
    for _ in 0..5 {
        let answer = gateway.get("/");
        assert_eq!((answer.status, answer.field("ratelimit")), (200, None));
    }
    let metrics = gateway.metrics();
    for (limit, over) in [("open", 3.0), ("shadow", 2.0)] {
        let counted = |decision: &str| {
            metrics.value(&format!(
                "sluice_decisions_total{{decision=\"{decision}\",limit=\"{limit}\"}}"
            ))
        };
        assert!(
            (counted("candidate_rejected") - over).abs() < 0.1,
            "{limit}"
        );
        assert!((counted("allowed") - 5.0).abs() < 0.1, "{limit}");
    }
}
