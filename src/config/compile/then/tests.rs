use crate::config::{Loaded, parse};

fn loaded(fields: &str) -> Loaded {
    let text =
        format!("upstream: http://localhost:3000\nlimits:\n  x:\n    per: ip\n    {fields}\n");
    parse("gateway.yaml", &text, &|_| None).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn says_in_words_what_follows_and_what_is_tried() {
    for (fields, words) in [
        (
            "allow: 1/s\n    then: block for 90m",
            "    blocks for 90 minutes with its first rejection\n",
        ),
        (
            "allow: 1/s\n    then: block for 1 hour after 3 rejections in 10 minutes",
            "    blocks for 1 hour after 3 rejections in 10 minutes\n",
        ),
        (
            "allow: 5 per hour\n    count: responses 401\n    then: block for 15 minutes",
            "    blocks for 15 minutes when what stays charged after the answers reaches the amount\n",
        ),
        (
            "allow: 5 per hour\n    candidate: 3 per minute",
            "    tries, and never enforces: 3 per minute: never more than 3 in any 1m\n",
        ),
    ] {
        let text = loaded(fields).explain();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_candidate_has_the_algorithm_of_its_limit_and_a_code_of_its_own() {
    for (fields, code) in [
        ("allow: 1/s\n    candidate: 2/s", "candidate-sw1s"),
        ("allow: unlimited\n    candidate: 2/s", "candidate-sw1s"),
        (
            "allow: 1/s\n    algorithm: fixed_window\n    candidate: 2/min",
            "candidate-fw60s",
        ),
        (
            "allow: 10/s, burst 20\n    refill: interval\n    candidate: 2/s",
            "candidate-ti1s",
        ),
        ("allow: 1/s\n    candidate: 2/s, burst 3", "candidate-tb1s"),
        (
            "allow: 1/s\n    candidate: 9 per calendar day",
            "candidate-cal-day",
        ),
    ] {
        let candidate = loaded(fields).policy.limits[0].candidate.clone().unwrap();
        assert_eq!(&*candidate.code, code, "{fields}");
    }
}
