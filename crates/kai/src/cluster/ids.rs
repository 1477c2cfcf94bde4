//! Identifiers: indexes into the tables of a cycle.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) u32);

        impl $name {
            /// The identifier of the entry at an index.
            pub(crate) fn of(index: usize) -> $name {
                $name(u32::try_from(index).expect("a table has fewer than 2^32 entries"))
            }

            /// Its index.
            pub(crate) fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A pod of the snapshot.
    PodId;
    /// A copy of a pod's state in the cycle.
    PodInfoId;
    /// A node, in the order of their names.
    NodeId;
    /// A job or a partial copy of one. The jobs of the snapshot come first, in the order of their names.
    JobId;
    /// A queue, in the order of their names.
    QueueId;
    /// A group of pods that share a GPU.
    GpuGroupId;
}
