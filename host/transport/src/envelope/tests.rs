use super::*;

fn event(frame: Carrier) -> Invocation {
    let answer_key = Some(Key::new("runs/r/e000001/s000/i00000/answer").unwrap());
    Invocation { frame, answer_key, max_inline_bytes: INLINE_FRAME_BYTES, stream: true }
}

fn object(bytes_len: u64) -> Carrier {
    Carrier::Object { key: Key::new("runs/r/a").unwrap(), bytes_len }
}

#[test]
fn messages_come_back_and_are_ordinary_json() {
    let inline = |len: usize| Carrier::Inline((0..len).map(|i| (i * 7) as u8).collect());
    for frame in [inline(0), inline(1), inline(2), inline(3), inline(1000), object(12)] {
        let sent = event(frame.clone());
        let json = sent.to_json().unwrap();
        assert_eq!(Invocation::from_json(&json).unwrap(), sent);
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["version"], 1);
        if let Carrier::Inline(bytes) = &frame {
            assert_eq!(value["frame"]["inline"], STANDARD.encode(bytes));
        }
        let sent = Reply { frame, send_us: 17, existed: true };
        assert_eq!(Reply::from_json(&sent.to_json().unwrap()).unwrap(), sent);
    }
    let sent = Invocation { answer_key: None, ..event(object(1)) };
    assert_eq!(Invocation::from_json(&sent.to_json().unwrap()).unwrap(), sent);
}

#[test]
fn the_service_limit_holds_to_the_byte() {
    let longest = Key::new(format!("{0}/{0}/{1}", "k".repeat(250), "l".repeat(10))).unwrap();
    let with = |len: u64| Invocation {
        answer_key: Some(longest.clone()),
        ..event(Carrier::Inline(vec![0xff; len as usize].into()))
    };
    let json = with(INLINE_FRAME_BYTES).to_json().unwrap();
    assert!(json.len() <= SYNC_PAYLOAD_BYTES && json.len() > SYNC_PAYLOAD_BYTES - AROUND_BYTES);
    assert_eq!(Invocation::from_json(&json).unwrap().frame.bytes_len(), INLINE_FRAME_BYTES);
    // Filled with spaces up to the limit, and with one more.
    let mut json = json;
    json.resize(SYNC_PAYLOAD_BYTES, b' ');
    assert!(Invocation::from_json(&json).is_ok());
    json.push(b' ');
    assert!(matches!(Invocation::from_json(&json), Err(Error::TooLarge { .. })));
    let over = with(INLINE_FRAME_BYTES + AROUND_BYTES as u64).to_json();
    assert!(matches!(over, Err(Error::TooLarge { .. })), "{over:?}");
    assert!(matches!(Reply::from_json(&json), Err(Error::TooLarge { .. })));
}

