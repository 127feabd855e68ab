//! What a decision costs Redis. Not a test of anything: run it by hand, on a quiet machine, with
//! `cargo test --test differential -- --ignored --nocapture cost`.

use sluice::limit::algorithm::{
    Bucket, BucketSpec, FixedWindow, Refill, SlidingLog, SlidingWindow,
};
use sluice::limit::{Charge, ChargeId, Cost, Key, Meter, Stake};
use sluice::store::redis::script::Call;
use sluice::time::Micros;

use crate::server::Server;
use crate::walk::Dice;

const CALLS: u64 = 4_000;
const REQUESTS: u64 = 20;

/// Seconds of processor time that the server's main thread took so far.
fn busy(server: &mut Server) -> f64 {
    let info = server.run(&["INFO", "cpu"]).text();
    let of = |name: &str| {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.parse::<f64>().unwrap()
    };
    of("used_cpu_user_main_thread:") + of("used_cpu_sys_main_thread:")
}

fn measure(name: &str, meter: Meter, keys: u64, requests: u64) {
    let mut server = Server::start();
    let mut dice = Dice(1);
    let calls: Vec<Call> = (0..CALLS)
        .map(|at| {
            let mut call = Call::new();
            for id in 0..requests {
                let key = Key::new(format!(
                    "sluice:1:{{ip=203.0.113.{}}}:per-ip:sw60s:",
                    dice.below(keys)
                ));
                let id = ChargeId::new(at * requests + id);
                call.judge(&[Charge {
                    key,
                    meter,
                    cost: Cost::ONE,
                    id,
                    stake: Stake::Binding,
                }]);
            }
            call
        })
        .collect();
    let before = busy(&mut server);
    for call in &calls {
        server.call_raw(call, None);
    }
    let spent = busy(&mut server) - before;
    let each = spent * 1e6 / f64::from(u32::try_from(CALLS * requests).unwrap());
    println!(
        "{name:16} {keys:6} keys {requests:3} requests a call: {each:5.2} us of Redis a decision"
    );
}

#[test]
#[ignore = "a measurement, for a quiet machine"]
fn cost_of_a_decision() {
    let (amount, window) = (10_000, Micros::new(60_000_000));
    let spec = BucketSpec {
        amount,
        window,
        burst: 100,
        queue: 0,
        max_wait: Micros::ZERO,
        refill: Refill::Continuous,
    };
    let meters = [
        (
            "fixed window",
            Meter::FixedWindow(FixedWindow::new(amount, window).unwrap()),
        ),
        (
            "sliding window",
            Meter::SlidingWindow(SlidingWindow::new(amount, window).unwrap()),
        ),
        ("bucket", Meter::Bucket(Bucket::new(spec).unwrap())),
        (
            "sliding log",
            Meter::SlidingLog(SlidingLog::new(amount, window).unwrap()),
        ),
    ];
    for (name, meter) in meters {
        for (keys, requests) in [(1, REQUESTS), (10_000, REQUESTS), (10_000, 1)] {
            measure(name, meter, keys, requests);
        }
    }
}
