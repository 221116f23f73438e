//! Ricart–Agrawala for a group that nodes join and leave. Each node has a view of the members of
//! the group, and asks those. A change of the view is itself a critical section: the node that makes
//! it first obtains the section like any member, then tells all others, and gives the section up
//! when all have confirmed.
//!
//! So no node is inside while views differ. A node that waits at that moment waits for the one that
//! makes the change, at least; before it gets that reply it has heard of the newcomer, has asked it,
//! and waits for its reply, too. The newcomer's clock starts beyond every request already granted.
//!
//! # Rules
//!
//! 1. Acquire: as a member, tick the clock, take its time as the request's timestamp, send `Request`
//!    to the other members. Else wait until a member.
//! 2. `Request` from j: merge its time into the clock. In the section, or waiting with an older
//!    request: defer j. Otherwise send `Reply` to j; also after having left the group.
//! 3. `Reply`: enter when none is missing.
//! 4. Release: make the change that is due, if any, by rule 5 or 8; then send `Reply` to all
//!    deferred nodes.
//! 5. To join: send `Join` to a member, the sponsor. `Join`: obtain the section; add the newcomer to
//!    the view; send `View` to the other members and to it. Several that have asked meanwhile are
//!    let in together. A node that is no member any more passes the `Join` on to one.
//! 6. `View`: if newer than ours, install it and merge its time into the clock; while waiting, ask
//!    the newcomer as well. Send `ViewAck`.
//! 7. `ViewAck` from a node that was told: when none is missing, give the section up as in rule 4.
//! 8. To leave: obtain the section, take oneself out of the view, and go on as in rules 5 and 7. The
//!    last member stays until another has joined.
//!
//! # Cost
//!
//! An entry takes 2(M − 1) messages in a group of M members. A change of the group takes one entry,
//! and a `View` and a `ViewAck` for each node that is told.
//!
//! # Known failures
//!
//! A crash stops all nodes, as in Ricart–Agrawala. A newcomer that only its sponsor knows of
//! (`mutex/ricart-agrawala-membership-no-cs`) is not asked by the others: they enter beside it.

use std::collections::BTreeMap;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, NodeSet, Opt, Property, Protocol, Setup,
    Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{LOCK, Notice, Request, SAFE};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RicartAgrawalaMembership {
    clock: Lamport,
    /// The members; we are one of them, or have been, or there are none.
    view: NodeSet,
    /// How many changes have led to it.
    number: u64,
    phase: Phase,
    /// Nodes that get their reply when we leave the section, and what they wanted it for.
    deferred: BTreeMap<NodeId, Purpose>,
    /// The application has asked, and is not inside yet.
    wanted: bool,
    /// Nodes that have asked us to let them in.
    newcomers: NodeSet,
    /// The operator wants us out.
    leaving: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    Waiting {
        asked: Stamp,
        missing: NodeSet,
        purpose: Purpose,
    },
    Inside,
    /// In the section to change the view; these have not confirmed it.
    Changing {
        number: u64,
        told: NodeSet,
    },
}

/// What a node wants the section for; sent along so that the cost of a change is no entry's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    /// For its application.
    Entry,
    /// To change the view.
    Change,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I? I asked at this time.
    Request(Stamp, Purpose),
    /// You may, as far as I am concerned.
    Reply(Purpose),
    /// This node wants to join.
    Join(NodeId),
    /// These are the members now.
    View {
        /// How many changes have led to this view.
        number: u64,
        /// The members.
        view: NodeSet,
        /// The sender's clock.
        clock: Stamp,
    },
    /// I have installed the view of this number, or know of a later one.
    ViewAck(u64),
}

/// The members of the group at first, and what is wrong with the rules in a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Nodes 0 up to this one.
    members: u32,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 5 tells only the newcomer, and does not obtain the section.
    NoSection,
}

