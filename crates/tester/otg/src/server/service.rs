//! One request of HTTP: who makes it, which call it is, and its answer.

use super::calls::{CALLS, Call, by_name, error};
use crate::lab::Lab;
use crate::rules::Refusal;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use kpps_agent::Token;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The longest body.
const MOST_BYTES: usize = 100 << 20;
/// The bodies that are read at one time may have this many bytes together, in units of [`UNIT`].
const ALL_BYTES: usize = 2 * MOST_BYTES;
const UNIT: usize = 64 << 10;
/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the answer to a wrong token takes.
const PAUSE: Duration = Duration::from_secs(1);
/// The most bytes of an error of gRPC: it is in a header.
const MOST_ERROR_BYTES: usize = 3000;
/// Statuses of gRPC (grpc.io, Status codes).
const INVALID_ARGUMENT: u16 = 3;
const UNIMPLEMENTED: u16 = 12;
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;
const UNAUTHENTICATED: u16 = 16;
/// The service of the models.
const SERVICE: &str = "/otg.Openapi/";
/// Bytes before a message of gRPC: a flag of compression, and the length.
const PREFIX_BYTES: usize = 5;

/// The answers of a server.
pub type Answered = Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>;

/// The state that all connections share.
pub struct Shared {
    /// The lab. A call has it for itself.
    pub lab: Mutex<Lab>,
    /// The token that clients must show, if any.
    pub token: Option<Token>,
    /// Units of bytes for bodies.
    bodies: Semaphore,
}

impl Shared {
    /// For a lab whose clients must show this token.
    pub fn new(lab: Lab, token: Option<Token>) -> Self {
        Self { lab: Mutex::new(lab), token, bodies: Semaphore::new(ALL_BYTES / UNIT) }
    }

