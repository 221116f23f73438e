//! The catalogue as data: what `list` and `explain` say.

use std::collections::BTreeSet;

use crate::catalogue::{self, Topic};
use conclave_protocol::{Channels, Crashes, Detector, Info, Links, Model, Property, Timing};
use serde::Serialize;

use crate::theory::{Row, rows_of};
use crate::{Refusal, find, nearest};

/// An entry of the catalogue, in brief.
#[derive(Clone, Debug, Serialize)]
pub struct Brief {
    /// As typed on the command line.
    pub id: &'static str,
    /// The part of the id before the slash.
    pub family: &'static str,
    /// As printed.
    pub title: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// What it assumes, as sentences.
    pub model: Vec<&'static str>,
    /// The same in a few words, what is usual left out; for tables.
    #[serde(skip)]
    pub in_short: String,
    /// What it promises.
    pub holds: &'static [Property],
    /// Of a mutant: the sound algorithm.
    pub mutant_of: Option<&'static str>,
    /// Of a mutant: what it breaks.
    pub breaks: Option<Property>,
}

/// Something that is explained but not run, in brief.
#[derive(Clone, Debug, Serialize)]
pub struct BriefTopic {
    /// As typed on the command line.
    pub id: &'static str,
    /// The part of the id before the slash.
    pub family: &'static str,
    /// As printed.
    pub title: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// Always true: this is what tells it from an entry that runs.
    pub topic: bool,
}

/// A line of the list.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Listed {
    /// An algorithm.
    Algorithm(Brief),
    /// What is explained but not run.
    Topic(BriefTopic),
}

/// Everything that is said of an algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// What the list says, too.
    #[serde(flatten)]
    pub brief: Brief,
    /// Where it is from.
    pub source: &'static str,
    /// Idea and rules, in Markdown.
    pub explanation: String,
    /// What it promises in every run that keeps its model.
    pub promises: Vec<Promise>,
    /// What it does not promise.
    pub fails: Vec<Failing>,
    /// What can be set.
    pub options: Vec<Setting>,
    /// Of a mutant: what was spoilt.
    pub defect: Option<&'static str>,
    /// What it costs, case by case; of a mutant, what the sound algorithm costs.
    pub theory: Vec<&'static Row>,
}

/// A property that is promised.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Promise {
    /// The property.
    pub property: Property,
    /// What it says.
    pub meaning: &'static str,
}

/// A property that is not promised.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Failing {
    /// The property.
    pub property: Property,
    /// How it comes to fail.
    pub why: &'static str,
}

/// An option of an algorithm.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its value where nothing else is said.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// Everything that is said of what is not run.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedTopic {
    /// What the list says, too.
    #[serde(flatten)]
    pub brief: BriefTopic,
    /// The text, in Markdown.
    pub explanation: &'static str,
}

/// What is said of an id.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Explanation {
    /// Of an algorithm.
    Algorithm(Box<Explained>),
    /// Of what is explained but not run.
    Topic(ExplainedTopic),
}

