use proptest::prelude::*;

use super::*;

fn usage(path: &str, layout: Layout) -> Usage {
    let path = path.split('.').map(str::to_owned).collect();
    let place = CostPlace::Json(path);
    let most = Cost::new(1);
    Usage::new(Arc::new(AnswerCost { most, place }), layout)
}

fn found(layout: Layout, body: &str) -> Option<u64> {
    let mut usage = usage("usage.total_tokens", layout);
    usage.read(body.as_bytes());
    usage.found().map(Cost::get)
}

#[test]
fn finds_the_number_of_the_path() {
    for (body, cost) in [
        (r#"{"usage":{"total_tokens":7}}"#, Some(7)),
        (
            r#"{"a":[{"b":{}}],"usage" : { "x": 1, "total_tokens"  :  12 } }"#,
            Some(12),
        ),
        (
            r#"{"usage":{"details":{"total_tokens":3},"total_tokens":7}}"#,
            Some(7),
        ),
        (
            r#"{"usage":{"total_tokens":7,"details":{"total_tokens":3}}}"#,
            Some(7),
        ),
        (r#"{"usage":{"total_tokens":1.5}}"#, Some(2)),
        // Elsewhere in the document.
        (r#"{"total_tokens":7}"#, None),
        (r#"{"x":{"usage":{"total_tokens":7}}}"#, None),
        (r#"[{"usage":{"total_tokens":7}}]"#, None),
        (r#"{"usage":[{"total_tokens":7}]}"#, None),
        (r#"{"usage":{},"total_tokens":7}"#, None),
        (r#"{"usage":{"a":{}},"x":{"total_tokens":7}}"#, None),
        // Text is not structure.
        (r#"{"text":"{\"usage\":{\"total_tokens\":7}}"}"#, None),
        (r#"{"text":"\\","usage":{"total_tokens":7}}"#, Some(7)),
        (r#"{"a":"usage","b":{"total_tokens":7}}"#, None),
        // Not a number that a cost can be.
        (r#"{"usage":null}"#, None),
        (r#"{"usage":{"total_tokens":null}}"#, None),
        (r#"{"usage":{"total_tokens":"7"}}"#, None),
        (r#"{"usage":{"total_tokens":-7}}"#, None),
        (r#"{"usage":{"total_tokens":1e3}}"#, None),
        (r#"{"usage":{"total_tokens":[7]}}"#, None),
        // Cut off: the number may go on.
        (r#"{"usage":{"total_tokens":7"#, None),
        // One after another: the last wins, and null does not count.
        (
            "{\"usage\":{\"total_tokens\":7}}\n{\"usage\":{\"total_tokens\":9}}\n{\"usage\":null}\n",
            Some(9),
        ),
        ("", None),
        ("]]}}{\"usage\":{\"total_tokens\":7}}", Some(7)),
    ] {
        assert_eq!(found(Layout::Plain, body), cost, "{body}");
    }
    let mut one = usage("cost", Layout::Plain);
    one.read(br#"{"cost":41,"x":{"cost":5}}"#);
    assert_eq!(one.found(), Some(Cost::new(41)));
}

#[test]
fn reads_events() {
    for (body, cost) in [
        (
            "data: {\"usage\":{\"total_tokens\":7}}\n\ndata: [DONE]\n\n",
            Some(7),
        ),
        (
            "data:{\"usage\":null}\r\n\r\ndata:{\"usage\":{\"total_tokens\":8}}\r\n\r\n",
            Some(8),
        ),
        (
            "data: {\"usage\":\rdata: {\"total_tokens\":9}}\r\r",
            Some(9),
        ),
        (": data: {\"usage\":{\"total_tokens\":7}}\n\n", None),
        ("event: data:\nid: 1\n\n", None),
        ("database: {\"usage\":{\"total_tokens\":7}}\n\n", None),
        // What is cut off in one event does not swallow the next.
        (
            "data: {\"a\":\"\n\ndata: {\"usage\":{\"total_tokens\":7}}\n\n",
            Some(7),
        ),
        (
            "data: {\"usage\":{\"total_tokens\":7}}\n\ndata: {\"usage\":{\"total_tokens\":8}}\n\n",
            Some(8),
        ),
    ] {
        assert_eq!(found(Layout::Events, body), cost, "{body}");
    }
}

#[test]
fn keeps_little_of_a_long_number() {
    let mut usage = usage("cost", Layout::Plain);
    usage.read(b"{\"cost\":");
    (0..100_000).for_each(|_| usage.read(b"9"));
    usage.read(b"}");
    assert_eq!(usage.found(), None);
    assert!(!usage.scan.number.spilled());
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_read_alike(bytes in prop::collection::vec(prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        prop::sample::select(vec!["{", "}", "[", "]", "\"a\"", "\"b\"", ":", ",", "7", "\n", "\r", "data:", "\"", "\\"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ], 0..60), cut in 0_usize..200, events: bool) {
        let bytes = bytes.concat();
        let layout = if events { Layout::Events } else { Layout::Plain };
        let (mut whole, mut pieces) = (usage("a.b", layout), usage("a.b", layout));
        whole.read(&bytes);
        let (head, tail) = bytes.split_at(cut.min(bytes.len()));
        pieces.read(head);
        pieces.read(tail);
        prop_assert_eq!(whole.found(), pieces.found());
    }
}
