//! Ricart–Agrawala for a group that nodes join and leave. Each node has a view of who belongs to
//! the group, and asks those. A change of the view is itself a critical section: whoever makes it
//! first obtains the section like anybody else, then tells everybody, and gives the section up when
//! all have confirmed.
//!
//! So nobody is inside while views differ. A node that waits at that moment waits for the one that
//! makes the change, at least; before it gets that reply it has heard of the newcomer, asked it, and
//! made it an obstacle too. The newcomer's clock starts beyond every request already granted.
//!
//! # Rules
//!
//! 1. Acquire: as a member, tick the clock, take its time as the request's timestamp, send `Request`
//!    to the other members. Else wait until a member.
//! 2. `Request` from j: merge its time into the clock. In the section, or waiting with an older
//!    request: defer j. Otherwise send `Reply` to j; also after having left the group.
//! 3. `Reply`: enter when nobody's is missing.
//! 4. Release: make the change that is due, if any, by rule 5 or 8; then send `Reply` to all
//!    deferred nodes.
//! 5. To join: send `Join` to a member, the sponsor. `Join`: obtain the section; add the newcomer to
//!    the view; send `View` to the other members and to it. Several who have asked meanwhile are let
//!    in together. Who is no member any more passes the `Join` on to one.
//! 6. `View`: if newer than ours, install it and merge its time into the clock; while waiting, ask
//!    the newcomer as well. Send `ViewAck`.
//! 7. `ViewAck` from all who were told: give the section up as in rule 4.
//! 8. To leave: obtain the section, take oneself out of the view, and go on as in rules 5 and 7. The
//!    last member stays until another has joined.
//!
//! # Cost
//!
//! An entry takes 2(M − 1) messages in a group of M members. A change of the group takes one entry,
//! and a `View` and a `ViewAck` for everybody that is told.
//!
//! # Known failures
//!
//! A crash stops everybody, as in Ricart–Agrawala. A newcomer that only its sponsor knows of
//! (`mutex/ricart-agrawala-membership-no-cs`) is not asked by the others: they enter beside it.

use std::collections::BTreeMap;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Entry, Info, Lamport, Model, Mutant, Never, NodeId, NodeSet, Opt, Property,
    Protocol, Setup, Stamp, Unfit,
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

/// What a node wants the section for; sent along so that the cost of a change is nobody's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    /// For its application.
    Entry,
    /// To change the view.
    Change,
}

/// Who belongs to the group at first.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Nodes 0 up to this one.
    members: u32,
    /// Rule 5 tells only the newcomer, and does not obtain the section.
    no_cs: bool,
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

/// The sound algorithm.
pub static PLAIN: Entry<RicartAgrawalaMembership> = Entry {
    info: Info {
        id: "mutex/ricart-agrawala-membership",
        title: "Ricart–Agrawala with membership",
        summary: "nodes join and leave; a change of the group is a critical section",
        source: "Ricart, Agrawala. An optimal algorithm for mutual exclusion in computer \
                 networks. CACM 24(1), 1981, section on new nodes",
        text: include_str!("ricart_agrawala_membership.rs"),
        model: Model::RELIABLE,
        holds: &[
            Property::Exclusion,
            Property::NoDeadlock,
            Property::NoStarvation,
            Property::FenceOrder,
        ],
        fails: &[(
            Property::FcfsHappenedBefore,
            "p2, no member yet, asks and tells p0, which is one, asks too and enters while p2 joins",
        )],
        options: &[Opt {
            name: "members",
            default: "all",
            help: "how many nodes are members at first; the others have to join",
        }],
        mutant: None,
        claims: &[
            Check::new(3, LOCK).requests(2),
            Check::new(3, LOCK).set(&[("members", "2")]).joins(1),
            // Who is no member waits until it is one, which it may never ask to be.
            Check::new(3, SAFE).set(&[("members", "2")]).clients(0, 3).joins(1),
            Check::new(3, SAFE).leaves(1),
            Check::new(3, &[Property::FcfsHappenedBefore])
                .set(&[("members", "2")])
                .clients(0, 3)
                .joins(1)
                .fails(14),
        ],
        deep: &[Check::new(3, SAFE).set(&[("members", "2")]).clients(0, 3).joins(1).leaves(1)],
        ..Info::EMPTY
    },
    config: |setup| Ok(Config { members: members(setup)?, no_cs: false }),
    clients: |config, _| 0..config.members,
};

/// Rule 5 tells only the newcomer, and does not obtain the section.
pub static NO_CS: Entry<RicartAgrawalaMembership> = Entry {
    info: Info {
        id: "mutex/ricart-agrawala-membership-no-cs",
        title: "Ricart–Agrawala with membership, told to nobody",
        summary: "a newcomer is added only at its sponsor",
        holds: &[],
        mutant: Some(Mutant {
            of: "mutex/ricart-agrawala-membership",
            defect: "rule 5 adds the newcomer to the sponsor's view only",
            breaks: Property::Exclusion,
        }),
        claims: &[
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
        ],
        deep: &[],
        cases: &[],
        ..PLAIN.info
    },
    config: |setup| Ok(Config { members: members(setup)?, no_cs: true }),
    ..PLAIN
};

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
            Request::Acquire => {
                self.wanted = true;
                self.ask_if_free(ctx);
            }
            Request::Release => self.change_view(ctx),
        }
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        if self.view.contains(ctx.me) {
            self.leaving = false;
        } else {
            ctx.send(sponsor, Msg::Join(ctx.me));
        }
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        if self.view.contains(ctx.me) {
            self.leaving = true;
            self.ask_if_free(ctx);
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Request(theirs, purpose) => {
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
            Msg::Reply(_) => {
                if let Phase::Waiting { missing, .. } = &mut self.phase {
                    missing.remove(from);
                    self.enter_if_all_replied(ctx);
                }
            }
            Msg::Join(newcomer) => {
                self.newcomers.insert(newcomer);
                self.ask_if_free(ctx);
            }
            Msg::View { number, view, clock } => {
                self.clock.observe(clock);
                if number > self.number {
                    self.install(number, view, ctx);
                }
                ctx.send(from, Msg::ViewAck(number));
                self.ask_if_free(ctx);
            }
            Msg::ViewAck(acknowledged) => {
                if let Phase::Changing { number, told } = &mut self.phase
                    && *number == acknowledged
                {
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
        if ctx.config.no_cs {
            self.admit_unannounced(ctx);
        }
        let purpose = if self.wanted {
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
            told.extend(newcomers.iter());
            self.view.extend(newcomers.iter());
        } else if self.may_leave() {
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

    /// Once a member, we know one who knows more; never one, we keep them until we are.
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
