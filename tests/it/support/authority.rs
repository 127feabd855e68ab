//! An authority of the test's own, and what it signs.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Signs certificates into a directory.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: tempfile::TempDir,
}

/// The files of a certificate and its key.
#[derive(Debug)]
pub(crate) struct Signed {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert = params.self_signed(&key).unwrap();
        std::fs::write(dir.path().join("ca.pem"), cert.pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            dir,
        }
    }

    /// The file of its own certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// The directory of everything that it signed.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A certificate for `names`, as `NAME.pem` with its key `NAME.key`.
    pub(crate) fn sign(&self, name: &str, names: &[&str]) -> Signed {
        self.sign_into(self.dir(), name, names)
    }

    /// The same in another directory.
    pub(crate) fn sign_into(&self, dir: &Path, name: &str, names: &[&str]) -> Signed {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let signed = Signed {
            cert: dir.join(format!("{name}.pem")),
            key: dir.join(format!("{name}.key")),
        };
        std::fs::write(&signed.cert, cert.pem()).unwrap();
        std::fs::write(&signed.key, key.serialize_pem()).unwrap();
        signed
    }
}

impl Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.dir.fmt(f)
    }
}
