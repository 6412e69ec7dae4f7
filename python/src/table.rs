//! The commands and their options, from the command's own definitions.

use clap::{Arg, ArgAction, Command};
use pyo3::prelude::*;
use serde_json::{Value, json};

/// The commands and their options, as JSON.
#[pyfunction]
pub fn table() -> String {
    let mut command = kpps::command();
    command.build();
    let mut all = Vec::new();
    add(&command, &[], &mut all);
    Value::Array(all).to_string()
}

/// The JSON Schema of all documents.
#[pyfunction]
pub fn schema() -> String {
    kpps_documents::schema()
}

/// Adds a command, unless it is nothing but the commands below it, and those.
fn add(command: &Command, path: &[&str], all: &mut Vec<Value>) {
    if !path.is_empty() && !command.is_subcommand_required_set() {
        let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string);
        let help = command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
        all.push(json!({
            "path": path,
            "about": text(command.get_about()),
            "more": text(command.get_after_help()),
            "arguments": help.map(argument).collect::<Vec<_>>(),
        }));
    }
    for inner in command.get_subcommands().filter(|it| it.get_name() != "help") {
        add(inner, &[path, &[inner.get_name()]].concat(), all);
    }
}

fn argument(arg: &Arg) -> Value {
    let values = arg.get_num_args().map_or(1, |range| range.max_values());
    let names = arg.get_value_names().unwrap_or_default();
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    json!({
        "id": arg.get_id().as_str(),
        "flag": arg.get_long(),
        "help": arg.get_help().map(ToString::to_string),
        "heading": arg.get_help_heading(),
        "required": arg.is_required_set(),
        "switch": matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse),
        "value": names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "),
        "default": defaults.collect::<Vec<_>>(),
        "choices": arg.get_possible_values().iter().map(|it| it.get_name().to_owned()).collect::<Vec<_>>(),
        "comma": arg.get_value_delimiter().is_some(),
        "repeated": matches!(arg.get_action(), ArgAction::Append) && arg.get_value_delimiter().is_none()
            || values > 1,
    })
}
