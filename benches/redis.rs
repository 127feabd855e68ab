//! What a decision costs Redis, and what a key takes there: `cargo bench --bench redis`.
//!
//! Processor time is the server's own account of its main thread, so that the load on the machine moves it little; each
//! figure is the median of several rounds, and stands beside that of a peer in the same round: a script that does one
//! `INCR`, once a call, as a simple limiter would.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement that cannot go on fails, and its figures are what it is for"
)]

#[expect(dead_code, reason = "the differential test uses the rest of it")]
#[path = "../tests/differential/server.rs"]
mod server;

use server::Server;
use sluice::limit::algorithm::{
    Bucket, BucketSpec, Concurrency, FixedWindow, LEASE, Refill, SlidingLog, SlidingWindow,
};
use sluice::limit::{Charge, ChargeId, Cost, Key, Meter, Stake, When};
use sluice::store::redis::script::Call;
use sluice::time::Micros;

/// Decisions in one round.
const DECISIONS: u64 = 10_000;
const ROUNDS: usize = 3;

fn main() {
    let meters = meters();
    println!("us of Redis a decision (times one INCR in a script), median of {ROUNDS} rounds\n");
    println!(
        "{:16}{:>18}{:>18}{:>18}",
        "", "1 key, 20 a call", "10k keys, 20", "10k keys, 1"
    );
    for (name, meter) in meters {
        print!("{name:16}");
        for (keys, requests) in [(1, 20), (10_000, 20), (10_000, 1)] {
            let mut rounds: Vec<(f64, f64)> = (0..ROUNDS)
                .map(|_| {
                    let peer = incr(keys);
                    let ours = decisions(meter, keys, requests);
                    (ours, ours / peer)
                })
                .collect();
            rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (us, ratio) = rounds[ROUNDS / 2];
            print!("{:>18}", format!("{us:.1} ({ratio:.2})"));
        }
        println!();
    }
    println!("\nbytes a key, with all that Redis keeps for it (MEMORY USAGE)\n");
    for (name, meter) in meters {
        let bytes: Vec<String> = [10, 100, 1000]
            .map(|charges| memory(meter, charges).to_string())
            .to_vec();
        println!(
            "{name:16} after 10, 100, 1000 charges: {}",
            bytes.join(", ")
        );
    }
}

fn meters() -> [(&'static str, Meter); 5] {
    let (amount, window) = (10_000, Micros::new(60_000_000));
    let bucket = BucketSpec {
        amount,
        window,
        burst: 10_000,
        queue: 0,
        max_wait: Micros::ZERO,
        refill: Refill::Continuous,
    };
    [
        (
            "fixed_window",
            Meter::FixedWindow(FixedWindow::new(amount, window).unwrap()),
        ),
        (
            "sliding_window",
            Meter::SlidingWindow(SlidingWindow::new(amount, window).unwrap()),
        ),
        ("bucket", Meter::Bucket(Bucket::new(bucket).unwrap())),
        (
            "sliding_log",
            Meter::SlidingLog(SlidingLog::new(amount, window).unwrap()),
        ),
        (
            "concurrency",
            Meter::Concurrency(Concurrency::new(amount, LEASE).unwrap()),
        ),
    ]
}

/// Microseconds of the server for each decision, of `requests` a call, over `keys` keys.
fn decisions(meter: Meter, keys: u64, requests: u64) -> f64 {
    let calls: Vec<Call> = (0..DECISIONS / requests)
        .map(|at| {
            let mut call = Call::new();
            for id in at * requests..(at + 1) * requests {
                call.judge(&[charge(meter, spread(id, keys), id)]);
                // A slot is given back when its request has ended: twenty are under way.
                if let (Meter::Concurrency(_), Some(ended)) = (meter, id.checked_sub(20)) {
                    call.give_back(&charge(meter, spread(ended, keys), ended).receipt(0));
                }
            }
            call
        })
        .collect();
    let mut server = Server::start();
    let before = busy(&mut server);
    for call in &calls {
        server.call_raw(call, None).bytes();
    }
    (busy(&mut server) - before) / f64::from(u32::try_from(DECISIONS).unwrap())
}

/// The same for the peer.
fn incr(keys: u64) -> f64 {
    let mut server = Server::start();
    let script = "return redis.call('INCR', KEYS[1])";
    let sha = server.run(&["SCRIPT", "LOAD", script]).text();
    let names: Vec<String> = (0..DECISIONS)
        .map(|id| format!("peer:{}", spread(id, keys)))
        .collect();
    let before = busy(&mut server);
    for name in &names {
        server.run(&["EVALSHA", &sha, "1", name]).number();
    }
    (busy(&mut server) - before) / f64::from(u32::try_from(DECISIONS).unwrap())
}

fn memory(meter: Meter, charges: u64) -> i64 {
    let mut server = Server::start();
    for id in 0..charges {
        let mut call = Call::new();
        // Ids as long as a gateway's: they begin anywhere below 2^53.
        call.judge(&[charge(meter, 0, (1 << 52) + id)]);
        server.call_raw(&call, None).bytes();
    }
    let key = charge(meter, 0, 0).key;
    server
        .run(&["MEMORY", "USAGE", key.as_str(), "SAMPLES", "0"])
        .number()
}

fn charge(meter: Meter, client: u64, id: u64) -> Charge {
    Charge {
        key: Key::new(format!("sluice:1:{{ip=203.0.113.{client}}}:per-ip:sw60s:")),
        meter,
        cost: Cost::ONE,
        id: ChargeId::new(id),
        stake: Stake::Binding,
        limit: 0,
        spent: When::Admitted,
    }
}

/// Which of `keys` keys the request `id` is about: every one in turn, in an order far from the counting order.
fn spread(id: u64, keys: u64) -> u64 {
    id.wrapping_mul(0x9E37_79B9_7F4A_7C15) % keys
}

/// Microseconds of processor time that the server's main thread took so far.
fn busy(server: &mut Server) -> f64 {
    let info = server.run(&["INFO", "cpu"]).text();
    let of = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.expect("INFO cpu says so").parse().unwrap()
    };
    (of("used_cpu_user_main_thread:") + of("used_cpu_sys_main_thread:")) * 1e6
}
