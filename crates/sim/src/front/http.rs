//! HTTP/1.x requests, sans-IO: bytes in, one complete request out.

/// Longest request head.
const HEAD_LIMIT: usize = 64 * 1024;
/// Longest request body: a million tokens of context have room.
const BODY_LIMIT: usize = 256 * 1024 * 1024;
/// Most bytes of a request, framing included.
pub const REQUEST_LIMIT: usize = HEAD_LIMIT + BODY_LIMIT;

/// A complete request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Without the query.
    pub path: String,
    /// The client's id of it.
    pub request_id: Option<String>,
    /// HTTP/1.1; otherwise 1.0, which knows no chunked bodies.
    pub http11: bool,
    /// The connection stays open after the answer.
    pub keep_alive: bool,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

/// What the bytes so far amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// More is needed. `true`: the head is complete and the client waits for `100 Continue`.
    Partial {
        /// The client waits for `100 Continue`.
        expects_continue: bool,
    },
    /// A request, and the bytes that it took.
    Complete(Box<Request>, usize),
    /// No request: answer with this status and close.
    Bad(u16, &'static str),
}

/// Reads one request from the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut head = httparse::Request::new(&mut headers);
    let head_len = match head.parse(bytes) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) if bytes.len() > HEAD_LIMIT => {
            return Parsed::Bad(431, "request head too large");
        }
        Ok(httparse::Status::Partial) => return Parsed::Partial { expects_continue: false },
        Err(_) => return Parsed::Bad(400, "not an HTTP/1.x request"),
    };
    let http11 = head.version == Some(1);
    let mut request = Request {
        method: head.method.unwrap_or("").to_owned(),
        path: head.path.unwrap_or("/").split('?').next().unwrap_or("/").to_owned(),
        request_id: None,
        http11,
        keep_alive: http11,
        body: Vec::new(),
    };
    // The answer to HEAD would have a body that nobody reads; a new connection keeps it apart.
    let head_only = request.method == "HEAD";
    let (mut length, mut chunked, mut expects) = (None, false, false);
    for header in head.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or("").trim();
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            match value.parse::<usize>() {
                Ok(n) => length = Some(n),
                Err(_) => return Parsed::Bad(400, "content-length is not a number"),
            }
        } else if is("transfer-encoding") {
            chunked = value.to_ascii_lowercase().contains("chunked");
        } else if is("connection") {
            let value = value.to_ascii_lowercase();
            request.keep_alive = match () {
                () if value.contains("close") => false,
                () if value.contains("keep-alive") => true,
                () => http11,
            };
        } else if is("expect") {
            expects = value.eq_ignore_ascii_case("100-continue");
        } else if is("x-request-id") {
            request.request_id = Some(value.to_owned());
        }
    }
    request.keep_alive &= !head_only;
    let rest = &bytes[head_len..];
    if chunked {
        return match dechunk(rest) {
            Ok(Some((body, used))) => {
                request.body = body;
                Parsed::Complete(Box::new(request), head_len + used)
            }
            Ok(None) => Parsed::Partial { expects_continue: expects && rest.is_empty() },
            Err((status, why)) => Parsed::Bad(status, why),
        };
    }
    let length = length.unwrap_or(0);
    if length > BODY_LIMIT {
        return Parsed::Bad(413, "request body too large");
    }
    if rest.len() < length {
        return Parsed::Partial { expects_continue: expects && rest.is_empty() };
    }
    request.body = rest[..length].to_vec();
    Parsed::Complete(Box::new(request), head_len + length)
}

/// A body and the bytes that it took.
type Body = (Vec<u8>, usize);

/// Undoes the chunked framing; `None`: more is needed.
fn dechunk(mut bytes: &[u8]) -> Result<Option<Body>, (u16, &'static str)> {
    let whole = bytes.len();
    let mut body = Vec::new();
    loop {
        let (head, size) = match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete((head, size))) => (head, size as usize),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err((400, "a chunk of the body has no size")),
        };
        if size > BODY_LIMIT || body.len() + size > BODY_LIMIT {
            return Err((413, "request body too large"));
        }
        bytes = &bytes[head..];
        if size == 0 {
            // Trailers are allowed and ignored; they end with an empty line.
            loop {
                let Some(end) = bytes.windows(2).position(|w| w == b"\r\n") else { return Ok(None) };
                bytes = &bytes[end + 2..];
                if end == 0 {
                    return Ok(Some((body, whole - bytes.len())));
                }
            }
        }
        if bytes.len() < size + 2 {
            return Ok(None);
        }
        body.extend_from_slice(&bytes[..size]);
        if &bytes[size..size + 2] != b"\r\n" {
            return Err((400, "a chunk of the body is longer than it says"));
        }
        bytes = &bytes[size + 2..];
    }
}

