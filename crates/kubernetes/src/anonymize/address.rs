//! Prefix-preserving renaming of IP addresses: two addresses that share their first bits still do, so that an address
//! stays within its network.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Anonymizer, KeyHalf};

/// A network that addresses stay within: its prefix, the prefix length, and whether the remaining bits are renamed.
struct Network {
    bits: u128,
    length: u32,
    renamed: bool,
}

const fn network(bits: u128, length: u32) -> Network {
    Network { bits, length, renamed: true }
}

/// A network whose addresses have the same meaning everywhere and are kept.
const fn fixed(bits: u128, length: u32) -> Network {
    Network { bits, length, renamed: false }
}

const NETWORKS4: &[Network] = &[
    fixed(0, 8),
    network(0x0a, 8),
    network(0x6440 >> 6, 10),
    fixed(0x7f, 8),
    fixed(0xa9fe, 16),
    network(0xac10 >> 4, 12),
    network(0xc0a8, 16),
    fixed(0xe0 >> 5, 3),
];

const NETWORKS6: &[Network] =
    &[fixed(0, 127), network(0x20 >> 5, 3), network(0xfd, 8), network(0xfe80 >> 6, 10), fixed(0xff, 8)];

impl Anonymizer {
    /// Renames an address, or a network address with a prefix of `length` bits.
    pub(super) fn address4(&self, address: Ipv4Addr, length: Option<u32>) -> Ipv4Addr {
        let bits = self.address(u32::from(address).into(), 32, NETWORKS4, length);
        Ipv4Addr::from(u32::try_from(bits).expect("an IPv4 address has 32 bits"))
    }

    /// The same for IPv6.
    pub(super) fn address6(&self, address: Ipv6Addr, length: Option<u32>) -> Ipv6Addr {
        Ipv6Addr::from(self.address(address.into(), 128, NETWORKS6, length))
    }

    /// Flips each bit or not by a hash of the bits before it, which makes a permutation.
    fn address(&self, bits: u128, width: u32, networks: &[Network], length: Option<u32>) -> u128 {
        let first = |count: u32| bits.checked_shr(width - count).unwrap_or(0);
        if networks.iter().any(|network| !network.renamed && first(network.length) == network.bits) {
            return bits;
        }
        let is_network = |length: &u32| *length <= width && bits.trailing_zeros() >= width - *length;
        let count = length.filter(is_network).unwrap_or(width);
        let mut renamed = 0;
        for index in 0..count {
            let prefix = first(index);
            let leads_on = |network: &Network| {
                network.length > index
                    && network.bits.checked_shr(network.length - index).unwrap_or(0) == prefix
            };
            // The width distinguishes the two address families.
            let seed = [&[index as u8], &prefix.to_le_bytes()[..]].concat();
            let turn =
                !networks.iter().any(leads_on) && self.hash(KeyHalf::Second, width as u8, &seed) % 2 == 1;
            renamed |= ((bits >> (width - 1 - index) & 1) ^ u128::from(turn)) << (width - 1 - index);
        }
        renamed
    }
}
