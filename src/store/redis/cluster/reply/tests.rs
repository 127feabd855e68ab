use redis::{ErrorKind, ServerErrorKind};

use super::*;

fn address(host: &str, port: u16) -> NodeAddress {
    NodeAddress {
        host: Arc::from(host),
        port,
    }
}

fn error(kind: ServerErrorKind, detail: &str) -> RedisError {
    (ErrorKind::Server(kind), "", detail.to_owned()).into()
}

fn slot(number: u64) -> Slot {
    Slot::new(number).unwrap()
}

#[test]
fn redirects_are_read() {
    let moved = |detail| redirect(&error(ServerErrorKind::Moved, detail));
    let to = |host| {
        Some(Redirect::Moved {
            slot: slot(3999),
            to: address(host, 6381),
        })
    };
    assert_eq!(moved("3999 127.0.0.1:6381"), to("127.0.0.1"));
    assert_eq!(moved("3999 ::1:6381"), to("::1"));
    assert_eq!(moved("3999 :6381"), to(""));
    assert_eq!(moved("3999 ?:6381"), to(""));
    assert_eq!(moved("16384 h:6381"), None);
    assert_eq!(moved("3999 h:port"), None);
    assert_eq!(moved(""), None);
    assert_eq!(
        redirect(&error(ServerErrorKind::Ask, "1 h:2")),
        Some(Redirect::Ask {
            to: address("h", 2)
        })
    );
    let again = error(ServerErrorKind::TryAgain, "Multiple keys request");
    assert_eq!(redirect(&again), Some(Redirect::TryAgain));
    assert_eq!(redirect(&error(ServerErrorKind::ClusterDown, "")), None);
}

#[test]
fn a_map_is_read_and_blanks_are_who_was_asked() {
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    let node = |host, port| {
        Value::Array(vec![
            host,
            Value::Int(port),
            text("id"),
            Value::Array(vec![]),
        ])
    };
    let range = |first, last, host| {
        Value::Array(vec![
            Value::Int(first),
            Value::Int(last),
            node(host, 7000),
            node(text("r"), 7001),
        ])
    };
    let asked = address("seed", 1);
    let reply = Value::Array(vec![
        range(0, 5460, text("10.0.0.1")),
        range(5461, 10922, Value::Nil),
        range(10923, 16383, text("")),
    ]);
    let hosts: Vec<_> = ranges(&reply, &asked)
        .unwrap()
        .into_iter()
        .map(|range| (range.first, range.last, range.node))
        .collect();
    assert_eq!(
        hosts,
        [
            (slot(0), slot(5460), address("10.0.0.1", 7000)),
            (slot(5461), slot(10922), address("seed", 7000)),
            (slot(10923), slot(16383), address("seed", 7000)),
        ]
    );
    let wrong = Value::Array(vec![range(0, 16384, text("h"))]);
    assert!(ranges(&wrong, &asked).is_none());
    assert!(ranges(&Value::Nil, &asked).is_none());
}
