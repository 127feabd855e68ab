//! One request as a line of JSON.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use hyper::Method;
use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use smallvec::SmallVec;

use crate::telemetry::Decided;
use crate::telemetry::events::Label;

/// What the access log says of one request.
#[derive(Clone, Debug)]
pub struct AccessEntry {
    /// When its head arrived.
    pub time: SystemTime,
    /// The id that upstream and client see too.
    pub request_id: String,
    /// The client that limits count.
    pub client: IpAddr,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// As sent.
    pub method: Method,
    /// The effective host.
    pub host: String,
    /// Path and query, from [`masked`](super::masked).
    pub path: String,
    /// The route's name; `none` where nothing matched.
    pub route: Label,
    /// What the client was answered.
    pub status: u16,
    /// How it fared as a whole.
    pub decision: Decided,
    /// How it fared with each limit that it met.
    pub limits: SmallVec<[(Label, Decided); 4]>,
    /// The upstream that it went to.
    pub upstream: Option<Label>,
    /// From its head to the end of the answer.
    pub duration: Duration,
    /// From sending it to the head of the upstream's answer.
    pub upstream_took: Option<Duration>,
    /// How long it waited in a queue; zero: not at all.
    pub delay: Duration,
    /// Bytes of its body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// Why the gateway answered by itself.
    pub reason: Option<&'static str>,
}

impl Serialize for AccessEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_struct("AccessEntry", 18)?;
        line.serialize_field("time", &Utc(self.time))?;
        line.serialize_field("request_id", &self.request_id)?;
        line.serialize_field("client", &self.client)?;
        line.serialize_field("peer", &self.peer)?;
        line.serialize_field("method", self.method.as_str())?;
        line.serialize_field("host", &self.host)?;
        line.serialize_field("path", &self.path)?;
        line.serialize_field("route", &*self.route)?;
        line.serialize_field("status", &self.status)?;
        line.serialize_field("decision", self.decision.label())?;
        line.serialize_field("limits", &Limits(&self.limits))?;
        line.serialize_field("upstream", &self.upstream.as_deref())?;
        line.serialize_field("duration_ms", &millis(self.duration))?;
        line.serialize_field("upstream_ms", &self.upstream_took.map(millis))?;
        line.serialize_field("delay_ms", &millis(self.delay))?;
        line.serialize_field("bytes_in", &self.bytes_in)?;
        line.serialize_field("bytes_out", &self.bytes_out)?;
        line.serialize_field("reason", &self.reason)?;
        line.end()
    }
}

/// Milliseconds with three places.
fn millis(span: Duration) -> f64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX) as f64 / 1000.0
}

/// RFC 3339, in UTC, with milliseconds.
struct Utc(SystemTime);

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_millis(self.0))
    }
}

struct Limits<'e>(&'e [(Label, Decided)]);

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Met<'e> {
            name: &'e str,
            decision: &'static str,
        }
        let mut limits = serializer.serialize_seq(Some(self.0.len()))?;
        for (name, decided) in self.0 {
            limits.serialize_element(&Met {
                name,
                decision: decided.label(),
            })?;
        }
        limits.end()
    }
}

impl AccessEntry {
    /// Appends the line, with its end, to `out`. Nothing in it can move a terminal's cursor or begin another line.
    pub(super) fn write_line(&self, out: &mut String) {
        match serde_json::to_string(self) {
            Ok(line) => escape_controls(&line, out),
            Err(error) => tracing::error!(%error, "a line of the access log cannot be written"),
        }
        out.push('\n');
    }
}

/// JSON leaves DEL, the C1 controls and Unicode's line ends as they are. They can only stand inside its texts, where an
/// escape means the same.
fn escape_controls(line: &str, out: &mut String) {
    let mut rest = line;
    while let Some(at) = rest.find(|c| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}')) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let mut chars = from.chars();
        if let Some(control) = chars.next() {
            out.push_str(&format!("\\u{:04x}", u32::from(control)));
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
}
