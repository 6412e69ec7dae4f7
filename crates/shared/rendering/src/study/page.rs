//! A study as a page.

use super::evidence::{held, parts, sentences};
use super::value::{columns, figure as measured, hit, side};
use crate::{drawing, page};
use kpps_documents::study::{Article, Claim, Map, Study, Verdict};
use maud::{Markup, html as markup};

const STUDY_CSS: &str = include_str!("../../assets/study.css");

/// A study as a self-contained HTML page: its question, its subject, the figures, and each claim with its
/// verdict. It has no script; light and dark follow the reader's system.
pub fn page(study: &Study, article: &Article) -> String {
    let claims: Vec<&Claim> = study.of(&article.name).collect();
    let [evidence, apart] = parts(&claims);
    let body = markup! {
        header {
            div {
                h1 { (article.title) }
                p.setting { "Study " code { (article.name) } ", run in the simulator of kpps" }
            }
        }
        main {
            (lead(&claims))
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
            @if !evidence.is_empty() { section {
                h2 { "Claims that are evidence" }
                p { "Orders and causes, and results that were kept back: no constant was fitted on them." }
                @for claim in &evidence { (claim_section(claim)) }
            } }
            @if !apart.is_empty() { section {
                h2 { "Claims that are no evidence" }
                p { "What constants were fitted on, arithmetic, the set-up, and wishes." }
                @for claim in &apart { (claim_section(claim)) }
            } }
        }
        footer {
            p { "Made by kpps " (study.kpps_version) " with profiles " code { (study.profiles_hash) }
                ". To see it again: " code { (format!("kpps study {} --report .", article.name)) } }
        }
    };
    page::page(&article.title, &[page::CSS, drawing::CSS, STUDY_CSS], &body)
}

/// The findings, before anything else.
fn lead(claims: &[&Claim]) -> Markup {
    markup! { div.lead { @for sentence in sentences(claims) { p { (sentence) } } } }
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
                @if !claim.values.is_empty() { dt { "Measured" } dd { (figures(claim)) } }
                @if !claim.results.is_empty() {
                    dt { "Predicted" }
                    dd { @for result in &claim.results {
                        div { (result.name) ": blind " b { (hit(result.blind)) } ", revised " b { (hit(result.revised)) }
                            " (" code { (result.holds) } ")" }
                    } }
                }
                @if !claim.why.is_empty() { dt { "Why" } dd { (emphasised(&claim.why)) } }
            }
        }
    }
}

/// The figures of a claim: in a row if the document states none of them, or else as a table with the
/// document's.
fn figures(claim: &Claim) -> Markup {
    let (with_blind, rows) = columns(claim);
    markup! {
        @if !rows.is_empty() {
            div.scroll { table.figures {
                thead { tr {
                    th { "figure" } @if with_blind { th { "predicted blind" } } th { "document" }
                    th { @if with_blind { "now, revised" } @else { "model" } }
                } }
                tbody { @for [name, blind, document, now] in rows {
                    tr { td { code { (name) } } @if with_blind { td { (blind) } } td { (document) } td { (now) } }
                } }
            } }
        } @else {
            @for (index, (name, number)) in claim.values.iter().enumerate() {
                @if index > 0 { ", " }
                span.value { code { (name) } " " (measured(claim, name, *number)) }
            }
        }
    }
}

/// All studies of a document on one page: how much of the evidence was reproduced, the predictions, the
/// missed claims with their reasons, and the claims that are no evidence.
pub fn overview(study: &Study) -> String {
    let claims: Vec<&Claim> = study.claims.iter().collect();
    let of = |name: &str, is_evidence| {
        held(study.of(name).filter(move |claim: &&Claim| claim.is_evidence() == is_evidence))
    };
    let blind = |name: &str| {
        let results: Vec<_> = study.of(name).flat_map(|claim| &claim.results).collect();
        let right = results.iter().filter(|result| result.blind).count();
        if results.is_empty() { "–".to_owned() } else { format!("{right} of {}", results.len()) }
    };
    let foretold: Vec<&Claim> = study.claims.iter().filter(|claim| !claim.results.is_empty()).collect();
    let missed: Vec<&Claim> =
        study.claims.iter().filter(|c| matches!(c.verdict, Verdict::Miss | Verdict::Failed)).collect();
    let body = markup! {
        header { div {
            h1 { "Reproduced and missed claims, with reasons" }
            p.setting { "All studies, run in the simulator of kpps" }
        } }
        main {
            (lead(&claims))
            @if !study.complete {
                p.notice role="status" { "This run was interrupted: some claims are missing." }
            }
            section {
                h2 { "By document" }
                div.scroll { table.figures {
                    thead { tr { th { "study" } th { "evidence held" } th { "predicted blind, right" } th { "no evidence: held" } } }
                    tbody { @for article in &study.articles { tr {
                        td { a href={ (article.name) ".html" } { (article.title) } }
                        td { (of(&article.name, true)) } td { (blind(&article.name)) } td { (of(&article.name, false)) }
                    } } }
                } }
            }
            @if !foretold.is_empty() { section {
                h2 { "Predicted before the document's result was known" }
                p { "A prediction is on record as it was made. What the model says now was revised in knowledge of the "
                    "document, and is no prediction." }
                @for claim in foretold { (claim_section(claim)) }
            } }
            @if !missed.is_empty() { section {
                h2 { "Missed" }
                @for claim in missed { (claim_section(claim)) }
            } }
        }
        footer {
            p { "Made by kpps " (study.kpps_version) " with profiles " code { (study.profiles_hash) }
                ". To see it again: " code { "kpps study --report ." } }
        }
    };
    page::page("Studies", &[page::CSS, drawing::CSS, STUDY_CSS], &body)
}

/// A map as a table; the colour of a cell shows whether it is above or below 1.
fn grid(map: &Map) -> Markup {
    markup! {
        h2 { (map.title) }
        p.hint { (map.cell) }
        div.scroll { table.map {
            thead { tr { th { (map.columns_of) } @for column in &map.columns { th { (column) } } } }
            tbody { @for row in &map.rows {
                tr { th { (row.name) } @for &cell in &row.cells { td data-side=(cell.map_or("same", side)) { (cell.map_or("–".into(), |cell| format!("{cell:.2}"))) } } }
            } }
        } }
    }
}
