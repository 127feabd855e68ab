use std::time::Duration;

use super::{
    BlockWords, Rate, RateDecl, Transport, Within, Wrong, block, cidr, duration, endpoint,
    in_words, number, rate, redis, sentinel, server, short, span_in_words, window_in_words,
};
use crate::policy::RedisAddress;

fn title<T: std::fmt::Debug>(result: Result<T, Wrong>) -> String {
    result.unwrap_err().title
}

#[test]
fn durations() {
    for (text, millis) in [
        ("500ms", 500),
        ("10s", 10_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("0s", 0),
    ] {
        assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
    }
    for text in [
        "",
        "-5s",
        "1",
        "1year",
        "10 s",
        "1.5s",
        "s",
        "30m1h",
        "1m1m",
        "99999999999999999999s",
        "400d",
        "1µs",
    ] {
        assert!(duration(text).is_err(), "{text}");
    }
    assert_eq!(title(duration("1")), "`1` has no unit");
    assert_eq!(title(duration("1year")), "`year` is not a unit of time");
    assert_eq!(duration("10 s").unwrap_err().help.unwrap(), "write `10s`");
}

#[test]
fn numbers() {
    assert_eq!(number("00123"), Ok(123));
    for text in [
        "",
        "-1",
        "1.7",
        "1e9",
        "9223372036854775808",
        "18446744073709551616",
        "ten",
        "1_000",
        "+1",
        "0x10",
    ] {
        assert!(number(text).is_err(), "{text}");
    }
}

#[test]
fn amounts() {
    let per = |amount, seconds, burst| {
        let length = Duration::from_secs(seconds);
        let within = Within::Window { length, burst };
        Ok(Rate::Limited(RateDecl { amount, within }))
    };
    assert_eq!(rate("100 per minute"), per(100, 60, None));
    assert_eq!(rate("100 per minute, burst 20"), per(100, 60, Some(20)));
    assert_eq!(rate("5 per 10 minutes"), per(5, 600, None));
    assert_eq!(rate("10/s,burst 3"), per(10, 1, Some(3)));
    assert_eq!(rate("10/min"), per(10, 60, None));
    assert_eq!(rate("10/h"), per(10, 3600, None));
    assert_eq!(rate("10/d"), per(10, 86_400, None));
    assert_eq!(rate("2 per 2 weeks"), per(2, 1_209_600, None));
    assert_eq!(rate("unlimited"), Ok(Rate::Unlimited));
    for text in [
        "",
        "0",
        "-1",
        "1.7",
        "10",
        "1e9",
        "9223372036854775808 per second",
        "0 per minute",
        "5 per 0 minutes",
        "-1 per minute",
        "1.7 per minute",
        "1e9 per minute",
        "10 per fortnight",
        "10 per month",
        "10/m",
        "10/year",
        "10 per minute, burst 0",
        "10 per minute,",
        "10 per minute, burst 2, burst 3",
        "10 per minute, brust 3",
        "burst 20",
        "10 minute",
        "unlimitd",
        "10 per 400 days",
    ] {
        assert!(rate(text).is_err(), "{text}");
    }
    assert_eq!(
        title(rate("0 per minute")),
        "an amount of 0 would let nothing pass"
    );
    assert_eq!(
        rate("10 per minutte").unwrap_err().help.unwrap(),
        "did you mean `minute`?"
    );
}

#[test]
fn amounts_at_once() {
    let at_once = |amount| {
        let within = Within::Concurrent;
        Ok(Rate::Limited(RateDecl { amount, within }))
    };
    assert_eq!(rate("20 concurrent"), at_once(20));
    assert_eq!(rate(" 1  concurrent "), at_once(1));
    for text in [
        "0 concurrent",
        "1.5 concurrent",
        "10 concurrent, burst 5",
        "10 concurrent,",
        "10 concurrent requests",
        "10 per concurrent",
        "concurrent",
        "concurrent 10",
    ] {
        assert!(rate(text).is_err(), "{text}");
    }
    assert_eq!(
        rate("20 concurent").unwrap_err().help.unwrap(),
        "did you mean `concurrent`?"
    );
}

#[test]
fn calendars() {
    let words = |text: &str| match rate(text).unwrap() {
        Rate::Limited(rate) => rate.words(),
        Rate::Unlimited => unreachable!(),
    };
    for text in [
        "1 per calendar minute",
        "1 per calendar hour in Asia/Kolkata",
        "10000 per calendar day in Europe/Paris",
        "1 per calendar week in America/Argentina/Buenos_Aires",
        "1 per calendar month in Etc/GMT+5",
    ] {
        assert_eq!(words(text), text);
    }
    assert_eq!(words("1 per calendar day in UTC"), "1 per calendar day");
    assert_eq!(
        words("1 per calendar day in europe/paris"),
        "1 per calendar day in Europe/Paris"
    );
    let help = |text: &str| rate(text).unwrap_err().help.unwrap();
    for (text, meant) in [
        ("1 per calendar day in Europe/Pairs", "Europe/Paris"),
        ("1 per calendar day in paris", "Europe/Paris"),
        ("1 per calendar days", "day"),
    ] {
        assert_eq!(help(text), format!("did you mean `{meant}`?"));
    }
    for text in [
        "1 per calendar",
        "1 per calendar year",
        "0 per calendar day",
        "1 per calendar 2 days",
        "1 per calendar day in",
        "1 per calendar day at Europe/Paris",
        "1 per calendar day in Nowhere/Atlantis",
        "1 per calendar day in ../../etc/passwd",
        "1 per calendar day, burst 5",
    ] {
        assert!(rate(text).is_err(), "{text}");
    }
    assert_eq!(
        help("10 per month"),
        "write `per calendar month`: from the first of one to the first of the next"
    );
}

#[test]
fn words() {
    assert_eq!(window_in_words(Duration::from_secs(60)), "minute");
    assert_eq!(window_in_words(Duration::from_secs(600)), "10 minutes");
    assert_eq!(window_in_words(Duration::from_secs(90)), "90 seconds");
    assert_eq!(window_in_words(Duration::from_millis(500)), "500 ms");
    assert_eq!(short(Duration::from_secs(3600)), "1h");
    assert_eq!(short(Duration::from_secs(90)), "90s");
    assert_eq!(short(Duration::from_secs(604_800)), "7d");
    assert_eq!(in_words(600_000), "600 ms");
    assert_eq!(in_words(1_500_000), "1.5 s");
    assert_eq!(in_words(12_000_000), "12 s");
    assert_eq!(in_words(720_000_000), "12 min");
    assert_eq!(in_words(1_200), "1.2 ms");
    assert_eq!(in_words(10), "10 us");
}

#[test]
fn addresses() {
    assert_eq!(endpoint("8080").unwrap().to_string(), "0.0.0.0:8080");
    assert_eq!(endpoint(":8080").unwrap().to_string(), "0.0.0.0:8080");
    assert_eq!(endpoint("[::1]:80").unwrap().to_string(), "[::1]:80");
    assert_eq!(
        endpoint("localhost:80").unwrap().to_string(),
        "127.0.0.1:80"
    );
    for text in [
        "",
        "example.com:80",
        "::1:80",
        "0.0.0.0:99999",
        "0.0.0.0",
        "http://x:80",
        ":",
        "1.2.3.4:",
    ] {
        assert!(endpoint(text).is_err(), "{text}");
    }
    assert_eq!(cidr("192.0.2.1").unwrap().to_string(), "192.0.2.1/32");
    assert_eq!(cidr("2001:db8::1").unwrap().to_string(), "2001:db8::1/128");
    for text in ["10.0.0.1/8", "10.0.0.0/33", "x", "", "10.0.0.0/"] {
        assert!(cidr(text).is_err(), "{text}");
    }
}

#[test]
fn stores_with_tls_and_sentinels() {
    let url = redis("redis://cache").unwrap();
    assert_eq!(url.transport, Transport::Plain);
    let url = redis("rediss://cache").unwrap();
    assert_eq!(url.transport, Transport::Tls);
    assert_eq!(
        url.address,
        RedisAddress::Tcp {
            host: "cache".into(),
            port: 6379
        }
    );
    let url = sentinel("redis://me:x@guard").unwrap();
    assert_eq!(
        url.address,
        RedisAddress::Tcp {
            host: "guard".into(),
            port: 26379
        }
    );
    for text in ["guard:26379", "unix:///s.sock", "redis://guard/1"] {
        assert!(sentinel(text).is_err(), "{text}");
    }
}

#[test]
fn servers_and_stores() {
    let endpoint = server("http://[2001:db8::1]:81/").unwrap().server;
    assert_eq!((&*endpoint.host, endpoint.port), ("2001:db8::1", 81));
    assert_eq!(server("Example.com").unwrap().server.port, 80);
    for text in [
        "",
        "http://",
        "https://x",
        "ftp://x",
        "http://x/path",
        "http://u:p@x",
        "http://x:0",
        "http://a b",
        "::1",
    ] {
        assert!(server(text).is_err(), "{text}");
    }
    let url = redis("redis://me:p%40ss@cache:7000/3").unwrap();
    assert_eq!(
        url.address,
        RedisAddress::Tcp {
            host: "cache".into(),
            port: 7000
        }
    );
    assert_eq!(
        (
            url.username.as_deref(),
            url.password.as_deref(),
            url.database
        ),
        (Some("me"), Some("p@ss"), 3)
    );
    assert_eq!(
        redis("unix:///run/r.sock").unwrap().address,
        RedisAddress::Unix("/run/r.sock".into())
    );
    for text in [
        "",
        "memori",
        "redisss://x",
        "sentinel://x",
        "redis://",
        "redis://:hunter2@",
        "unix://x",
        "redis://h/x",
        "http://h",
    ] {
        let wrong = redis(text).unwrap_err();
        assert!(!format!("{wrong:?}").contains("hunter2"));
    }
}

#[test]
fn blocks() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    for (text, length, after) in [
        ("block for 15 minutes", minutes(15), None),
        ("block for 1 minute", minutes(1), None),
        ("  block  for 15m ", minutes(15), None),
        (
            "block for 1 hour after 3 rejections in 10 minutes",
            minutes(60),
            Some((3, minutes(10))),
        ),
        (
            "block for 1h30m after 1 rejection in 90s",
            minutes(90),
            Some((1, Duration::from_secs(90))),
        ),
    ] {
        assert_eq!(block(text), Ok(BlockWords { length, after }), "{text}");
    }
    for text in [
        "",
        "ban for 1 minute",
        "block",
        "block for",
        "block 15 minutes",
        "block for 15",
        "block for 0 minutes",
        "block for 1 minute and 2 seconds",
        "block for 1 minute after",
        "block for 1 minute after 3",
        "block for 1 minute after 3 rejections",
        "block for 1 minute after 3 rejections in",
        "block for 1 minute after 0 rejections in 1 minute",
        "block for 1 minute after 3 rejections within 1 minute",
        "block for 400 days",
    ] {
        assert!(block(text).is_err(), "{text}");
    }
    assert_eq!(span_in_words(minutes(60)), "1 hour");
    assert_eq!(span_in_words(minutes(90)), "90 minutes");
}
