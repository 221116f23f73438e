use std::fmt::Debug;
use std::hash::Hash;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::claims::Check;
use crate::theory::Case;
use crate::{
    Asking, Bare, Ctx, Detecting, Info, Input, InputOf, Model, Mutant, NodeId, NodeSet, Observable,
    Opt, Property, Setup, Shows, Unfit,
};

/// A distributed algorithm, seen from one node.
///
/// `Self` is the state of that node: the variables of the textbook description and nothing else.
/// Each method is one of its "upon event" rules. A rule changes the state and asks for effects
/// through [`Ctx`]; it never waits, never fails, and given the same state and the same event
/// always does the same thing.
///
/// The simulator, the model checker and the network runtime all drive this trait, unchanged.
pub trait Protocol: Value {
    /// What never changes during a run: timeouts, quorums, who starts with the token, which
    /// variant of a rule is in force.
    type Config: Clone + Debug + Send + Sync + 'static;
    /// What the application asks of its local node.
    type Request: Value + Observable;
    /// What a node tells its local application.
    type Notice: Value + Observable;
    /// What nodes send each other.
    type Msg: Value;
    /// The timers a node can have running, at most one of each; [`Never`] if it needs none.
    type Timer: Value + Copy;
    /// What must survive a crash; [`Never`] if nothing has to.
    type Stable: Value;

    /// The node boots. `saved` is what it last [`save`](Ctx::save)d, `None` on its first boot and
    /// after amnesia.
    fn start(saved: Option<Self::Stable>, ctx: &mut Ctx<Self>) -> Self;

    /// The local application asks for something.
    ///
    /// Requests have preconditions that the family states; a driver keeps them by asking through
    /// the family's [`Client`](crate::Client).
    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>);

    /// A message arrives.
    ///
    /// Messages come from other machines: a rule ignores those that make no sense to it and
    /// never panics on one.
    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>);

    /// A timer set by this node has run out.
    #[expect(unused_variables)]
    fn on_timer(&mut self, timer: Self::Timer, ctx: &mut Ctx<Self>) {}

    /// The failure detector suspects `peer` has crashed.
    #[expect(unused_variables)]
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {}

    /// The failure detector no longer suspects `peer`.
    #[expect(unused_variables)]
    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {}

    /// The operator wants this node to become a member, by way of the member `sponsor`.
    #[expect(unused_variables)]
    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {}

    /// The operator wants this node to stop being a member.
    #[expect(unused_variables)]
    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {}

    /// Whom this node waits for: the nodes of which each has to send it something before it can give
    /// its application what that has asked for. The empty set if the algorithm does not say.
    ///
    /// Traces show it, and graphs of who waits for whom. Nothing else depends on it.
    #[expect(unused_variables)]
    fn waits_for(&self, me: NodeId, config: &Self::Config) -> NodeSet {
        NodeSet::new()
    }

    /// Whose critical-section entry a message is counted for. By default, that of the event
    /// which caused it.
    #[expect(unused_variables)]
    fn charge(msg: &Self::Msg, from: NodeId, to: NodeId) -> Charge {
        Charge::Cause
    }

    /// Whether a message is one of the application's, and no control message of what is wrapped
    /// around it.
    #[expect(unused_variables)]
    fn is_app(msg: &Self::Msg) -> bool {
        true
    }

    /// The [fingerprint](crate::fingerprint()) of what a message of the application says, by which
    /// judges recognise it in what a wrapper has recorded of a channel; 0 if the protocol wraps
    /// none.
    #[expect(unused_variables)]
    fn fingerprint(msg: &Self::Msg) -> u32 {
        0
    }

    /// Whether there are [facts](Self::facts) to tell.
    const FACTS: bool = false;

    /// What is true of the whole system, a bit each. No node can see that; it is for judges.
    #[expect(unused_variables)]
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        0
    }

    /// Applies one event, and the messages the node sends itself because of it. Drivers and
    /// replays call this; algorithms do not override it.
    fn step(&mut self, input: InputOf<Self>, ctx: &mut Ctx<Self>) {
        self.on_input(input, ctx);
        self.settle(ctx);
    }

    /// Runs the rule for one event. Part of [`step`](Self::step).
    fn on_input(&mut self, input: InputOf<Self>, ctx: &mut Ctx<Self>) {
        match input {
            Input::Request(request) => self.on_request(request, ctx),
            Input::Message { from, msg } => self.on_message(from, msg, ctx),
            Input::Timer(timer) => self.on_timer(timer, ctx),
            Input::Suspect(peer) => self.on_suspect(peer, ctx),
            Input::Restore(peer) => self.on_restore(peer, ctx),
            Input::Join(sponsor) => self.on_join(sponsor, ctx),
            Input::Leave => self.on_leave(ctx),
        }
    }

    /// Boots a node and handles the messages it sends itself while booting.
    fn boot(saved: Option<Self::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let mut state = Self::start(saved, ctx);
        state.settle(ctx);
        state
    }

    /// Handles the messages this node has sent itself. Part of [`step`](Self::step).
    fn settle(&mut self, ctx: &mut Ctx<Self>) {
        while let Some(msg) = ctx.next_to_self() {
            self.on_message(ctx.me, msg, ctx);
        }
    }
}

