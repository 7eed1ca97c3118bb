//! TLS 1.3 with one key pair on both sides, derived from a secret that both know.
//!
//! The key is a raw public key (RFC 7250), so there are no certificates. A side accepts only this
//! key, and TLS's own signatures prove that the other side has the secret half of it. This file
//! opens no socket.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    AlwaysResolvesClientRawPublicKeys, ClientConfig, ClientConnection, Resumption,
};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ServerConfig, ServerConnection};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, Connection, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
};

/// PKCS #8 (RFC 8410) before the 32 bytes of an Ed25519 private key.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// The key pair, as both sides of a connection are made with it.
#[derive(Debug)]
pub struct KeyPair {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl KeyPair {
    /// Derives the key pair of a secret; `context` names its use, which no other has.
    pub fn derive(context: &str, secret: &[u8; 32]) -> Result<KeyPair, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let der = [&PKCS8[..], &blake3::derive_key(context, secret)].concat();
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der));
        let key = provider.key_provider.load_private_key(der)?;
        let public = key.public_key().ok_or_else(|| Error::General("no public key".into()))?;
        let public = CertificateDer::from(public.to_vec());
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(OneKey { public: public.clone(), algorithms });
        let certified = Arc::new(CertifiedKey::new(vec![public], key));
        let versions = &[&rustls::version::TLS13];
        let mut client =
            ClientConfig::builder_with_provider(Arc::<CryptoProvider>::clone(&provider))
                .with_protocol_versions(versions)?
                .dangerous()
                .with_custom_certificate_verifier(Arc::<OneKey>::clone(&verifier))
                .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                    Arc::clone(&certified),
                )));
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
        server.send_tls13_tickets = 0;
        Ok(KeyPair { client: Arc::new(client), server: Arc::new(server) })
    }

    /// Returns the session of a side that dials, or of one that has accepted.
    pub fn connection(&self, is_dialer: bool) -> Result<Connection, Error> {
        if !is_dialer {
            return Ok(ServerConnection::new(Arc::clone(&self.server))?.into());
        }
        // The name is sent to nobody: the key is what counts.
        let name = ServerName::try_from("job").map_err(|_| Error::General("name".into()))?;
        Ok(ClientConnection::new(Arc::clone(&self.client), name)?.into())
    }
}

/// Accepts one key.
#[derive(Debug)]
struct OneKey {
    public: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OneKey {
    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), Error> {
        match *presented == self.public {
            true => Ok(()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        rustls::crypto::verify_tls13_signature_with_raw_key(
            message,
            &key,
            signature,
            &self.algorithms,
        )
    }
}

/// TLS 1.2 is not offered.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not offered".into()))
}

impl ServerCertVerifier for OneKey {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(presented).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for OneKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(presented).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
