//! Every document in the forms that people and programs read: text, rows, pages.

use crate::page::{CSS, page, with_provenance};
use crate::text::TextStyle;
use crate::{
    Rows, audit, calibration, comparison, csv, curve, faults, grid, host, inventory, lab, ndr, rfc2544,
};
use crate::{run, simulation, study, trial};
use kpps_documents::Curve;
use kpps_documents::audit::Audit;
use kpps_documents::calibration::Calibration;
use kpps_documents::comparison::Comparison;
use kpps_documents::detail::DetailedTrial;
use kpps_documents::faults::Faults;
use kpps_documents::grid::Grid;
use kpps_documents::host::HostCalibration;
use kpps_documents::inventory::{Conformance, Devices, ProfileEntry, Profiles};
use kpps_documents::lab::Lab;
use kpps_documents::ndr::{Ndr, SearchGoal};
use kpps_documents::provenance::Published;
use kpps_documents::rfc2544::{Rfc2544, Sizes};
use kpps_documents::run::Run;
use kpps_documents::simulation::{BusTrace, Profile, Scale, Transmit};
use kpps_documents::study::{CrossValidation, Drawn, Fit, Perturbation, Study};
use maud::html;
use serde::Serialize;

/// The page of a document that has no plots: its text for the screen, and all its rows.
fn plain(title: &str, document: &impl Forms) -> String {
    let (screen, rows) = (document.screen(TextStyle::default(), ""), document.rows());
    let body = html! {
        header { div { h1 { (title) } } }
        main {
            @if !screen.trim().is_empty() { section { div.scroll { pre { (screen.trim_end()) } } } }
            @if !rows.rows.is_empty() { section { h2 { "Every value" } (rows.html()) } }
        }
        footer { p { "Made by kpps " (env!("CARGO_PKG_VERSION")) "." } }
    };
    page(title, &[CSS], &body)
}

/// A document in all its forms; JSON is that of [`kpps_documents::to_json`].
pub trait Forms: Serialize {
    /// The text for the screen. `notes` are lines about the run that are not in the document, or nothing.
    fn screen(&self, style: TextStyle, notes: &str) -> String;

    /// The rows, for comma-separated values.
    fn rows(&self) -> Rows;

    /// The page with this number, counted from 0; `None` if the document has fewer.
    fn page(&self, number: usize) -> Option<String>;

    /// Whether nothing was measured, as in a run that was interrupted at its beginning.
    fn is_empty(&self) -> bool {
        false
    }
}

impl<D: Forms> Forms for Published<&D> {
    fn screen(&self, style: TextStyle, notes: &str) -> String {
        self.document.screen(style, notes)
    }
    fn rows(&self) -> Rows {
        self.document.rows()
    }
    fn page(&self, number: usize) -> Option<String> {
        let page = self.document.page(number)?;
        Some(self.provenance.as_ref().map_or(page.clone(), |of| with_provenance(&page, of)))
    }
    fn is_empty(&self) -> bool {
        self.document.is_empty()
    }
}

impl Forms for Curve {
    fn screen(&self, style: TextStyle, notes: &str) -> String {
        curve::screen(self, style) + notes
    }
    fn rows(&self) -> Rows {
        csv::rows(self)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(crate::html(self))
    }
    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }
}

impl Forms for Grid {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        format!("{}\n{notes}", grid::screen(self))
    }
    fn rows(&self) -> Rows {
        grid::rows(self)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(grid::page(self))
    }
    fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

impl Forms for DetailedTrial {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        trial::screen(self) + notes
    }
    fn rows(&self) -> Rows {
        match self.interval_s {
            Some(_) => trial::series::rows(self),
            // Only ports have directions.
            None if self.directions.is_empty() => csv::row(self),
            None => Rows::of(&self.directions),
        }
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(trial::page(self))
    }
}

impl Forms for Ndr {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        ndr::screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.goals)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(ndr::page(self))
    }
    fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }
}

/// A row of [`Sizes`]: a goal at a size.
#[derive(Serialize)]
struct SizeGoal<'g> {
    #[serde(rename = "sizes.frame_bytes_with_fcs")]
    frame_bytes_with_fcs: u32,
    #[serde(rename = "sizes.mix.name", skip_serializing_if = "Option::is_none")]
    mix: Option<&'g str>,
    #[serde(flatten)]
    goal: &'g SearchGoal,
}

