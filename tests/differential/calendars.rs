//! Days of a time zone on a clock that the test sets, asked as a gateway asks, in both twins.

use sluice::limit::algorithm::CalendarWindow;
use sluice::limit::{
    Charge, ChargeId, Cost, Key, Meter, Retry, Stake, State, Verdict, When, driver,
};
use sluice::store::redis::script::Call;
use sluice::time::{Calendar, Micros, Timestamp, Unit};

use crate::server::Server;

const HOUR: u64 = 3_600_000_000;

/// Two a day, in Rust and in Redis.
struct Twins {
    server: Server,
    calendar: Calendar,
    state: State,
    asked: u64,
}

impl Twins {
    fn new(zone: &str) -> Self {
        Self {
            server: Server::start(),
            calendar: Calendar::new(Unit::Day, zone).unwrap(),
            state: State::Numbers(Default::default()),
            asked: 0,
        }
    }

    /// What both say to one more, by a gateway whose clock is `ahead` of the store's.
    fn ask(&mut self, now: Timestamp, ahead: i64) -> Verdict {
        self.asked += 1;
        let shown = now.as_micros().checked_add_signed(ahead).unwrap();
        let boundaries = self.calendar.around(Timestamp::from_micros(shown));
        let meter = CalendarWindow::new(2, Micros::new(24 * HOUR)).unwrap();
        let charges = [Charge {
            key: Key::new("calendar"),
            meter: Meter::CalendarWindow(meter.around(boundaries)),
            cost: Cost::ONE,
            id: ChargeId::new(self.asked),
            stake: Stake::Binding,
            limit: 0,
            spent: When::Admitted,
        }];
        let rust = driver::decide(&mut [&mut self.state], &charges, now);
        let verdict = rust.decisions[0].verdict;
        let mut call = Call::new();
        call.judge(&charges);
        assert_eq!(self.server.call(&call, Some(now)).1, [Ok(rust)]);
        verdict
    }
}

/// A day that begins at `start`, in seconds since the epoch, and has so many hours.
fn a_day(zone: &str, start: u64, hours: u64) {
    let (start, length) = (Timestamp::from_micros(start * 1_000_000), hours * HOUR);
    let mut twins = Twins::new(zone);
    let last = Timestamp::from_micros(start.as_micros() - 1);
    let over = |left| Verdict::Reject(Retry::After(Micros::new(left)));
    // A gateway's clock may be a minute off on either side.
    for ahead in [0, 60_000_000, -60_000_000] {
        twins.state = State::Numbers(Default::default());
        twins.server.run(&["FLUSHALL"]);
        assert_eq!(twins.ask(last, ahead), Verdict::Allow);
        assert_eq!(twins.ask(last, -ahead), Verdict::Allow);
        assert_eq!(twins.ask(last, ahead), over(1));
        assert_eq!(twins.ask(start, ahead), Verdict::Allow);
        assert_eq!(twins.ask(start, -ahead), Verdict::Allow);
        assert_eq!(twins.ask(start, ahead), over(length));
        let late = start.after(Micros::new(length - 1));
        assert_eq!(twins.ask(late, ahead), over(1));
        assert_eq!(twins.ask(late, -ahead), over(1));
        assert_eq!(
            twins.ask(start.after(Micros::new(length)), ahead),
            Verdict::Allow
        );
    }
}

#[test]
fn a_day_has_as_many_hours_as_the_clocks_give_it() {
    // 2026-03-29 and 2026-10-25 in Paris; the two days of 2018 in Sao Paulo on which the clocks changed.
    a_day("Europe/Paris", 1_774_738_800, 23);
    a_day("Europe/Paris", 1_792_879_200, 25);
    a_day("America/Sao_Paulo", 1_541_300_400, 23);
    a_day("America/Sao_Paulo", 1_518_832_800, 25);
}