#[test]
fn what_is_not_a_message_is_refused_with_a_reason() {
    let good =
        String::from_utf8(event(Carrier::Inline(Bytes::from_static(b"abcd"))).to_json().unwrap()).unwrap();
    Invocation::from_json(good.as_bytes()).unwrap();
    let inline = "{\"inline\":\"YWJjZA==\"}";
    assert!(good.contains(inline), "{good}");
    let swapped = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    for bad in [
        String::new(),
        "null".into(),
        "[]".into(),
        "{}".into(),
        good[..good.len() - 1].to_owned(),
        good.clone() + "x",
        swapped("\"version\":1", "\"version\":2"),
        swapped("\"version\":1", "\"version\":-1"),
        swapped("\"version\":1,", ""),
        swapped("\"version\":1", "\"version\":1,\"version\":1"),
        swapped("\"version\":1", "\"version\":1,\"other\":0"),
        swapped("\"stream\":true", "\"stream\":1"),
        swapped("runs/r/", "runs/../"),
        swapped("YWJjZA==", "YWJjZA"),
        swapped("YWJjZA==", "YWJjZA="),
        swapped("YWJjZA==", "YWJjZB=="),
        swapped("YWJjZA==", "YWJj ZA="),
        swapped("YWJjZA==", "YWJjZA==YWJj"),
        swapped("YWJjZA==", "YW-jZA=="),
        swapped("YWJjZA==", "\\u0059WJjZA=="),
        swapped("YWJjZA==", "\u{e9}WJjZA=="),
        swapped(inline, "{\"inline\":null}"),
        swapped(inline, "{\"inline\":\"\",\"object\":{\"key\":\"a\",\"bytes_len\":1}}"),
        swapped(inline, "{}"),
        swapped(inline, "{\"object\":{\"key\":\"a\"}}"),
        swapped(inline, "{\"object\":{\"key\":\"../a\",\"bytes_len\":1}}"),
        swapped(inline, "{\"object\":{\"key\":\"a\",\"bytes_len\":1,\"x\":1}}"),
        swapped(inline, "{\"object\":{\"key\":\"a\",\"bytes_len\":1e3}}"),
        swapped(inline, "{\"object\":{\"key\":\"a\",\"bytes_len\":18446744073709551616}}"),
        swapped(inline, &"[".repeat(100_000)),
        swapped(&format!("{INLINE_FRAME_BYTES}"), &format!("{}", INLINE_FRAME_BYTES + 1)),
    ] {
        let error = Invocation::from_json(bad.as_bytes()).expect_err(&bad);
        assert!(matches!(error, Error::Envelope { .. }), "{bad}: {error}");
        assert!(error.to_string().len() < 300, "{error}");
    }
    let huge = swapped(inline, "{\"object\":{\"key\":\"a\",\"bytes_len\":18446744073709551615}}");
    assert!(matches!(Invocation::from_json(huge.as_bytes()), Err(Error::TooLarge { .. })));
    assert!(matches!(event(object(MAX_OBJECT_BYTES + 1)).to_json(), Err(Error::TooLarge { .. })));
    assert!(event(object(MAX_OBJECT_BYTES)).to_json().is_ok());
    let greedy = Invocation { max_inline_bytes: INLINE_FRAME_BYTES + 1, ..event(object(1)) };
    assert!(greedy.to_json().is_err());
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let mut json = event(Carrier::Inline(Bytes::from_static(b"abcd"))).to_json().unwrap();
    let at = json.windows(4).position(|w| w == b"YWJj").unwrap();
    json[at] = 0xff;
    assert!(matches!(Invocation::from_json(&json), Err(Error::Envelope { .. })));
}

/// Checks messages with changed, missing, repeated or moved bytes, and random bytes. Each is either
/// refused with a typed error, or encodes to the same bytes again. `ECITON_FUZZ_SECONDS` sets the
/// duration.
#[test]
fn changed_messages_are_refused_or_are_messages() {
    let seconds = std::env::var("ECITON_FUZZ_SECONDS").map_or(1, |text| text.parse().unwrap());
    let seed = match std::env::var("ECITON_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
    };
    println!("ECITON_SEED={seed}");
    let mut state = seed | 1;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below.max(1)
    };
    let inline = Carrier::Inline(Bytes::from_static(b"some bytes of a frame"));
    let good = [
        event(inline.clone()).to_json().unwrap(),
        event(object(77)).to_json().unwrap(),
        Reply { frame: inline, send_us: 5, existed: false }.to_json().unwrap(),
        Reply { frame: object(1 << 30), send_us: 0, existed: true }.to_json().unwrap(),
    ];
    let telling = b"{}[]\",:\\0123456789eE+-.=/ntfu\xff\x00 ";
    let started = std::time::Instant::now();
    let (mut rounds, mut taken) = (0_u64, 0_u64);
    while started.elapsed().as_secs() < seconds {
        let mut json = good[random(good.len())].clone();
        for _ in 0..1 + random(3) {
            let at = random(json.len());
            match random(7) {
                0 => json.truncate(at),
                1 if !json.is_empty() => json[at] = telling[random(telling.len())],
                2 if !json.is_empty() => json[at] ^= 1 << random(8),
                3 => json.insert(at, telling[random(telling.len())]),
                4 if !json.is_empty() => drop(json.remove(at)),
                5 => {
                    let other = &good[random(good.len())];
                    json.truncate(at);
                    json.extend_from_slice(&other[random(other.len())..]);
                }
                _ => {
                    let piece = json[at..].to_vec();
                    json.splice(at..at, piece);
                }
            }
        }
        rounds += 1;
        if let Ok(message) = Invocation::from_json(&json) {
            assert_eq!(Invocation::from_json(&message.to_json().unwrap()).unwrap(), message);
            taken += 1;
        }
        if let Ok(message) = Reply::from_json(&json) {
            assert_eq!(Reply::from_json(&message.to_json().unwrap()).unwrap(), message);
            taken += 1;
        }
    }
    println!("{rounds} rounds, {taken} were messages");
    assert!(rounds > 1000 && taken > 0 && taken < rounds);
}
