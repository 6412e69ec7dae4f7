//! The calls of the interface: their names on HTTP and gRPC, and what they do.

use crate::lab::{Lab, Warnings};
use crate::problems::Problems;
use crate::rules::Refusal;
use crate::value::{Object, Value};
use crate::{json, protobuf};

/// The versions of the models whose clients are served: a client compares its own version with this range
/// (Semantic Versioning).
const VERSIONS: &str = ">=1.28.0,<2.0.0";

/// The bytes of a part of a message: clients of gRPC take messages of 4 MiB.
const PART_BYTES: usize = 1 << 20;

/// The form of the messages of a call in gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One message each.
    Whole,
    /// The request comes in parts.
    RequestInParts,
    /// The answer goes in parts.
    AnswerInParts,
}

/// The result of a call.
pub enum Answer {
    /// A message.
    Message(Object),
    /// Text in JSON.
    Json(String),
    /// A file.
    File(Vec<u8>),
}

/// A call.
pub struct Call {
    /// Its method of HTTP.
    pub method: &'static str,
    /// Its path.
    pub path: &'static str,
    /// Its name in gRPC, if it is one of the models.
    pub name: &'static str,
    /// The message of its request, if it has one.
    pub request: Option<&'static str>,
    /// The field of the response of gRPC.
    response: &'static str,
    run: Run,
}

type Run = fn(&mut Lab, Object, Problems) -> Result<Answer, Refusal>;

const fn call(
    method: &'static str,
    path: &'static str,
    name: &'static str,
    request: Option<&'static str>,
    response: &'static str,
    run: Run,
) -> Call {
    Call { method, path, name, request, response, run }
}

/// All calls.
pub static CALLS: [Call; 11] = [
    call("POST", "/config", "SetConfig", Some("Config"), "warning", |lab, config, problems| {
        lab.set_config(config, problems).map(warning)
    }),
    call("GET", "/config", "GetConfig", None, "config", |lab, _, _| Ok(Answer::Message(lab.config()))),
    call("PATCH", "/config", "UpdateConfig", Some("ConfigUpdate"), "warning", |lab, update, problems| {
        lab.update(&update, problems).map(warning)
    }),
    call(
        "PATCH",
        "/config/append",
        "AppendConfig",
        Some("ConfigAppend"),
        "warning",
        |lab, append, problems| lab.append(&append, problems).map(warning),
    ),
    call(
        "PATCH",
        "/config/delete",
        "DeleteConfig",
        Some("ConfigDelete"),
        "warning",
        |lab, delete, problems| lab.delete(&delete, problems).map(warning),
    ),
    call(
        "POST",
        "/control/state",
        "SetControlState",
        Some("ControlState"),
        "warning",
        |lab, state, problems| lab.control(&state, problems).map(warning),
    ),
    call(
        "POST",
        "/monitor/metrics",
        "GetMetrics",
        Some("MetricsRequest"),
        "metrics_response",
        |lab, request, problems| lab.metrics(&request, problems).map(Answer::Message),
    ),
    call(
        "POST",
        "/monitor/states",
        "GetStates",
        Some("StatesRequest"),
        "states_response",
        |lab, request, problems| lab.states(&request, problems).map(Answer::Message),
    ),
    call(
        "POST",
        "/monitor/capture",
        "GetCapture",
        Some("CaptureRequest"),
        "response_bytes",
        |lab, request, problems| lab.capture(&request, problems).map(Answer::File),
    ),
    call("GET", "/capabilities/version", "GetVersion", None, "version", |_, _, _| {
        Ok(Answer::Message(
            Object::new("Version")
                .with("api_spec_version", VERSIONS)
                .with("sdk_version", "")
                .with("app_version", concat!("kpps ", env!("CARGO_PKG_VERSION"))),
        ))
    }),
    call("GET", "/kpps/documents", "", None, "", |lab, _, _| Ok(Answer::Json(lab.documents()))),
];

fn warning(warnings: Warnings) -> Answer {
    let lines: Vec<&str> = warnings.iter().map(String::as_str).collect();
    Answer::Message(Object::new("Warning").with("warnings", lines))
}

