//! A study as a page.

use super::value::{side, value};
use crate::{drawing, page};
use kpps_results::study::{Article, Claim, Map, Study, Verdict};
use maud::{Markup, html as markup};

const STUDY_CSS: &str = include_str!("../../assets/study.css");

/// A study as a self-contained HTML page: its question, its subject, the figures, and each claim with its
/// verdict. It has no script; light and dark follow the reader's system.
pub fn page(study: &Study, article: &Article) -> String {
    let claims: Vec<&Claim> = study.of(&article.name).collect();
    let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let (pass, miss, predicted) = (count(Verdict::Pass), count(Verdict::Miss), count(Verdict::Predicted));
    let body = markup! {
        header {
            div {
                h1 { (article.title) }
                p.setting { "Study " code { (article.name) } ", run in the simulator of kpps" }
            }
        }
        main {
            div.lead { p {
                "Claims: " (claims.len()) ". Held: " (pass) ", missed: " (miss) ", predicted: " (predicted)
                " (no constant was fitted to the result in the document)."
            } }
            @if !study.complete {
                p.notice role="status" { "This run was interrupted: some claims are missing." }
            }
            @if !article.question.is_empty() {
                section { h2 { "Question" } (paragraphs(&article.question)) }
            }
            @if !article.setting.is_empty() {
                section { h2 { "The setting" } (paragraphs(&article.setting)) }
            }
            @for figure in &article.figures { section { (drawing::lines(figure)) } }
            @for map in &article.maps { section { (grid(map)) } }
            section {
                h2 { "The claims" }
                @for claim in &claims { (claim_section(claim)) }
            }
        }
        footer {
            p { "Made by kpps " (study.kpps_version) " with profiles " code { (study.profiles_hash) }
                ". To see it again: " code { "kpps study " (article.name) " --report ." } }
        }
    };
    page::page(&article.title, &[page::CSS, drawing::CSS, STUDY_CSS], &body)
}

fn paragraphs(text: &str) -> Markup {
    markup! { @for paragraph in text.split("\n\n") { p { (emphasised(paragraph)) } } }
}

/// A claim as a sentence.
fn sentence(says: &str) -> String {
    let mut letters = says.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Text with the words between asterisks emphasised.
fn emphasised(text: &str) -> Markup {
    let parts = text.split('*').enumerate();
    markup! { @for (index, part) in parts { @if index % 2 == 1 { em { (part) } } @else { (part) } } }
}

fn claim_section(claim: &Claim) -> Markup {
    let verdict = claim.verdict.to_string();
    markup! {
        article.claim id=(claim.id) {
            h3 { span.id { (claim.id) } " " span.verdict data-verdict=(verdict) { (verdict) } " " span.kind { (claim.kind) } }
            p { (sentence(&claim.says)) }
            dl {
                @if !claim.expected.is_empty() { dt { "Expected" } dd { (claim.expected) } }
                @if !claim.values.is_empty() {
                    dt { "Measured" }
                    dd { @for (index, (name, number)) in claim.values.iter().enumerate() {
                        @if index > 0 { ", " }
                        span.value { code { (name) } " " (value(*number)) }
                    } }
                }
                @if !claim.why.is_empty() { dt { "Why" } dd { (emphasised(&claim.why)) } }
            }
        }
    }
}

/// A map as a table; the colour of a cell tells whether it is above or below 1.
fn grid(map: &Map) -> Markup {
    markup! {
        h2 { (map.title) }
        p.hint { (map.cell) }
        table.map {
            thead { tr { th { (map.columns_of) } @for column in &map.columns { th { (column) } } } }
            tbody { @for row in &map.rows {
                tr { th { (row.name) } @for &cell in &row.cells { td data-side=(cell.map_or("same", side)) { (cell.map_or("–".into(), |cell| format!("{cell:.2}"))) } } }
            } }
        }
    }
}
