//! The table of routes. The router is made from it, and so is the description of the interface.

use conclave_api::v1;
use v1::ask::What as ClientMessage;

use super::body::{Fields, Refusal};

/// One thing that can be asked.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// What it is for, in a line.
    pub(crate) about: &'static str,
    pub(crate) takes: Takes,
    pub(crate) gives: Gives,
    pub(crate) does: Does,
}

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
}

/// What goes with the question. Messages are those of `conclave.v1`.
pub(crate) enum Takes {
    Nothing,
    /// The fields of a message, in the address.
    Query(&'static str),
    /// The fields of these messages, in the body.
    Body(&'static [&'static str]),
    /// The same, and the session on whose behalf it is asked.
    Session(&'static [&'static str]),
}

/// What comes back.
pub(crate) enum Gives {
    Message(&'static str),
    /// A session.
    Handle,
    /// A message whenever something changes.
    Events(&'static str),
    Text,
    /// Metrics.
    Figures,
    Json,
    /// A file that only programs read.
    File,
    /// Messages in both directions.
    Stream,
}

/// What is done.
pub(crate) enum Does {
    Open,
    /// Asks on behalf of a session.
    Ask(fn(&mut Fields) -> Result<ClientMessage, Refusal>),
    /// The field that says which request to undo has the name of the number of a request.
    Cancel,
    Observe,
    Locks,
    Sessions,
    Elections,
    Why,
    Graph,
    Status,
    ForceRelease,
    Expel,
    ExpelAll,
    Depose,
    Backup,
    /// What happens to a session.
    Events,
    Metrics,
    /// Whether the process is there.
    Live,
    /// Whether it grants anything.
    Ready,
    Describe,
    Welcome,
    /// Goes on as a client's stream.
    Upgrade,
}

const fn get(
    path: &'static str,
    about: &'static str,
    takes: Takes,
    gives: Gives,
    does: Does,
) -> Route {
    Route { method: Method::Get, path, about, takes, gives, does }
}

const fn post(
    path: &'static str,
    about: &'static str,
    takes: Takes,
    gives: Gives,
    does: Does,
) -> Route {
    Route { method: Method::Post, path, about, takes, gives, does }
}

use Does as Do;
use Gives::{Events, Figures, File, Handle, Json, Message, Stream, Text};
use Takes::{Body, Nothing, Query, Session};

/// Every route there is.
pub(crate) static ROUTES: &[Route] = &[
    post(
        "/v1/sessions",
        "Opens a session. It lives for its time-to-live, 30 seconds unless said otherwise, and longer if \
         it is kept alive. With the `nonce` of a session that lives, returns that one and renews it, and says in \
         `deposed` which of its leaderships that does not prolong.",
        Body(&["Open"]),
        Handle,
        Do::Open,
    ),
    post(
        "/v1/keepalive",
        "Lets a session live on for its whole time-to-live.",
        Session(&[]),
        Message("Alive"),
        Do::Ask(|_| Ok(ClientMessage::KeepAlive(v1::KeepAlive::default()))),
    ),
    post(
        "/v1/close",
        "Ends a session; all that it holds is free.",
        Session(&[]),
        Message("Done"),
        Do::Ask(|_| Ok(ClientMessage::Close(v1::Close {}))),
    ),
    post(
        "/v1/events",
        "What a session has, as a first event, and then what happens to it, as server-sent events: `lost` (a lock), \
         `deposed` (as a leader), `yield` (a better candidate is there), `wounded` (it should release what it holds), \
         and at last `ended`. To listen does not keep a session alive.",
        Session(&[]),
        Events("Session, Lost, Deposed, Yield, Wounded or Ended"),
        Do::Events,
    ),
    post(
        "/v1/acquire",
        "Acquires a lock, or with `wants` several at once. The answer comes when they are granted, and until then the \
         session lives on; to hang up before that ends the wait.",
        Session(&["Acquire", "Want"]),
        Message("Granted"),
        Do::Ask(|fields| fields.acquire().map(ClientMessage::Acquire)),
    ),
    post(
        "/v1/release",
        "Releases a lock, or one level of it.",
        Session(&["Release"]),
        Message("Released"),
        Do::Ask(|fields| fields.read().map(ClientMessage::Release)),
    ),
    post(
        "/v1/release-all",
        "Releases everything that was granted with a token.",
        Session(&["ReleaseAll"]),
        Message("Released"),
        Do::Ask(|fields| fields.read().map(ClientMessage::ReleaseAll)),
    ),
    post(
        "/v1/upgrade",
        "Has a shared lock exclusively.",
        Session(&["Upgrade"]),
        Message("Granted"),
        Do::Ask(|fields| fields.read().map(ClientMessage::Upgrade)),
    ),
    post(
        "/v1/downgrade",
        "Shares a lock that was held exclusively.",
        Session(&["Downgrade"]),
        Message("Granted"),
        Do::Ask(|fields| fields.read().map(ClientMessage::Downgrade)),
    ),
    post(
        "/v1/cancel",
        "Undoes a request that was made with a number, whether it waits or was granted.",
        Session(&["Cancel"]),
        Message("Done"),
        Do::Cancel,
    ),
    post(
        "/v1/campaign",
        "Stands in an election. The answer comes when the session leads; a client that hangs up before that withdraws its \
         candidacy.",
        Session(&["Campaign"]),
        Message("Elected"),
        Do::Ask(|fields| fields.read().map(ClientMessage::Campaign)),
    ),
    post(
        "/v1/proclaim",
        "Says, as a leader, what others are to see.",
        Session(&["Proclaim"]),
        Message("Done"),
        Do::Ask(|fields| fields.read().map(ClientMessage::Proclaim)),
    ),
    post(
        "/v1/resign",
        "Leads no more.",
        Session(&["Resign"]),
        Message("Done"),
        Do::Ask(|fields| fields.read().map(ClientMessage::Resign)),
    ),
    get(
        "/v1/observe",
        "Who leads an election: now, and whenever that changes, as server-sent events.",
        Query("ObserveElection"),
        Events("Leader"),
        Do::Observe,
    ),
    get(
        "/v1/locks",
        "The locks that are held or waited for, by name.",
        Query("ListLocks"),
        Message("LockList"),
        Do::Locks,
    ),
    get(
        "/v1/sessions",
        "The sessions, the oldest first.",
        Query("ListSessions"),
        Message("SessionList"),
        Do::Sessions,
    ),
    get(
        "/v1/elections",
        "The elections with a leader or candidates, by name.",
        Query("ListElections"),
        Message("ElectionList"),
        Do::Elections,
    ),
    get(
        "/v1/why",
        "Who holds a lock, who waits for it, what these wait for, and the deadlock if there is one.",
        Query("Named"),
        Message("Reasons"),
        Do::Why,
    ),
    get("/v1/graph", "Who waits for whom.", Nothing, Message("WaitGraph"), Do::Graph),
    get(
        "/v1/status",
        "What the node is and how it does.",
        Nothing,
        Message("NodeStatus"),
        Do::Status,
    ),
    post(
        "/v1/admin/release",
        "Takes a lock from its holders. The reason is recorded.",
        Body(&["TakeLock"]),
        Message("Done"),
        Do::ForceRelease,
    ),
    post(
        "/v1/admin/expel",
        "Ends a session. The reason is recorded.",
        Body(&["EndSession"]),
        Message("Done"),
        Do::Expel,
    ),
    post(
        "/v1/admin/expel-all",
        "Ends all sessions that were opened with one token, from one address or for one host. The reason is \
         recorded.",
        Body(&["EndSessions"]),
        Message("Expelled"),
        Do::ExpelAll,
    ),
    post(
        "/v1/admin/depose",
        "Ends a leadership. The reason is recorded.",
        Body(&["EndLeadership"]),
        Message("Done"),
        Do::Depose,
    ),
    get(
        "/metrics",
        "Figures for Prometheus, in the format that `Accept` asks for: OpenMetrics, or the older text.",
        Nothing,
        Figures,
        Do::Metrics,
    ),
    get(
        "/v1/admin/backup",
        "The whole state as of one moment, as a file for `conclave restore`.",
        Nothing,
        File,
        Do::Backup,
    ),
    get("/health", "Whether the process is there. Needs no token.", Nothing, Json, Do::Live),
    get(
        "/ready",
        "Whether the node grants anything; 503 and the reason if it does not. Needs no token.",
        Nothing,
        Json,
        Do::Ready,
    ),
    get("/healthz", "The same as /ready. Needs no token.", Nothing, Json, Do::Ready),
    get(
        "/v1/talk",
        "Goes on as a stream of messages, with `Connection: Upgrade` and `Upgrade: conclave.v1`: `Ask` in one \
         direction and `Tell` in the other, as in the method `Talk` of gRPC, each behind its length as a varint.",
        Nothing,
        Stream,
        Do::Upgrade,
    ),
    get("/openapi.json", "This description. Needs no token.", Nothing, Json, Do::Describe),
    get("/", "What to try. Needs no token.", Nothing, Text, Do::Welcome),
];
