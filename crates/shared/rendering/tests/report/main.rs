//! The output for people: the presentations of a document, and the live view.
#![allow(clippy::unwrap_used)]

mod fixture;
mod screen;
