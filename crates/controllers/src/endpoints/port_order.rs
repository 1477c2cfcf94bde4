//! The order of the ports of endpoints: that of the FNV hash of what Go prints of them.

use super::service::EndpointPort;

/// Sorts the ports of an Endpoints object.
pub(super) fn sort_subset_ports(ports: &mut [EndpointPort]) {
    ports.sort_by_cached_key(|port| {
        let EndpointPort { name, protocol, port, app_protocol } = port;
        let app_protocol = app_protocol.as_deref().unwrap_or("<nil>");
        fnv_1a(&format!(
            "(v1.EndpointPort){{Name:(string){name} Port:(int32){port} Protocol:(v1.Protocol){protocol} \
             AppProtocol:(*string){app_protocol}}}"
        ))
    });
}

/// Sorts the ports of an EndpointSlice, whose fields are pointers and have another order.
pub(super) fn sort_slice_ports(ports: &mut [EndpointPort]) {
    ports.sort_by_cached_key(|port| {
        let EndpointPort { name, protocol, port, app_protocol } = port;
        let app_protocol = app_protocol.as_deref().unwrap_or("<nil>");
        fnv_1a(&format!(
            "(v1.EndpointPort){{Name:(*string){name} Protocol:(*v1.Protocol){protocol} Port:(*int32){port} \
             AppProtocol:(*string){app_protocol}}}"
        ))
    });
}

/// The hash FNV-1a of 128 bits.
fn fnv_1a(text: &str) -> u128 {
    const OFFSET: u128 = 0x6c62272e07bb014262b821756295c58d;
    const PRIME: u128 = 0x0000000001000000000000000000013b;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by Kubernetes' `dump.ForHash` and Go's `fnv.New128a`.
    #[test]
    fn hashes_are_those_of_go() {
        for (text, hash) in [
            (
                "(v1.EndpointPort){Name:(string)http Port:(int32)8080 Protocol:(v1.Protocol)TCP AppProtocol:(*string)<nil>}",
                0x25304a33da9e6ece350a4142a45f5b75,
            ),
            (
                "(v1.EndpointPort){Name:(*string) Protocol:(*v1.Protocol)UDP Port:(*int32)53 AppProtocol:(*string)<nil>}",
                0x755b2d9c189eac11bdf31eabb97f10f3,
            ),
        ] {
            assert_eq!(fnv_1a(text), hash, "{text}");
        }
    }

    /// The same program printed f39f… for https and 2530… for http in Endpoints, 736e… and 0e87… in EndpointSlices,
    /// 6664… and 755b… for the one without a name.
    #[test]
    fn ports_are_sorted_by_their_hashes() {
        let port = |name: &str, protocol: &str, port: i64, app_protocol: Option<&str>| EndpointPort {
            name: name.to_owned(),
            protocol: protocol.to_owned(),
            port,
            app_protocol: app_protocol.map(str::to_owned),
        };
        let ports = [
            port("https", "TCP", 8443, Some("kubernetes.io/h2c")),
            port("", "UDP", 53, None),
            port("http", "TCP", 8080, None),
        ];
        let names = |ports: &[EndpointPort]| ports.iter().map(|port| port.port).collect::<Vec<_>>();
        let mut sorted = ports.clone();
        sort_subset_ports(&mut sorted);
        assert_eq!(names(&sorted), [8080, 53, 8443]);
        let mut sorted = ports;
        sort_slice_ports(&mut sorted);
        assert_eq!(names(&sorted), [8080, 8443, 53]);
    }
}
