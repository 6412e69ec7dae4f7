//! A study as a page to read.

use super::{Article, Claim, Figure, Map, Study, Verdict, value};
use crate::page;
use maud::{Markup, html as markup};

const STUDY_CSS: &str = include_str!("../../assets/study.css");

/// One study as one self-contained HTML page: what was asked, of what, the figures, and each claim with its verdict. It
/// has no script; light and dark follow the reader's system.
pub fn page(study: &Study, article: &Article) -> String {
    let claims: Vec<&Claim> = study.of(&article.name).collect();
    let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let (pass, miss, predicted) = (count(Verdict::Pass), count(Verdict::Miss), count(Verdict::Predicted));
    let body = markup! {
        header {
            div {
                h1 { (article.title) }
                p.setting { "Study " code { (article.name) } ", run in the machine room of kpps" }
            }
        }
        main {
            div.lead { p {
                "Claims: " (claims.len()) ". Held: " (pass) ", missed: " (miss) ", predicted: " (predicted)
                " (the document has a result that the model was not told)."
            } }
            @if !study.complete {
                p.notice role="status" { "This run was interrupted: some claims are missing." }
            }
            @if !article.asked.is_empty() {
                section { h2 { "What was asked" } (paragraphs(&article.asked)) }
            }
            @if !article.setting.is_empty() {
                section { h2 { "The setting" } (paragraphs(&article.setting)) }
            }
            @for figure in &article.figures { section { (drawn(figure)) } }
            @for map in &article.maps { section { (grid(map)) } }
            section {
                h2 { "The claims" }
                @for claim in &claims { (told(claim)) }
            }
        }
        footer {
            p { "Made by kpps " (study.kpps_version) " with profiles " code { (study.profiles_hash) }
                ". To see it again: " code { "kpps study " (article.name) " --report" } }
        }
    };
    page::page(&article.title, &[page::CSS, STUDY_CSS], &body)
}

fn paragraphs(text: &str) -> Markup {
    markup! { @for paragraph in text.split("\n\n") { p { (emphasised(paragraph)) } } }
}

/// What a claim says, as a sentence.
fn sentence(says: &str) -> String {
    let mut letters = says.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Words between asterisks stand out.
fn emphasised(text: &str) -> Markup {
    let parts = text.split('*').enumerate();
    markup! { @for (index, part) in parts { @if index % 2 == 1 { em { (part) } } @else { (part) } } }
}

fn told(claim: &Claim) -> Markup {
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

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 40.0;

/// A step of 1, 2 or 5 times a power of ten that goes into `most` two to five times.
fn round_step(most: f64) -> f64 {
    let power = 10f64.powf((most / 2.0).log10().floor());
    let steps = [5.0, 2.0, 1.0].into_iter().map(|digit| digit * power);
    steps.into_iter().find(|step| most / step >= 2.0).unwrap_or(power)
}

/// A round number without the noughts behind its point.
fn round(tick: f64) -> String {
    let text = value(tick);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A map as a table whose cells tell by their colour on which side of 1 they are.
fn grid(map: &Map) -> Markup {
    markup! {
        h2 { (map.title) }
        p.hint { (map.cell) }
        table.map {
            thead { tr { th { (map.columns_of) } @for column in &map.columns { th { (column) } } } }
            tbody { @for row in &map.rows {
                tr { th { (row.name) } @for &cell in &row.cells { td data-side=(Map::side(cell)) { (format!("{cell:.2}")) } } }
            } }
        }
    }
}

/// A figure as a drawing, with a list of its lines, and its points in a table for those who cannot see it.
pub(crate) fn drawn(figure: &Figure) -> Markup {
    let points = || figure.lines.iter().flat_map(|line| &line.points);
    let (most_x, most_y) = points().fold((0.0f64, 0.0f64), |(x, y), p| (x.max(p.0), y.max(p.1)));
    let (most_x, most_y) = (most_x.max(f64::MIN_POSITIVE), most_y.max(f64::MIN_POSITIVE) * 1.05);
    let x = |value: f64| LEFT + value / most_x * (WIDTH - LEFT - 16.0);
    let y = |value: f64| (HEIGHT - BOTTOM) - value / most_y * (HEIGHT - BOTTOM - 12.0);
    let path = |points: &[(f64, f64)]| {
        let steps: Vec<_> = points
            .iter()
            .enumerate()
            .map(|(i, &(a, b))| format!("{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x(a), y(b)))
            .collect();
        steps.join("")
    };
    let ticks = |most: f64| {
        let step = round_step(most);
        (0..).map(move |n| step * f64::from(n)).take_while(move |tick| *tick <= most)
    };
    markup! {
        h2 { (figure.title) }
        p.hint { (figure.y) " over " (figure.x) }
        svg.figure viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (figure.title) ". The values are in the table below." } {
            @for tick in ticks(most_y / 1.05) {
                path.grid d={ "M" (LEFT) " " (format!("{:.1}", y(tick))) "H" (WIDTH - 16.0) } {}
                text x=(LEFT - 8.0) y=(format!("{:.1}", y(tick) + 4.0)) text-anchor="end" { (round(tick)) }
            }
            @for tick in ticks(most_x) {
                text x=(format!("{:.1}", x(tick))) y=(HEIGHT - BOTTOM + 20.0) text-anchor="middle" { (round(tick)) }
            }
            @for (index, line) in figure.lines.iter().enumerate() {
                path.line d=(path(&line.points)) stroke={ "var(--s" (index % 8) ")" } {}
                @for &(a, b) in line.points.iter().filter(|_| line.points.len() <= 40) {
                    circle cx=(format!("{:.1}", x(a))) cy=(format!("{:.1}", y(b))) r="2.6" fill={ "var(--s" (index % 8) ")" } {}
                }
            }
        }
        ul.lines {
            @for (index, line) in figure.lines.iter().enumerate() {
                li { svg.dot viewBox="0 0 10 10" aria-hidden="true" { circle cx="5" cy="5" r="4" fill={ "var(--s" (index % 8) ")" } {} } (line.name) }
            }
        }
        details {
            summary { "The values" }
            table {
                thead { tr { th { "Line" } th { (figure.x) } th { (figure.y) } } }
                tbody { @for line in &figure.lines { @for &(a, b) in &line.points {
                    tr { td { (line.name) } td { (value(a)) } td { (value(b)) } }
                } } }
            }
        }
    }
}
