//! Every algorithm, by id.

use conclave_protocol::{Client, Entry, Info, Protocol, Reliable};

use crate::mutex;

macro_rules! catalogue {
    ($($client:ty: $($entry:path),+ $(,)?;)*) => {
        /// Everything that can be run, in the order of the catalogue.
        pub static ALL: &[&Info] = &[$($(&$entry.info),+),*];

        /// Hands the algorithm called `id` to `visitor`. Returns `None` if there is none.
        pub fn visit<V: Visitor>(id: &str, visitor: V) -> Option<V::Output> {
            $($(if id == $entry.info.id {
                return Some(visitor.visit::<_, $client>(&$entry));
            })+)*
            None
        }
    };
}

catalogue! {
    // Permission of all.
    mutex::Client:
        mutex::ricart_agrawala::PLAIN,
        mutex::ricart_agrawala::NOTIFY_ONE,
        mutex::ricart_agrawala::NO_TIE_BREAK;
    // Tokens on a ring.
    mutex::Client:
        mutex::token_ring::PLAIN;
}

/// Something to do with an algorithm, whichever it turns out to be.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it, with an algorithm `P` and the applications `C` of its family.
    fn visit<P, C>(self, entry: &'static Entry<P>) -> Self::Output
    where
        P: Protocol,
        C: Client<P> + Client<Reliable<P>>;
}

/// What is said about the algorithm called `id`.
pub fn find(id: &str) -> Option<&'static Info> {
    ALL.iter().copied().find(|info| info.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Title;

    impl Visitor for Title {
        type Output = &'static str;

        fn visit<P, C>(self, entry: &'static Entry<P>) -> &'static str
        where
            P: Protocol,
            C: Client<P> + Client<Reliable<P>>,
        {
            entry.info.title
        }
    }

    #[test]
    fn every_algorithm_is_found_under_its_id_and_explains_itself() {
        for info in ALL {
            assert_eq!(visit(info.id, Title), Some(info.title), "two entries have one id");
            assert!(info.explanation().contains("# Rules"), "{} has no rules", info.id);
            assert!(
                info.mutant.is_some() || !info.holds.is_empty(),
                "{} promises nothing",
                info.id
            );
        }
        assert_eq!(visit("mutex/no-such", Title), None);
    }
}
