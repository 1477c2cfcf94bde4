//! IP addresses and networks: `ip('10.0.0.1')`, `cidr('10.0.0.0/8')`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kubernetes::go::text::quote;

use super::super::value::{Failure, Outcome, Value};
use super::Row;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "ip",
        overloads: &["(string) -> net.IP", "net.CIDR.() -> net.IP"],
        run: |_, arguments| match &arguments[0] {
            Value::Cidr(address, _) => Ok(Value::Ip(*address)),
            other => parse_ip(text(other)?).map(Value::Ip).map_err(Failure::Error),
        },
    },
    Row {
        name: "isIP",
        overloads: &["(string) -> bool"],
        run: |_, arguments| Ok(Value::Bool(parse_ip(text(&arguments[0])?).is_ok())),
    },
    Row {
        name: "ip.isCanonical",
        overloads: &["(string) -> bool"],
        run: |_, arguments| {
            let text = text(&arguments[0])?;
            let address = parse_ip(text).map_err(Failure::Error)?;
            Ok(Value::Bool(ip_text(&address) == text))
        },
    },
    Row {
        name: "family",
        overloads: &["net.IP.() -> int"],
        run: |_, arguments| Ok(Value::Int(if address(arguments)?.is_ipv4() { 4 } else { 6 })),
    },
    Row {
        name: "isUnspecified",
        overloads: TEST,
        run: |_, arguments| Ok(Value::Bool(address(arguments)?.is_unspecified())),
    },
    Row {
        name: "isLoopback",
        overloads: TEST,
        run: |_, arguments| Ok(Value::Bool(address(arguments)?.is_loopback())),
    },
    Row {
        name: "isLinkLocalMulticast",
        overloads: TEST,
        run: |_, arguments| {
            Ok(Value::Bool(match address(arguments)? {
                IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
                IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
            }))
        },
    },
    Row {
        name: "isLinkLocalUnicast",
        overloads: TEST,
        run: |_, arguments| Ok(Value::Bool(is_link_local(address(arguments)?))),
    },
    Row {
        name: "isGlobalUnicast",
        overloads: TEST,
        run: |_, arguments| {
            let address = address(arguments)?;
            let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
            let is_other = address.is_unspecified() || address.is_loopback() || address.is_multicast();
            Ok(Value::Bool(!is_broadcast && !is_other && !is_link_local(address)))
        },
    },
    Row {
        name: "cidr",
        overloads: &["(string) -> net.CIDR"],
        run: |_, arguments| cidr(text(&arguments[0])?).map(|(address, bits)| Value::Cidr(address, bits)),
    },
    Row {
        name: "isCIDR",
        overloads: &["(string) -> bool"],
        run: |_, arguments| Ok(Value::Bool(parse_cidr(text(&arguments[0])?).is_ok())),
    },
    Row {
        name: "containsIP",
        overloads: &["net.CIDR.(string) -> bool", "net.CIDR.(net.IP) -> bool"],
        run: |_, arguments| {
            let [Value::Cidr(network, bits), other] = arguments else { return Err(Failure::NoOverload) };
            let address = match other {
                Value::Ip(address) => *address,
                // Kubernetes takes the error for an argument of a wrong type.
                other => parse_ip(text(other)?).map_err(|_| Failure::no_such_overload())?,
            };
            Ok(Value::Bool(contains(*network, *bits, address)))
        },
    },
    Row {
        name: "containsCIDR",
        overloads: &["net.CIDR.(string) -> bool", "net.CIDR.(net.CIDR) -> bool"],
        run: |_, arguments| {
            let [Value::Cidr(network, bits), other] = arguments else { return Err(Failure::NoOverload) };
            let (inner, inner_bits) = match other {
                Value::Cidr(inner, inner_bits) => (*inner, *inner_bits),
                other => cidr(text(other)?)?,
            };
            Ok(Value::Bool(*bits <= inner_bits && contains(*network, *bits, inner)))
        },
    },
    Row {
        name: "prefixLength",
        overloads: &["net.CIDR.() -> int"],
        run: |_, arguments| match arguments {
            [Value::Cidr(_, bits)] => Ok(Value::Int((*bits).into())),
            _ => Err(Failure::NoOverload),
        },
    },
    Row {
        name: "masked",
        overloads: &["net.CIDR.() -> net.CIDR"],
        run: |_, arguments| match arguments {
            [Value::Cidr(address, bits)] => Ok(Value::Cidr(mask(*address, *bits), *bits)),
            _ => Err(Failure::NoOverload),
        },
    },
];

