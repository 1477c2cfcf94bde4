//! Tests of authentication: tokens, client certificates, TLS, and the `Host` header.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::common::run;
use crate::folders::{required_input, shop};
use crate::server::{HttpResponse, Server, write_request};

#[test]
fn with_a_token_other_clients_are_rejected() {
    let shop = shop();
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(shop.path().join("token"), format!("{token}\n")).unwrap();
    let server = Server::start(shop.path(), &["--token-file", "token"]);
    let with = |path: &str, header: &str| server.request("GET", path, &[header], b"");
    let document = with("/openapi.json", &format!("Authorization: Bearer {token}")).json();
    for (path, item) in document["paths"].as_object().unwrap() {
        let method = if item.get("post").is_some() { "POST" } else { "GET" };
        // An unknown replay is not found.
        let is_found = !path.contains("{id}");
        let (query, request_body) = required_input(path, method);
        let url = format!("{}{query}", path.replace("{name}", "shop"));
        let response = server.request(method, &url, &[], request_body.as_bytes());
        if matches!(path.as_str(), "/healthz" | "/readyz") {
            assert_eq!(response.success(), b"ok\n");
            continue;
        }
        assert_eq!(response.header("www-authenticate"), Some("Bearer"), "{path}");
        assert!(response.failure(401).contains("Authorization: Bearer TOKEN"), "{path}");
        let known = format!("Authorization: bearer {token}");
        let response = server.request(method, &url, &[&known], request_body.as_bytes());
        assert_eq!(matches!(response.code, 200 | 202), is_found, "{path}: {}", response.code);
    }
    for wrong in
        ["Bearer 0123456789abcdef", "Bearer", "Bearer ", "Basic 0123456789abcdef0123456789abcdef", token, ""]
    {
        with("/api/v1/histories", &format!("Authorization: {wrong}")).failure(401);
    }
    with("/nowhere", "Accept: */*").failure(401);
    let wide = Server::start_at("0.0.0.0:0", shop.path(), &["--token-file", "token"]);
    wide.get("/api/v1/histories").failure(401);
    wide.request("GET", "/api/v1/histories", &[&format!("Authorization: Bearer {token}")], b"").success();
    // With the token any `Host` is accepted.
    server
        .request(
            "GET",
            "/metrics",
            &["Host: kinescope.example.com", &format!("Authorization: Bearer {token}")],
            b"",
        )
        .success();
}

#[test]
fn without_a_token_only_this_machine_is_served() {
    let shop = shop();
    let serve = |arguments: &[&str]| run(shop.path(), &[&["serve"], arguments].concat());
    let error = serve(&["--listen", "0.0.0.0:0"]).failure(1);
    assert!(error.contains("is not a loopback address: pass --token-file"), "{error}");
    serve(&["--listen", "[::]:0"]).failure(1);
    std::fs::write(shop.path().join("short"), "secret").unwrap();
    let error = serve(&["--listen", "0.0.0.0:0", "--token-file", "short"]).failure(1);
    assert!(error.contains("must have at least 16 printable"), "{error}");
    let error = serve(&["--token-file", "none"]).failure(1);
    assert!(error.contains("cannot read the token from none"), "{error}");
    let error = serve(&["--listen", "7777"]).failure(1);
    assert!(error.contains("invalid address \"7777\": expected ADDRESS:PORT"), "{error}");
    serve(&["--tls-cert", "cert.pem"]).failure(2);
    let error = serve(&["--listen", "127.0.0.1:0", "--tls-cert", "short", "--tls-key", "short"]).failure(1);
    assert!(error.contains("no PEM certificate found in short"), "{error}");
    let error = serve(&["nowhere"]).failure(1);
    assert!(error.contains("cannot serve nowhere"), "{error}");
    let error = serve(&["shop.jsonl"]).failure(1);
    assert!(error.contains("its name must end in .kine"), "{error}");
    let error = serve(&["shop.kine", "."]).failure(1);
    assert!(error.contains("have the same name shop"), "{error}");

    let server = Server::start(shop.path(), &[]);
    let error = serve(&["--listen", &server.address.to_string()]).failure(1);
    assert!(error.contains("cannot listen on 127.0.0.1:"), "{error}");
    // DNS rebinding: a page loaded under another host name may not read.
    for host in
        ["evil.example.com", "evil.example.com:7777", "localhost.evil.com", "127.0.0.1.evil.com", "a b"]
    {
        server.request("GET", "/api/v1/histories", &[&format!("Host: {host}")], b"").failure(421);
    }
    for host in ["localhost:8080", "127.0.0.1", "[::1]:7777", "LOCALHOST"] {
        server.request("GET", "/api/v1/histories", &[&format!("Host: {host}")], b"").success();
    }
}

