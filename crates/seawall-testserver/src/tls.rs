use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority of a test. Trust it in the client, or leave it out to have its
/// certificates refused.
///
/// ```
/// use seawall_testserver::{Authority, Reply, Server};
///
/// let authority = Authority::new();
/// let server = Server::builder()
///     .tls(authority.issue(&["localhost", "127.0.0.1"]))
///     .start(Reply::ok("hello"));
/// assert!(server.url("/").starts_with("https://127.0.0.1:"));
/// assert!(authority.pem().starts_with("-----BEGIN CERTIFICATE-----"));
/// ```
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority, with a key of its own.
    ///
    /// # Panics
    /// When the system has no randomness.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a signature");
        Self { issuer }
    }

    /// Its certificate as PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Its certificate as DER.
    pub fn der(&self) -> &[u8] {
        self.issuer.der()
    }

    /// A certificate for these host names and IP addresses.
    ///
    /// # Panics
    /// When a name is no ASCII.
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.sign(params(names))
    }

    /// A certificate for these names that was good in the year 2000.
    ///
    /// # Panics
    /// When a name is no ASCII.
    pub fn issue_expired(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a signature");
        Identity {
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        }
    }
}

/// What a server shows itself with: a certificate and its key.
#[derive(Clone)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    pub(crate) fn acceptor(self, protocol: &[u8]) -> TlsAcceptor {
        let key = PrivateKeyDer::try_from(self.key).expect("a PKCS #8 key");
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has the default versions")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate], key)
            .expect("the key belongs to the certificate");
        config.alpn_protocols = vec![protocol.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    CertificateParams::new(names).expect("names in ASCII")
}
