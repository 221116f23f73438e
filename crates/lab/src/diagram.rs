//! Space-time diagrams as text: time runs downward, one column per node.
//!
//! A diagram is lines of pieces, each with a tone; what a tone looks like is for others to say.

pub(crate) mod steps;

use std::fmt::Write;
use std::time::Duration;

use conclave_protocol::{Family, NodeId, Observation, Time};
use conclave_sim::{Event, Record, Trace};
use serde::Serialize;

use crate::report::{Remark, in_units};
use steps::{Step, steps};

/// Columns for the time.
const GUTTER: usize = 9;
/// A node needs at least so many columns, and gets at most so many.
const NARROWEST: usize = 11;
const WIDEST: usize = 24;
/// More nodes than this are listed rather than drawn.
const DRAWN: u32 = 10;

/// What to draw, and on what.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many characters fit on a line.
    pub width: usize,
    /// Whether to keep to ASCII.
    pub ascii: bool,
    /// `T`, in which times are given.
    pub unit: Duration,
    /// How many steps to show.
    pub events: usize,
}

/// A diagram: one line after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagram {
    /// The lines, each of pieces that stand side by side.
    pub lines: Vec<Vec<Piece>>,
}

/// A bit of text and how it is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// How it is meant.
    pub tone: Tone,
    /// The text.
    pub text: String,
}

/// How a text is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tone {
    /// As any other.
    #[default]
    Plain,
    /// It is what happens.
    Strong,
    /// It is there if it is looked for.
    Dim,
    /// It is what the algorithm is there for.
    Good,
    /// It lasts, and should not last for ever.
    Warn,
    /// It is what went wrong.
    Bad,
    /// It names a message.
    Name,
}

impl Piece {
    fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { tone, text: text.into() }
    }
}

/// The diagram of a run, or a list of its events if there are too many nodes for one.
pub fn draw(trace: &Trace, remarks: &[Remark], options: &Options) -> Diagram {
    let steps = steps(trace);
    if steps.is_empty() {
        return Diagram { lines: vec![vec![Piece::new(Tone::Plain, "nothing happened")]] };
    }
    let (shown, before, after) = selection(&steps, remarks, options.events);
    let n = trace.nodes as usize;
    let room = (options.width.saturating_sub(GUTTER)) / n.max(1);
    let drawn = trace.nodes <= DRAWN && room >= NARROWEST;
    let mut canvas = Canvas {
        trace,
        options,
        glyphs: if options.ascii { &ASCII } else { &UTF8 },
        pitch: room.min(WIDEST),
        lives: vec![Life::default(); n],
        drawn,
        now: None,
        frontier: Frontier::of(trace),
        out: Diagram::default(),
    };
    for step in &steps[..shown.start] {
        canvas.live(step);
    }
    canvas.header();
    if before > 0 {
        canvas.aside(&format!("… {before} earlier events"));
    }
    for step in &steps[shown.clone()] {
        if drawn {
            canvas.step(step);
        } else {
            canvas.live(step);
            canvas.line(step);
        }
        for remark in remarks.iter().filter(|remark| step.records.contains(&remark.record)) {
            canvas.remark(&remark.text);
        }
    }
    if drawn && shown.len() > 30 {
        canvas.header();
    }
    if after > 0 {
        let quiet = steps[shown.end..].iter().all(|step| !step.is_notable());
        let what = if quiet { "in which messages go round and nothing else happens" } else { "" };
        let hint = "--diagram-events all shows them";
        let text = format!("… {after} more events {what}").trim_end().to_owned();
        canvas.aside(&format!("{text} ({hint})"));
    }
    let shown = steps[shown].last().map_or(0, |step| step.records.end);
    for remark in remarks.iter().filter(|remark| remark.record >= shown) {
        canvas.remark(&remark.text);
    }
    if drawn {
        canvas.legend();
    }
    canvas.out
}

/// Which steps to show, and how many are left out before and after.
fn selection(
    steps: &[Step],
    remarks: &[Remark],
    limit: usize,
) -> (std::ops::Range<usize>, usize, usize) {
    // A long tail in which nothing but messages happens tells nothing new.
    const TAIL: usize = 12;
    let all = steps.len();
    let mut end = all;
    if limit != usize::MAX {
        let notable = steps.iter().rposition(Step::is_notable).map_or(0, |i| i + 1);
        let last = steps.last().map_or(0, |step| step.records.end - 1);
        // What is said of the last event is said of the end: it has nothing to show.
        let seen = remarks.iter().filter(|remark| remark.record != last);
        let remarked = seen.filter_map(|remark| {
            steps.iter().position(|step| step.records.contains(&remark.record))
        });
        let remarked: Vec<usize> = remarked.collect();
        if all - notable > TAIL && remarked.iter().all(|&i| i < notable + TAIL / 2) {
            end = notable + TAIL / 2;
        }
        if end > limit {
            // What broke has to be seen.
            let first = remarked.iter().min().copied().unwrap_or(0);
            let start = (first + 1).saturating_sub(limit);
            end = (start + limit).min(end);
            return (start..end, start, all - end);
        }
    }
    (0..end, 0, all - end)
}

