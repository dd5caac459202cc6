use bytes::{Buf, BytesMut};

use crate::Request;

/// What was sent is not HTTP/1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The body of an HTTP/1 request while it comes in.
pub(crate) struct Incoming {
    state: State,
    trailers: Vec<(String, String)>,
}

enum State {
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Done,
}

impl Incoming {
    /// The body that the head of this request announces.
    pub(crate) fn of(request: &Request) -> Result<Self, Malformed> {
        let chunked = request
            .header("transfer-encoding")
            .is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked"));
        let state = match request.header("content-length") {
            _ if chunked => State::ChunkSize,
            None => State::Done,
            Some(length) => match length.trim().parse().map_err(|_| Malformed)? {
                0 => State::Done,
                length => State::Length(length),
            },
        };
        Ok(Self {
            state,
            trailers: Vec::new(),
        })
    }

    /// A body that has been read.
    pub(crate) fn none() -> Self {
        Self {
            state: State::Done,
            trailers: Vec::new(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub(crate) fn take_trailers(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.trailers)
    }

    /// Takes from the input what belongs to the body, and hands its content to `sink`.
    pub(crate) fn feed(
        &mut self,
        input: &mut BytesMut,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), Malformed> {
        loop {
            match self.state {
                State::Done => return Ok(()),
                State::Length(left) | State::Chunk(left) => {
                    if input.is_empty() {
                        return Ok(());
                    }
                    let taken = input.split_to(left.min(input.len() as u64) as usize);
                    sink(&taken);
                    let left = left - taken.len() as u64;
                    self.state = match self.state {
                        State::Chunk(_) if left == 0 => State::ChunkEnd,
                        State::Chunk(_) => State::Chunk(left),
                        _ if left == 0 => State::Done,
                        _ => State::Length(left),
                    };
                }
                State::ChunkSize => {
                    let Some(line) = take_line(input) else {
                        return Ok(());
                    };
                    let digits = line.split(';').next().unwrap_or_default().trim();
                    self.state = match u64::from_str_radix(digits, 16).map_err(|_| Malformed)? {
                        0 => State::Trailers,
                        size => State::Chunk(size),
                    };
                }
                State::ChunkEnd => match take_line(input) {
                    None => return Ok(()),
                    Some(line) if line.is_empty() => self.state = State::ChunkSize,
                    Some(_) => return Err(Malformed),
                },
                State::Trailers => match take_line(input) {
                    None => return Ok(()),
                    Some(line) if line.is_empty() => self.state = State::Done,
                    Some(line) => self.trailers.push(header_line(&line)?),
                },
            }
        }
    }
}

/// Takes a whole head from the input, or nothing while it is not there yet.
pub(crate) fn take_head(
    input: &mut BytesMut,
    connection: usize,
) -> Result<Option<Request>, Malformed> {
    while input.starts_with(b"\r\n") {
        input.advance(2);
    }
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if input.len() > HEAD_LIMIT {
            Err(Malformed)
        } else {
            Ok(None)
        };
    };
    let head = input.split_to(end + 4);
    let head = String::from_utf8_lossy(&head[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Malformed);
    };
    if !version.starts_with("HTTP/1.") {
        return Err(Malformed);
    }
    let mut request = Request::new(connection, method.to_owned(), target.to_owned());
    for line in lines {
        request.headers.push(header_line(line)?);
    }
    Ok(Some(request))
}

const HEAD_LIMIT: usize = 1 << 20;

fn take_line(input: &mut BytesMut) -> Option<String> {
    let end = input.windows(2).position(|two| two == b"\r\n")?;
    let line = String::from_utf8_lossy(&input[..end]).into_owned();
    input.advance(end + 2);
    Some(line)
}

fn header_line(line: &str) -> Result<(String, String), Malformed> {
    let (name, value) = line.split_once(':').ok_or(Malformed)?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &str) -> Request {
        let mut input = BytesMut::from(format!("POST / HTTP/1.1\r\n{headers}\r\n").as_bytes());
        take_head(&mut input, 0).unwrap().unwrap()
    }

    #[test]
    fn chunks_come_in_at_any_boundary() {
        let sent = b"3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nDigest: 1\r\n\r\nGET";
        for step in 1..sent.len() {
            let mut body = Incoming::of(&request("Transfer-Encoding: chunked\r\n")).unwrap();
            let (mut input, mut seen) = (BytesMut::new(), Vec::new());
            for part in sent.chunks(step) {
                input.extend_from_slice(part);
                body.feed(&mut input, |bytes| seen.extend_from_slice(bytes))
                    .unwrap();
            }
            assert!(body.is_done());
            assert_eq!(seen, b"abcd");
            assert_eq!(body.take_trailers(), [("Digest".into(), "1".into())]);
            assert_eq!(&input[..], b"GET");
        }
    }

    #[test]
    fn what_is_not_http_is_malformed() {
        for head in [
            "GET /\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET / HTTP/1.1\r\nx\r\n\r\n",
        ] {
            let taken = take_head(&mut BytesMut::from(head.as_bytes()), 0);
            assert!(taken.is_err(), "{head:?}");
        }
        assert!(Incoming::of(&request("content-length: -1\r\n")).is_err());
        let mut body = Incoming::of(&request("transfer-encoding: chunked\r\n")).unwrap();
        let fed = body.feed(&mut BytesMut::from(&b"zz\r\n"[..]), |_| {});
        assert_eq!(fed, Err(Malformed));
    }
}
