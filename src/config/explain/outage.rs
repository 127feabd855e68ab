//! What a limit does while the store is away.

use std::num::NonZeroU32;

use crate::policy::{IfDown, Limit, RedisSpec};

/// In words.
pub(super) fn outage(limit: &Limit, store: &RedisSpec) -> String {
    match (limit.if_down, store.instances) {
        (IfDown::Allow, _) => "lets pass".to_owned(),
        (IfDown::Deny, _) => "answers 503".to_owned(),
        (IfDown::Local, None) => {
            "each gateway counts on its own, its share among those last seen".to_owned()
        }
        (IfDown::Local, Some(NonZeroU32::MIN)) => "the gateway counts on its own".to_owned(),
        (IfDown::Local, Some(instances)) => shares(limit, instances),
    }
}

/// "each of 3 gateways counts 34 of 100 per minute, so 102 together".
fn shares(limit: &Limit, instances: NonZeroU32) -> String {
    let gateways = u64::from(instances.get());
    let share = |amount: u64| {
        let share = amount.div_ceil(gateways);
        (share, share.saturating_mul(gateways))
    };
    let shares = limit.held(limit.otherwise()).map(|(_, amount)| {
        let (mine, all) = share(amount.quota);
        let burst = amount.burst.map_or_else(String::new, |burst| {
            let (mine, all) = share(burst);
            format!(" (and {mine} at once, so {all})")
        });
        format!("{mine} of {}, so {all} together{burst}", amount.words)
    });
    let shares: Vec<String> = shares.collect();
    let alike = match limit.choice {
        None => "",
        Some(_) => "; plans and overrides likewise",
    };
    format!(
        "each of {instances} gateways counts {}{alike}",
        shares.join(", and ")
    )
}