const TEST: &[&str] = &["net.IP.() -> bool"];

/// An address as Go prints it.
pub(super) fn ip_text(address: &IpAddr) -> String {
    address.to_string()
}

pub(super) fn cidr_text(address: &IpAddr, bits: u8) -> String {
    format!("{address}/{bits}")
}

fn text<'a>(value: &'a Value<'_>) -> Outcome<&'a str> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Failure::NoOverload),
    }
}

fn address(arguments: &[Value<'_>]) -> Outcome<IpAddr> {
    match arguments {
        [Value::Ip(address)] => Ok(*address),
        _ => Err(Failure::NoOverload),
    }
}

fn cidr(text: &str) -> Outcome<(IpAddr, u8)> {
    parse_cidr(text).map_err(|why| {
        Failure::Error(format!("network address parse error during conversion from string: {why}"))
    })
}

/// The address of a text; the error is that of Kubernetes.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let quoted = quote(text);
    let unzoned = text.split('%').next().unwrap_or_default();
    match go_parse(unzoned) {
        Err(why) => Err(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {why}"
        )),
        Ok(address) if text.contains('%') => match address {
            IpAddr::V6(_) if !text.ends_with('%') => {
                Err(format!("IP address {quoted} with zone value is not allowed"))
            }
            _ => Err(format!(
                "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): zone must be a \
                 non-empty string"
            )),
        },
        Ok(address) if is_mapped(address) => Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed")),
        Ok(address) => Ok(address),
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let quoted = quote(text);
    let wrong = |why: &str| {
        Err(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({quoted}): {why}"
        ))
    };
    let Some((address, bits)) = text.rsplit_once('/') else { return wrong("no '/'") };
    let parsed = match go_parse(address) {
        Ok(parsed) => parsed,
        Err(why) => return wrong(&format!("ParseAddr({}): {why}", quote(address))),
    };
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || (bits.len() > 1 && bits.starts_with('0')) {
        return wrong(&format!("bad bits after slash: {}", quote(bits)));
    }
    let bits = match bits.parse() {
        Ok(bits) if bits <= most => bits,
        _ => return wrong("prefix length out of range"),
    };
    if is_mapped(parsed) {
        return Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"));
    }
    Ok((parsed, bits))
}

/// An address as `netip.ParseAddr` reads it, which refuses leading zeros.
fn go_parse(text: &str) -> Result<IpAddr, String> {
    let separator = text.find(['.', ':']).map(|at| text.as_bytes()[at]);
    match separator {
        Some(b'.') => match text.parse::<Ipv4Addr>() {
            Ok(address) => Ok(IpAddr::V4(address)),
            Err(_) => Err(ipv4_error(text)),
        },
        Some(_) => text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| ipv6_error(text)),
        None => Err("unable to parse IP".to_owned()),
    }
}

fn ipv4_error(text: &str) -> String {
    let (mut value, mut count, mut digits) = (0_u32, 0, 0);
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return "IPv4 field has octet with leading zero".to_owned();
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return "IPv4 field has value >255".to_owned();
                }
            }
            b'.' => {
                if at == 0 || at + 1 == bytes.len() || bytes[at - 1] == b'.' {
                    return format!("IPv4 field must have at least one digit (at {})", quote(&text[at..]));
                }
                if count == 3 {
                    return "IPv4 address too long".to_owned();
                }
                (value, digits, count) = (0, 0, count + 1);
            }
            _ => return format!("unexpected character (at {})", quote(text.get(at..).unwrap_or_default())),
        }
    }
    "IPv4 address too short".to_owned()
}

/// The commonest error; Go tells more of them apart.
fn ipv6_error(text: &str) -> String {
    let odd = text.find(|letter: char| !letter.is_ascii_hexdigit() && !matches!(letter, ':' | '.'));
    match odd {
        Some(at) => {
            let start = text[..at].rfind(':').map_or(0, |colon| colon + 1);
            match start == at {
                true => format!(
                    "each colon-separated field must have at least one digit (at {})",
                    quote(&text[at..])
                ),
                false => format!("unexpected character, want colon (at {})", quote(&text[at..])),
            }
        }
        None => "address string too short".to_owned(),
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && mask(network, bits) == mask(address, bits)
}

/// The address without the bits after the first.
fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}
