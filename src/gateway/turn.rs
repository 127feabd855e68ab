//! Waiting one's turn in the queue of a limit.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::sleep;

/// So many requests of one worker wait their turn at once; each holds a connection and what was read of it.
const WAITING: usize = 10_000;

/// The requests of one worker that wait their turn. Queues bound how many wait for each key; this bounds them all.
#[derive(Debug)]
pub(super) struct Turns {
    waiting: Cell<usize>,
    bound: usize,
}

/// Too many wait already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Crowded;

/// One request that waits; it makes room when it goes, also when its client has left.
struct Place<'t>(&'t Turns);

impl Default for Turns {
    fn default() -> Self {
        Self::of(WAITING)
    }
}

impl Turns {
    pub(super) fn of(bound: usize) -> Self {
        Self {
            waiting: Cell::new(0),
            bound,
        }
    }

    /// Waits for `delay`.
    pub(super) async fn wait(&self, delay: Duration) -> Result<(), Crowded> {
        if delay.is_zero() {
            return Ok(());
        }
        let waiting = self.waiting.get();
        if waiting >= self.bound {
            return Err(Crowded);
        }
        self.waiting.set(waiting + 1);
        let _place = Place(self);
        sleep(delay).await;
        Ok(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn no_more_wait_than_the_bound_and_who_leaves_makes_room() {
        let turns = Turns::of(2);
        let mut first = Box::pin(turns.wait(LONG));
        let mut second = Box::pin(turns.wait(LONG));
        assert!(waits(&mut first).await && waits(&mut second).await);
        assert_eq!(turns.wait(LONG).await, Err(Crowded));
        assert_eq!(
            turns.wait(Duration::ZERO).await,
            Ok(()),
            "nobody waits for nothing"
        );
        drop(first);
        let mut third = Box::pin(turns.wait(LONG));
        assert!(waits(&mut third).await);
        assert_eq!(turns.wait(LONG).await, Err(Crowded));
    }

    async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())
        })
        .await
    }
}