/// What is known of a node at a moment of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Life {
    phase: Phase,
    down: bool,
    paused: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Outside,
    Waiting,
    Inside,
}

/// The characters to draw with.
struct Glyphs {
    outside: char,
    waiting: char,
    inside: char,
    down: char,
    paused: char,
    wire: char,
    crossing: char,
    crossing_inside: char,
    right: char,
    left: char,
    lost: char,
    /// Of a control message.
    dashed: char,
    /// Along a cut, down, where it crosses a node's life, and where a message crosses it.
    cut: char,
    cut_down: char,
    cut_node: char,
    cut_crossing: char,
    dots: &'static str,
}

static UTF8: Glyphs = Glyphs {
    outside: '│',
    waiting: '┊',
    inside: '║',
    down: 'x',
    paused: 'z',
    wire: '─',
    crossing: '┼',
    crossing_inside: '╫',
    right: '▶',
    left: '◀',
    lost: '✗',
    dashed: '╌',
    cut: '━',
    cut_down: '┃',
    cut_node: '┿',
    cut_crossing: '╂',
    dots: "⋮",
};

static ASCII: Glyphs = Glyphs {
    outside: '|',
    waiting: ':',
    inside: '#',
    down: 'x',
    paused: 'z',
    wire: '-',
    crossing: '+',
    crossing_inside: '#',
    right: '>',
    left: '<',
    lost: 'X',
    dashed: '.',
    cut: '=',
    cut_down: ';',
    cut_node: '=',
    cut_crossing: ';',
    dots: ":",
};

struct Canvas<'a> {
    trace: &'a Trace,
    options: &'a Options,
    glyphs: &'static Glyphs,
    /// Columns per node.
    pitch: usize,
    lives: Vec<Life>,
    /// Whether there are columns at all.
    drawn: bool,
    /// The moment whose label has been written.
    now: Option<Time>,
    /// The cut that is drawn, if a snapshot is recorded.
    frontier: Option<Frontier>,
    out: Diagram,
}

/// How an arrow is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Plain,
    Control,
    Lost,
}

/// The cut of a snapshot, as far as it is recorded.
struct Frontier {
    family: &'static Family,
    number: u16,
    recorded: Vec<bool>,
}

impl Frontier {
    /// That of the snapshot which is recorded first.
    fn of(trace: &Trace) -> Option<Self> {
        let family = Family::of_id(&trace.algorithm);
        let number = trace.records.iter().find_map(|record| match record.event() {
            Event::Notice(mark) => family.recorded(&mark),
            _ => None,
        })?;
        Some(Self { family, number, recorded: vec![false; trace.nodes as usize] })
    }

    /// Whether a node records by this step, having not done so before.
    fn is_crossed_by(&self, step: &Step) -> bool {
        let now = |mark| self.family.recorded(mark) == Some(self.number);
        !self.recorded[step.node.index()] && step.notices.iter().any(now)
    }
}

/// A line under construction.
struct Row(Vec<(char, Tone)>);

impl Row {
    fn put(&mut self, x: usize, text: &str, tone: Tone) {
        for (i, c) in text.chars().enumerate() {
            if x + i >= self.0.len() {
                self.0.resize(x + i + 1, (' ', Tone::Plain));
            }
            self.0[x + i] = (c, tone);
        }
    }

    fn finish(mut self, width: usize, ascii: bool) -> Vec<Piece> {
        let used = self.0.iter().rposition(|(c, _)| *c != ' ').map_or(0, |i| i + 1);
        self.0.truncate(used);
        if used > width {
            self.0.truncate(width);
            self.0[width - 1].0 = if ascii { '~' } else { '…' };
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for (c, tone) in self.0 {
            match pieces.last_mut() {
                Some(piece) if piece.tone == tone => piece.text.push(c),
                _ => pieces.push(Piece::new(tone, c)),
            }
        }
        pieces
    }
}

impl Canvas<'_> {
    fn x(&self, node: NodeId) -> usize {
        GUTTER + node.index() * self.pitch
    }

