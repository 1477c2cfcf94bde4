//! Credentials of a server: a certificate authority of its own, a certificate, and a token.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context;
use apiserver::ServerSecurity;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// New credentials of a server, which exist only while it runs.
pub struct Credentials {
    /// The certificate of the authority, PEM.
    pub certificate_authority: String,
    /// The token that clients must send.
    pub token: String,
    tls: Arc<ServerConfig>,
}

impl Credentials {
    /// Generates credentials of a server at an address.
    pub fn generate(address: IpAddr) -> anyhow::Result<Credentials> {
        let doing = "cannot generate a certificate";
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "kinescope");
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().context(doing)?).context(doing)?;
        let key = KeyPair::generate().context(doing)?;
        let mut names = vec![address.to_string(), "127.0.0.1".to_owned(), "localhost".to_owned()];
        names.dedup();
        let certificate =
            CertificateParams::new(names).context(doing)?.signed_by(&key, &authority).context(doing)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(certificate)],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            );
        let mut config = config.context(doing)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut secret = [0; 24];
        getrandom::fill(&mut secret).context("cannot generate a token")?;
        let token = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Credentials { certificate_authority: authority.pem(), token, tls: Arc::new(config) })
    }

    /// What the server needs of them.
    pub fn server_security(&self) -> ServerSecurity {
        ServerSecurity { tls: self.tls.clone(), token: self.token.clone() }
    }
}
