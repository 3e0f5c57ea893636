use proptest::prelude::*;

use super::*;

/// What came out: status, body, whether it is complete, whether the connection can go on.
#[derive(Debug, PartialEq, Eq, Default)]
struct Came {
    statuses: Vec<u16>,
    body: Vec<u8>,
    done: bool,
    again: bool,
}

fn read(parts: &[&[u8]], close: bool) -> Result<Came, Fault> {
    let mut decoder = Decoder::default();
    let mut came = Came::default();
    for part in parts {
        decoder.push(part, |piece| match piece {
            Piece::Head(status, _) => came.statuses.push(status),
            Piece::Body(bytes) => came.body.extend_from_slice(bytes),
        })?;
    }
    if close {
        decoder.close()?;
    }
    came.done = decoder.is_done();
    came.again = decoder.can_go_on();
    Ok(came)
}

fn whole(text: &str) -> Came {
    read(&[text.as_bytes()], false).unwrap()
}

fn fault(text: &[u8], close: bool) -> Fault {
    read(&[text], close).unwrap_err()
}

#[test]
fn bodies_end_as_announced() {
    let came = whole("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(came, Came { statuses: vec![200], body: b"hello".to_vec(), done: true, again: true });
    let came = whole(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5;a=\"b\"\r\nhello\r\nA \r\n0123456789\r\n0\r\nX: y\r\n\r\n",
    );
    assert_eq!((came.body.as_slice(), came.done, came.again), (&b"hello0123456789"[..], true, true));
    let came = whole("HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\n\r\n");
    assert!(came.done && came.again && came.body.is_empty());
    assert!(whole("HTTP/1.1 204 No Content\r\n\r\n").done);
    assert!(!whole("HTTP/1.1 200 OK\r\n\r\nsome").done);
    let came = read(&[b"HTTP/1.1 200 OK\r\n\r\nsome"], true).unwrap();
    assert_eq!((came.body.as_slice(), came.done, came.again), (&b"some"[..], true, false));
}

#[test]
fn interim_heads_are_skipped() {
    let came = whole(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
    );
    assert_eq!((came.statuses, came.body), (vec![200], b"x".to_vec()));
    assert!(fault(b"HTTP/1.1 101 Switching\r\n\r\n", false).malformed);
}

#[test]
fn connections_go_on_only_where_they_may() {
    let again = |head: &str| whole(&format!("{head}\r\nContent-Length: 1\r\n\r\nx")).again;
    assert!(again("HTTP/1.1 200 OK"));
    assert!(!again("HTTP/1.1 200 OK\r\nConnection: foo, Close"));
    assert!(!again("HTTP/1.0 200 OK"));
    assert!(again("HTTP/1.0 200 OK\r\nConnection: Keep-Alive"));
    assert!(!whole("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1").again, "surplus");
    let both = whole(
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    );
    assert!(both.done && !both.again && both.body == b"x");
}

#[test]
fn lengths_that_agree_are_one() {
    assert!(whole("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\nContent-Length: 1\r\n\r\nx").done);
    for bad in ["1, 2", "-1", "+1", "", "x", "99999999999999999999"] {
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {bad}\r\n\r\nx");
        assert!(fault(text.as_bytes(), false).malformed, "{bad}");
    }
}

#[test]
fn what_is_no_http_is_told_from_an_early_end() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for bad in [
        "\r\n",
        "g\r\n",
        "5\nhello",
        "5\r\nhello!",
        "fffffffffffffffff\r\n",
        "5\r\nhello\r0",
        "-1\r\n",
        "5\rx",
    ] {
        assert!(fault(format!("{chunked}{bad}").as_bytes(), false).malformed, "{bad:?}");
    }
    for early in
        ["", "5", "5\r", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "0\r\n", "0\r\nX: y\r\n"]
    {
        let fault = fault(format!("{chunked}{early}").as_bytes(), true);
        assert!(!fault.malformed, "{early:?}: {fault:?}");
    }
    assert!(fault(b"SSH-2.0-OpenSSH_9.2\r\n", false).malformed);
    assert!(fault(b"\x16\x03\x01\x02", false).malformed);
    assert!(fault(b"HTTP/2.0 200 OK\r\n\r\n", false).malformed);
    assert_eq!(fault(b"", true), Fault::early("the connection was closed"));
    assert!(!fault(b"HTTP/1.1 200", true).malformed);
    let short = fault(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true);
    assert_eq!(short, Fault::early("the connection was closed after 3 of 10 bytes of the body"));
}

#[test]
fn nothing_grows_without_end() {
    let many: String = (0..300).map(|i| format!("x{i}: y\r\n")).collect();
    assert!(fault(format!("HTTP/1.1 200 OK\r\n{many}\r\n").as_bytes(), false).malformed);
    let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MAX_HEAD));
    let parts: Vec<&[u8]> = long.as_bytes().chunks(1_000).collect();
    assert!(read(&parts, false).unwrap_err().malformed);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let extension = format!("{chunked}1;{}", "x".repeat(MAX_SIZE_LINE as usize));
    assert!(fault(extension.as_bytes(), false).malformed);
    let trailer = format!("{chunked}0\r\n{}", "a: b\r\n".repeat(MAX_HEAD / 6 + 1));
    assert!(fault(trailer.as_bytes(), false).malformed);
}

proptest! {
    /// However the bytes are cut, the same comes out.
    #[test]
    fn cuts_do_not_matter(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8),
        cuts in proptest::collection::vec(0_usize..600, 0..12),
        sized in any::<bool>(),
    ) {
        let body: Vec<u8> = chunks.concat();
        let mut bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n".to_vec();
        if sized {
            bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
            bytes.extend(&body);
        } else {
            bytes.extend(b"transfer-encoding: chunked\r\n\r\n");
            for chunk in &chunks {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
        }
        let mut at: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
        at.sort_unstable();
        let mut parts = Vec::new();
        let mut from = 0;
        for cut in at {
            parts.push(&bytes[from..cut]);
            from = cut;
        }
        parts.push(&bytes[from..]);
        let came = read(&parts, false).unwrap();
        prop_assert_eq!(came, Came { statuses: vec![200], body: body.clone(), done: true, again: true });
        // Cut short anywhere, it is never taken for complete.
        let single: Vec<&[u8]> = bytes[..bytes.len() - 1].chunks(1).collect();
        prop_assert!(!read(&single, false).unwrap().done);
    }

    /// Whatever comes, there is no panic.
    #[test]
    fn garbage_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), step in 1_usize..20) {
        let parts: Vec<&[u8]> = bytes.chunks(step).collect();
        let _ = read(&parts, true);
        let mut chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        chunked.extend(&bytes);
        let parts: Vec<&[u8]> = chunked.chunks(step).collect();
        let _ = read(&parts, true);
    }
}
