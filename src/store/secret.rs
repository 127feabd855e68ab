//! The secret that keys the hash of credentials: given, or one that the gateways of a store share through it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::limit::key::KeyHasher;

/// The hasher of this process.
#[derive(Debug)]
pub(super) struct Keys {
    hasher: ArcSwap<KeyHasher>,
    /// What the hasher is keyed by, where the store shares it: 32 bytes in hexadecimal.
    shared: Mutex<Option<String>>,
    settled: watch::Sender<bool>,
}

impl Keys {
    /// Keyed by `secret`, for good.
    #[must_use]
    pub(super) fn fixed(secret: &[u8]) -> Self {
        Self {
            hasher: ArcSwap::from_pointee(KeyHasher::new(secret)),
            shared: Mutex::new(None),
            settled: watch::Sender::new(true),
        }
    }

    /// Keyed at random, for the life of this process.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(super) fn random() -> io::Result<Self> {
        Ok(Self::fixed(random()?.as_bytes()))
    }

    /// Keyed at random until the store says what its gateways share.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(super) fn shared() -> io::Result<Self> {
        let own = random()?;
        let keys = Self::fixed(own.as_bytes());
        keys.settled.send_replace(false);
        *keys.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
        Ok(keys)
    }

    /// The hasher in force.
    #[must_use]
    pub(super) fn hasher(&self) -> arc_swap::Guard<Arc<KeyHasher>> {
        self.hasher.load()
    }

    /// What to offer to the store; none where the secret is not shared through it.
    #[must_use]
    pub(super) fn offer(&self) -> Option<String> {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes what the store shares.
    pub(super) fn settle(&self, secret: String) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.as_deref() != Some(&secret) {
            self.hasher
                .store(Arc::new(KeyHasher::new(secret.as_bytes())));
            *shared = Some(secret);
        }
        self.settled
            .send_if_modified(|settled| !std::mem::replace(settled, true));
    }

    /// Whether the secret is the one that all gateways of the store use.
    #[must_use]
    pub(super) fn is_settled(&self) -> bool {
        *self.settled.borrow()
    }

    /// Waits until it is.
    pub(super) async fn settled(&self) {
        let mut settled = self.settled.subscribe();
        // It cannot fail: the sender lives as long as this.
        drop(settled.wait_for(|settled| *settled).await);
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(blake3::Hash::from_bytes(bytes).to_hex().to_string())
}

/// A number that no other gateway is likely to draw.
///
/// # Errors
/// The system has no randomness to give.
pub(crate) fn random_number() -> io::Result<u64> {
    getrandom::u64().map_err(|error| io::Error::other(error.to_string()))
}
