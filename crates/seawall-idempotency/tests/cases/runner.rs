//! Plays a case against a server and compares what came with what was expected.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{HangUp, Received, Sent, send};
use crate::server::{ENVIRONMENT, noted};

const KEY: &str = "\"8e03978e-40d5-43e8-bc93-6894a57f9324\"";

/// Plays the case `id` on a store, once for each configuration of its matrix.
pub(crate) fn play(cases: &Value, id: &str, store: &str) {
    let case = cases["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["id"] == id)
        .unwrap_or_else(|| panic!("no case {id}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut configs = vec![(String::new(), case["config"].clone())];
    if let Some(matrix) = case["config"]["matrix"].as_object() {
        let (name, values) = matrix.iter().next().unwrap();
        configs = values
            .as_array()
            .unwrap()
            .iter()
            .map(|value| {
                let mut config = case["config"].clone();
                config[name] = value.clone();
                (format!("{name}={}", value.as_str().unwrap()), config)
            })
            .collect();
    }
    for (variant, config) in configs {
        runtime.block_on(async {
            let _lock = postgres_lock(case, store);
            let directory = tempfile::tempdir().unwrap();
            let mut play = Play::begin(case, &variant, config, store, directory.path()).await;
            play.run().await;
            play.end().await;
        });
    }
}

/// The tests share one Postgres; the one that stops it has it alone.
fn postgres_lock(case: &Value, store: &str) -> Option<std::fs::File> {
    if store != "postgres" {
        return None;
    }
    let path = std::env::temp_dir().join(format!(
        "seawall-test-postgres-{}.lock",
        environment("SEAWALL_TEST_POSTGRES_URL")
            .chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    ));
    let file = std::fs::File::create(path).unwrap();
    if case.to_string().contains("store_immediate_stop") {
        file.lock().unwrap();
    } else {
        file.lock_shared().unwrap();
    }
    Some(file)
}

pub(crate) fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run the tests through scripts/with-services")
    })
}

struct Play<'a> {
    case: &'a Value,
    variant: String,
    specification: Value,
    directory: &'a Path,
    store: &'a str,
    servers: Vec<Server>,
    received: HashMap<String, Vec<Option<Received>>>,
    records_before: HashMap<String, u64>,
    records_after: HashMap<String, u64>,
}

struct Server {
    child: Child,
    control: SocketAddr,
    service: SocketAddr,
}

