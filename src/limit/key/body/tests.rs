use bytes::Bytes;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use proptest::prelude::*;

use super::*;
use crate::request::{Client, Extent, Opening, PeerTrust, Target};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// `Ok`: a value, or nothing; `Err`: twice.
type Found = Result<Option<String>, ()>;

fn found(field: &str, headers: &[(&str, &str)], body: &[u8], extent: Extent) -> Found {
    let mut request = Request::builder().method("POST").uri("/login");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let head = request.body(()).unwrap().into_parts().0;
    let peer = "203.0.113.9:1".parse().unwrap();
    let opening = Opening {
        bytes: Bytes::copy_from_slice(body),
        extent,
    };
    let facts = Facts {
        head: &head,
        client: Client {
            peer,
            trust: PeerTrust::Untrusted,
            address: peer.ip(),
        },
        host: "gw",
        target: &Target {
            exact: "/login".to_owned(),
            wide: "/login".to_owned(),
            query: None,
        },
        route: None,
        route_params: &[],
        body: Some(&opening),
    };
    match read(&BodyField::new(field).unwrap(), &facts) {
        Reading::Missing => Ok(None),
        Reading::Twice => Err(()),
        Reading::Value(value) => Ok(Some(String::from_utf8(value.into_owned()).unwrap())),
    }
}

fn whole(kind: &str, body: &str) -> Found {
    found(
        "user",
        &[(CONTENT_TYPE.as_str(), kind)],
        body.as_bytes(),
        Extent::Whole,
    )
}

fn value_of(text: &str) -> Found {
    Ok(Some(text.to_owned()))
}