/// The reason phrase of a status.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        ..500 => "Client Error",
        _ => "Server Error",
    }
}

/// A complete answer with a body.
pub fn answer(
    status: u16,
    content_type: &str,
    request_id: Option<&str>,
    keep_alive: bool,
    body: &[u8],
) -> Vec<u8> {
    let mut out = format!(
        "HTTP/1.1 {status} {}\r\nserver: inferometer-sim\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n",
        reason(status),
        body.len()
    );
    if matches!(status, 429 | 503) {
        out.push_str("retry-after: 1\r\n");
    }
    finish_head(&mut out, request_id, keep_alive);
    let mut out = out.into_bytes();
    out.extend_from_slice(body);
    out
}

/// The head of an event stream.
pub fn stream_head(request_id: Option<&str>, keep_alive: bool, chunked: bool) -> Vec<u8> {
    let mut out = String::from(
        "HTTP/1.1 200 OK\r\nserver: inferometer-sim\r\ncontent-type: text/event-stream; charset=utf-8\r\n",
    );
    if chunked {
        out.push_str("transfer-encoding: chunked\r\n");
    }
    finish_head(&mut out, request_id, keep_alive && chunked);
    out.into_bytes()
}

fn finish_head(out: &mut String, request_id: Option<&str>, keep_alive: bool) {
    if let Some(id) = request_id {
        out.push_str("x-request-id: ");
        out.extend(id.chars().filter(|c| !c.is_control()));
        out.push_str("\r\n");
    }
    out.push_str(if keep_alive { "connection: keep-alive\r\n\r\n" } else { "connection: close\r\n\r\n" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str) -> (Request, usize) {
        match parse(text.as_bytes()) {
            Parsed::Complete(r, n) => (*r, n),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_read_whole_and_only_whole() {
        let text =
            "POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nX-Request-Id: q7\r\nContent-Length: 4\r\n\r\nbodyNEXT";
        let (request, used) = complete(text);
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/x"));
        assert_eq!((request.body.as_slice(), used), (&b"body"[..], text.len() - 4));
        assert_eq!(request.request_id.as_deref(), Some("q7"));
        assert!(request.keep_alive && request.http11);
        for cut in 0..used {
            assert!(matches!(parse(&text.as_bytes()[..cut]), Parsed::Partial { .. }), "{cut}");
        }
    }

    #[test]
    fn chunked_bodies_lose_their_framing() {
        let text = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n";
        let (request, used) = complete(text);
        assert_eq!((request.body.as_slice(), used), (&b"abcde"[..], text.len()));
        for cut in 0..text.len() {
            assert!(matches!(parse(&text.as_bytes()[..cut]), Parsed::Partial { .. }), "{cut}");
        }
        let bad = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n";
        assert!(matches!(parse(bad.as_bytes()), Parsed::Bad(400, _)));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_upset_the_parser(
            head in "(GET|POST) /[a-z]{0,3} HTTP/1.[01]\r\n((Content-Length: [0-9]{1,3}|Transfer-Encoding: chunked|[a-z: ]{0,9})\r\n){0,3}",
            rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        ) {
            let mut bytes = head.into_bytes();
            bytes.extend_from_slice(b"\r\n");
            bytes.extend(rest);
            if let Parsed::Complete(_, used) = parse(&bytes) {
                proptest::prop_assert!(used <= bytes.len());
            }
        }
    }

    #[test]
    fn old_and_closing_clients_are_told_apart() {
        assert!(!complete("GET / HTTP/1.0\r\n\r\n").0.keep_alive);
        assert!(complete("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").0.keep_alive);
        assert!(!complete("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").0.keep_alive);
        let waits = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(parse(waits.as_bytes()), Parsed::Partial { expects_continue: true });
        assert!(matches!(parse(b"\x16\x03\x01 hello\r\n\r\n"), Parsed::Bad(400, _)));
        let huge = "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
        assert!(matches!(parse(huge.as_bytes()), Parsed::Bad(413, _)));
    }
}
