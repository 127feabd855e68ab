//! A limit's own answer to the requests that it rejects.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderValue};

use super::Rejection;
use crate::gateway::body::Content;
use crate::limit::Retry;
use crate::limiter::Shown;
use crate::policy::{Policy, Reply, ReplyBody, Slot, Template};

/// The reply of the limit that keeps the request away longest, and what fills it in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'r> {
    pub(super) reply: &'r Reply,
    name: &'r str,
    decisive: &'r Shown,
    retry_after: Option<u64>,
}

impl<'r> Told<'r> {
    /// None where no limit rejected the request.
    pub(super) fn of(rejection: &'r Rejection, policy: &'r Policy) -> Option<Self> {
        let Rejection::Refused(refusal) = rejection else {
            return None;
        };
        let decisive = refusal.decisive()?;
        let limit = policy.limits.get(decisive.limit)?;
        Some(Self {
            reply: &limit.reply,
            name: &limit.name,
            decisive,
            retry_after: rejection.retry_after(),
        })
    }

    /// The body and its type; none where it is a problem.
    pub(super) fn content(
        &self,
        request_id: &HeaderValue,
    ) -> Option<(Content, Option<HeaderValue>)> {
        match &self.reply.body {
            ReplyBody::Problem => None,
            ReplyBody::Empty => Some((Content::Empty, None)),
            ReplyBody::Own { content_type, text } => {
                let body = self.fill(text, request_id);
                Some((Content::Made(body), Some(content_type.clone())))
            }
        }
    }

    fn fill(&self, text: &Template, request_id: &HeaderValue) -> Bytes {
        let seconds = |seconds: Option<u64>| Some(Cow::Owned(seconds?.to_string()));
        let filled = text.fill(|slot| match slot {
            Slot::Limit => Some(Cow::Borrowed(self.name)),
            Slot::RetryAfter => seconds(self.retry_after),
            Slot::Reset => seconds(self.reset()),
            Slot::RequestId => Some(String::from_utf8_lossy(request_id.as_bytes())),
        });
        filled.into()
    }

    /// Whole seconds, rounded up, until the key is whole again: never before the request may come again.
    fn reset(&self) -> Option<u64> {
        match self.decisive.rejected {
            Some(Retry::Unknown) => None,
            _ => {
                let whole = self.decisive.quota.reset_after.ceil_seconds();
                Some(whole.max(self.retry_after.unwrap_or_default()))
            }
        }
    }

    /// Sets the reply's fields; a name that is there already is replaced.
    pub(super) fn set(&self, fields: &mut HeaderMap) {
        for (name, _) in &self.reply.fields {
            fields.remove(name);
        }
        for (name, value) in &self.reply.fields {
            fields.append(name.clone(), value.clone());
        }
    }
}
