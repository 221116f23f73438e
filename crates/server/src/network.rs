//! The network to other members. There are none yet, so every call fails as unreachable.

use std::future::Future;

use openraft::alias::{SnapshotOf, VoteOf};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{AnyError, OptionalSend};

use crate::{Member, Types};

/// The network of a node without other members.
pub(crate) struct Alone;

impl RaftNetworkFactory<Types> for Alone {
    type Network = Self;

    async fn new_client(&mut self, _: u64, _: &Member) -> Self {
        Self
    }
}

fn unreachable() -> Unreachable<Types> {
    Unreachable::new(&AnyError::error("this node is alone"))
}

impl RaftNetworkV2<Types> for Alone {
    type SnapshotData = Vec<u8>;

    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(unreachable()))
    }

    async fn vote(
        &mut self,
        _: VoteRequest<Types>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(unreachable()))
    }

    async fn full_snapshot(
        &mut self,
        _: VoteOf<Types>,
        _: SnapshotOf<Types, Vec<u8>>,
        _: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        Err(StreamingError::Unreachable(unreachable()))
    }
}
