//! What metrics and the access log call a decision.

/// How a request fared with one limit: the label `decision`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Decided {
    /// It passed at once.
    Allowed,
    /// It waited its turn.
    Delayed,
    /// It was over the limit.
    Rejected,
    /// It met the block that going over the limit led to.
    Blocked,
    /// Its cost can never pass.
    Never,
    /// It was over a limit that only tells the upstream.
    Tagged,
    /// It was over a limit in shadow.
    ShadowRejected,
    /// It was over the amount that is tried beside the limit's own; counted beside what became of it.
    CandidateRejected,
    /// The limit did not apply (`skip`, `except`, `if_missing: skip`).
    Skipped,
    /// The store was away and the limit says `deny`.
    StoreDown,
}

impl Decided {
    /// Every value, in the order of the declaration.
    pub const ALL: [Self; 10] = [
        Self::Allowed,
        Self::Delayed,
        Self::Rejected,
        Self::Blocked,
        Self::Never,
        Self::Tagged,
        Self::ShadowRejected,
        Self::CandidateRejected,
        Self::Skipped,
        Self::StoreDown,
    ];

    /// Its name in metrics and in the access log.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Delayed => "delayed",
            Self::Rejected => "rejected",
            Self::Blocked => "blocked",
            Self::Never => "never",
            Self::Tagged => "tagged",
            Self::ShadowRejected => "shadow_rejected",
            Self::CandidateRejected => "candidate_rejected",
            Self::Skipped => "skipped",
            Self::StoreDown => "store_down",
        }
    }
}

/// Who decided: the label `source`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DecisionSource {
    /// The store.
    Store,
    /// This worker: it was told less than a second ago that the key is out.
    Remembered,
    /// This process, while the store is away.
    Local,
    /// Nobody: the store is away and the limit says `allow`.
    Open,
    /// Nobody: the store is away and the limit says `deny`.
    Closed,
}

impl DecisionSource {
    /// Every value, in the order of the declaration.
    pub const ALL: [Self; 5] = [
        Self::Store,
        Self::Remembered,
        Self::Local,
        Self::Open,
        Self::Closed,
    ];

    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Remembered => "remembered",
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}