#[test]
fn only_clients_with_a_valid_certificate_are_served() {
    let shop = shop();
    let write = |name: &str, text: String| std::fs::write(shop.path().join(name), text).unwrap();
    let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write("tls.crt", generated.cert.pem());
    write("tls.key", generated.signing_key.serialize_pem());
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    write("clients.crt", authority.self_signed(&authority_key).unwrap().pem());
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let client_key = rcgen::KeyPair::generate().unwrap();
    let client = rcgen::CertificateParams::new(vec!["somebody".to_owned()]).unwrap();
    let client = client.signed_by(&client_key, &issuer).unwrap();

    let arguments = ["--tls-cert", "tls.crt", "--tls-key", "tls.key", "--client-ca", "clients.crt"];
    let server = Server::start(shop.path(), &arguments);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(generated.cert.der().clone()).unwrap();
    let builder = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone())
    };
    let send_request = |config: rustls::ClientConfig| {
        let client =
            rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let mut stream = rustls::StreamOwned::new(client, TcpStream::connect(server.address).unwrap());
        let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut response = Vec::new();
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut response));
        String::from_utf8(response).unwrap()
    };
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(client_key.serialize_der().into());
    let known = builder().with_client_auth_cert(vec![client.der().clone()], key).unwrap();
    assert!(send_request(known).starts_with("HTTP/1.1 200 OK"));
    assert_eq!(send_request(builder().with_no_client_auth()), "");
    // A certificate of an unknown authority is rejected.
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(generated.signing_key.serialize_der().into());
    assert_eq!(
        send_request(builder().with_client_auth_cert(vec![generated.cert.der().clone()], key).unwrap()),
        ""
    );
}

#[test]
fn tls_uses_the_given_certificate() {
    let shop = shop();
    let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(shop.path().join("tls.crt"), generated.cert.pem()).unwrap();
    std::fs::write(shop.path().join("tls.key"), generated.signing_key.serialize_pem()).unwrap();
    let server = Server::start(shop.path(), &["--tls-cert", "tls.crt", "--tls-key", "tls.key"]);
    assert!(server.first_line.contains(" on https://127.0.0.1:"), "{}", server.first_line);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(generated.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let connect = || {
        let client = rustls::ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
        rustls::StreamOwned::new(client, TcpStream::connect(server.address).unwrap())
    };
    let mut stream = connect();
    write_request(&mut stream, "GET", "/api/v1/histories/shop/changes", &[], b"", "localhost");
    let response = HttpResponse::read(&mut stream);
    assert_eq!(response.success().iter().filter(|byte| **byte == b'\n').count(), 5);
    // A client that sends nothing after the handshake is disconnected.
    let mut silent = connect();
    silent.sock.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    silent.conn.complete_io(&mut silent.sock).unwrap();
    let read = silent.read(&mut [0; 100]);
    let waits = |error: std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    assert!(!read.is_err_and(waits), "the server still waits for the client");
    // A plain HTTP request gets no plain response.
    let mut plain = server.send("GET", "/healthz", &[], b"");
    let mut response = Vec::new();
    let _ = plain.read_to_end(&mut response);
    assert!(!response.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&response));
}