/// The part of an id before the slash.
pub fn family(id: &'static str) -> &'static str {
    id.split('/').next().unwrap_or(id)
}

/// The part of an id after the slash.
pub fn name(id: &'static str) -> &'static str {
    id.split_once('/').map_or(id, |(_, name)| name)
}

/// The catalogue, or some families of it, with or without the spoilt algorithms.
pub fn list(only: &[String], mutants: bool) -> Result<Vec<Listed>, Refusal> {
    only.iter().try_for_each(|name| known_family(name))?;
    let wanted = |family: &str| only.is_empty() || only.iter().any(|only| only == family);
    let algorithms = catalogue::infos().filter(|info| wanted(info.family()));
    let algorithms = algorithms.filter(|info| mutants || info.mutant.is_none());
    let topics = catalogue::TOPICS.iter().filter(|topic| wanted(family(topic.id)));
    let algorithms = algorithms.map(|info| Listed::Algorithm(Brief::of(info)));
    Ok(algorithms.chain(topics.map(|topic| Listed::Topic(BriefTopic::of(topic)))).collect())
}

/// How many spoilt algorithms these families have, or the whole catalogue.
pub fn mutants(only: &[String]) -> usize {
    let wanted = |info: &&Info| only.is_empty() || only.iter().any(|only| only == info.family());
    catalogue::infos().filter(wanted).filter(|info| info.mutant.is_some()).count()
}

/// What is known of an id, be it that of an algorithm or of a notion.
pub fn explain(id: &str) -> Result<Explanation, Refusal> {
    if let Some(topic) = catalogue::topic(id) {
        let brief = BriefTopic::of(topic);
        return Ok(Explanation::Topic(ExplainedTopic { brief, explanation: topic.text }));
    }
    match find(id) {
        Ok(info) => Ok(Explanation::Algorithm(Box::new(Explained::of(info)))),
        Err(Refusal::UnknownId { id, .. }) => {
            let algorithms = catalogue::infos().map(|info| info.id);
            let ids = algorithms.chain(catalogue::TOPICS.iter().map(|topic| topic.id));
            let nearest = nearest(&id, ids);
            Err(Refusal::UnknownId { id, nearest })
        }
        Err(refusal) => Err(refusal),
    }
}

fn known_family(name: &str) -> Result<(), Refusal> {
    let algorithms = catalogue::infos().map(|info| info.family());
    let topics = catalogue::TOPICS.iter().map(|topic| family(topic.id));
    let families: BTreeSet<&str> = algorithms.chain(topics).collect();
    if families.contains(name) {
        return Ok(());
    }
    let all = families.iter().copied().collect::<Vec<_>>().join(", ");
    let meant = match nearest(name, families.into_iter()).first() {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    Err(Refusal::Usage(format!("no family is called {name:?}; there are {all}{meant}")))
}

impl Brief {
    /// An algorithm in brief.
    pub fn of(info: &Info) -> Self {
        Self {
            id: info.id,
            family: info.family(),
            title: info.title,
            summary: info.summary,
            model: in_words(&info.model),
            in_short: in_short(&info.model),
            holds: info.holds,
            mutant_of: info.mutant.map(|mutant| mutant.of),
            breaks: info.mutant.map(|mutant| mutant.breaks),
        }
    }
}

impl BriefTopic {
    /// A notion in brief.
    pub fn of(topic: &Topic) -> Self {
        Self {
            id: topic.id,
            family: family(topic.id),
            title: topic.title,
            summary: topic.summary,
            topic: true,
        }
    }
}

impl Explained {
    /// Everything about an algorithm.
    pub fn of(info: &Info) -> Self {
        let promise = |&property: &Property| Promise { property, meaning: property.meaning() };
        let failing = |&(property, why): &(Property, &'static str)| Failing { property, why };
        Self {
            brief: Brief::of(info),
            source: info.source,
            explanation: info.explanation(),
            promises: info.holds.iter().map(promise).collect(),
            fails: info.fails.iter().map(failing).collect(),
            options: (info.options.iter())
                .map(|it| Setting { name: it.name, default: it.default, help: it.help })
                .collect(),
            defect: info.mutant.map(|mutant| mutant.defect),
            theory: rows_of(info.mutant.map_or(info.id, |mutant| mutant.of)).collect(),
        }
    }
}

/// The model in a few words, what is usual left out.
pub fn in_short(model: &Model) -> String {
    let mut words = vec![match model.channels {
        Channels::Lossy => "lossy",
        Channels::Reliable => "reliable",
        Channels::Fifo => "fifo",
    }];
    words.extend(match model.links {
        Links::Complete => None,
        Links::Ring => Some("ring"),
        Links::Tree => Some("tree"),
        Links::Graph => Some("graph"),
        Links::Directed => Some("directed"),
        Links::Space => Some("space"),
        Links::Keys => Some("keys"),
    });
    words.extend(match model.timing {
        Timing::Asynchronous => None,
        Timing::Synchronous => Some("synchronous"),
    });
    words.extend(match model.crashes {
        Crashes::None => None,
        Crashes::Stop => Some("crashes"),
        Crashes::Recover => Some("recovery"),
        Crashes::Amnesia => Some("amnesia"),
    });
    words.extend(model.partitions.then_some("partitions"));
    words.extend(match model.detector {
        Detector::None => None,
        Detector::Perfect => Some("perfect detector"),
        Detector::Eventual => Some("eventual detector"),
    });
    words.join(", ")
}

/// The model as sentences.
pub fn in_words(model: &Model) -> Vec<&'static str> {
    let mut words = vec![match model.channels {
        Channels::Lossy => "Messages may be lost, repeated and reordered.",
        Channels::Reliable => "Every message arrives once; messages may overtake each other.",
        Channels::Fifo => "Every message arrives once, in the order sent on its link (FIFO).",
    }];
    words.push(match model.timing {
        Timing::Asynchronous => "Messages may take any time; safety depends on no timer.",
        Timing::Synchronous => "Messages take at most T, a known time, and timers rely on it.",
    });
    words.push(match model.crashes {
        Crashes::None => "Nodes do not crash.",
        Crashes::Stop => "A node may stop for good.",
        Crashes::Recover => "A node may stop and boot again with what it saved.",
        Crashes::Amnesia => "A node may stop and boot again having forgotten everything.",
    });
    words.push(if model.partitions {
        "Safety survives a partition of the network."
    } else {
        "The network does not fall apart."
    });
    words.extend(match model.detector {
        Detector::None => None,
        Detector::Perfect => {
            Some("A failure detector suspects a node after it has crashed, surely, and never else.")
        }
        Detector::Eventual => Some(
            "A failure detector suspects every crashed node in the end, and is wrong only for a while.",
        ),
    });
    words.push(match model.links {
        Links::Complete => "Every node has a link with every other.",
        Links::Ring => "Nodes send along a ring, each to the next.",
        Links::Tree => "Nodes send along the edges of a tree.",
        Links::Graph => "Nodes send along the edges of a connected graph.",
        Links::Directed => {
            "Nodes send along links that may lead one way only; every node reaches every other."
        }
        Links::Space => "Nodes have places, and send along the edges of a connected graph.",
        Links::Keys => "Nodes own keys of a ring, and find their way to the owner of any key.",
    });
    words
}