impl Config {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl Protocol for RicartAgrawalaMembership {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let members = (0..ctx.config.members).map(NodeId);
        let member = ctx.me.0 < ctx.config.members;
        Self {
            clock: Lamport::default(),
            view: if member { members.collect() } else { NodeSet::new() },
            number: 0,
            phase: Phase::Outside,
            deferred: BTreeMap::new(),
            wanted: false,
            newcomers: NodeSet::new(),
            leaving: false,
        }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                self.wanted = true;
                self.ask_if_free(ctx);
            }
            // Rule 4.
            Request::Release => {
                ctx.rule(4);
                self.change_view(ctx);
            }
        }
    }

    /// Rule 5.
    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        if self.view.contains(ctx.me) {
            self.leaving = false;
        } else {
            ctx.rule(5);
            ctx.send(sponsor, Msg::Join(ctx.me));
        }
    }

    /// Rule 8.
    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        if self.view.contains(ctx.me) {
            ctx.rule(8);
            self.leaving = true;
            self.ask_if_free(ctx);
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Request(theirs, purpose) => {
                ctx.rule(2);
                self.clock.observe(theirs);
                let defer = match self.phase {
                    Phase::Outside => false,
                    Phase::Waiting { asked, .. } => asked < theirs,
                    Phase::Inside | Phase::Changing { .. } => true,
                };
                if defer {
                    self.deferred.insert(from, purpose);
                } else {
                    ctx.send(from, Msg::Reply(purpose));
                }
            }
            // Rule 3.
            Msg::Reply(_) => {
                if let Phase::Waiting { missing, .. } = &mut self.phase {
                    ctx.rule(3);
                    missing.remove(from);
                    self.enter_if_all_replied(ctx);
                }
            }
            // Rule 5.
            Msg::Join(newcomer) => {
                ctx.rule(5);
                self.newcomers.insert(newcomer);
                self.ask_if_free(ctx);
            }
            // Rule 6.
            Msg::View { number, view, clock } => {
                ctx.rule(6);
                self.clock.observe(clock);
                if number > self.number {
                    self.install(number, view, ctx);
                }
                ctx.send(from, Msg::ViewAck(number));
                self.ask_if_free(ctx);
            }
            // Rule 7.
            Msg::ViewAck(acknowledged) => {
                if let Phase::Changing { number, told } = &mut self.phase
                    && *number == acknowledged
                {
                    ctx.rule(7);
                    told.remove(from);
                    if told.is_empty() {
                        self.give_up_section(ctx);
                    }
                }
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request(_, Purpose::Entry) => Charge::Sender,
            Msg::Reply(Purpose::Entry) => Charge::Receiver,
            _ => Charge::Nobody,
        }
    }
}

impl RicartAgrawalaMembership {
    /// Asks for the section, if there is something to do in it and we are not at it already.
    fn ask_if_free(&mut self, ctx: &mut Ctx<Self>) {
        if self.phase != Phase::Outside {
            return;
        }
        if !self.view.contains(ctx.me) {
            self.pass_on_newcomers(ctx);
            return;
        }
        if ctx.config.is(Mutation::NoSection) {
            self.admit_unannounced(ctx);
        }
        let purpose = if self.wanted {
            ctx.rule(1);
            Purpose::Entry
        } else if !self.newcomers.is_empty() || self.may_leave() {
            Purpose::Change
        } else {
            return;
        };
        let asked = self.clock.tick(ctx.me);
        let mut missing = self.view.clone();
        missing.remove(ctx.me);
        ctx.multicast(missing.iter(), Msg::Request(asked, purpose));
        self.phase = Phase::Waiting { asked, missing, purpose };
        self.enter_if_all_replied(ctx);
    }

    fn enter_if_all_replied(&mut self, ctx: &mut Ctx<Self>) {
        if let &Phase::Waiting { asked, ref missing, purpose } = &self.phase
            && missing.is_empty()
        {
            match purpose {
                Purpose::Entry => {
                    self.wanted = false;
                    self.phase = Phase::Inside;
                    ctx.notify(Notice::Acquired { token: asked.token() });
                }
                Purpose::Change => self.change_view(ctx),
            }
        }
    }

    /// In the section: lets the newcomers in, or leaves the group, before giving the section up.
    fn change_view(&mut self, ctx: &mut Ctx<Self>) {
        let mut told = self.view.clone();
        told.remove(ctx.me);
        let newcomers = self.newcomers.take();
        if !newcomers.is_subset(&self.view) {
            ctx.rule(5);
            told.extend(newcomers.iter());
            self.view.extend(newcomers.iter());
        } else if self.may_leave() {
            ctx.rule(8);
            self.leaving = false;
            self.view.remove(ctx.me);
        } else {
            return self.give_up_section(ctx);
        }
        self.number += 1;
        self.phase = Phase::Changing { number: self.number, told: told.clone() };
        self.send_view(told.iter(), ctx);
    }

    fn send_view(&self, to: impl IntoIterator<Item = NodeId>, ctx: &mut Ctx<Self>) {
        let clock = Stamp { time: self.clock.time(), node: ctx.me };
        ctx.multicast(to, Msg::View { number: self.number, view: self.view.clone(), clock });
    }

    fn install(&mut self, number: u64, view: NodeSet, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { asked, missing, purpose } = &mut self.phase {
            for newcomer in view.iter().filter(|&node| !self.view.contains(node)) {
                // One that has left and come back may owe us its reply still.
                if newcomer != ctx.me && missing.insert(newcomer) {
                    ctx.send(newcomer, Msg::Request(*asked, *purpose));
                }
            }
        }
        self.number = number;
        self.view = view;
    }

    fn give_up_section(&mut self, ctx: &mut Ctx<Self>) {
        self.phase = Phase::Outside;
        for (peer, purpose) in std::mem::take(&mut self.deferred) {
            ctx.send(peer, Msg::Reply(purpose));
        }
        self.ask_if_free(ctx);
    }

    fn may_leave(&self) -> bool {
        self.leaving && self.view.len() > 1
    }

