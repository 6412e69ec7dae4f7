//! Throughput over frame sizes, and the other tests of RFC 2544.

mod page;
mod rates;
mod screen;

use crate::Rows;
use crate::forms::Forms;
use crate::text::TextStyle;
use kpps_documents::ndr::{Ndr, SearchGoal};
use kpps_documents::rfc2544::{Rfc2544, Sizes};
use page::{rfc2544 as page, sizes as sizes_page};
use screen::{rfc2544 as screen, sizes as sizes_screen};
use serde::Serialize;

/// A row of [`Sizes`]: a goal at a size.
#[derive(Serialize)]
struct SizeGoal<'g> {
    #[serde(rename = "sizes.environment.frame_bytes_with_fcs")]
    frame_bytes_with_fcs: u32,
    #[serde(rename = "sizes.environment.mix.name", skip_serializing_if = "Option::is_none")]
    mix: Option<&'g str>,
    #[serde(flatten)]
    goal: &'g SearchGoal,
}

impl<'g> SizeGoal<'g> {
    fn of(found: &'g Ndr, goal: &'g SearchGoal) -> Self {
        let mix = found.environment.mix.as_ref().map(|mix| mix.name.as_str());
        Self { frame_bytes_with_fcs: found.environment.bytes_with_fcs(), mix, goal }
    }
}

impl Forms for Sizes {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        sizes_screen(self) + notes
    }
    fn rows(&self) -> Rows {
        let goals = self.sizes.iter().flat_map(|found| found.goals.iter().map(move |goal| (found, goal)));
        Rows::of(&goals.map(|(found, goal)| SizeGoal::of(found, goal)).collect::<Vec<_>>())
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(sizes_page(self))
    }
    fn is_empty(&self) -> bool {
        self.sizes.iter().all(|found| found.trials.is_empty())
    }
}

impl Forms for Rfc2544 {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.sizes)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(page(self))
    }
    fn is_empty(&self) -> bool {
        self.sizes.iter().flat_map(|size| &size.throughput).all(|found| found.trials.is_empty())
    }
}
