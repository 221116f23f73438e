//! The list of applications, made into one.

/// The nodes and the messages of a whole system in which all run the application of this name.
macro_rules! parts {
    ($name:ident of $whole:ident) => {{
        let nodes = $whole.nodes.iter().map(|node| match *node {
            Some(App::$name(app)) => Some(app),
            _ => None,
        });
        let messages = $whole.messages.iter().filter_map(|it| match *it {
            (from, to, Msg::$name(msg)) => Some((from, to, msg)),
            _ => None,
        });
        (nodes.collect(), messages.collect())
    }};
}

/// Makes [`App`] and what belongs to it out of a list: the name of a variant, the type of the
/// application, and what serde calls the variant. What is called so is named after what it
/// carries (see [`conclave_protocol::label`]).
macro_rules! applications {
    ($($name:ident: $type:ty, $called:literal;)+) => {
        /// The state of a node: that of the application which was chosen.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum App {
            $(#[doc = concat!("That of [`", stringify!($name), "`].")] $name($type),)+
        }

        /// What never changes.
        #[derive(Clone, Debug)]
        pub enum Config {
            $(
                #[doc = concat!("Of [`", stringify!($name), "`].")]
                $name(<$type as Protocol>::Config),
            )+
        }

        /// What nodes send each other.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Msg {
            $(
                #[doc = concat!("By [`", stringify!($name), "`].")]
                #[serde(rename = $called)]
                $name(<$type as Protocol>::Msg),
            )+
        }

        /// The timers of a node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Timer {
            $(
                #[doc = concat!("Of [`", stringify!($name), "`].")]
                #[serde(rename = $called)]
                $name(<$type as Protocol>::Timer),
            )+
        }

        /// What a node tells.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Notice {
            $(
                #[doc = concat!("By [`", stringify!($name), "`].")]
                #[serde(rename = $called)]
                $name(<$type as Protocol>::Notice),
            )+
            /// At boot: what the node owns, where that adds up.
            Owns(u64),
        }

        const NAMES: &[&str] = &[$(<$type as Application>::NAME),+];

        impl Config {
            /// The constants of the application of this name, if there is one.
            fn named(name: &str, setup: &Setup) -> Option<Result<Self, Unfit>> {
                $(
                    if name == <$type as Application>::NAME {
                        return Some(<$type>::constants(setup).map(Self::$name));
                    }
                )+
                None
            }

            /// Whether what nodes and channels hold adds up.
            pub fn adds_up(&self) -> bool {
                match self {
                    $(Self::$name(_) => <$type as Application>::ADDS_UP,)+
                }
            }
        }

        impl App {
            /// What the node owns, as far as that adds up.
            pub fn worth(&self) -> u64 {
                match self {
                    $(Self::$name(app) => app.worth(),)+
                }
            }

            /// What a message is worth.
            pub fn worth_of(msg: &Msg) -> u64 {
                match msg {
                    $(Msg::$name(msg) => <$type>::worth_of(msg),)+
                }
            }
        }

        impl fmt::Display for App {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(app) => app.show(f),)+
                }
            }
        }

        impl fmt::Display for Msg {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(msg) => <$type>::show_msg(msg, f),)+
                }
            }
        }

        impl Observable for Notice {
            fn observation(&self) -> Observation {
                match self {
                    $(Self::$name(notice) => notice.observation(),)+
                    &Self::Owns(value) => {
                        Observation::Note(Note { kind: OWNS, value, ..Note::default() })
                    }
                }
            }
        }

        impl Protocol for App {
            type Config = Config;
            type Request = Never;
            type Notice = Notice;
            type Msg = Msg;
            type Timer = Timer;
            type Stable = Never;

            fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
                let config = ctx.config;
                let app = match config {
                    $(Config::$name(config) => {
                        let lift = |effect: Effect<$type>, ctx: &mut Ctx<Self>| {
                            let (msg, notice, timer) = (Msg::$name, Notice::$name, Timer::$name);
                            ctx.emit(effect.map(msg, notice, timer, |never| never));
                        };
                        Self::$name(ctx.stand_for(config, lift, |ctx| <$type>::start(None, ctx)))
                    })+
                };
                if config.adds_up() {
                    ctx.notify(Notice::Owns(app.worth()));
                }
                app
            }

            fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
                match request {}
            }

            fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
                self.on_input(Input::Message { from, msg }, ctx);
            }

            fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
                self.on_input(Input::Timer(timer), ctx);
            }

            fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
                self.on_input(Input::Suspect(peer), ctx);
            }

            fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
                self.on_input(Input::Restore(peer), ctx);
            }

            fn on_input(&mut self, input: InputOf<Self>, ctx: &mut Ctx<Self>) {
                match (self, ctx.config) {
                    $((Self::$name(app), Config::$name(config)) => {
                        let input = match input {
                            Input::Message { from, msg: Msg::$name(msg) } => {
                                Input::Message { from, msg }
                            }
                            Input::Timer(Timer::$name(timer)) => Input::Timer(timer),
                            Input::Suspect(peer) => Input::Suspect(peer),
                            Input::Restore(peer) => Input::Restore(peer),
                            Input::Request(never) => match never {},
                            // Of another application, or nothing that concerns any.
                            _ => return,
                        };
                        let lift = |effect: Effect<$type>, ctx: &mut Ctx<Self>| {
                            let (msg, notice, timer) = (Msg::$name, Notice::$name, Timer::$name);
                            ctx.emit(effect.map(msg, notice, timer, |never| never));
                        };
                        ctx.stand_for(config, lift, |ctx| app.on_input(input, ctx));
                    })+
                    _ => unreachable!("state and constants are of one application"),
                }
            }

            fn waits_for(&self, me: NodeId, config: &Config) -> NodeSet {
                match (self, config) {
                    $((Self::$name(app), Config::$name(config)) => app.waits_for(me, config),)+
                    _ => NodeSet::new(),
                }
            }

            fn charge(msg: &Msg, from: NodeId, to: NodeId) -> Charge {
                match msg {
                    $(Msg::$name(msg) => <$type>::charge(msg, from, to),)+
                }
            }

            const FACTS: bool = true;

            fn facts(whole: &Whole<'_, Self>) -> u64 {
                match whole.config {
                    $(Config::$name(config) if <$type>::FACTS => {
                        let (nodes, messages) = parts!($name of whole);
                        <$type>::facts(&Whole { config, nodes, messages })
                    })+
                    // Nothing that adds up can get lost.
                    _ => 1,
                }
            }
        }

        impl Config {
            /// What can become so for good, as bits.
            pub fn lasting(&self) -> u64 {
                match self {
                    $(Self::$name(config) => <$type as Application>::lasting(config),)+
                }
            }
        }

        impl App {
            /// Whether the node goes on by itself.
            pub fn is_active(&self) -> bool {
                match self {
                    $(Self::$name(app) => app.is_active(),)+
                }
            }

            /// What has become so for good, as bits.
            pub fn stable(whole: &Whole<'_, Self>) -> u64 {
                match whole.config {
                    $(Config::$name(config) => {
                        let (nodes, messages) = parts!($name of whole);
                        <$type>::stable(&Whole { config, nodes, messages })
                    })+
                }
            }
        }
    };
}
