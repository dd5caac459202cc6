//! The server: it works, or it answers 503, as it is told; and it counts.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long it takes to answer, well or ill.
const WORK: Duration = Duration::from_millis(5);

/// What is counted together.
pub(crate) const SLOT: Duration = Duration::from_millis(100);

struct Counts {
    began: Instant,
    works: bool,
    /// When something was told, and what.
    marks: Vec<(Duration, String)>,
    /// Requests that came and requests that were answered well, by slot.
    slots: Vec<(u64, u64)>,
}

/// Serves until stdin is closed: it does not outlive whoever started it.
pub(crate) async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let counts = Arc::new(Mutex::new(Counts {
        began: Instant::now(),
        works: true,
        marks: Vec::new(),
        slots: Vec::new(),
    }));
    let parent = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()));
    let serving = async {
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let counts = Arc::clone(&counts);
            // A connection that breaks is the caller's business.
            tokio::spawn(async move { drop(connection(socket, &counts).await) });
        }
    };
    tokio::select! {
        served = serving => served,
        _ = parent => Ok(()),
    }
}

async fn connection(mut socket: TcpStream, counts: &Mutex<Counts>) -> io::Result<()> {
    let mut head = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if socket.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        };
        let rest = head.split_off(end);
        let line = String::from_utf8_lossy(&head).into_owned();
        let path = line.split(' ').nth(1).unwrap_or_default();
        let (status, body) = match path {
            "/counts" => ("200 OK", locked(counts).json()),
            "/" => {
                locked(counts).came();
                tokio::time::sleep(WORK).await;
                match locked(counts).answered() {
                    true => ("200 OK", "done".to_owned()),
                    false => ("503 Service Unavailable", "down".to_owned()),
                }
            }
            mark => {
                locked(counts).mark(mark.trim_start_matches('/'));
                ("200 OK", String::new())
            }
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(answer.as_bytes()).await?;
        head = rest;
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counts {
    fn slot(&mut self) -> &mut (u64, u64) {
        let slot = (self.began.elapsed().as_millis() / SLOT.as_millis()) as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, (0, 0));
        }
        &mut self.slots[slot]
    }

    fn came(&mut self) {
        self.slot().0 += 1;
    }

    /// Whether it works.
    fn answered(&mut self) -> bool {
        let works = self.works;
        self.slot().1 += u64::from(works);
        works
    }

    fn mark(&mut self, mark: &str) {
        self.works = mark != "fails";
        let at = self.began.elapsed();
        self.slot();
        self.marks.push((at, mark.to_owned()));
    }

    fn json(&mut self) -> String {
        self.slot();
        let marks: Vec<_> = self
            .marks
            .iter()
            .map(|(at, mark)| (at.as_millis() as u64, mark))
            .collect();
        serde_json::json!({ "marks": marks, "slots": self.slots }).to_string()
    }
}
