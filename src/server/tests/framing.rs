//! Where a message ends, and what belongs to one connection only.

use super::harness::{House, OK, answering, policy, run, upstream};

#[test]
fn fields_of_one_connection_stay_on_it() {
    run(async {
        let (to, seen) = answering(
            "HTTP/1.1 200 OK\r\nConnection:\r\nConnection: X-Secret, Set-Cookie\r\nX-Secret: 1\r\nSet-Cookie: a=b\r\n\
             Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: foo\r\nContent-Length: 2\r\n\r\nok",
        )
        .await;
        let answer = House::open(policy(to))
            .ask(
                "GET /echo HTTP/1.1\r\nHost: api.example.test\r\nConnection:\r\nConnection: close, X-Drop-Me, \
                 X-Forwarded-For, Authorization\r\nX-Drop-Me: 1\r\nAuthorization: b\r\nKeep-Alive: timeout=5\r\n\
                 Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nTE: trailers, deflate\r\n\
                 Upgrade: foo\r\nX_Forwarded_For: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
                 X-Real-IP: 6.6.6.6\r\nSluice-Over-Limit: x\r\nX-Mine: 1\r\n\r\n",
            )
            .await;
        let seen = seen.borrow()[0].to_ascii_lowercase();
        for gone in [
            "drop-me",
            "keep-alive",
            "proxy-",
            "upgrade",
            "connection:",
            "deflate",
            "6.6.6.6",
            "sluice-over",
        ] {
            assert!(!seen.contains(gone), "{gone} in {seen}");
        }
        for there in [
            "host: api.example.test\r\n",
            "te: trailers\r\n",
            "authorization: b\r\n",
            "x-mine: 1\r\n",
            "x-forwarded-for: 127.0.0.1\r\n",
            "x-forwarded-host: api.example.test\r\n",
            "x-forwarded-proto: http\r\n",
            "via: 1.1 sluice-",
        ] {
            assert!(seen.contains(there), "no {there} in {seen}");
        }
        let answer = answer.to_ascii_lowercase();
        for gone in ["x-secret", "keep-alive", "proxy-", "upgrade"] {
            assert!(!answer.contains(gone), "{gone} in {answer}");
        }
        assert!(
            answer.contains("set-cookie: a=b\r\n") && answer.ends_with("ok"),
            "{answer}"
        );
    });
}

#[test]
fn ambiguous_lengths_are_refused() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(policy(to));
        for fields in [
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding : chunked",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: +5",
            "Content-Length: 5,5",
        ] {
            let answer = house
                .ask(&format!(
                    "POST /a HTTP/1.1\r\nHost: gw\r\n{fields}\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: gw\r\n\r\n"
                ))
                .await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{fields}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{fields}: {answer}");
        }
        assert!(seen.borrow().is_empty(), "{:?}", seen.borrow());
    });
}

#[test]
fn of_two_lengths_chunked_wins_and_the_connection_closes() {
    run(async {
        let (to, seen) = upstream(|mut with| async move {
            with.hear("0\r\n\r\n").await;
            with.say(OK).await;
            with.gone().await;
        })
        .await;
        let answer = House::open(policy(to))
            .ask(
                "POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
                 GET /smuggled HTTP/1.1\r\nHost: gw\r\n\r\n",
            )
            .await;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok"),
            "{answer}"
        );
        assert_eq!(answer.matches("HTTP/1.1").count(), 1);
        assert!(
            !seen.borrow()[0].contains("content-length"),
            "{:?}",
            seen.borrow()
        );
        assert!(
            !seen.borrow()[0].contains("smuggled"),
            "{:?}",
            seen.borrow()
        );
    });
}

#[test]
fn a_chunked_get_keeps_its_body() {
    run(async {
        let (to, seen) = upstream(|mut with| async move {
            with.hear("0\r\n\r\n").await;
            with.say(OK).await;
            with.gone().await;
        })
        .await;
        let request = "GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n0\r\nContent-Length: 50\r\nX-T: 1\r\n\r\n";
        let answer = House::open(policy(to)).ask(request).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(
            seen.borrow()[0].contains("transfer-encoding: chunked\r\n"),
            "{seen:?}"
        );
        assert!(
            seen.borrow()[0].ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            "{seen:?}"
        );
    });
}

#[test]
fn lengths_are_written_anew() {
    run(async {
        let (to, seen) = upstream(|mut with| async move {
            with.hear("\r\n\r\n").await;
            with.hear("hello").await;
            with.say(OK).await;
            with.hear("\r\n\r\n").await;
            with.say(OK).await;
            with.gone().await;
        })
        .await;
        let answer = House::open(policy(to))
            .ask(
                "POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 005\r\nContent-Length: 5\r\n\r\nhello\
                 POST /none HTTP/1.1\r\nHost: gw\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            )
            .await;
        assert_eq!(answer.matches("200 OK").count(), 2, "{answer}");
        let seen = seen.borrow();
        assert!(
            seen[0].contains("content-length: 5\r\n") && seen[0].contains("content-length: 0\r\n"),
            "{seen:?}"
        );
        assert_eq!(seen[0].matches("content-length").count(), 2, "{seen:?}");
    });
}

#[test]
fn an_answer_framed_twice_is_chunked() {
    run(async {
        let (to, _) = answering(
            "HTTP/1.1 200 OK\r\nContent-Length: 500\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        )
        .await;
        let answer = House::open(policy(to))
            .ask("GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")
            .await;
        assert!(!answer.contains("content-length"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n2\r\nok\r\n0\r\n\r\n"), "{answer}");
    });
}

#[test]
fn head_has_the_length_and_no_body() {
    run(async {
        let (to, seen) = upstream(|mut with| async move {
            while with.hear("\r\n\r\n").await {
                let body = if with.number == 0 { "" } else { "body" };
                with.say(&format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{body}"
                ))
                .await;
            }
        })
        .await;
        let house = House::open(policy(to));
        let mut client = house.client().await;
        client.say("HEAD / HTTP/1.1\r\nHost: gw\r\n\r\n").await;
        let head = client.hear("\r\n\r\n").await;
        assert!(head.contains("content-length: 4\r\n"), "{head}");
        client.say("HEAD / HTTP/1.1\r\nHost: gw\r\n\r\n").await;
        assert!(client.hear("\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
        assert_eq!(seen.borrow().len(), 1, "the connection is reused");
    });
}

#[test]
fn what_no_route_may_forward() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(policy(to));
        let long = format!("GET /{} HTTP/1.1\r\nHost: gw\r\n", "x".repeat(9000));
        for (request, status) in [
            ("CONNECT gw:443 HTTP/1.1\r\nHost: gw\r\n", "405"),
            ("TRACE / HTTP/1.1\r\nHost: gw\r\n", "405"),
            ("OPTIONS * HTTP/1.1\r\nHost: gw\r\n", "204"),
            ("POST / HTTP/1.1\r\nHost: gw\r\nExpect: 200-ok\r\n", "417"),
            ("GET / HTTP/1.1\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n", "400"),
            (&long, "414"),
        ] {
            let answer = house
                .ask(&format!("{request}Connection: close\r\n\r\n"))
                .await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}: {answer}"
            );
        }
        assert!(seen.borrow().is_empty());
    });
}
