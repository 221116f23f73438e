//! Views of the service, and the orders of operators.

use std::time::Duration;

use conclave_api::v1;
use tonic::{Response, Status};

use crate::connection::{Bearer, Rpc};
use crate::{Client, Error};

/// How long to wait before something that changes nothing is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Where sessions come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// They were opened with the token of this name.
    Token(String),
    /// Their clients say that they run there.
    Host(String),
    /// They were opened from this network address.
    Address(String),
}

/// How an operator ends a leadership.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deposition {
    /// For how long the deposed session may not stand again in the election; a minute unless told otherwise.
    pub barred: Option<Duration>,
    /// The next candidate leads at once. Otherwise it does when the deposed leader has confirmed that it has
    /// stopped, or when its lease has ended: until then it may not have heard, and believe that it leads.
    pub at_once: bool,
}

impl Client {
    /// The locks that are held or waited for, with this prefix, by name.
    pub async fn locks(&self, prefix: &str) -> Result<Vec<v1::Lock>, Error> {
        let mut all: Vec<v1::Lock> = Vec::new();
        loop {
            let after = all.last().map(|lock| lock.name.clone()).unwrap_or_default();
            let list = v1::ListLocks { prefix: prefix.to_owned(), after, limit: 0 };
            let page = self.see(list, async |mut rpc, list| rpc.locks(list).await).await?;
            let last = !page.more || page.locks.is_empty();
            all.extend(page.locks);
            if last {
                return Ok(all);
            }
        }
    }

    /// The sessions, the oldest first.
    pub async fn sessions(&self) -> Result<Vec<v1::Session>, Error> {
        let mut all: Vec<v1::Session> = Vec::new();
        loop {
            let after = all.last().map_or(0, |session| session.session);
            let list = v1::ListSessions { after, limit: 0 };
            let page = self.see(list, async |mut rpc, list| rpc.sessions(list).await).await?;
            let last = !page.more || page.sessions.is_empty();
            all.extend(page.sessions);
            if last {
                return Ok(all);
            }
        }
    }

    /// The elections with a candidate, with this prefix, by name.
    pub async fn elections(&self, prefix: &str) -> Result<Vec<v1::Election>, Error> {
        let mut all: Vec<v1::Election> = Vec::new();
        loop {
            let after = all.last().map(|election| election.name.clone()).unwrap_or_default();
            let list = v1::ListElections { prefix: prefix.to_owned(), after, limit: 0 };
            let page = self.see(list, async |mut rpc, list| rpc.elections(list).await).await?;
            let last = !page.more || page.elections.is_empty();
            all.extend(page.elections);
            if last {
                return Ok(all);
            }
        }
    }

    /// Who holds a lock, who waits for it, what these wait for, and the deadlock if there is one.
    pub async fn why(&self, lock: &str) -> Result<v1::Reasons, Error> {
        let named = v1::Named { name: lock.to_owned() };
        self.see(named, async |mut rpc, named| rpc.why(named).await).await
    }

    /// The wait-for graph.
    pub async fn graph(&self) -> Result<v1::WaitGraph, Error> {
        self.see(v1::ShowGraph {}, async |mut rpc, show| rpc.graph(show).await).await
    }

    /// The version of the server, its counts, and whether it grants.
    pub async fn status(&self) -> Result<v1::NodeStatus, Error> {
        self.see(v1::ShowStatus {}, async |mut rpc, show| rpc.status(show).await).await
    }

    /// Takes a lock from its holders; with a token, only from the holder with that. The reason is
    /// recorded.
    pub async fn force_release(
        &self,
        lock: &str,
        token: Option<u64>,
        reason: &str,
    ) -> Result<(), Error> {
        let take = v1::TakeLock { lock: lock.to_owned(), token, reason: reason.to_owned() };
        self.rpc().await?.force_release(take).await?;
        Ok(())
    }

    /// Ends a session. The reason is recorded.
    pub async fn expel(&self, session: u64, reason: &str) -> Result<(), Error> {
        let end = v1::EndSession { session, reason: reason.to_owned() };
        self.rpc().await?.expel(end).await?;
        Ok(())
    }

    /// Ends all sessions of one origin, and says how many those were. The reason is recorded.
    pub async fn expel_all(&self, origin: Origin, reason: &str) -> Result<u64, Error> {
        let mut end = v1::EndSessions { reason: reason.to_owned(), ..v1::EndSessions::default() };
        match origin {
            Origin::Token(name) => end.opened_by = name,
            Origin::Host(host) => end.host = host,
            Origin::Address(address) => end.address = address,
        }
        Ok(self.rpc().await?.expel_all(end).await?.into_inner().sessions)
    }

    /// Ends a leadership: the leader is told, and the next candidate leads when it has confirmed or its lease
    /// has ended. The reason is recorded.
    pub async fn depose(&self, election: &str, reason: &str) -> Result<(), Error> {
        self.depose_with(election, reason, Deposition::default()).await
    }

    /// The same, in another way.
    pub async fn depose_with(
        &self,
        election: &str,
        reason: &str,
        how: Deposition,
    ) -> Result<(), Error> {
        let Deposition { barred, at_once } = how;
        let (election, reason) = (election.to_owned(), reason.to_owned());
        let barred_ms = barred.map(crate::acquire::millis);
        let end = v1::EndLeadership { election, reason, barred_ms, at_once };
        self.rpc().await?.depose(end).await?;
        Ok(())
    }

    /// The whole state of the service as of one moment: what `conclave restore` takes.
    pub async fn backup(&self) -> Result<Vec<u8>, Error> {
        // Says why if no server can be reached, and waits for one that is about to be.
        self.rpc().await?;
        let bearer = Bearer(self.options().bearer()?).header();
        let mut error = self.unreachable();
        for endpoint in self.options().parse_endpoints()? {
            match endpoint.get("/v1/admin/backup", bearer.as_ref()).await {
                Err(why) if why.may_pass() => error = why,
                answer => return answer,
            }
        }
        Err(error)
    }

    /// Asks something that changes nothing, if need be again.
    async fn see<Q: Clone, A>(
        &self,
        question: Q,
        ask: impl AsyncFn(Rpc, Q) -> Result<Response<A>, Status>,
    ) -> Result<A, Error> {
        let patience = self.options().connect_timeout;
        let answer = async {
            loop {
                match ask(self.rpc().await?, question.clone()).await.map_err(Error::from) {
                    Err(error) if error.may_pass() => tokio::time::sleep(PAUSE).await,
                    answer => return answer.map(Response::into_inner),
                }
            }
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable()),
        }
    }
}
