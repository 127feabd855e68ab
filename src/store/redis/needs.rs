//! What sluice needs of a server beyond a connection: commands that its user may run, a clock, and that nothing is evicted.
//! Looked at after each connection is made; what is missing is said, and stops nothing by itself.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};

/// What was found wanting, for a metric and the log.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Want {
    /// The label of `sluice_store_errors_total`.
    pub(super) kind: &'static str,
    pub(super) detail: String,
}

/// The commands that the script calls, each with arguments that do nothing to a key that is not there.
const COMMANDS: [&[&str]; 15] = [
    &["MGET"],
    &["EXISTS"],
    &["TYPE"],
    &["SET", "", "XX", "PX", "1"],
    &["DEL"],
    &["PEXPIRE", "1"],
    &["ZADD", "XX", "1", "a"],
    &["ZREM", "a"],
    &["ZSCORE", "a"],
    &["ZRANGE", "0", "0"],
    &["ZRANGEBYSCORE", "0", "0"],
    &["ZREVRANGEBYSCORE", "0", "0"],
    &["ZREMRANGEBYSCORE", "0", "0"],
    &["EVAL"],
    &["PING"],
];

/// Asks for everything at once.
pub(super) async fn look(
    connection: &mut MultiplexedConnection,
    prefix: &str,
) -> Result<Vec<Want>, RedisError> {
    let key = format!("{prefix}:1:{{}}:nothing:");
    let mut all = redis::pipe();
    all.ignore_errors();
    for words in COMMANDS {
        all.add_command(harmless(words, &key));
    }
    all.cmd("INFO").arg("memory");
    let mut replies: Vec<Result<Value, RedisError>> = all.query_async(connection).await?;
    let memory = replies.pop();
    let refused: Vec<_> = COMMANDS
        .iter()
        .zip(&replies)
        .filter_map(|(words, reply)| Some((words.first()?, reply.as_ref().err()?)))
        .filter(|(_, error)| is_refused(error))
        .collect();
    let mut wants = Vec::new();
    if refused.iter().any(|(_, error)| is_about_keys(error)) {
        wants.push(Want {
            kind: "noperm",
            detail: format!("the user may not read and write the keys {prefix}:*"),
        });
    } else if !refused.is_empty() {
        let names: Vec<_> = refused
            .iter()
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        wants.push(Want {
            kind: "noperm",
            detail: format!(
                "the user may not run {}, which limits may need",
                names.join(", ")
            ),
        });
    }
    // Who may not ask is not told.
    if let Some(Ok(Value::BulkString(text))) = memory {
        wants.extend(evicting(&String::from_utf8_lossy(&text)));
    } else if let Some(Ok(Value::VerbatimString { text, .. })) = memory {
        wants.extend(evicting(&text));
    }
    Ok(wants)
}

fn harmless(words: &[&str], key: &str) -> Cmd {
    let mut command = Cmd::new();
    for (place, word) in words.iter().enumerate() {
        command.arg(word);
        if place == 0 {
            match *word {
                "PING" => {}
                "EVAL" => drop(command.arg("return 1").arg(1).arg(key)),
                _ => drop(command.arg(key)),
            }
        }
    }
    command
}

/// Whether the user may not do what was asked, be it within a script.
pub(super) fn is_refused(error: &RedisError) -> bool {
    let said = error.detail().unwrap_or_default();
    error.code() == Some("NOPERM")
        || said.contains("can't run this command")
        || said.contains("can't access at least one of the keys")
        || said.contains("ACL failure in script")
}

/// Whether it is the key, and not the command, that the user may not touch.
fn is_about_keys(error: &RedisError) -> bool {
    error
        .detail()
        .is_some_and(|said| said.contains("access") && said.contains("key"))
}

/// Reads what `INFO memory` says: with a limit on memory and a policy that evicts, counts vanish, and with them limits.
fn evicting(info: &str) -> Option<Want> {
    let of = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let policy = of("maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    let most = of("maxmemory").filter(|most| *most != "0")?;
    Some(Want {
        kind: "evicting",
        detail: format!(
            "maxmemory-policy {policy} drops counts, and with them limits, beyond {most} bytes: set it to noeviction"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_evicts_is_noticed_where_there_is_a_limit() {
        let info = |most: &str, policy: &str| {
            evicting(&format!(
                "# Memory\r\nmaxmemory:{most}\r\nmaxmemory_human:x\r\nmaxmemory_policy:{policy}\r\n"
            ))
        };
        assert_eq!(info("0", "allkeys-lru"), None);
        assert_eq!(info("100", "noeviction"), None);
        let want = info("100", "volatile-ttl").unwrap();
        assert!(want.detail.contains("volatile-ttl") && want.detail.contains("100 bytes"));
        assert_eq!(evicting("nothing of the kind"), None);
    }

    #[test]
    fn every_command_of_the_script_is_looked_for() {
        let text = crate::store::redis::script::text();
        for call in text.split("call('").skip(1) {
            let name = call.split('\'').next().unwrap();
            let listed = COMMANDS.iter().any(|words| words.first() == Some(&name));
            assert!(listed || name == "TIME", "{name}");
        }
    }
}