    /// A line with nothing but the nodes' lives on it, and the time if it is new.
    fn row(&mut self, at: Time) -> Row {
        let mut row = Row(vec![(' ', Tone::Plain); GUTTER + self.lives.len() * self.pitch]);
        for (i, life) in self.lives.iter().enumerate() {
            let (glyph, tone) = self.glyph(*life);
            row.put(GUTTER + i * self.pitch, glyph.encode_utf8(&mut [0; 4]), tone);
        }
        for (x, apart) in self.between() {
            if apart {
                row.put(x, self.glyphs.cut_down.encode_utf8(&mut [0; 4]), Tone::Good);
            }
        }
        if self.now != Some(at) {
            row.put(
                0,
                &format!("{:>6}", in_units(at - Time::ZERO, self.options.unit)),
                Tone::Strong,
            );
            self.now = Some(at);
        }
        row
    }

    fn glyph(&self, life: Life) -> (char, Tone) {
        let glyphs = self.glyphs;
        match life {
            Life { down: true, .. } => (glyphs.down, Tone::Bad),
            Life { paused: true, .. } => (glyphs.paused, Tone::Warn),
            Life { phase: Phase::Inside, .. } => (glyphs.inside, Tone::Good),
            Life { phase: Phase::Waiting, .. } => (glyphs.waiting, Tone::Warn),
            Life { phase: Phase::Outside, .. } => (glyphs.outside, Tone::Dim),
        }
    }

    fn finish(&mut self, row: Row) {
        self.out.lines.push(row.finish(self.options.width, self.options.ascii));
    }

    fn header(&mut self) {
        let mut row = Row(Vec::new());
        let unit = format!("{:>6}", "T");
        row.put(0, &unit, Tone::Dim);
        if self.drawn {
            for node in (0..self.trace.nodes).map(NodeId) {
                row.put(self.x(node), &node.to_string(), Tone::Strong);
            }
        }
        self.finish(row);
    }

    fn legend(&mut self) {
        let g = self.glyphs;
        let events = || self.trace.records.iter().map(Record::event);
        let elects =
            events().any(|event| matches!(event, Event::Notice(Observation::Follows { .. })));
        let asks = |event| {
            matches!(event, Event::Request(Observation::Asked) | Event::Notice(Observation::Asked))
        };
        let asks = events().any(asks);
        let mut legend = match (asks, elects) {
            (true, _) => {
                format!("{} outside   {} waiting   {} inside", g.outside, g.waiting, g.inside)
            }
            (_, true) => format!("{} up   {} calling   {} leads", g.outside, g.waiting, g.inside),
            _ => format!("{} up", g.outside),
        };
        let seen = |sought: Event| events().any(|event| event == sought);
        if seen(Event::Crash) {
            let _ = write!(legend, "   {} down", g.down);
        }
        if seen(Event::Pause) {
            let _ = write!(legend, "   {} paused", g.paused);
        }
        if events().any(|event| matches!(event, Event::Lose { .. })) {
            let _ = write!(legend, "   {} message lost", g.lost);
        }
        if events().any(|event| matches!(event, Event::Send { control: true, .. })) {
            let _ = write!(legend, "   {0}{0} control message", g.dashed);
        }
        if let Some(Frontier { number, .. }) = self.frontier {
            let _ = write!(legend, "   {0}{0} cut of snapshot #{number}", g.cut);
        }
        self.aside(&legend);
    }

    fn aside(&mut self, text: &str) {
        let text = if self.options.ascii { text.replace('…', "...") } else { text.into() };
        let before = Piece::new(Tone::Plain, " ".repeat(GUTTER));
        self.out.lines.push(vec![before, Piece::new(Tone::Dim, text)]);
    }

    fn remark(&mut self, text: &str) {
        let (sign, space) = (Piece::new(Tone::Bad, "     !!"), Piece::new(Tone::Plain, " "));
        self.out.lines.push(vec![sign, space, Piece::new(Tone::Bad, text)]);
    }

