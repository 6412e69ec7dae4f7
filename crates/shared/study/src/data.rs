//! The files of `studies/`.

use include_dir::{Dir, include_dir};
use indexmap::IndexMap;
use kpps_documents::study::Stated;
use serde::Deserialize;
use std::path::Path;

static BUILT_IN: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../../studies");

/// How a claim is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Constants of the model may be fitted on it.
    Fit,
    /// Arithmetic: holds to rounding.
    Exact,
    /// A shape, an ordering, a cause and its effect.
    Order,
    /// A fact about the configuration.
    Setup,
    /// A feature that the document asks for, and this project has.
    Wish,
    /// The document has a result that was kept from this project when it was first predicted.
    KeptBack,
}

impl Kind {
    /// The word for it in files and documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Exact => "exact",
            Self::Order => "order",
            Self::Setup => "setup",
            Self::Wish => "wish",
            Self::KeptBack => "kept-back",
        }
    }
}

/// The seeds. Each is measured.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seeds {
    These(Vec<i64>),
    Range { from: i64, to: i64 },
}

impl Seeds {
    fn all(self) -> Vec<i64> {
        match self {
            Self::These(seeds) => seeds,
            Self::Range { from, to } => (from..=to).collect(),
        }
    }
}

/// The most values that a list of a study's file may have, or a range, or combinations of lists.
pub(crate) const MOST_VALUES: usize = 10_000;

/// A metric with its configuration. With `seeds = { from = 1, to = 100 }`, or `seeds = [7, 58]`, it is taken
/// once for each, and its values become lists.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Measurement {
    /// The name of the metric.
    pub metric: String,
    /// Its configuration.
    #[serde(flatten)]
    pub of: toml::Table,
}

impl Measurement {
    /// Replaces its seeds, if it has any.
    pub(crate) fn reseed(&mut self, from: i64, to: i64) {
        if let Some(seeds) = self.of.get_mut("seeds") {
            *seeds = toml::Table::from_iter([("from".into(), from.into()), ("to".into(), to.into())]).into();
        }
    }

    /// Whether it is taken for each of some seeds, so that its values are lists.
    pub(crate) fn has_seeds(&self) -> bool {
        self.of.contains_key("seeds")
    }

    /// The measurements that it consists of: one for each of its `seeds`, with that `seed`, or itself.
    pub(crate) fn parts(&self) -> Vec<Self> {
        let Some(seeds) = self.of.get("seeds").and_then(|seeds| seeds.clone().try_into::<Seeds>().ok())
        else {
            return vec![self.clone()];
        };
        let part = |seed: i64| {
            let mut part = self.clone();
            part.of.remove("seeds");
            part.of.insert("seed".into(), seed.into());
            part
        };
        seeds.all().into_iter().map(part).collect()
    }

    /// Refuses more seeds than anybody waits for.
    fn check_seeds(&self) -> Result<(), String> {
        let Some(seeds) = self.of.get("seeds") else { return Ok(()) };
        let count = match seeds.clone().try_into::<Seeds>() {
            Ok(Seeds::These(seeds)) => seeds.len().try_into().unwrap_or(i128::MAX),
            Ok(Seeds::Range { from, to }) => i128::from(to) - i128::from(from) + 1,
            Err(_) => return Err("seeds are a list, or { from = 1, to = 100 }".into()),
        };
        match usize::try_from(count) {
            Ok(1..=MOST_VALUES) => Ok(()),
            _ => Err(format!("seeds has {count} values: give 1 to {MOST_VALUES}")),
        }
    }

    /// Looks for the profiles that it names as files in this folder, unless their paths are absolute.
    fn look_in(&mut self, folder: &Path) {
        let mut change = |name: &mut String| *name = folder.join(&*name).to_string_lossy().into_owned();
        self.of.iter_mut().for_each(|(_, value)| for_files(value, &mut change));
    }

    /// Whether it names profiles as files.
    pub(crate) fn names_files(&self) -> bool {
        let mut of = self.of.clone();
        let mut names_one = false;
        of.iter_mut().for_each(|(_, value)| for_files(value, &mut |_| names_one = true));
        names_one
    }

    /// The same text for the same measurement.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.metric, toml::Value::Table(self.of.clone()))
    }
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its kind.
    pub kind: Kind,
    /// The claim in this project's words.
    pub says: String,
    /// The expectation, in words and figures.
    #[serde(default)]
    pub expected: String,
    /// The measurements for it, each with a name.
    #[serde(default)]
    pub measure: IndexMap<String, Measurement>,
    /// Names of the study's measurements that it shares with other claims.
    #[serde(default)]
    uses: Vec<String>,
    /// Conditions on the measured values. All must hold.
    #[serde(default)]
    pub holds: Vec<String>,
    /// Figures to publish: names and expressions.
    #[serde(default)]
    pub values: IndexMap<String, String>,
    /// Of `values` the ones that the document states.
    #[serde(default)]
    pub document: IndexMap<String, f64>,
    /// Of `document` the figures that constants are fitted on, if they are not all of a claim of kind *fit*.
    #[serde(default)]
    pub fits: Vec<String>,
    /// How exactly the document's figures are known, as a share of them: what an error counts in a fit.
    #[serde(default = "tenth")]
    pub tolerance: f64,
    /// Of `values` the ones that were predicted blind, as commit f8f085d had them: before anybody here knew
    /// the document's. They are a record and never change.
    #[serde(default)]
    pub blind: IndexMap<String, f64>,
    /// The results that were predicted, in a few words, each with a condition on `document` and `values`.
    /// The same conditions judge the blind values and those of today.
    #[serde(default)]
    pub results: IndexMap<String, String>,
    /// A comment on the outcome, above all the mechanism behind a miss.
    #[serde(default)]
    pub why: String,
}

