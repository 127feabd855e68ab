//! `tls`: what is trusted, and what is shown. The files are looked at here, so that a wrong one is found before it is used.

use std::path::{Path, PathBuf};

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::super::super::decode::{self, Fields, Shape};
use super::super::super::node::Node;
use super::super::super::report::Findings;
use super::super::super::units::Wrong;
use crate::policy::{TlsIdentity, TlsSpec};

const TLS: Shape = Shape {
    what: "`tls`",
    known: &["ca", "cert", "key"],
    later: &[],
};

pub(super) fn read(node: &Node, found: &mut Findings) -> Option<TlsSpec> {
    let fields = Fields::open(node, &TLS, found)?;
    let mut file = |name, check: fn(&Path) -> Result<(), String>| {
        let node = fields.get(name)?;
        decode::parsed(node, "a file", |text| path(text, check), found).map(|path| path.value)
    };
    let ca = file("ca", |path| authorities(path).map(drop));
    let cert = file("cert", |path| certificates(path).map(drop));
    let key = file("key", |path| private_key(path).map(drop));
    let one_without_the_other = [("cert", "key"), ("key", "cert")]
        .into_iter()
        .find_map(|(given, other)| fields.get(given).filter(|_| fields.get(other).is_none()));
    if let Some(node) = one_without_the_other {
        found.error(
            node.span,
            "a certificate and its key go together: `cert` and `key`",
        );
    }
    let identity = cert.zip(key).map(|(cert, key)| TlsIdentity { cert, key });
    if let (Some(identity), Some(node)) = (&identity, fields.get("key"))
        && let Err(why) = fits(identity)
    {
        found.error(node.span, why);
    }
    Some(TlsSpec { ca, identity })
}

fn path(text: &str, check: impl Fn(&Path) -> Result<(), String>) -> Result<PathBuf, Wrong> {
    let path = PathBuf::from(text);
    if !path.is_absolute() {
        return Err(Wrong::new(format!("`{text}` does not begin with `/`"))
            .help("it is the path of a PEM file"));
    }
    check(&path).map_err(Wrong::new)?;
    Ok(path)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    if all.is_empty() {
        return Err(format!("there is no certificate in `{}`", path.display()));
    }
    Ok(all)
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store
            .add(certificate)
            .map_err(|error| format!("`{}`: {error}", path.display()))?;
    }
    Ok(store)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        format!(
            "cannot read a private key from `{}`: {error}",
            path.display()
        )
    })
}

fn fits(identity: &TlsIdentity) -> Result<(), String> {
    let wrong = |error: rustls::Error| {
        format!(
            "the key does not go with `{}`: {error}",
            identity.cert.display()
        )
    };
    let (chain, key) = (certificates(&identity.cert)?, private_key(&identity.key)?);
    ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_root_certificates(RootCertStore::empty())
        .with_client_auth_cert(chain, key)
        .map_err(wrong)?;
    Ok(())
}