impl<'a> Play<'a> {
    async fn begin(
        case: &'a Value,
        variant: &str,
        mut config: Value,
        store: &'a str,
        directory: &'a Path,
    ) -> Self {
        let unique = directory
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "")
            .to_lowercase();
        let mode = case["store_mode"].as_str().unwrap();
        // A handler whose effects all go through the store's transaction leaves nothing unknown: a
        // lease that ended says that nothing was committed. Such a route runs with Reexecute (R28).
        if matches!(mode, "transactional" | "fenced") && config.get("on_unknown").is_none() {
            config["on_unknown"] = json!("reexecute");
        }
        // "transactional" in the cases is one transaction for claim, effect and record, in which a
        // kill takes the claim with it. These stores commit the claim first (scheme E), so that a
        // kill leaves a lease; with one that ends before the repeat the outcome is the same.
        if mode == "transactional" && config.get("lease_ms").is_none() {
            config["lease_ms"] = json!(300);
        }
        let mut handler = case["handler"].clone();
        if mode == "lease" && handler["effect"] == "insert_order" {
            handler["effect"] = json!("external_charge");
        }
        let mut specification = json!({
            "store": store,
            "directory": directory,
            "handler": handler,
            "config": config,
        });
        match store {
            "postgres" => {
                let url = environment("SEAWALL_TEST_POSTGRES_URL");
                let pool = sqlx::PgPool::connect(&url).await.unwrap();
                let schema = format!("case_{unique}");
                sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
                    .execute(&pool)
                    .await
                    .unwrap();
                pool.close().await;
                specification["url"] = json!(format!("{url}?options=-csearch_path%3D{schema}"));
            }
            "redis" => {
                specification["url"] = json!(environment("SEAWALL_TEST_REDIS_URL"));
                specification["prefix"] = json!(format!("case-{unique}"));
            }
            _ => {}
        }
        let mut play = Self {
            case,
            variant: variant.to_owned(),
            specification,
            directory,
            store,
            servers: Vec::new(),
            received: HashMap::new(),
            records_before: HashMap::new(),
            records_after: HashMap::new(),
        };
        let instances = case["config"]["instances"].as_u64().unwrap_or(1);
        for instance in 0..instances {
            let server = if store == "memory" && instance > 0 {
                // Two layers in one process are the most that can share a memory.
                let first = &play.servers[0];
                let service = control(first.control, "POST", "/start", None).await;
                Server {
                    child: Command::new("true").spawn().unwrap(),
                    control: first.control,
                    service: service.parse().unwrap(),
                }
            } else {
                play.spawn().await
            };
            play.servers.push(server);
        }
        play
    }

    async fn spawn(&self) -> Server {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "case_server", "--nocapture", "--test-threads=1"])
            .env(ENVIRONMENT, self.specification.to_string())
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let control_address = tokio::task::spawn_blocking(move || {
            let mut lines = stdout.lines();
            let found = lines.by_ref().map_while(Result::ok).find_map(|line| {
                let (_, address) = line.split_once("control on ")?;
                Some(address.parse::<SocketAddr>().unwrap())
            });
            // What follows is read and dropped, or the child would stop at a full pipe.
            std::thread::spawn(move || lines.for_each(drop));
            found
        })
        .await
        .unwrap();
        let Some(control_address) = control_address else {
            panic!("the server of the case did not start: {:?}", child.wait());
        };
        let service = control(control_address, "POST", "/start", None).await;
        Server {
            child,
            control: control_address,
            service: service.parse().unwrap(),
        }
    }

    async fn run(&mut self) {
        let started = Instant::now();
        let mut running = Vec::new();
        for step in self.case["steps"].as_array().unwrap() {
            let at = Duration::from_millis(step["at_ms"].as_u64().unwrap());
            tokio::time::sleep_until(started + at).await;
            let id = step["id"].as_str().unwrap().to_owned();
            if let Some(action) = step["server"].as_str() {
                self.server_step(action).await;
                continue;
            }
            if let Some(action) = step["store"].as_str() {
                self.store_step(action).await;
                continue;
            }
            let server = match header(step, "x-test-instance").as_deref() {
                Some("B") => &self.servers[1],
                _ => &self.servers[0],
            };
            let (service, control_address) = (server.service, server.control);
            let sent = sent(step);
            if let Some(injection) = step.get("inject")
                && injection["point"] != "client"
            {
                let body = Some(injection.to_string());
                control(control_address, "POST", "/inject", body).await;
            }
            let repeat = step["repeat"].as_u64().unwrap_or(1);
            let counts = step["expect"]["stored"] == false && running.is_empty();
            if counts {
                let records = control(control_address, "GET", "/count", None).await;
                self.records_before
                    .insert(id.clone(), records.parse().unwrap());
            }
            let tasks: Vec<_> = (0..repeat)
                .map(|_| {
                    let sent = sent.clone();
                    tokio::spawn(async move { send(service, &sent).await })
                })
                .collect();
            if counts {
                let mut all = Vec::new();
                for task in tasks {
                    all.push(task.await.unwrap());
                }
                let records = control(control_address, "GET", "/count", None).await;
                self.records_after
                    .insert(id.clone(), records.parse().unwrap());
                self.received.insert(id, all);
            } else {
                running.push((id, tasks));
                // A step is over before the next one begins, however slow the machine is, unless
                // its handler is meant to be running still.
                let handler = &self.case["handler"];
                let pause = handler["sleep_ms"].as_u64().unwrap_or(0);
                let stalls = step["inject"]["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.starts_with("stall"));
                let over = at + Duration::from_millis(pause);
                let id = &running.last().unwrap().0;
                let overlaps = stalls || self.next_time(id).is_some_and(|next| over > next);
                let deadline = Instant::now() + Duration::from_secs(30);
                while !overlaps && Instant::now() < deadline {
                    let open = |(_, tasks): &(String, Vec<tokio::task::JoinHandle<_>>)| {
                        tasks.iter().any(|task| !task.is_finished())
                    };
                    if !running.iter().any(open) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        for (id, tasks) in running {
            let mut all = Vec::new();
            for task in tasks {
                all.push(task.await.unwrap());
            }
            self.received.insert(id, all);
        }
    }

    fn next_time(&self, id: &str) -> Option<Duration> {
        let steps = self.case["steps"].as_array().unwrap();
        let index = steps.iter().position(|step| step["id"] == id).unwrap();
        let next = steps.get(index + 1)?;
        Some(Duration::from_millis(next["at_ms"].as_u64().unwrap()))
    }

    async fn server_step(&mut self, action: &str) {
        match action {
            "graceful_shutdown" => {
                let begun = noted(self.directory, "executions");
                assert_eq!(begun, 1, "the handler runs when the shutdown begins");
                let answer = control(self.servers[0].control, "POST", "/shutdown", None).await;
                assert_eq!(answer, "drained");
                assert_eq!(
                    self.effects().await,
                    1,
                    "the server exits after the handler"
                );
                if self.store != "memory" {
                    let _ = self.servers[0].child.kill();
                }
            }
            "start" => {
                if self.store == "memory" {
                    let service = control(self.servers[0].control, "POST", "/start", None).await;
                    self.servers[0].service = service.parse().unwrap();
                } else {
                    let _ = self.servers[0].child.kill();
                    let _ = self.servers[0].child.wait();
                    self.servers[0] = self.spawn().await;
                }
            }
            other => panic!("no server step {other}"),
        }
    }

    async fn store_step(&self, action: &str) {
        assert_eq!(action, "start");
        // The stop may still be under way.
        let ctl = environment("SEAWALL_TEST_POSTGRES_CTL");
        let status = tokio::process::Command::new(ctl)
            .arg("start")
            .status()
            .await;
        assert!(status.unwrap().success(), "Postgres starts again");
    }

    /// The rows of the business table, or the charges of the outside world.
    async fn effects(&self) -> usize {
        let outside = noted(self.directory, "effects");
        if self.specification["handler"]["effect"] != "insert_order" {
            return outside;
        }
        match self.store {
            "sqlite" => {
                let path = self.directory.join("case.db");
                let url = format!("sqlite://{}", path.display());
                let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
                let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM effects")
                    .fetch_one(&pool)
                    .await
                    .unwrap();
                rows as usize
            }
            "postgres" => {
                let url = self.specification["url"].as_str().unwrap();
                let pool = sqlx::PgPool::connect(url).await.unwrap();
                let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM effects")
                    .fetch_one(&pool)
                    .await
                    .unwrap();
                rows as usize
            }
            _ => outside,
        }
    }

    async fn end(mut self) {
        let expect = &self.case["expect"];
        let mut wrong = Vec::new();
        for step in self.case["steps"].as_array().unwrap() {
            self.check_step(step, &mut wrong).await;
        }
        let executions = noted(self.directory, "executions") as u64;
        if let Some(expected) = expect["handler_executions"].as_u64()
            && executions != expected
        {
            wrong.push(format!("{executions} executions, not {expected}"));
        }
        let effects = self.effects().await as u64;
        if let Some(expected) = expect["effects"].as_u64()
            && effects != expected
        {
            wrong.push(format!("{effects} effects, not {expected}"));
        }
        if let Some(expected) = expect["record"]["count"].as_u64() {
            let count = control(self.servers[0].control, "GET", "/count", None).await;
            if count != expected.to_string() {
                wrong.push(format!("{count} records, not {expected}"));
            }
        }
        for server in &mut self.servers {
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
        assert!(
            wrong.is_empty(),
            "{} {} on {}: {wrong:#?}\n{:#?}",
            self.case["id"],
            self.variant,
            self.store,
            self.received
                .iter()
                .map(|(id, all)| (id, all.iter().take(2).map(show).collect::<Vec<_>>()))
                .collect::<BTreeMap<_, _>>(),
        );
    }

    async fn check_step(&self, step: &Value, wrong: &mut Vec<String>) {
        let id = step["id"].as_str().unwrap();
        let Some(all) = self.received.get(id) else {
            return;
        };
        let mut expect = &step["expect"];
        if let Some(by_config) = expect.get("by_config") {
            expect = &by_config[&self.variant];
        }
        let mut complain = |text: String| wrong.push(format!("{id}: {text}"));
        if let Some(counts) = expect["status_counts"].as_object() {
            for (status, expected) in counts {
                let found: Vec<_> = all
                    .iter()
                    .flatten()
                    .filter(|received| received.status.to_string() == *status)
                    .collect();
                if found.len() as u64 != expected.as_u64().unwrap() {
                    complain(format!("{} of {status}, not {expected}", found.len()));
                }
                for received in found {
                    if let Some(expect) = expect.get(status) {
                        self.check(expect, received, &mut complain);
                    }
                }
            }
            let all: Vec<_> = all.iter().flatten().collect();
            if expect["all_same_body"] == true && all.iter().any(|one| one.body != all[0].body) {
                complain("bodies differ".to_owned());
            }
            let replayed = all.iter().filter(|received| received.replayed()).count() as u64;
            if expect["replayed_count"]
                .as_u64()
                .is_some_and(|expected| expected != replayed)
            {
                complain(format!("{replayed} replayed"));
            }
            return;
        }
        if expect["no_response"] == true {
            if all[0].is_some() {
                complain("a response came".to_owned());
            }
            return;
        }
        match &all[0] {
            Some(received) => self.check(expect, received, &mut complain),
            // Where the store is the process, its crash is the server's.
            None if expect.get("status_one_of").is_some() && self.store == "sqlite" => {}
            None => complain("no response came".to_owned()),
        }
        if let Some(metric) = expect["metric"].as_str() {
            let metrics = control(self.servers[0].control, "GET", "/metrics", None).await;
            if !metrics.contains(&format!("\n{metric} 1\n")) {
                complain(format!("{metric} was not counted"));
            }
        }
        if let (Some(before), Some(after)) =
            (self.records_before.get(id), self.records_after.get(id))
            && before != after
        {
            complain(format!("{before} records before, {after} after"));
        }
    }

    fn check(&self, expect: &Value, received: &Received, complain: &mut impl FnMut(String)) {
        let names = |name: &str| -> Vec<String> {
            let values = expect[name].as_array().cloned().unwrap_or_default();
            values
                .iter()
                .map(|value| value.as_str().unwrap().to_owned())
                .collect()
        };
        if let Some(status) = expect["status"].as_u64()
            && status != u64::from(received.status)
        {
            complain(format!("status {}, not {status}", received.status));
        }
        if let Some(one_of) = expect["status_one_of"].as_array()
            && !one_of.contains(&json!(received.status))
        {
            complain(format!("status {}, none of {one_of:?}", received.status));
        }
        if let Some(kind) = expect["problem_type"].as_str()
            && received.json()["type"] != kind
        {
            complain(format!("type {}, not {kind}", received.json()["type"]));
        }
        if let Some(kind) = expect["content_type"].as_str()
            && received.header("content-type").as_deref() != Some(kind)
        {
            complain(format!(
                "content type {:?}",
                received.header("content-type")
            ));
        }
        if let Some(replayed) = expect["replayed"].as_bool()
            && replayed != received.replayed()
        {
            complain(format!("replayed: {}", received.replayed()));
        }
        if let Some(relation) = expect["link_rel"].as_str()
            && !received
                .header("link")
                .is_some_and(|link| link.contains(&format!("rel=\"{relation}\"")))
        {
            complain(format!("no link {relation}"));
        }
        if let Some(status) = expect["original_status"].as_u64()
            && received.json()["original_status"] != status
        {
            complain(format!(
                "original status {}",
                received.json()["original_status"]
            ));
        }
        for text in names("body_must_not_contain") {
            if String::from_utf8_lossy(&received.body).contains(&text) {
                complain(format!("the body contains {text}"));
            }
        }
        for name in names("headers_present") {
            if received.header(&name).is_none() {
                complain(format!("no header {name}"));
            }
        }
        for name in names("headers_absent") {
            // The client asks for the connection to be closed, and the server says so.
            if name != "connection" && received.header(&name).is_some() {
                complain(format!("header {name}"));
            }
        }
        if let Some(other) = expect["same_as"].as_str() {
            let other = self.other(other);
            if other.status != received.status || other.body != received.body {
                complain("not the same".to_owned());
            }
            for name in names("headers_equal") {
                if other.all(&name) != received.all(&name) || received.all(&name).is_empty() {
                    complain(format!("header {name} is not the same"));
                }
            }
            for name in names("headers_differ") {
                if other.all(&name) == received.all(&name) {
                    complain(format!("header {name} is the same"));
                }
            }
        }
        if let Some(other) = expect["not_same_as"].as_str()
            && self.other(other).body == received.body
        {
            complain("the same".to_owned());
        }
    }

    fn other(&self, name: &str) -> &Received {
        let (id, status) = name.split_once('.').unwrap_or((name, ""));
        self.received[id]
            .iter()
            .flatten()
            .find(|received| status.is_empty() || received.status.to_string() == status)
            .unwrap_or_else(|| panic!("no response of {name}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn show(received: &Option<Received>) -> String {
    match received {
        None => "no response".to_owned(),
        Some(received) => format!(
            "{} {:?} {}",
            received.status,
            received.replayed(),
            String::from_utf8_lossy(&received.body[..received.body.len().min(300)])
        ),
    }
}

fn header(step: &Value, name: &str) -> Option<String> {
    step["headers"][name].as_str().map(str::to_owned)
}

fn sent(step: &Value) -> Sent {
    let mut headers = Vec::new();
    let principal = step["as"].as_str().unwrap();
    if principal != "none" {
        // Another token each time, of the same principal.
        static TOKENS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let token = TOKENS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let value = format!("Bearer {principal}.{token}");
        headers.push(("Authorization".to_owned(), value.into_bytes()));
    }
    for (name, value) in step["headers"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap().replace("$KEY", KEY);
        headers.push((name.clone(), value.into_bytes()));
    }
    for line in step["raw_header_lines"].as_array().into_iter().flatten() {
        let text = |index: usize| line[index].as_str().unwrap().to_owned();
        headers.push((text(0), text(1).into_bytes()));
    }
    let hang_up = step.get("inject").and_then(|injection| {
        match injection["kind"].as_str().unwrap_or_default() {
            "disconnect" => {
                let after = injection["after_ms"].as_u64().unwrap();
                Some(HangUp::After(Duration::from_millis(after)))
            }
            "disconnect_mid_body" => Some(HangUp::MidBody),
            _ => None,
        }
    });
    Sent {
        method: step["method"].as_str().unwrap().to_owned(),
        path: step["path"].as_str().unwrap().to_owned(),
        headers,
        body: step["body"]
            .as_str()
            .unwrap_or_default()
            .as_bytes()
            .to_vec(),
        hang_up,
    }
}

async fn control(address: SocketAddr, method: &str, path: &str, body: Option<String>) -> String {
    let sent = Sent {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: vec![("Content-Type".to_owned(), b"application/json".to_vec())],
        body: body.unwrap_or_default().into_bytes(),
        hang_up: None,
    };
    let received = send(address, &sent).await.expect("the control answers");
    assert_eq!(
        received.status,
        200,
        "{}",
        String::from_utf8_lossy(&received.body)
    );
    String::from_utf8(received.body).unwrap()
}