fn tenth() -> f64 {
    0.1
}

/// A line of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// The measurement for it.
    pub measure: Measurement,
    /// The list of the measurement that goes along the figure's x axis.
    pub x: String,
    /// The list that goes up.
    pub y: String,
}

/// A figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its title.
    pub title: String,
    /// The label of the x axis, with its unit.
    pub x: String,
    /// The label of the y axis, with its unit.
    pub y: String,
    /// The factor of x values for that unit.
    #[serde(default = "one")]
    pub x_scale: f64,
    /// The factor of y values for that unit.
    #[serde(default = "one")]
    pub y_scale: f64,
    /// The lines.
    pub lines: Vec<Line>,
    /// The document's statements about them, in the figure's units.
    #[serde(default)]
    pub stated: Vec<Stated>,
}

fn one() -> f64 {
    1.0
}

/// A map: one value of each cell of a grid that a measurement covers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// Its title.
    pub title: String,
    /// The meaning of a cell's value, and of 1.
    pub cell: String,
    /// The measurement: its `vary` are the rows, its `offered` the columns.
    pub measure: Measurement,
    /// The list of the measurement that the map shows.
    pub value: String,
}

/// A study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Its name: that of its file.
    #[serde(skip)]
    pub name: String,
    /// Title, author, year.
    pub title: String,
    /// The question.
    #[serde(default)]
    pub question: String,
    /// The system that it is about.
    #[serde(default)]
    pub setting: String,
    /// The document's figures.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Maps of grids.
    #[serde(default)]
    pub maps: Vec<Map>,
    /// Measurements that several claims share.
    #[serde(default)]
    measure: IndexMap<String, Measurement>,
    /// The claims by their ids.
    pub claims: IndexMap<String, Claim>,
    /// It belongs to no document, and runs only when it is named.
    #[serde(default)]
    on_request: bool,
}

/// Calls `change` for each name of a file in a value: a text that ends in `.toml`.
fn for_files(value: &mut toml::Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        toml::Value::String(name) if name.ends_with(".toml") => change(name),
        toml::Value::Array(list) => list.iter_mut().for_each(|value| for_files(value, change)),
        toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| for_files(value, change)),
        _ => {}
    }
}

/// The names that expressions have for figures of the claim itself.
const OF_THE_CLAIM: [&str; 2] = ["values", "document"];

impl Study {
    /// The study of this name with this text.
    ///
    /// # Errors
    /// The mistake in the text.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let bad = |problem: String| Error::Bad { name: name.into(), problem };
        let mut study: Self = toml::from_str(text).map_err(|error| bad(one_line(text, &error)))?;
        study.name = name.into();
        for (id, claim) in &mut study.claims {
            for shared in &claim.uses {
                let measurement = study.measure.get(shared);
                let measurement =
                    measurement.ok_or_else(|| bad(format!("{id} uses '{shared}', which is not measured")))?;
                claim.measure.insert(shared.clone(), measurement.clone());
            }
            if let Some(name) = OF_THE_CLAIM.iter().find(|name| claim.measure.contains_key(**name)) {
                return Err(bad(format!(
                    "{id}: a measurement cannot be called '{name}': the claim's own figures are"
                )));
            }
        }
        study.measurements_mut().try_for_each(|measurement| measurement.check_seeds()).map_err(bad)?;
        Ok(study)
    }

    /// The measurements of its claims, figures and maps.
    fn measurements_mut(&mut self) -> impl Iterator<Item = &mut Measurement> {
        let figures =
            self.figures.iter_mut().flat_map(|figure| &mut figure.lines).map(|line| &mut line.measure);
        let maps = self.maps.iter_mut().map(|map| &mut map.measure);
        let claims = self.claims.values_mut().flat_map(|claim| claim.measure.values_mut());
        figures.chain(maps).chain(claims)
    }
}

/// Why a study, or a part of it, cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none of this name.
    #[error("there is no study called '{0}': known are {known}; give a file with its folder, as ./mine.toml", known = names().join(", "))]
    Unknown(String),
    /// A file cannot be read.
    #[error("cannot read the study {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// Two studies have one name, which their results have, too.
    #[error("two studies are called '{0}': give one of the files another name")]
    Twice(String),
    /// There is no claim of this id.
    #[error("there is no claim '{0}' in {1}")]
    NoClaim(String, String),
    /// A file is not as it should be.
    #[error("study '{name}': {problem}")]
    Bad {
        /// The study.
        name: String,
        /// The mistake.
        problem: String,
    },
}

/// The names of the studies.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> =
        BUILT_IN.files().filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

/// The names of the studies of documents: all but the studies that run only by name.
///
/// # Errors
/// If a file is malformed.
pub fn documents() -> Result<Vec<String>, Error> {
    let all = names().into_iter().map(|name| named(&name)).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().filter(|study| !study.on_request).map(|study| study.name).collect())
}

/// The study called `name`, or the one in the file `name`, which ends in `.toml`.
///
/// # Errors
/// If there is none, or the file is malformed.
pub fn named(name: &str) -> Result<Study, Error> {
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        let file = BUILT_IN.get_file(format!("{name}.toml")).and_then(|file| file.contents_utf8());
        return Study::parse(name, file.ok_or_else(|| Error::Unknown(name.into()))?);
    }
    let text = std::fs::read_to_string(path).map_err(|error| Error::Unreadable(name.into(), error))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut study = Study::parse(&stem, &text)?;
    // Profiles of one's own are found beside the study.
    let folder = path.parent().unwrap_or(Path::new(""));
    study.measurements_mut().for_each(|measurement| measurement.look_in(folder));
    Ok(study)
}

/// A mistake in a file with its line, in one line.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}
