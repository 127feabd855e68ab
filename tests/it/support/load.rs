//! A client that never pauses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::Client;

/// Requests one after another, until it is ended.
#[derive(Debug)]
pub(crate) struct Load {
    going: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u16>>,
}

impl Load {
    pub(crate) fn on(address: SocketAddr, path: &'static str) -> Self {
        let going = Arc::new(AtomicBool::new(true));
        let until = Arc::clone(&going);
        let thread = std::thread::spawn(move || {
            let mut client = Client::connect(address);
            let mut codes = Vec::new();
            while until.load(Ordering::Relaxed) {
                codes.push(client.send("GET", path, &[], b"").status);
            }
            codes
        });
        Self { going, thread }
    }

    /// Ends it; every answer was one of the upstream.
    pub(crate) fn end(self) {
        self.going.store(false, Ordering::Relaxed);
        let codes = self.thread.join().unwrap();
        assert!(codes.len() > 10, "there was load");
        let mut others: Vec<_> = codes.iter().filter(|code| **code != 200).collect();
        let (number, all) = (others.len(), codes.len());
        others.dedup();
        assert!(others.is_empty(), "{number} of {all}: {others:?}");
    }
}
