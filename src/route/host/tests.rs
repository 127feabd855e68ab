use hyper::Request;

use super::*;

fn host(version: Version, target: &str, fields: &[&[u8]]) -> Result<String, InvalidHost> {
    let mut request = Request::builder().version(version).uri(target);
    for field in fields {
        request = request.header(HOST, *field);
    }
    effective_host(&request.body(()).unwrap().into_parts().0)
}

fn of(field: &str) -> Result<String, InvalidHost> {
    host(Version::HTTP_11, "/", &[field.as_bytes()])
}

#[test]
fn spellings_of_one_host_are_one() {
    for field in ["gw", "GW", "gw.", "Gw:80", "gw:443", "gw:", "gw.:0080"] {
        assert_eq!(of(field).unwrap(), "gw", "{field}");
    }
    assert_eq!(of("gw:8080").unwrap(), "gw:8080");
    assert_eq!(of("[2001:DB8:0::1]:80").unwrap(), "[2001:db8::1]");
    assert_eq!(of("[::1]:8080").unwrap(), "[::1]:8080");
    assert_eq!(of("a_b.example-1.com").unwrap(), "a_b.example-1.com");
}

#[test]
fn what_is_not_one_host_is_refused() {
    let long = "a".repeat(256);
    for field in [
        "",
        "a, b",
        "gw/x",
        "user@gw",
        "gw:x",
        "gw:99999",
        "gw:-1",
        "..",
        ".",
        "a..b",
        "_",
        "-",
        "[::1",
        "[::1]x",
        "[1.2.3.4]",
        "::1",
        "gw%41",
        "gw\\x",
        "a b",
        "gw?x",
        "gw#x",
        &long,
    ] {
        assert!(of(field).is_err(), "{field}");
    }
    assert!(host(Version::HTTP_11, "/", &[]).is_err());
    assert!(host(Version::HTTP_10, "/", &[]).is_err());
    assert!(host(Version::HTTP_11, "/", &[b"a", b"a"]).is_err());
    assert!(host(Version::HTTP_11, "/", &[b"caf\xc3\xa9"]).is_err());
    assert!(host(Version::HTTP_11, "/", &[b"a\xff"]).is_err());
}

#[test]
fn the_authority_of_the_target_wins() {
    assert_eq!(
        host(Version::HTTP_11, "http://tenantB/", &[b"tenantA"]).unwrap(),
        "tenantb"
    );
    assert!(host(Version::HTTP_11, "http://tenantB/", &[]).is_err());
    assert!(host(Version::HTTP_11, "http://user@tenantB/", &[b"tenantA"]).is_err());
    assert!(host(Version::HTTP_11, "ftp://tenantB/", &[b"tenantB"]).is_err());
    assert_eq!(host(Version::HTTP_2, "https://a/", &[]).unwrap(), "a");
    assert_eq!(
        host(Version::HTTP_2, "https://a/", &[b"A:443"]).unwrap(),
        "a"
    );
    assert!(host(Version::HTTP_2, "https://a/", &[b"b"]).is_err());
}

#[test]
fn patterns_say_what_is_wrong() {
    assert_eq!(
        HostPattern::parse("Example.COM.").unwrap(),
        HostPattern::Exact("example.com".into())
    );
    assert_eq!(
        HostPattern::parse(".Example.com").unwrap(),
        HostPattern::Subdomains(".example.com".into())
    );
    assert_eq!(
        HostPattern::parse("*.example.com").unwrap_err(),
        "`*.example.com`: any subdomain is `.example.com`"
    );
    for wrong in ["", ".", "a b", "http://x", "x:80", ".[::1]", "café.example"] {
        assert!(HostPattern::parse(wrong).is_err(), "{wrong}");
    }
    let any = HostPattern::parse(".example.com").unwrap();
    assert!(any.matches("a.example.com") && any.matches("a.b.example.com"));
    assert!(!any.matches("example.com") && !any.matches("badexample.com"));
}
