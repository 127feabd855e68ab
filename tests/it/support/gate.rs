//! What holds answers back until a test lets them go.

use std::sync::{Arc, Condvar, Mutex};

use super::Upstream;

/// Lets so many through; the others wait.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<usize>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self, more: usize) {
        *self.0.0.lock().unwrap() += more;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let mut left = self.0.0.lock().unwrap();
        while *left == 0 {
            left = self.0.1.wait(left).unwrap();
        }
        *left -= 1;
    }
}

/// An upstream that answers when the gate lets it.
pub(crate) fn held() -> (Upstream, Gate) {
    let gate = Gate::default();
    let inside = gate.clone();
    let upstream = Upstream::answering(move |_| {
        inside.pass();
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    (upstream, gate)
}