impl<'g> SizeGoal<'g> {
    fn of(found: &'g Ndr, goal: &'g SearchGoal) -> Self {
        let mix = found.mix.as_ref().map(|mix| mix.name.as_str());
        Self { frame_bytes_with_fcs: found.frame_bytes_with_fcs, mix, goal }
    }
}

impl Forms for Sizes {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        rfc2544::sizes_screen(self) + notes
    }
    fn rows(&self) -> Rows {
        let goals = self.sizes.iter().flat_map(|found| found.goals.iter().map(move |goal| (found, goal)));
        Rows::of(&goals.map(|(found, goal)| SizeGoal::of(found, goal)).collect::<Vec<_>>())
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(rfc2544::sizes_page(self))
    }
    fn is_empty(&self) -> bool {
        self.sizes.iter().all(|found| found.trials.is_empty())
    }
}

impl Forms for Rfc2544 {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        rfc2544::screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.sizes)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(rfc2544::page(self))
    }
    fn is_empty(&self) -> bool {
        self.sizes.iter().flat_map(|size| &size.throughput).all(|found| found.trials.is_empty())
    }
}

impl Forms for Study {
    fn screen(&self, style: TextStyle, notes: &str) -> String {
        study::screen(self, style) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.claims)
    }
    /// That of an article; after them one of all.
    fn page(&self, number: usize) -> Option<String> {
        match self.articles.get(number) {
            Some(article) => Some(study::page(self, article)),
            None => (number == self.articles.len()).then(|| study::overview(self)),
        }
    }
    fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

impl Forms for Perturbation {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        study::perturbation(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Fitted constants, moved by {} %", (self.share * 1e5).round() / 1e3), self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for Fit {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        study::fit(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Fitted constants, found again", self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for CrossValidation {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        study::cross_validation(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Claims, each predicted from the others", self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for HostCalibration {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        host::screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.points)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("What a frame and an interrupt cost", self))
    }
    fn is_empty(&self) -> bool {
        self.constants.is_empty()
    }
}

impl Forms for Drawn {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        study::drawn(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Constants of the machine of seed {}", self.seed), self))
    }
}

impl Forms for Comparison {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        comparison::screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Comparison of results of kind {}", self.of), self))
    }
}

impl Forms for Calibration {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        calibration::screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.paced)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Calibration of {}", self.port), self))
    }
}

impl Forms for Run {
    /// The notes stand before the costs of the run.
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        run::screen(self, notes)
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.ports)
    }
    fn page(&self, _: usize) -> Option<String> {
        let ports: Vec<_> = self.ports.iter().map(|port| port.port.as_str()).collect();
        Some(plain(&format!("kpps {} {}", self.command, ports.join(" ")), self))
    }
}

impl Forms for Lab {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        lab::table(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(lab::page(self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for Audit {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        audit::screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Drivers of {} on a model of the {}", self.kernel, self.chip), self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for Transmit {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        simulation::transmit(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Transmit rates on {}", self.environment.machine), self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for Profile {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        simulation::profile(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("CPU profile of {}", self.environment.machine), self))
    }
}

impl Forms for Scale {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        simulation::scale(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.rows)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Frames per second against CPUs on {}", self.environment.machine), self))
    }
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Forms for BusTrace {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        simulation::trace(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.transactions)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Bus trace of {}", self.environment.machine), self))
    }
}

impl Forms for Faults {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        faults::screen(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.faults)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Faults in simulated worlds", self))
    }
}

impl Forms for Profiles {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        inventory::profiles(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.profiles)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Profiles", self))
    }
}

/// Profiles with all their constants.
#[derive(Serialize)]
#[serde(transparent)]
pub struct WithConstants<'p>(pub &'p Profiles);

impl Forms for WithConstants<'_> {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        self.0.profiles.iter().map(inventory::constants).collect::<String>() + notes
    }
    fn rows(&self) -> Rows {
        let constants = |profile: &'_ ProfileEntry| profile.constants.clone();
        Rows::of(&self.0.profiles.iter().flat_map(constants).collect::<Vec<_>>())
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Constants of profiles", self))
    }
}

impl Forms for Devices {
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        inventory::devices(self) + notes
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.devices)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain("Network cards", self))
    }
}

impl Forms for Conformance {
    /// Only the notes: each case was shown when it ended.
    fn screen(&self, _: TextStyle, notes: &str) -> String {
        notes.to_owned()
    }
    fn rows(&self) -> Rows {
        Rows::of(&self.cases)
    }
    fn page(&self, _: usize) -> Option<String> {
        Some(plain(&format!("Conformance suite on {}", self.device), self))
    }
}
