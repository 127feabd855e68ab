//! Every way of limiting, as a limit writes it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// The words of `algorithm`.
pub(crate) const ALGORITHMS: [&str; 5] = [
    "fixed_window",
    "sliding_log",
    "sliding_window",
    "token_bucket",
    "leaky_bucket",
];

/// Some fields of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    name: &'static str,
    /// `algorithm` and what belongs to it.
    fields: &'static str,
    /// Within what an amount holds: so long that nothing comes back while a test runs.
    within: &'static str,
}

const DAY: &str = "per day";

/// All of them but queues, which delay what others reject.
pub(crate) fn ways() -> [Way; 7] {
    let way = |name, fields| Way {
        name,
        fields,
        within: DAY,
    };
    [
        way("fixed window", "    algorithm: fixed_window\n"),
        way("sliding log", "    algorithm: sliding_log\n"),
        way("sliding window", "    algorithm: sliding_window\n"),
        way("token bucket", "    algorithm: token_bucket\n"),
        way(
            "token bucket by interval",
            "    algorithm: token_bucket\n    refill: interval\n",
        ),
        way("leaky bucket", "    algorithm: leaky_bucket\n"),
        Way {
            name: "calendar",
            fields: "",
            within: calendar(),
        },
    ]
}

/// An hour of a zone in which it does not end soon.
fn calendar() -> &'static str {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    if now.as_secs() % 3600 < 1800 {
        "per calendar hour"
    } else {
        "per calendar hour in Asia/Kolkata"
    }
}

impl Way {
    /// The lines of a limit that lets `amount` pass at once, and no more for as long as a test takes.
    pub(crate) fn lines(&self, amount: u64) -> String {
        format!("{}    allow: {amount} {}\n", self.fields, self.within)
    }

    /// The same for a bucket, with its burst; of what is no bucket, nothing.
    pub(crate) fn burst(&self, amount: u64, burst: u64) -> Option<String> {
        self.name.contains("bucket").then(|| {
            format!(
                "{}    allow: {amount} {}, burst {burst}\n",
                self.fields, self.within
            )
        })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
