use std::ffi::OsStr;

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::Url;
use seawall::http::key::{self, IdempotencyKey, KeySyntax};
use seawall::{Client, Policy, RequestBuilder};

use super::CallOptions;
use super::data::Data;
use crate::complaint::Complaint;

/// The request that every call sends.
#[derive(Debug)]
pub(super) struct Template {
    method: Method,
    url: Url,
    shown_url: String,
    headers: HeaderMap,
    body: Option<Data>,
    key: Key,
    seed: Option<u64>,
}

/// Where a call's idempotency key comes from.
#[derive(Debug)]
enum Key {
    None,
    /// The same for every call: an option, or a header.
    Given(String),
    /// A random one for each call.
    Auto(KeySyntax),
}

impl Template {
    /// Checks the options, and reads what has to be read.
    pub(super) async fn read(options: &CallOptions, policy: &Policy) -> Result<Self, Complaint> {
        let target = Target::of(options)?;
        let mut headers = parse_headers(&options.headers)?;
        let key = Key::of(options, policy, &target.method, &mut headers)?;
        if options.json.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.entry(CONTENT_TYPE).or_insert(json.clone());
            headers.entry(ACCEPT).or_insert(json);
        }
        let body = match target.data {
            Some((option, given)) => Some(Data::read(option, given).await?),
            None => None,
        };
        if body.as_ref().is_some_and(Data::is_empty) {
            // A body of nothing is said to be one: some servers ask for the length of any POST.
            headers.entry(CONTENT_LENGTH).or_insert(0.into());
        }
        Ok(Self {
            method: target.method,
            shown_url: shown(&target.url),
            url: target.url,
            headers,
            body,
            key,
            seed: options.seed,
        })
    }

    /// True when an answer of this status is a redirect that asks for the body again, and the body
    /// is one that the client cannot send there.
    pub(super) fn cannot_follow(&self, status: StatusCode) -> bool {
        let asks = [
            StatusCode::TEMPORARY_REDIRECT,
            StatusCode::PERMANENT_REDIRECT,
        ];
        asks.contains(&status) && self.body.as_ref().is_some_and(Data::is_streamed)
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// The URL without user info, query and fragment: those may be secret.
    pub(super) fn shown_url(&self) -> &str {
        &self.shown_url
    }

    /// `GET https://example.com/items`
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.method, self.shown_url)
    }

    /// The request of call `number`, and its idempotency key.
    pub(super) fn request(&self, client: &Client, number: u64) -> (RequestBuilder, Option<String>) {
        let mut request = client
            .request(self.method.clone(), self.url.clone())
            .headers(self.headers.clone());
        let key = match &self.key {
            Key::None => None,
            Key::Given(key) => Some(key.clone()),
            Key::Auto(syntax) => {
                let key = IdempotencyKey::random(*syntax);
                let text = String::from_utf8_lossy(key.as_bytes()).into_owned();
                request = request.idempotency_key(&text);
                Some(text)
            }
        };
        if let Some(body) = &self.body {
            request = request.body(body.body());
        }
        if let Some(seed) = self.seed {
            // Calls must not wait in step with each other (W4).
            request = request.seed(seed.wrapping_add(number - 1));
        }
        (request, key)
    }
}

/// What is called, and with what.
struct Target<'a> {
    method: Method,
    url: Url,
    /// The option that gave the body, and what it was.
    data: Option<(&'static str, &'a OsStr)>,
}