/// A whole system, as no node can see it.
#[derive(Debug)]
pub struct Whole<'a, P: Protocol> {
    /// What never changes.
    pub config: &'a P::Config,
    /// The state of each node; `None` if it is down.
    pub nodes: Vec<Option<&'a P>>,
    /// The messages on their way, each with its sender and its receiver.
    pub messages: Vec<(NodeId, NodeId, &'a P::Msg)>,
}

/// Whose entry into the critical section a message belongs to.
///
/// Every message is counted for exactly one entry: that of the node whose request it asks for,
/// grants, denies or releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// The sender's: it asks for itself, or releases what it had.
    Sender,
    /// The receiver's: the message grants, denies or answers its request.
    Receiver,
    /// This node's, on whose behalf others pass the message on.
    Node(NodeId),
    /// The same as the event that caused it: the message being handled, or the node's own request.
    Cause,
    /// That of the next node to enter: a token on its way.
    NextEntry,
    /// No entry: maintenance.
    Nobody,
}

/// An algorithm as it stands in the catalogue: a state machine together with what makes it this
/// variant of it.
pub struct Entry<P: Protocol> {
    /// What is said about it, and what it assumes and promises.
    pub info: Info,
    /// Its constants for a system of the given make-up, or why it cannot have that make-up.
    pub config: fn(&Setup) -> Result<P::Config, Unfit>,
    /// The nodes whose applications ask by default: all but dedicated servers.
    pub clients: fn(&P::Config, u32) -> std::ops::Range<u32>,
}

impl<P: Protocol> Entry<P> {
    /// An entry of the catalogue: the id that users type, its name in print, and its constants for
    /// a system. It assumes [`Model::RELIABLE`], promises nothing and lets every node ask, until
    /// the other functions say otherwise.
    pub const fn new(
        id: &'static str,
        title: &'static str,
        config: fn(&Setup) -> Result<P::Config, Unfit>,
    ) -> Self {
        let info = Info { id, title, ..Info::EMPTY };
        Self { info, config, clients: Self::everyone }
    }

    /// Another entry of the same state machine: what is not said anew is as it is here, but for what
    /// is claimed and known of this one alone.
    #[must_use]
    pub const fn variant(&self, id: &'static str, title: &'static str) -> Self {
        let Info { summary, source, text, model, holds, fails, options, asks, shows, bare, .. } =
            self.info;
        let info = Info { id, title, summary, source, text, model, holds, ..Info::EMPTY };
        let info = Info { fails, options, asks, shows, bare, ..info };
        Self { info, config: self.config, clients: self.clients }
    }

    /// One line for a list.
    #[must_use]
    pub const fn summary(mut self, summary: &'static str) -> Self {
        self.info.summary = summary;
        self
    }

    /// Where it was published.
    #[must_use]
    pub const fn source(mut self, source: &'static str) -> Self {
        self.info.source = source;
        self
    }

    /// The text of the file that implements it: `include_str!("the_file.rs")`.
    #[must_use]
    pub const fn text(mut self, text: &'static str) -> Self {
        self.info.text = text;
        self
    }

