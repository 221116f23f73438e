//! What wrappers around an application have in common.

pub mod counting;
pub mod inside;
pub mod outcome;
pub mod reports;

use conclave_protocol::{Ctx, InputOf, Protocol, Whole};

/// A wrapper, as far as all of them are alike. `forwards!` makes the rest of it.
pub trait Wrapper: Protocol {
    /// What it is wrapped around.
    type App: Protocol;

    /// The application's message that this one carries; none if it is a control message.
    fn carried(msg: &Self::Msg) -> Option<&<Self::App as Protocol>::Msg>;

    /// The state of the application.
    fn app(&self) -> &Self::App;

    /// The constants of the application.
    fn constants(config: &Self::Config) -> &<Self::App as Protocol>::Config;

    /// Something happens to the application: it runs its rule, and what that asks for leaves as the
    /// wrapper has it.
    fn inside(&mut self, input: InputOf<Self::App>, ctx: &mut Ctx<Self>);
}

/// What each [`Wrapper`] does as a [`Protocol`]: what it has no rule for goes to the application
/// inside, and what is asked of the application is answered by it. Control messages are charged to
/// nobody. The names in it have to be imported where it is used.
macro_rules! forwards {
    () => {
        fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
            Wrapper::inside(self, Input::Suspect(peer), ctx);
        }

        fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
            Wrapper::inside(self, Input::Restore(peer), ctx);
        }

        fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
            Wrapper::inside(self, Input::Join(sponsor), ctx);
        }

        fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
            Wrapper::inside(self, Input::Leave, ctx);
        }

        fn waits_for(&self, me: NodeId, config: &Self::Config) -> NodeSet {
            Wrapper::app(self).waits_for(me, <Self as Wrapper>::constants(config))
        }

        fn charge(msg: &Self::Msg, from: NodeId, to: NodeId) -> Charge {
            let charge = |msg| <Self as Wrapper>::App::charge(msg, from, to);
            <Self as Wrapper>::carried(msg).map_or(Charge::Nobody, charge)
        }

        fn is_app(msg: &Self::Msg) -> bool {
            <Self as Wrapper>::carried(msg).is_some_and(<Self as Wrapper>::App::is_app)
        }

        fn fingerprint(msg: &Self::Msg) -> u32 {
            <Self as Wrapper>::carried(msg).map_or(0, fingerprint)
        }

        const FACTS: bool = <<Self as Wrapper>::App as Protocol>::FACTS;

        fn facts(whole: &Whole<'_, Self>) -> u64 {
            $crate::snapshot::support::facts(whole)
        }
    };
}

/// The facts of the application inside.
pub fn facts<W: Wrapper>(whole: &Whole<'_, W>) -> u64 {
    let messages = whole.messages.iter();
    let carried = messages.filter_map(|&(from, to, msg)| Some((from, to, W::carried(msg)?)));
    W::App::facts(&Whole {
        config: W::constants(whole.config),
        nodes: whole.nodes.iter().map(|node| node.map(W::app)).collect(),
        messages: carried.collect(),
    })
}
