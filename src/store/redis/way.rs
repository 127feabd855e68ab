//! How a question travels, and what a node of a cluster says in place of an answer.

use super::super::StoreError;
use super::cluster::Slot;
use crate::policy::NodeAddress;

/// The slot of what travels, and with whom. One Redis alone has no slots: there all is in the first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Way {
    pub(super) slot: Slot,
    pub(super) manner: Manner,
}

/// With whom something travels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Manner {
    /// With others of its slot in one call.
    #[default]
    Together,
    /// In a call of its own. While a slot moves, some of its keys are here and some there, and a call that has both kinds
    /// is refused.
    Alone,
    /// In a call of its own, to a node that is being given the slot.
    Asking,
}

/// What a node says that did nothing, since it is not the one to ask.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Redirect {
    /// The slot belongs to another node, from now on.
    Moved { slot: Slot, to: NodeAddress },
    /// The slot is moving, and another node has these keys, this time.
    Ask { to: NodeAddress },
    /// The slot is moving, and the keys of the call are not all on one node.
    TryAgain,
}

/// Why a question has no ruling.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NoRuling {
    /// None is to be had.
    Away(StoreError),
    /// Another way leads to it. Nothing was spent.
    Redirected(Redirect),
}

impl From<StoreError> for NoRuling {
    fn from(error: StoreError) -> Self {
        Self::Away(error)
    }
}

impl From<NoRuling> for StoreError {
    fn from(no_ruling: NoRuling) -> Self {
        match no_ruling {
            NoRuling::Away(error) => error,
            NoRuling::Redirected(_) => Self::Refused,
        }
    }
}
