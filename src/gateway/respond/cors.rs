//! Lets a page's script read what the gateway answers by itself, a 429 above all (Fetch, section 3.3).

use hyper::HeaderMap;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    HeaderValue, ORIGIN, VARY,
};

use crate::policy::{
    Cors, Credentials, HeaderFields, LegacyReset, Origins, Policy, RateLimitDialect,
};

const ANY: HeaderValue = HeaderValue::from_static("*");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// The fields for pages of other origins.
#[derive(Debug)]
pub(in crate::gateway) struct CorsFields {
    rules: Option<Cors>,
    /// The fields that a script may read beside the few that it always may.
    exposed: HeaderValue,
}

impl CorsFields {
    pub(in crate::gateway) fn compile(policy: &Policy) -> Self {
        Self {
            rules: policy.cors.clone(),
            exposed: exposed(policy.headers),
        }
    }

    /// Adds to an answer to a request with `asked` what its page needs.
    pub(in crate::gateway) fn add(&self, asked: &HeaderMap, answer: &mut HeaderMap) {
        let Some(rules) = &self.rules else { return };
        let allowed = match &rules.origins {
            Origins::Any => Some(ANY),
            Origins::Listed(listed) => {
                // Also where no origin matches: a cache must not give this answer to another page.
                answer.append(VARY, HeaderValue::from_static("Origin"));
                let mut lines = asked.get_all(ORIGIN).iter();
                let only = lines.next().filter(|_| lines.next().is_none());
                only.filter(|origin| listed.contains(origin)).cloned()
            }
        };
        let Some(allowed) = allowed else { return };
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed.clone());
        if rules.credentials == Credentials::Include {
            answer.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
        }
    }
}

fn exposed(headers: HeaderFields) -> HeaderValue {
    let rate = headers.ratelimit == RateLimitDialect::Draft11;
    let legacy = headers.legacy != LegacyReset::Off;
    HeaderValue::from_static(match (rate, legacy) {
        (true, true) => {
            "Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
        }
        (true, false) => "Retry-After, RateLimit, RateLimit-Policy",
        (false, true) => "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
        (false, false) => "Retry-After",
    })
}
