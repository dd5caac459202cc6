use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Request;
use crate::http1::{Conversation, Stop};
use crate::wire::Ending;

/// Does what a proxy does with a request; the client's connection ends with it, as every answer
/// of the upstream is asked for with `Connection: close`.
pub(crate) async fn pass_on(
    conversation: &mut Conversation<'_>,
    request: &Request,
) -> Result<Ending, Stop> {
    let connect = request.method == "CONNECT";
    let Some(mut upstream) = reach(&request.target, connect).await else {
        conversation
            .write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .await?;
        return Ok(Ending::Close);
    };
    if connect {
        conversation
            .write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .await?;
        let early = conversation.input.split();
        upstream.write_all(&early).await.map_err(|_| Stop::Gone)?;
        let _ = copy_bidirectional(&mut conversation.wire, &mut upstream).await;
        return Ok(Ending::Close);
    }
    upstream
        .write_all(&in_origin_form(request))
        .await
        .map_err(|_| Stop::Gone)?;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match upstream.read(&mut buffer).await {
            Ok(0) => return Ok(Ending::Close),
            Ok(read) => conversation.write(&buffer[..read]).await?,
            Err(_) => return Ok(Ending::Reset),
        }
    }
}

async fn reach(target: &str, connect: bool) -> Option<TcpStream> {
    let target: http::Uri = target.parse().ok()?;
    let port = target.port_u16().or((!connect).then_some(80))?;
    let host = target.host()?.trim_matches(['[', ']']);
    timeout(Duration::from_secs(5), TcpStream::connect((host, port)))
        .await
        .ok()?
        .ok()
}

fn in_origin_form(request: &Request) -> Vec<u8> {
    let path = request
        .target
        .parse::<http::Uri>()
        .ok()
        .and_then(|target| target.path_and_query().map(ToString::to_string))
        .unwrap_or_else(|| "/".to_owned());
    let mut out = format!("{} {path} HTTP/1.1\r\n", request.method);
    for (name, value) in &request.headers {
        let own = name.to_ascii_lowercase();
        let hop = own.starts_with("proxy-")
            || [
                "connection",
                "transfer-encoding",
                "content-length",
                "expect",
            ]
            .contains(&own.as_str());
        if !hop {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    if !request.body.is_empty() || request.header("content-length").is_some() {
        out.push_str(&format!("content-length: {}\r\n", request.body.len()));
    }
    out.push_str("connection: close\r\n\r\n");
    let mut out = out.into_bytes();
    out.extend_from_slice(&request.body);
    out
}