impl Call {
    /// The type of the body of its answers over HTTP.
    pub fn content_type(&self) -> &'static str {
        match self.response {
            "response_bytes" => "application/octet-stream",
            _ => "application/json",
        }
    }

    /// Makes the call with a body of JSON. Returns the body of the answer.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn by_json(&self, lab: &mut Lab, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut problems = Problems::new(lab.is_lenient());
        let request = match self.request {
            Some(message) => json::read(message, body, &mut problems),
            None => Some(Object::new("")),
        };
        match self.run(lab, request, problems)? {
            Answer::Message(object) => {
                serde_json::to_vec(&object).map_err(|error| Refusal::failed(error.to_string()))
            }
            Answer::Json(text) => Ok(text.into_bytes()),
            Answer::File(bytes) => Ok(bytes),
        }
    }

    /// Makes the call with the messages of a request of gRPC. Returns the messages of the answer.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn by_protobuf(&self, lab: &mut Lab, form: Form, body: &[&[u8]]) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut problems = Problems::new(lab.is_lenient());
        let request = match (self.request, form, body) {
            (None, ..) => Some(Object::new("")),
            (Some(message), Form::RequestInParts, parts) => {
                joined(parts, &mut problems).and_then(|bytes| protobuf::read(message, &bytes, &mut problems))
            }
            (Some(_), _, [message]) => {
                protobuf::read_within(&format!("{}Request", self.name), message, &mut problems)
            }
            _ => return Err(Refusal::wrong("the request does not have one message")),
        };
        let value = match self.run(lab, request, problems)? {
            Answer::Message(object) => Value::Object(object),
            Answer::File(bytes) => Value::Bytes(bytes),
            Answer::Json(_) => return Err(Refusal::failed("the call has no message")),
        };
        Ok(match (form, value) {
            (Form::AnswerInParts, Value::Object(object)) => parts(&protobuf::write(&object)),
            (Form::AnswerInParts, Value::Bytes(bytes)) => parts(&bytes),
            (_, value) => {
                let answer = Object::new(&format!("{}Response", self.name)).with(self.response, value);
                vec![protobuf::write(&answer)]
            }
        })
    }

    fn run(&self, lab: &mut Lab, request: Option<Object>, problems: Problems) -> Result<Answer, Refusal> {
        match request {
            Some(request) => (self.run)(lab, request, problems),
            None => Err(Refusal { code: 400, lines: problems.refused }),
        }
    }
}

/// The call of a name in gRPC, and the form of its messages.
pub fn by_name(name: &str) -> Option<(&'static Call, Form)> {
    let (name, form) = match name.strip_prefix("stream") {
        None => (name, Form::Whole),
        Some(name @ ("SetConfig" | "SetControlState")) => (name, Form::RequestInParts),
        Some(name @ ("GetConfig" | "GetMetrics" | "GetStates" | "GetCapture")) => (name, Form::AnswerInParts),
        Some(_) => return None,
    };
    let call = CALLS.iter().find(|call| call.name == name && !name.is_empty())?;
    Some((call, form))
}

/// The bytes of a message that comes in parts (`Data` of the models).
fn joined(parts: &[&[u8]], problems: &mut Problems) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for part in parts {
        let data = protobuf::read("Data", part, problems)?;
        if let Some(Value::Bytes(bytes)) = data.get("datum") {
            all.extend_from_slice(bytes);
        }
    }
    Some(all)
}

/// A message in parts.
fn parts(message: &[u8]) -> Vec<Vec<u8>> {
    let size = PART_BYTES as u64;
    let part = |bytes: &[u8]| {
        let datum = Value::Bytes(bytes.to_vec());
        protobuf::write(&Object::new("Data").with("chunk_size", size).with("datum", datum))
    };
    message.chunks(PART_BYTES).map(part).collect()
}

/// The body of an error (`Error` of the models).
pub fn error(refusal: &Refusal) -> Object {
    let lines: Vec<&str> = refusal.lines.iter().map(String::as_str).collect();
    let kind = if refusal.code < 500 { "validation" } else { "internal" };
    let code = Value::Int(refusal.code.into());
    Object::new("Error").with("code", code).with("kind", kind).with("errors", lines)
}