    /// A node that has been a member knows one to pass them on to; one that has never been keeps
    /// them until it is.
    fn pass_on_newcomers(&mut self, ctx: &mut Ctx<Self>) {
        if let Some(member) = self.view.first() {
            for newcomer in self.newcomers.take().iter() {
                ctx.send(member, Msg::Join(newcomer));
            }
        }
    }

    fn admit_unannounced(&mut self, ctx: &mut Ctx<Self>) {
        for newcomer in self.newcomers.take().iter() {
            self.view.insert(newcomer);
            self.number += 1;
            self.send_view([newcomer], ctx);
        }
    }
}

/// The sound algorithm.
pub static PLAIN: Entry<RicartAgrawalaMembership> =
    Entry::new("mutex/ricart-agrawala-membership", "Ricart–Agrawala with membership", config)
        .summary("nodes join and leave; a change of the group is a critical section")
        .source(
            "Ricart, Agrawala. An optimal algorithm for mutual exclusion in computer networks. \
             CACM 24(1), 1981, section on new nodes",
        )
        .text(include_str!("ricart_agrawala_membership.rs"))
        .model(Model::RELIABLE)
        .holds(LOCK)
        .fails(&[(
            Property::FcfsHappenedBefore,
            "p2, no member yet, asks and tells p0, which is one, asks too and enters while p2 \
             joins",
        )])
        .options(&[Opt {
            name: "members",
            default: "all",
            help: "how many nodes are members at first; the others have to join",
        }])
        .claims(&[
            Check::new(3, LOCK).requests(2),
            Check::new(3, LOCK).set(&[("members", "2")]).joins(1),
            // A node that is no member waits until it is one, which it may never ask to be.
            Check::new(3, SAFE).set(&[("members", "2")]).clients(0, 3).joins(1),
            Check::new(3, SAFE).leaves(1),
            Check::new(3, &[Property::FcfsHappenedBefore])
                .set(&[("members", "2")])
                .clients(0, 3)
                .joins(1)
                .fails(14),
        ])
        .deep(&[Check::new(3, SAFE).set(&[("members", "2")]).clients(0, 3).joins(1).leaves(1)])
        .clients(|config: &Config, _| 0..config.members);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    Ok(Config { members: members(setup)?, mutation: None })
}

fn members(setup: &Setup) -> Result<u32, Unfit> {
    let n = setup.n();
    match setup.option("members", "all".to_owned())?.as_str() {
        "all" => Ok(n),
        _ => match setup.option("members", n)? {
            members if (1..=n).contains(&members) => Ok(members),
            members => Err(Unfit::new(format!("members={members}, but it can only be 1 to {n}"))),
        },
    }
}

/// Rule 5 tells only the newcomer, and does not obtain the section.
pub static NO_CS: Entry<RicartAgrawalaMembership> = PLAIN
    .variant(
        "mutex/ricart-agrawala-membership-no-cs",
        "Ricart–Agrawala with membership, told to no node",
    )
    .summary("a newcomer is added only at its sponsor")
    .mutant(
        "mutex/ricart-agrawala-membership",
        "rule 5 adds the newcomer to the sponsor's view only",
        Property::Exclusion,
    )
    .config(|setup| Ok(Config { mutation: Some(Mutation::NoSection), ..config(setup)? }))
    .claims(&[
        Check::new(3, &[Property::Exclusion])
            .set(&[("members", "2")])
            .clients(0, 3)
            .joins(1)
            .fails(11),
        Check::new(3, &[Property::FcfsHappenedBefore])
            .set(&[("members", "2")])
            .clients(0, 3)
            .joins(1)
            .fails(8),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Setup, Topology};

    use super::*;

    #[test]
    fn a_sponsor_obtains_the_section_before_it_lets_a_newcomer_in() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::complete(3)).with("members", 2));
        let clock = Stamp { time: 1, node: NodeId(0) };
        let asked = bench.at(0).message(2, Msg::Join(NodeId(2)));
        let request = Msg::Request(clock, Purpose::Change);
        assert_eq!(asked, [Effect::Send { to: NodeId(1), msg: request }]);
        let told = bench.at(0).message(1, Msg::Reply(Purpose::Change));
        let view = Msg::View { number: 1, view: (0..3).map(NodeId).collect(), clock };
        assert_eq!(told, [1, 2].map(|to| Effect::Send { to: NodeId(to), msg: view.clone() }));
        // Rule 7: a request that comes meanwhile waits for both confirmations.
        let theirs = Stamp { time: 2, node: NodeId(1) };
        assert_eq!(bench.at(0).message(1, Msg::Request(theirs, Purpose::Entry)), []);
        assert_eq!(bench.at(0).message(2, Msg::ViewAck(1)), []);
        let over = bench.at(0).message(1, Msg::ViewAck(1));
        assert_eq!(over, [Effect::Send { to: NodeId(1), msg: Msg::Reply(Purpose::Entry) }]);
    }
}
