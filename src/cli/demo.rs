//! `sluice demo`: a sample upstream behind the shipped `gateway.yaml`, with counts in memory, and commands to try.

#![expect(
    clippy::print_stdout,
    reason = "the demo talks to the person at the terminal"
)]

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;

use super::{EXIT_CONFIG, colour_of, environment, sample, start_logging};
use crate::app::{self, Source, StartError};
use crate::config;
use crate::policy::{Policy, ServerSpec, StoreSpec, UpstreamSpec};

/// The file as it is shipped.
const SHIPPED: &str = include_str!("../../gateway.yaml");

/// Bound on keys in the demo's memory.
const DEMO_KEYS: usize = 100_000;

pub(super) fn run() -> ExitCode {
    start_logging();
    let mut loaded = match config::parse("gateway.yaml", SHIPPED, &environment) {
        Ok(loaded) => loaded,
        Err(report) => {
            println!("{}", report.render(colour_of(&std::io::stdout())));
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    let prepared = sample::start()
        .and_then(|sample| on_this_machine(&mut loaded.policy, sample).map(|()| sample));
    let served = prepared.map_err(StartError::System).and_then(|sample| {
        app::run(loaded, Source::Arguments, |addresses| {
            println!("{}", welcome(addresses, sample));
        })
    });
    match served {
        Ok(ended) => ended.exit_code(),
        Err(error) => {
            println!("the demo cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Puts the sample in every upstream's place, the counts in memory, and free ports where one is taken.
fn on_this_machine(policy: &mut Policy, sample: SocketAddr) -> std::io::Result<()> {
    let server = ServerSpec {
        host: sample.ip().to_string().into(),
        port: sample.port(),
    };
    for upstream in &mut policy.upstreams {
        *upstream = Arc::new(UpstreamSpec {
            servers: vec![server.clone()],
            ..UpstreamSpec::clone(upstream)
        });
    }
    policy.store = StoreSpec::Memory {
        max_keys: DEMO_KEYS,
    };
    policy.access_log = None;
    for listen in &mut policy.listen {
        *listen = loopback_or_free(*listen)?;
    }
    policy.admin = loopback_or_free(policy.admin)?;
    Ok(())
}

fn loopback_or_free(wanted: SocketAddr) -> std::io::Result<SocketAddr> {
    let wanted = SocketAddr::from(([127, 0, 0, 1], wanted.port()));
    TcpListener::bind(wanted)
        .or_else(|_| TcpListener::bind(("127.0.0.1", 0)))
        .and_then(|listener| listener.local_addr())
}

fn welcome(addresses: &app::Addresses, sample: SocketAddr) -> String {
    let gateway = addresses.listen.first().copied().unwrap_or(addresses.admin);
    let admin = addresses.admin;
    format!(
        "\nsluice is running the shipped gateway.yaml; the counts are kept in memory.

  sample upstream  http://{sample}  (shows each request as it saw it)
  gateway          http://{gateway}
  metrics          http://{admin}/metrics

Try, in another terminal:

  # a request that passes, with its RateLimit fields
  curl -i http://{gateway}/hello

  # wrong passwords: five pass, the sixth meets `logins`
  for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{{http_code}}\\n' -X POST http://{gateway}/login; done

  # what a rejected client is told
  curl -i -X POST http://{gateway}/login

  # the same in numbers
  curl -s http://{admin}/metrics | grep sluice_decisions_total

Ctrl-C ends it.\n"
    )
}
