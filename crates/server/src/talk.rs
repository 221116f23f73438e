//! A client's stream: its questions come in the order in which it asked them, and go on their way at
//! once; answers go back as they come.

use std::pin::pin;
use std::sync::Arc;

use conclave_api::{codes, v1};
use conclave_machine::{Command, Name, RequestId, SessionId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Status, Streaming};
use v1::Ask;
use v1::ask::What as Asked;
use v1::tell::What as Told;

use crate::access::Caller;
use crate::hub::{Asker, Outbound, Renewal, Target};
use crate::service::{Presence, Service, command_to_open, may_ask, nothing, unknown};
use crate::translate::{self, failed};

/// One client's stream.
pub(crate) struct Talk {
    pub(crate) service: Arc<Service>,
    pub(crate) caller: Caller,
    pub(crate) to: Outbound,
    pub(crate) presence: Presence,
}

impl Talk {
    /// Takes questions until the client goes away, or has to.
    pub(crate) async fn listen(self, mut asked: Streaming<Ask>) {
        let open = Arc::new(Semaphore::new(self.service.bounds.in_flight));
        let end = self.to.end.clone();
        let mut cut = pin!(end.cut.cancelled());
        loop {
            let ask = tokio::select! {
                biased;
                () = &mut cut => break,
                ask = asked.message() => ask,
            };
            // A stream that breaks off is as good as one that ends: the sessions are left as they are.
            let Ok(Some(ask)) = ask else { break };
            // Who has too many open questions is not listened to until some are answered.
            let place = open.clone().acquire_owned().await.expect("it is never closed");
            self.take(ask, place);
        }
        drop(self.presence);
        // The client is told that this is the end, as far as it still listens.
        drop(self.to.queue.try_send(Err(Status::unavailable("the connection was ended"))));
    }

    fn take(&self, ask: Ask, place: OwnedSemaphorePermit) {
        let (session, id) = (ask.session, ask.id);
        if let Err(failed) = self.try_take(ask, place) {
            self.to.tell(session, id, Told::Failed(failed));
        }
    }

    fn try_take(&self, ask: Ask, place: OwnedSemaphorePermit) -> Result<(), v1::Failed> {
        let Ask { session, id, received, key, what } = ask;
        let what = what.ok_or_else(nothing)?;
        if id == 0 {
            return Err(failed(codes::BAD_REQUEST, "a question needs a number"));
        }
        may_ask(&self.caller, &what)?;
        let node = &self.service.node;
        let tell_waiting = matches!(&what, Asked::Acquire(acquire) if acquire.tell_waiting);
        let asker = Asker { to: self.to.clone(), session, id, tell_waiting, _place: place };
        let session = SessionId(session);
        match what {
            Asked::Echo(echo) => self.to.tell(session.0, id, Told::Echo(echo)),
            Asked::Open(open) => {
                self.check_sessions()?;
                node.submit(command_to_open(&open), Target::Stream(asker));
            }
            Asked::Attach(_) => {
                self.check_sessions()?;
                self.service.check_key(session, key)?;
                node.with_both(|hub, machine| match machine.key(session) {
                    Some(_) => {
                        hub.attach(session, &self.to);
                        self.to.tell(session.0, id, Told::Done(v1::Done {}));
                        hub.remind(session, machine, node.now().max(machine.now()));
                        Ok(())
                    }
                    None => Err(unknown(session)),
                })?;
            }
            Asked::Observe(observe) => self.observe(&observe.election, id)?,
            Asked::Unobserve(observe) => {
                let connection = self.to.connection;
                node.with_both(|hub, _| hub.unobserve(&observe.election, connection));
                self.to.tell(session.0, id, Told::Done(v1::Done {}));
            }
            Asked::KeepAlive(keep) => {
                let named = keep.sessions.into_iter().map(SessionId);
                let mut sessions: Vec<SessionId> = named.collect();
                if sessions.is_empty() {
                    sessions.push(session);
                }
                let (sessions, strange) = node.with_both(|hub, _| {
                    sessions.into_iter().partition(|&session| hub.is_attached(session, &self.to))
                });
                node.keep_alive(Renewal { sessions, strange, target: Target::Stream(asker) });
            }
            what => {
                if !node.with_both(|hub, _| hub.is_attached(session, &self.to)) {
                    return Err(unknown(session));
                }
                let command = if matches!(what, Asked::Close(_)) {
                    Command::Close { session }
                } else {
                    let (request, received) = (RequestId(id), RequestId(received));
                    Command::Request { session, request, received, call: translate::call(what)? }
                };
                node.submit(command, Target::Stream(asker));
            }
        }
        Ok(())
    }

    fn check_sessions(&self) -> Result<(), v1::Failed> {
        let most = self.service.bounds.sessions;
        if self.service.node.with_both(|hub, _| hub.attached(&self.to)) < most {
            return Ok(());
        }
        let message = format!("there may be at most {most} sessions of one connection");
        Err(failed(codes::TOO_MANY, message))
    }

    /// Tells who leads, and from then on of every change.
    fn observe(&self, election: &str, id: u64) -> Result<(), v1::Failed> {
        let most = self.service.bounds.observed;
        let election = Name::from(election);
        self.service.node.with_both(|hub, machine| {
            if hub.observe(&election, &self.to) > most {
                hub.unobserve(&election, self.to.connection);
                let message = format!("one connection may observe at most {most} elections");
                return Err(failed(codes::TOO_MANY, message));
            }
            let eye = translate::Eye { machine, now: machine.now() };
            self.to.tell(0, id, Told::Leader(eye.leader(&election)));
            Ok(())
        })
    }
}