    /// What it assumes.
    #[must_use]
    pub const fn model(mut self, model: Model) -> Self {
        self.info.model = model;
        self
    }

    /// What is true of every run that keeps the assumptions.
    #[must_use]
    pub const fn holds(mut self, properties: &'static [Property]) -> Self {
        self.info.holds = properties;
        self
    }

    /// What is not, and how it comes about.
    #[must_use]
    pub const fn fails(mut self, fails: &'static [(Property, &'static str)]) -> Self {
        self.info.fails = fails;
        self
    }

    /// What can be set beside the number of nodes and the topology.
    #[must_use]
    pub const fn options(mut self, options: &'static [Opt]) -> Self {
        self.info.options = options;
        self
    }

    /// Its constants, where they are others than those of the entry that it is a variant of.
    #[must_use]
    pub const fn config(mut self, config: fn(&Setup) -> Result<P::Config, Unfit>) -> Self {
        self.config = config;
        self
    }

    /// The nodes whose applications ask by default, if some do not.
    #[must_use]
    pub const fn clients(mut self, clients: fn(&P::Config, u32) -> std::ops::Range<u32>) -> Self {
        self.clients = clients;
        self
    }

    /// Which applications ask in a run that does not say so, where others do than in its family.
    #[must_use]
    pub const fn asking(mut self, asks: Asking) -> Self {
        self.info.asks = Some(asks);
        self
    }

    /// What its notices show of states, for people to read.
    #[must_use]
    pub const fn shows(mut self, shows: Shows) -> Self {
        self.info.shows = Some(shows);
        self
    }

    /// What it is wrapped around, for a judge who has that run by itself.
    #[must_use]
    pub const fn bare(mut self, bare: Bare) -> Self {
        self.info.bare = Some(bare);
        self
    }

    /// It exists to be refuted: the id of the sound algorithm, what is wrong here, and the property
    /// that breaks. It promises nothing but what is said after this.
    #[must_use]
    pub const fn mutant(
        mut self,
        of: &'static str,
        defect: &'static str,
        breaks: Property,
    ) -> Self {
        self.info.mutant = Some(Mutant { of, defect, breaks });
        self.info.holds = &[];
        self
    }

    /// What the model checker finds in small systems: each promise, each property that fails and
    /// what a mutant breaks.
    #[must_use]
    pub const fn claims(mut self, claims: &'static [Check]) -> Self {
        self.info.claims = claims;
        self
    }

    /// The same in larger ones, which take long.
    #[must_use]
    pub const fn deep(mut self, deep: &'static [Check]) -> Self {
        self.info.deep = deep;
        self
    }

    /// The cases that theory knows the costs of.
    #[must_use]
    pub const fn cases(mut self, cases: &'static [Case]) -> Self {
        self.info.cases = cases;
        self
    }

    /// What theory says of it as a failure detector, and what to try with it.
    #[must_use]
    pub const fn detecting(mut self, detecting: Detecting) -> Self {
        self.info.detecting = Some(detecting);
        self
    }

    /// It elects several on purpose, to serve the rest: how many there should be in such a system.
    #[must_use]
    pub const fn several(mut self, wanted: fn(&Setup) -> Option<f64>) -> Self {
        self.info.several = Some(wanted);
        self
    }

    /// Every node may ask: the default for [`clients`](Self::clients).
    pub fn everyone(_: &P::Config, n: u32) -> std::ops::Range<u32> {
        0..n
    }
}

impl<P: Protocol> Debug for Entry<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("id", &self.info.id).finish_non_exhaustive()
    }
}

/// Plain data: what a protocol keeps, sends and is asked.
///
/// The bounds are what the drivers need: the checker clones, compares and hashes; the network and
/// the stable store serialize; traces print. Derive them all and this comes free.
pub trait Value: Clone + Debug + Eq + Hash + Serialize + DeserializeOwned + Send + 'static {}

impl<T> Value for T where
    T: Clone + Debug + Eq + Hash + Serialize + DeserializeOwned + Send + 'static
{
}

/// A type without values, for a protocol that sets no timer or saves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Never {}
