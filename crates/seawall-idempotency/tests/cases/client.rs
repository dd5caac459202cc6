//! A client that sends just the bytes it is told to, and hangs up when it is told to.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// When the client goes away: after so long, or half way through the body.
    pub(crate) hang_up: Option<HangUp>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum HangUp {
    After(Duration),
    MidBody,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.all(name).into_iter().next()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.headers
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
            .collect()
    }

    pub(crate) fn replayed(&self) -> bool {
        self.header("idempotent-replayed").as_deref() == Some("true")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Sends a request. `None`: no response came.
pub(crate) async fn send(address: SocketAddr, sent: &Sent) -> Option<Received> {
    tokio::time::timeout(Duration::from_secs(30), exchange(address, sent))
        .await
        .ok()?
        .ok()?
}

async fn exchange(address: SocketAddr, sent: &Sent) -> io::Result<Option<Received>> {
    let mut stream = TcpStream::connect(address).await?;
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n",
        sent.method, sent.path
    )
    .into_bytes();
    for (name, value) in &sent.headers {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", sent.body.len()).as_bytes());
    stream.write_all(&head).await?;
    if let Some(HangUp::MidBody) = sent.hang_up {
        stream.write_all(&sent.body[..sent.body.len() / 2]).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        return Ok(None);
    }
    stream.write_all(&sent.body).await?;
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    match sent.hang_up {
        Some(HangUp::After(after)) => {
            let _ = tokio::time::timeout(after, read).await;
            Ok(None)
        }
        _ => {
            read.await?;
            Ok(parse(&bytes))
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Received> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let mut lines = bytes[..end].split(|&byte| byte == b'\n');
    let status_line = String::from_utf8_lossy(lines.next()?).into_owned();
    let status = status_line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    for line in lines {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let name = String::from_utf8_lossy(&line[..colon]).to_lowercase();
        headers.push((name, line[colon + 1..].trim_ascii().to_vec()));
    }
    let mut received = Received {
        status,
        headers,
        body: bytes[end + 4..].to_vec(),
    };
    if received.header("transfer-encoding").as_deref() == Some("chunked") {
        received.body = unchunk(&received.body)?;
    }
    Some(received)
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        bytes = &bytes[end + 2..];
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(..length)?);
        bytes = bytes.get(length + 2..)?;
    }
}
