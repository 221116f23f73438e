//! The catalogue, family by family, in one test program.

mod bully;
mod coordinators;
mod counts;
mod detectors;
mod failover;
mod failover_elections;
mod graph_elections;
mod maekawa;
mod order;
mod permission;
mod permission_groups;
mod physical_clock;
mod quorum_epoch;
mod quorums;
mod raymond_k;
mod ring_elections;
mod ring_faults;
mod rings;
mod shared_memory;
mod snapshots;
mod superpeers;
mod support;
mod tree_tokens;
mod values;
mod waits;
mod wrappers;