    /// Draws a step, and moves the lives of nodes on.
    fn step(&mut self, step: &Step) {
        self.pass_time(step.at);
        let (ascii, node) = (self.options.ascii, step.node);
        match step.cause {
            Some(Event::Partition(_)) => return self.across(step.at, "the network falls apart"),
            Some(Event::Heal) => return self.across(step.at, "the network is whole again"),
            // Recorded where it was sent.
            Some(Event::Lose { to, label, .. }) => {
                let row = self.row(step.at);
                let row = self.arrow(row, node, to, self.trace.name(label), Wire::Lost);
                return self.finish(row);
            }
            _ => {}
        }
        let mut words = step.words(self.trace, ascii);
        let mut pending = None;
        if let Some(Event::Deliver { from, label, .. }) = step.cause {
            // What follows from it stands beside the arrow's head if there is room.
            let beside = from < node && self.fits(node, &words) && !self.crosses(step);
            if beside {
                self.live(step);
            }
            let row = self.row(step.at);
            let mut name = self.trace.name(label).to_owned();
            if step.again {
                name.push_str(" again");
            }
            let wire = if step.control { Wire::Control } else { Wire::Plain };
            let row = self.arrow(row, from, node, &name, wire);
            if beside {
                pending = Some(row);
            } else {
                self.finish(row);
            }
        }
        let mut crosses = self.crosses(step);
        self.live(step);
        if pending.is_none() && !words.is_empty() {
            pending = Some(self.row(step.at));
        }
        while let Some(mut row) = pending.take() {
            let some = if self.fits(node, &words) { words.len() } else { 1 };
            if std::mem::take(&mut crosses) {
                self.draw_cut(&mut row, node);
            }
            let mut x = self.x(node) + 2;
            for Piece { tone, text } in words.drain(..some.min(words.len())) {
                row.put(x, &text, tone);
                x += text.chars().count() + 1;
            }
            self.finish(row);
            if !words.is_empty() {
                pending = Some(self.row(step.at));
            }
        }
        for sent in step.sends.iter().filter(|sent| sent.lost) {
            let row = self.row(step.at);
            let row = self.arrow(row, node, sent.to, self.trace.name(sent.label), Wire::Lost);
            self.finish(row);
        }
    }

    /// Whether a node records by this step for the cut that is drawn.
    fn crosses(&self, step: &Step) -> bool {
        self.frontier.as_ref().is_some_and(|it| it.is_crossed_by(step))
    }

    /// The cut where it crosses a node's life, up to half the way to the nodes beside it.
    fn draw_cut(&self, row: &mut Row, node: NodeId) {
        let (x, half) = (self.x(node), self.pitch / 2);
        let left = if node.0 == 0 { x } else { x - (self.pitch - half) };
        let right = if node.0 + 1 == self.trace.nodes { x } else { x + half };
        for x in left..=right {
            row.put(x, self.glyphs.cut.encode_utf8(&mut [0; 4]), Tone::Good);
        }
        row.put(x, self.glyphs.cut_node.encode_utf8(&mut [0; 4]), Tone::Good);
    }

    /// The columns half the way from each node to the next, and whether the cut that is drawn runs
    /// down there.
    fn between(&self) -> impl Iterator<Item = (usize, bool)> {
        let recorded = self.frontier.as_ref().map_or(&[][..], |it| &it.recorded);
        let first = GUTTER + self.pitch / 2;
        let pairs = recorded.windows(2).enumerate();
        pairs.map(move |(i, pair)| (first + i * self.pitch, pair[0] != pair[1]))
    }

    /// Whether all of `words` fits between a node and the next.
    fn fits(&self, node: NodeId, words: &[Piece]) -> bool {
        let length: usize = words.iter().map(|words| words.text.chars().count() + 1).sum();
        let room = if node.0 + 1 == self.trace.nodes {
            self.options.width.saturating_sub(self.x(node))
        } else {
            self.pitch
        };
        length + 2 <= room
    }

    /// An empty stretch for a long time in which nothing happens.
    fn pass_time(&mut self, at: Time) {
        if let Some(now) = self.now
            && at - now > self.options.unit * 4
        {
            self.now = Some(at);
            let mut row = self.row(at);
            row.put(5, self.glyphs.dots, Tone::Dim);
            self.finish(row);
            self.now = Some(now);
        }
    }

    fn across(&mut self, at: Time, text: &str) {
        let mut row = self.row(at);
        let width = GUTTER + (self.lives.len() - 1) * self.pitch + 1;
        let wave = "~".repeat(width.saturating_sub(GUTTER).max(text.len() + 6));
        row.put(GUTTER, &wave, Tone::Warn);
        row.put(GUTTER + (wave.len() - text.len() - 2) / 2, &format!(" {text} "), Tone::Warn);
        self.finish(row);
    }