#[test]
fn a_member_of_an_object_is_its_text() {
    for (body, text) in [
        (r#"{"user":"bob"}"#, "bob"),
        (
            "\u{FEFF} {\"a\":[{\"user\":\"x\"}], \"user\" : \" bob \"}",
            "bob",
        ),
        (r#"{"\u0075ser":"b\u006fb","b":{"user":1}}"#, "bob"),
        (r#"{"USER":"Bob"}"#, "Bob"),
        ("{\"u\u{17F}er\":\"bob\"}", "bob"),
        (r#"{"user":17}"#, "17"),
        (r#"{"user":17.0}"#, "17"),
        (r#"{"user":170e-1}"#, "17"),
        (r#"{"user":-0}"#, "0"),
        (r#"{"user":-5}"#, "-5"),
        (r#"{"user":1.5}"#, "1.5"),
        (r#"{"user":true}"#, "true"),
        (r#"{"user":"bob"} and more"#, "bob"),
        ("{\"user\":\"a;b&user=c\"}", "a;b&user=c"),
    ] {
        assert_eq!(whole(JSON, body), value_of(text), "{body}");
        assert_eq!(
            whole("application/vnd.x+json; charset=utf-8", body),
            value_of(text),
            "{body}"
        );
    }
    for body in [
        "",
        " ",
        "null",
        "[]",
        "\"user\"",
        "{}",
        r#"{"user":null}"#,
        r#"{"user":""}"#,
        r#"{"user":" "}"#,
        r#"{"user":["bob"]}"#,
        r#"{"user":{"user":"bob"}}"#,
        r#"[{"user":"bob"}]"#,
        r#"{"user":"bob""#,
        r#"{"user":"bob",}"#,
        r#"{"user":"bob", x}"#,
        "{user:'bob'}",
        r#"{"user":"bob" /* */, "user":"eve"}"#,
        r#"{"user":"\ud800"}"#,
        "user=bob",
    ] {
        assert_eq!(whole(JSON, body), Ok(None), "{body}");
    }
}

#[test]
fn dots_lead_into_objects() {
    let at = |body: &str| {
        found(
            "login.user",
            &[("content-type", JSON)],
            body.as_bytes(),
            Extent::Whole,
        )
    };
    assert_eq!(
        at(r#"{"user":"x","login":{"user":"bob"}}"#),
        value_of("bob")
    );
    assert_eq!(at(r#"{"login.user":"bob"}"#), Ok(None));
    assert_eq!(at(r#"{"login":"bob"}"#), Ok(None));
    assert_eq!(
        at(r#"{"login":{"user":"bob"},"login":{"user":"eve"}}"#),
        Err(())
    );
    let form = found("login.user", &[], b"login.user=bob", Extent::Whole);
    assert_eq!(form, value_of("bob"));
    assert_eq!(BodyField::new("a..b"), None);
    assert_eq!(BodyField::new(""), None);
}

#[test]
fn a_field_of_a_form_is_decoded_once() {
    for (body, text) in [
        ("user=bob", "bob"),
        ("a=1&user=b%6Fb+x&b=2", "bob x"),
        ("%75ser=bob", "bob"),
        ("User=Bob", "Bob"),
        ("x=1;user=bob", "bob"),
        ("user=victim;1", "victim"),
        ("+user=bob", "bob"),
        ("user%00x=bob", "bob"),
        ("user=%2562", "%62"),
        ("{=1&user=bob", "bob"),
    ] {
        assert_eq!(whole(FORM, body), value_of(text), "{body}");
    }
    for body in [
        "",
        "user",
        "user=",
        "user=+",
        "user=%FF",
        "username=bob",
        "xuser=bob",
    ] {
        assert_eq!(whole(FORM, body), Ok(None), "{body}");
    }
    let php = |body: &str| found("user_name", &[], body.as_bytes(), Extent::Whole);
    assert_eq!(php("user.name=bob"), value_of("bob"));
    assert_eq!(php("user.name=bob&user_name=eve"), Err(()));
}

#[test]
fn two_values_are_none() {
    for body in [
        r#"{"user":"bob","user":"bob"}"#,
        r#"{"user":"bob","USER":"eve"}"#,
        r#"{"user":"bob","\u0075ser":"eve"}"#,
        r#"{"user":"bob","user":["eve"]}"#,
        r#"{"user":null,"user":"eve"}"#,
    ] {
        assert_eq!(whole(JSON, body), Err(()), "{body}");
        assert_eq!(whole("text/plain", body), Err(()), "{body}");
    }
    for body in [
        "user=bob&user=eve",
        "user=bob&User=eve",
        "user=bob;user=eve",
        "user=&+user=eve",
    ] {
        assert_eq!(whole(FORM, body), Err(()), "{body}");
    }
    let both = r#"{"user":"bob","x":"&user=eve&"}"#;
    assert_eq!(
        whole(FORM, both),
        Err(()),
        "a form to one server, JSON to another"
    );
    assert_eq!(whole(JSON, both), value_of("bob"));
}

#[test]
fn another_type_escapes_nothing() {
    for kind in [
        "",
        "text/plain",
        "application/octet-stream",
        "application/xml",
    ] {
        assert_eq!(whole(kind, r#"{"user":"bob"}"#), value_of("bob"), "{kind}");
        assert_eq!(whole(kind, "user=bob"), value_of("bob"), "{kind}");
    }
    let multipart = "multipart/form-data; boundary=x";
    assert_eq!(whole(multipart, r#"{"user":"bob"}"#), value_of("bob"));
    let parts = "--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nbob\r\n--x--\r\n";
    assert_eq!(whole(multipart, parts), Ok(None));
    let coded = |coding: &str| {
        let headers = [("content-type", JSON), ("content-encoding", coding)];
        found("user", &headers, br#"{"user":"bob"}"#, Extent::Whole)
    };
    assert_eq!(coded("gzip"), Ok(None));
    assert_eq!(coded("identity"), value_of("bob"));
}

#[test]
fn of_a_body_that_is_cut_only_what_is_complete_counts() {
    let cut = |kind: &str, body: &str| {
        found(
            "user",
            &[("content-type", kind)],
            body.as_bytes(),
            Extent::Cut,
        )
    };
    for body in [
        r#"{"user":"bob""#,
        r#"{"user":"bob","x":"#,
        r#"{"user":12,"#,
        r#"{"user":tru"#,
    ] {
        let expected = match body {
            r#"{"user":12,"# => Ok(None),
            r#"{"user":tru"# => Ok(None),
            _ => value_of("bob"),
        };
        assert_eq!(cut(JSON, body), expected, "{body}");
    }
    assert_eq!(
        cut(JSON, r#"{"user":12,"x"#),
        Ok(None),
        "the next name is not there yet"
    );
    assert_eq!(cut(JSON, r#"{"user":12,"x":"#), value_of("12"));
    assert_eq!(cut(JSON, r#"{"user":"bo"#), Ok(None));
    assert_eq!(cut(JSON, r#"{"user":12"#), Ok(None));
    assert_eq!(cut(JSON, r#"{"user":"bob" x"#), Ok(None));
    assert_eq!(cut(FORM, "user=bo"), Ok(None));
    assert_eq!(cut(FORM, "user=bob&pass"), value_of("bob"));
}

proptest! {
    #[test]
    fn no_body_is_too_strange(body in prop::collection::vec(any::<u8>(), 0..200), json in any::<bool>(), cut in any::<bool>()) {
        let kind = if json { JSON } else { FORM };
        let extent = if cut { Extent::Cut } else { Extent::Whole };
        let _found = found("user", &[("content-type", kind)], &body, extent);
    }

    #[test]
    fn what_is_written_is_read(user in "[^\\s\\x00]{1,20}", before in any::<String>()) {
        let body = serde_json::json!({ "before": before, "user": user }).to_string();
        prop_assert_eq!(whole(JSON, &body), Ok(Some(user.clone())));
        // However it is cut: the whole value or none.
        for end in 0..body.len() {
            let cut = found("user", &[("content-type", JSON)], &body.as_bytes()[..end], Extent::Cut);
            prop_assert!(cut == Ok(None) || cut == Ok(Some(user.clone())), "{end} {cut:?}");
        }
    }

    #[test]
    fn a_number_is_never_cut_short(user in any::<i64>()) {
        let body = serde_json::json!({ "user": user, "z": 1 }).to_string();
        for end in 0..body.len() {
            let cut = found("user", &[("content-type", JSON)], &body.as_bytes()[..end], Extent::Cut);
            prop_assert!(cut == Ok(None) || cut == Ok(Some(user.to_string())), "{end} {cut:?}");
        }
    }
}
