//! An Open Traffic Generator server: kpps for clients of that interface.
//!
//! The models (github.com/open-traffic-generator/models) describe ports, stations and flows, in JSON over
//! HTTP or in protobuf over gRPC. Both are read by one table of messages ([`models`]) and translated by one
//! [`translation`], which has no input or output. A [`Server`] is for clients.
#![forbid(unsafe_code)]

pub mod json;
mod lab;
pub mod models;
pub mod problems;
pub mod protobuf;
mod rules;
mod server;
#[cfg(test)]
mod tests;
pub mod translation;
pub mod value;

pub use rules::{NamedPort, Rules};
pub use server::{Error, Server, Settings};