impl<'a> Target<'a> {
    fn of(options: &'a CallOptions) -> Result<Self, Complaint> {
        let mut words: Vec<&str> = options.target.iter().map(String::as_str).collect();
        let data = match (&options.data, &options.json) {
            (Some(data), None | Some(None)) => Some(("--data", data.as_os_str())),
            // Two bodies cannot be meant: `--data BODY --json URL`.
            (Some(data), Some(Some(word))) => {
                match word.to_str() {
                    Some(url) if url.contains("://") => words.push(url),
                    Some(method) if words.len() == 1 => words.insert(0, method),
                    _ => {
                        return Err(Complaint::usage(
                            "--json: its data and --data are two bodies; allowed is one",
                        ));
                    }
                }
                Some(("--data", data.as_os_str()))
            }
            (None, Some(Some(data))) => Some(("--json", data.as_os_str())),
            (None, Some(None)) => {
                return Err(Complaint::usage(
                    "--json: it has no data; allowed is a text, @FILE or @-, here or with --data",
                ));
            }
            (None, None) => None,
        };
        let (method, url) = match words.as_slice() {
            [method, url] => (parse_method(method)?, url),
            [url] if data.is_some() => (Method::POST, url),
            [url] => (Method::GET, url),
            [] => {
                return Err(Complaint::usage(
                    "URL: there is none; allowed is a whole http:// or https:// URL",
                ));
            }
            more => {
                return Err(Complaint::usage(format!(
                    "URL: {} words, `{}`; allowed are a METHOD and a URL",
                    more.len(),
                    more.join(" ")
                )));
            }
        };
        Ok(Self {
            method,
            url: parse_url(url)?,
            data,
        })
    }
}

impl Key {
    fn of(
        options: &CallOptions,
        policy: &Policy,
        method: &Method,
        headers: &mut HeaderMap,
    ) -> Result<Self, Complaint> {
        let settings = &policy.idempotency_key;
        let name = HeaderName::try_from(settings.header.as_str()).map_err(|_| {
            Complaint::usage(format!(
                "idempotency_key.header: `{}` is not a header name",
                settings.header
            ))
        })?;
        // A key that stands there as a header is never overwritten (K1).
        if let Some(value) = headers.get(&name) {
            return Ok(Self::Given(
                String::from_utf8_lossy(value.as_bytes()).into(),
            ));
        }
        match options.idempotency_key.as_deref() {
            Some("auto") => {}
            None if settings.auto => {}
            None => return Ok(Self::None),
            Some(given) => {
                let key = IdempotencyKey::given(given).map_err(|error| {
                    Complaint::usage(format!("--idempotency-key {given}: {error}"))
                })?;
                headers.insert(name, key.as_header().clone());
                return Ok(Self::Given(given.to_owned()));
            }
        }
        if !key::auto_applies(method) {
            return Ok(Self::None);
        }
        Ok(Self::Auto(settings.syntax))
    }
}

/// A method; those that everybody knows may be written in small letters.
fn parse_method(text: &str) -> Result<Method, Complaint> {
    const KNOWN: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    let upper = text.to_ascii_uppercase();
    let text = if KNOWN.contains(&upper.as_str()) {
        &upper
    } else {
        text
    };
    Method::from_bytes(text.as_bytes()).map_err(|_| {
        Complaint::usage(format!(
            "METHOD: `{text}` is not a method; allowed is a word such as GET or POST"
        ))
    })
}

fn parse_url(text: &str) -> Result<Url, Complaint> {
    const ALLOWED: &str = "allowed is a whole http:// or https:// URL";
    let url = Url::parse(text).map_err(|error| {
        let why = match error.to_string().as_str() {
            "relative URL without a base" => "has no scheme".to_owned(),
            other => format!("is not a URL ({other})"),
        };
        Complaint::usage(format!("URL: `{text}` {why}; {ALLOWED}"))
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        let (shown, scheme) = (shown(&url), url.scheme());
        return Err(Complaint::usage(format!(
            "URL: `{shown}` has the scheme {scheme}; {ALLOWED}"
        )));
    }
    Ok(url)
}

fn parse_headers(lines: &[String]) -> Result<HeaderMap, Complaint> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| {
            Complaint::usage(format!(
                "--header: `{line}` has no colon; allowed is NAME: VALUE"
            ))
        })?;
        let written = name;
        let name = HeaderName::try_from(name).map_err(|_| {
            Complaint::usage(format!(
                "--header: `{name}` is not a header name; allowed are letters, digits and -"
            ))
        })?;
        let value = HeaderValue::from_bytes(value.trim().as_bytes()).map_err(|_| {
            Complaint::usage(format!(
                "--header: the value of `{written}` has a control character; allowed is text on one line"
            ))
        })?;
        headers.try_append(name, value).map_err(|_| {
            Complaint::usage(format!(
                "--header: {} lines are more than a request can have",
                lines.len()
            ))
        })?;
    }
    Ok(headers)
}

fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}