    /// Whether a request has the token, as the password of Basic authentication (RFC 7617) or as a Bearer
    /// token (RFC 6750).
    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let Some(shown) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
            return false;
        };
        if let Some(shown) = shown.strip_prefix("Bearer ") {
            return token.is(shown.as_bytes());
        }
        let user = shown.strip_prefix("Basic ").and_then(|text| STANDARD.decode(text).ok());
        let password = user.as_deref().and_then(|user| {
            let at = user.iter().position(|byte| *byte == b':')?;
            user.get(at + 1..)
        });
        password.is_some_and(|password| token.is(password))
    }

    /// Reads a body.
    async fn body(&self, request: Request<Incoming>) -> Result<Bytes, Refusal> {
        let most = MOST_BYTES as u64;
        let refused = |code: u16, why: &str| Refusal { code, lines: vec![why.to_owned()] };
        let expected = request.body().size_hint().upper().unwrap_or(most);
        if expected > most {
            return Err(refused(413, "the body is longer than 100 MiB"));
        }
        let units = (expected as usize).div_ceil(UNIT).max(1) as u32;
        let _held = self.bodies.try_acquire_many(units).map_err(|_| {
            refused(503, "other clients use the memory that this server has for bodies: try again")
        })?;
        let body = Limited::new(request.into_body(), MOST_BYTES).collect();
        match tokio::time::timeout(BODY_TIMEOUT, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) => Err(refused(400, &format!("the body cannot be read: {error}"))),
            Err(_) => Err(refused(408, "the body did not arrive within a minute")),
        }
    }

    /// Makes a call on a thread where it may wait.
    async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Lab) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let shared = self.clone();
        let work = move || work(&mut shared.lab.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|_| Err(Refusal::failed("the call has failed")))
    }

    /// Answers a request of HTTP with JSON. Sets `is_known` if the client may make calls.
    pub async fn json(self: Arc<Self>, request: Request<Incoming>, is_known: Arc<AtomicBool>) -> Answered {
        let answer = self.answer_json(request, &is_known).await;
        let (code, bytes, kind) = match answer {
            Ok((bytes, kind)) => (200, bytes, kind),
            Err(refusal) => {
                let body = serde_json::to_vec(&error(&refusal)).unwrap_or_default();
                (refusal.code, body, "application/json")
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(bytes)).boxed());
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if code == 401 {
            let how = HeaderValue::from_static("Basic realm=\"kpps\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, how);
        }
        response
    }

    async fn answer_json(
        self: &Arc<Self>,
        request: Request<Incoming>,
        is_known: &AtomicBool,
    ) -> Result<(Vec<u8>, &'static str), Refusal> {
        self.let_in(request.headers(), is_known).await?;
        let call = by_path(request.method().as_str(), request.uri().path())?;
        let body = self.body(request).await?;
        let answer = self.call(move |lab| call.by_json(lab, &body)).await?;
        Ok((answer, call.content_type()))
    }

    async fn let_in(&self, headers: &HeaderMap, is_known: &AtomicBool) -> Result<(), Refusal> {
        if self.admits(headers) {
            is_known.store(true, Ordering::Relaxed);
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
        let why = "a token is needed: give it as the password of the address, https://user:TOKEN@HOST";
        Err(Refusal { code: 401, lines: vec![why.into()] })
    }

    /// Answers a call of gRPC.
    pub async fn grpc(self: Arc<Self>, request: Request<Incoming>, is_known: Arc<AtomicBool>) -> Answered {
        let answer = self.answer_grpc(request, &is_known).await;
        let mut trailers = HeaderMap::new();
        let (status, message) = match &answer {
            Ok(_) => (0, String::new()),
            Err((status, refusal)) => (*status, in_a_header(refusal)),
        };
        trailers.insert("grpc-status", status.into());
        if let Ok(message) = HeaderValue::from_str(&message)
            && !message.is_empty()
        {
            trailers.insert("grpc-message", message);
        }
        let mut body = Vec::new();
        for message in answer.unwrap_or_default() {
            body.push(0);
            body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
            body.extend_from_slice(&message);
        }
        let body = Full::new(Bytes::from(body)).with_trailers(async move { Some(Ok(trailers)) });
        let mut response = Response::new(body.boxed());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
    }

    async fn answer_grpc(
        self: &Arc<Self>,
        request: Request<Incoming>,
        is_known: &AtomicBool,
    ) -> Result<Vec<Vec<u8>>, (u16, Refusal)> {
        self.let_in(request.headers(), is_known).await.map_err(|why| (UNAUTHENTICATED, why))?;
        let name = request.uri().path().strip_prefix(SERVICE).unwrap_or_default().to_owned();
        let found = by_name(&name);
        let unimplemented = |why: String| (UNIMPLEMENTED, Refusal { code: 501, lines: vec![why] });
        let (call, form) = found.ok_or_else(|| unimplemented(format!("there is no call '{name}'")))?;
        let body = self.body(request).await.map_err(|why| (UNAVAILABLE, why))?;
        let answer = self.call(move |lab| {
            let messages = messages(&body)?;
            call.by_protobuf(lab, form, &messages)
        });
        let status = |code: u16| match code {
            501 => UNIMPLEMENTED,
            400..=499 => INVALID_ARGUMENT,
            _ => INTERNAL,
        };
        answer.await.map_err(|why| (status(why.code), why))
    }
}

/// The messages of a body of gRPC.
fn messages(mut body: &[u8]) -> Result<Vec<&[u8]>, Refusal> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let (prefix, rest) = body
            .split_first_chunk::<PREFIX_BYTES>()
            .ok_or_else(|| Refusal::wrong("the request has no whole message"))?;
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 {
            let why = "compressed messages are not supported".to_owned();
            return Err(Refusal { code: 501, lines: vec![why] });
        }
        let (message, rest) = rest
            .split_at_checked(u32::from_be_bytes(length) as usize)
            .ok_or_else(|| Refusal::wrong("the length of a message is wrong"))?;
        all.push(message);
        body = rest;
    }
    Ok(all)
}

/// The call of a path and a method.
fn by_path(method: &str, path: &str) -> Result<&'static Call, Refusal> {
    let of_path: Vec<&'static Call> = CALLS.iter().filter(|call| call.path == path).collect();
    if of_path.is_empty() {
        return Err(Refusal { code: 404, lines: vec![format!("there is no call {path}")] });
    }
    let found = of_path.into_iter().find(|call| call.method == method);
    found.ok_or_else(|| Refusal { code: 405, lines: vec![format!("{path} has no method {method}")] })
}

/// An error as JSON in a header of gRPC: bytes that a header cannot have are in hexadecimal behind `%`.
fn in_a_header(refusal: &Refusal) -> String {
    let mut short = Refusal { code: refusal.code, lines: Vec::new() };
    let mut bytes = 0;
    for line in &refusal.lines {
        bytes += line.len();
        if bytes > MOST_ERROR_BYTES {
            short.lines.push(format!("there are {} such lines", refusal.lines.len()));
            break;
        }
        short.lines.push(line.clone());
    }
    let text = serde_json::to_string(&error(&short)).unwrap_or_default();
    let encode = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
