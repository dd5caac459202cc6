//! What is asked for: an amount, and whatever else the client wants to have on record.

use axum::extract::{FromRequest, Request as HttpRequest};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Form, Json};
use serde_json::{Map, Value, json};

pub(crate) struct Request {
    /// In the smallest unit of the currency.
    pub(crate) amount: i64,
    pub(crate) details: Map<String, Value>,
}

/// A row of the business table, as it is answered.
pub(crate) fn row(id: i64, amount: i64, details: Map<String, Value>) -> Value {
    let mut row = details;
    row.insert("id".to_owned(), id.into());
    row.insert("amount".to_owned(), amount.into());
    Value::from(row)
}

impl<S: Send + Sync> FromRequest<S> for Request {
    type Rejection = Response;

    /// JSON, or a form as payment SDKs send it.
    async fn from_request(mut request: HttpRequest, state: &S) -> Result<Self, Response> {
        let mut details = if is_form(&request) {
            // The extractor takes no capital letters.
            let form = HeaderValue::from_static(FORM);
            request.headers_mut().insert(CONTENT_TYPE, form);
            let Form(pairs) = Form::<Vec<(String, String)>>::from_request(request, state)
                .await
                .map_err(IntoResponse::into_response)?;
            pairs
                .into_iter()
                .map(|(name, value)| (name, Value::from(value)))
                .collect()
        } else {
            let Json(details) = Json::<Map<String, Value>>::from_request(request, state)
                .await
                .map_err(IntoResponse::into_response)?;
            details
        };
        let amount = match details.remove("amount") {
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.parse().ok(),
            _ => None,
        };
        let Some(amount) = amount else {
            let problem = json!({
                "title": "amount must be a whole number",
                "status": 422,
            });
            return Err((
                StatusCode::UNPROCESSABLE_ENTITY,
                [(CONTENT_TYPE, "application/problem+json")],
                problem.to_string(),
            )
                .into_response());
        };
        Ok(Self { amount, details })
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

fn is_form(request: &HttpRequest) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(FORM)
}
