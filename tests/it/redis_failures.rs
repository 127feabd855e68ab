//! What becomes of requests when Redis fails, in each way that it can. `Outage` says what must hold in all of them.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::{
    Load, Outage, RedisServer, Upstream, codes, eventually, free_address, parallel,
};

fn store(redis: &RedisServer) -> String {
    format!("  redis: {}\n", redis.url())
}

#[test]
fn refused_connections() {
    let (mut redis, upstream) = (RedisServer::start(), Upstream::echo());
    let outage = Outage::before(&store(&redis), &upstream);
    redis.kill();
    outage.holds(&["unreachable"]);
    redis.restart();
    outage.recovers();
}

#[test]
fn a_server_that_is_killed_and_restarted_under_load() {
    let (mut redis, upstream) = (RedisServer::start(), Upstream::echo());
    let outage = Outage::before(&store(&redis), &upstream);
    let load = Load::on(outage.gateway.address, "/elsewhere");
    for _ in 0..3 {
        redis.kill();
        outage.says(&["unreachable"]);
        outage.holds_on(Duration::from_secs(1));
        redis.restart();
        outage.recovers();
    }
    load.end();
}

// R19: an unresponsive Redis adds its timeout to every request.
#[test]
fn a_server_that_stands_still() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let outage = Outage::before(&store(&redis), &upstream);
    redis.signal("STOP");
    let crowd = parallel(200, &[outage.gateway.address], "/closed/crowd", &[]);
    assert_eq!(crowd, [503; 200]);
    outage.holds(&["timeout"]);
    // The connection is given up, and no new one is answered.
    outage.holds_on(Duration::from_secs(30));
    redis.signal("CONT");
    outage.recovers();
}

#[test]
fn a_listener_that_never_answers() {
    let (listener, upstream) = (TcpListener::bind("127.0.0.1:0").unwrap(), Upstream::echo());
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // Takes everything, and is then silent until the other end goes.
            std::thread::spawn(move || {
                let _ = stream.unwrap().read_to_end(&mut Vec::new());
            });
        }
    });
    let outage = Outage::during(&format!("  redis: redis://{address}\n"), &upstream);
    outage.holds(&["timeout"]);
}

#[test]
fn a_server_that_loads_its_data() {
    let mut redis = RedisServer::with(&[
        "--key-load-delay",
        "1000",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let upstream = Upstream::echo();
    let fill = "for i = 1, 5000 do redis.call('SET', 'filler' .. i, 'x') end";
    redis.command(&["EVAL", fill, "0"]);
    redis.command(&["SAVE"]);
    let outage = Outage::before(&store(&redis), &upstream);
    redis.kill();
    redis.restart();
    outage.holds(&["loading"]);
    eventually("it has loaded", Duration::from_secs(60), || {
        (redis.command(&["PING"]) == ["PONG"]).then_some(())
    });
    outage.recovers();
}

#[test]
fn a_server_with_as_many_clients_as_it_takes() {
    let (redis, upstream) = (RedisServer::with(&["--maxclients", "4"]), Upstream::echo());
    let connect = |_| UnixStream::connect(redis.socket()).unwrap();
    let crowd: Vec<_> = (0..4).map(connect).collect();
    let outage = Outage::during(&store(&redis), &upstream);
    outage.holds(&["maxclients"]);
    drop(crowd);
    outage.recovers();
}

#[test]
fn a_server_busy_with_a_script_of_somebody() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    redis.command(&["CONFIG", "SET", "busy-reply-threshold", "100"]);
    let outage = Outage::before(&store(&redis), &upstream);
    std::thread::scope(|scope| {
        scope.spawn(|| redis.command(&["EVAL", "while true do end", "0"]));
        outage.holds(&["timeout", "busy"]);
        outage.says(&["busy"]);
        redis.command(&["SCRIPT", "KILL"]);
    });
    outage.recovers();
}

#[test]
fn a_server_that_became_a_replica() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let outage = Outage::before(&store(&redis), &upstream);
    redis.command(&["REPLICAOF", "127.0.0.1", &free_address().port().to_string()]);
    outage.holds(&["readonly"]);
    redis.command(&["REPLICAOF", "NO", "ONE"]);
    outage.recovers();
}

#[test]
fn a_replica_that_has_lost_its_master_and_serves_nothing_old() {
    let nobody = free_address().port().to_string();
    let arguments = [
        "--replica-serve-stale-data",
        "no",
        "--replicaof",
        "127.0.0.1",
        &nobody,
    ];
    let (redis, upstream) = (RedisServer::with(&arguments), Upstream::echo());
    let outage = Outage::during(&store(&redis), &upstream);
    outage.holds(&["masterdown", "readonly"]);
    redis.command(&["REPLICAOF", "NO", "ONE"]);
    outage.recovers();
}

#[test]
fn a_master_without_the_replicas_that_it_wants() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let outage = Outage::before(&store(&redis), &upstream);
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    outage.holds(&["noreplicas"]);
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    outage.recovers();
}

#[test]
fn a_database_that_is_emptied_under_load() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let outage = Outage::before(&store(&redis), &upstream);
    let secret = || redis.command(&["GET", "sluice:1:secret"]);
    let before = secret();
    let load = Load::on(outage.gateway.address, "/elsewhere");
    for _ in 0..20 {
        redis.command(&["FLUSHALL"]);
        assert!([200, 429].contains(&outage.gateway.get("/closed/flushed").status));
    }
    load.end();
    outage.recovers();
    assert_eq!(outage.gateway.metrics().value("sluice_store_up"), 1.0);
    // A gateway that starts now must count under the same secret as this one.
    eventually("the secret is back", Duration::from_secs(40), || {
        (secret() == before).then_some(())
    });
}

#[test]
fn a_memory_that_is_full() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let outage = Outage::before(&store(&redis), &upstream);
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let statuses = codes(3, outage.gateway.address, "/closed/full", &[]);
    assert_eq!(statuses, [200, 200, 429], "the script is let through");
}

#[test]
fn a_memory_that_evicts_is_warned_of() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    redis.command(&["CONFIG", "SET", "maxmemory", "100mb"]);
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    let outage = Outage::before(&store(&redis), &upstream);
    outage.says(&["evicting"]);
    let log = outage.gateway.log();
    assert!(log.contains("maxmemory-policy volatile-lru"), "{log}");

    redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let other = Outage::before(&store(&redis), &upstream);
    assert!(!other.gateway.log().contains("evict"));
}
