//! Checks of IP addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::field_error::{FieldErrors, FieldPath};

/// Checks an address, which may not have leading zeros nor be an IPv4 address in IPv6 form.
pub(super) fn check_ip(errors: &mut FieldErrors, value: &str, path: FieldPath<'_>) {
    let Some(address) = parse_ip(value) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        return errors.invalid(path, value, detail);
    };
    if value.parse::<IpAddr>().is_err() {
        errors.invalid(path, value, "must not have leading 0s");
    } else if is_mapped(address) {
        errors.invalid(path, value, "must not be an IPv4-mapped IPv6 address");
    }
}

/// Checks an address at which a service can be reached from outside.
pub(super) fn check_endpoint_ip(errors: &mut FieldErrors, value: &str, path: FieldPath<'_>) {
    let Some(address) = parse_ip(value) else {
        return errors.invalid(path, value, "must be a valid IP address");
    };
    let (is_link_local, is_link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        errors.invalid(path, value, format!("may not be unspecified ({value})"));
    }
    if address.is_loopback() {
        errors.invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if is_link_local {
        errors.invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if is_link_local_multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.invalid(path, value, detail);
    }
}

/// Checks a network such as `10.0.0.0/16`.
pub(super) fn check_cidr(errors: &mut FieldErrors, value: &str, path: FieldPath<'_>) {
    let Some((address, bits)) = parse_cidr(value) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return errors.invalid(path, value, detail);
    };
    let (text, length) = value.split_once('/').unwrap_or((value, ""));
    if text.parse::<IpAddr>().is_err() || (length.len() > 1 && length.starts_with('0')) {
        errors.invalid(path, value, "must not have leading 0s in IP or prefix length");
    } else if is_mapped(address) {
        errors.invalid(path, value, "must not have an IPv4-mapped IPv6 address");
    } else if has_host_bits(address, bits) {
        errors.invalid(path, value, "must not have bits set beyond the prefix length");
    }
}

/// Whether an address is of version 6; `None` if it is none.
pub(super) fn is_ipv6(value: &str) -> Option<bool> {
    parse_ip(value).map(|address| address.is_ipv6() && !is_mapped(address))
}

/// Whether a network is of version 6; `None` if it is none.
pub(super) fn is_ipv6_cidr(value: &str) -> Option<bool> {
    parse_cidr(value).map(|(address, _)| address.is_ipv6())
}

/// Parses an address, with leading zeros if need be.
fn parse_ip(value: &str) -> Option<IpAddr> {
    if let Ok(address) = value.parse() {
        return Some(address);
    }
    let number = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<u32>().ok())?.and_then(|number| u8::try_from(number).ok())
    };
    let octets: Vec<u8> = value.split('.').map(number).collect::<Option<_>>()?;
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into())
}

fn parse_cidr(value: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = value.split_once('/')?;
    let address = parse_ip(address)?;
    let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits = is_number.then(|| bits.parse::<u32>().ok())??;
    let max = if address.is_ipv4() { 32 } else { 128 };
    (bits <= max).then_some((address, bits))
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn has_host_bits(address: IpAddr, bits: u32) -> bool {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_shl(bits).is_some_and(|rest| rest != 0),
        IpAddr::V6(v6) => Ipv6Addr::to_bits(v6).checked_shl(bits).is_some_and(|rest| rest != 0),
    }
}