    fn arrow(&self, mut row: Row, from: NodeId, to: NodeId, label: &str, wire: Wire) -> Row {
        let lost = wire == Wire::Lost;
        let plain = if wire == Wire::Control { self.glyphs.dashed } else { self.glyphs.wire };
        let (a, b) = (self.x(from), self.x(to));
        let (low, high) = (a.min(b), a.max(b));
        let tone = if lost { Tone::Bad } else { Tone::Plain };
        for x in low + 1..high {
            let between = (x - GUTTER).is_multiple_of(self.pitch);
            let glyph = match between.then(|| self.lives[(x - GUTTER) / self.pitch]) {
                Some(Life { phase: Phase::Inside, down: false, .. }) => self.glyphs.crossing_inside,
                Some(_) => self.glyphs.crossing,
                None if self.between().any(|at| at == (x, true)) => self.glyphs.cut_crossing,
                None => plain,
            };
            row.put(x, glyph.encode_utf8(&mut [0; 4]), tone);
        }
        // The name stands in the stretch next to the sender, if it fits there.
        let length = label.chars().count();
        let room = if length + 4 <= self.pitch { self.pitch } else { high - low };
        let start = (room.saturating_sub(length + 1)).div_ceil(2);
        let at = if a < b { a + start } else { a.saturating_sub(start + length) + 1 };
        row.put(at.max(low + 1), label, if lost { Tone::Bad } else { Tone::Name });
        let head = if lost {
            self.glyphs.lost
        } else if a < b {
            self.glyphs.right
        } else {
            self.glyphs.left
        };
        let x = if a < b { b - 1 } else { b + 1 };
        row.put(x, head.encode_utf8(&mut [0; 4]), tone);
        row
    }

    /// Moves the lives of nodes on.
    fn live(&mut self, step: &Step) {
        if let Some(frontier) = &mut self.frontier {
            frontier.recorded[step.node.index()] |= frontier.is_crossed_by(step);
        }
        let life = &mut self.lives[step.node.index()];
        match step.cause {
            Some(Event::Request(Observation::Asked | Observation::Called)) => {
                life.phase = Phase::Waiting;
            }
            Some(Event::Request(Observation::Left)) => life.phase = Phase::Outside,
            Some(Event::Crash) => *life = Life { down: true, ..Life::default() },
            Some(Event::Recover | Event::RecoverEmpty) => *life = Life::default(),
            Some(Event::Pause) => life.paused = true,
            Some(Event::Resume) => life.paused = false,
            _ => {}
        }
        for notice in &step.notices {
            life.phase = match notice {
                Observation::Asked => Phase::Waiting,
                Observation::Entered { .. } => Phase::Inside,
                Observation::Left | Observation::Lost => Phase::Outside,
                Observation::Follows { leader, .. } if *leader == step.node => Phase::Inside,
                Observation::Follows { .. } | Observation::Unled => Phase::Outside,
                _ => life.phase,
            };
        }
    }

    /// A step as a line of text.
    fn line(&mut self, step: &Step) {
        let ascii = self.options.ascii;
        let mut row = Row(Vec::new());
        if self.now != Some(step.at) {
            let time = in_units(step.at - Time::ZERO, self.options.unit);
            row.put(0, &format!("{time:>6}"), Tone::Strong);
            self.now = Some(step.at);
        }
        let mut words = step.words(self.trace, ascii);
        let whole = |text: &str| vec![Piece { tone: Tone::Bad, text: text.to_owned() }];
        match step.cause {
            Some(Event::Deliver { from, label, .. }) => {
                let text = format!("{} from {from}", self.trace.name(label));
                words.insert(0, Piece { tone: Tone::Name, text });
            }
            Some(Event::Lose { to, label, .. }) => {
                words = whole(&format!("{} to {to} is lost", self.trace.name(label)));
            }
            Some(Event::Partition(_)) => words = whole("the network falls apart"),
            Some(Event::Heal) => words = whole("the network is whole again"),
            _ => {}
        }
        for sent in step.sends.iter().filter(|sent| sent.lost) {
            words.extend(whole(&format!("{} to {} is lost", self.trace.name(sent.label), sent.to)));
        }
        let (glyph, tone) = self.glyph(self.lives[step.node.index()]);
        row.put(GUTTER, glyph.encode_utf8(&mut [0; 4]), tone);
        row.put(GUTTER + 2, &format!("{:<5}", step.node.to_string()), Tone::Strong);
        let mut x = GUTTER + 8;
        for Piece { tone, text } in words {
            row.put(x, &text, tone);
            x += text.chars().count() + 2;
        }
        self.finish(row);
    }
}
