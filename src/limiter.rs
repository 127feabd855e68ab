//! From the limits that a request meets to an [`Admission`] or a [`Refusal`].

mod settle;

pub use settle::{Admission, Outcome};

use std::time::Duration;

use crate::limit::{Quota, Retry};

/// One amount of a limit as the client is shown it: indexes into the policy, and what is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shown {
    /// Index into `Policy::limits`.
    pub limit: usize,
    /// Index into `Limit::amounts`.
    pub amount: usize,
    /// What is left.
    pub quota: Quota,
    /// Set where this amount rejected the request.
    pub rejected: Option<Retry>,
}

/// Why a request may not pass. The gateway turns it into HTTP; the limiter knows nothing of answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Over a limit.
    Limited {
        /// The longest retry of the request: `Never` over `Unknown` over `After`.
        retry: Retry,
        /// Every enforced amount of the request, those that rejected marked.
        shown: Vec<Shown>,
    },
    /// A limit with `if_missing: reject` found no key.
    Unkeyed {
        /// Index into `Policy::limits`.
        limit: usize,
    },
    /// A field that identifies the client occurs twice.
    AmbiguousKey {
        /// Index into `Policy::limits`.
        limit: usize,
    },
    /// The store is away, and a limit says `deny`.
    StoreDown {
        /// Index into `Policy::limits`.
        limit: usize,
        /// When asking again makes sense.
        retry: Duration,
    },
}

/// Stand-in.
#[derive(Debug)]
pub struct Limiter {
    /// What it says.
    pub says: std::cell::RefCell<Option<Refusal>>,
    /// What is shown.
    pub shown: Vec<Shown>,
    /// How long it delays.
    pub delay: crate::time::Micros,
}

impl Limiter {
    /// Stand-in.
    ///
    /// # Errors
    /// Stand-in.
    pub async fn admit(
        &self,
        _policy: &crate::policy::Policy,
        _events: &[crate::telemetry::LimitEvents],
        _facts: &crate::request::Facts<'_>,
    ) -> Result<Admission, Refusal> {
        match &*self.says.borrow() {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(Admission::stand_in(self.delay, self.shown.clone())),
        }
    }
}
