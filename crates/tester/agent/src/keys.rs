//! Certificates for a lab: an authority, agents by their names, and a tester.

use crate::Error;
use kpps_documents::file::create;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};

/// The authority's files, and those of the tester.
pub const AUTHORITY: &str = "ca";
/// See [`AUTHORITY`].
pub const TESTER: &str = "tester";
/// How long certificates are valid.
const GOOD: Duration = Duration::days(5 * 365);

/// Creates the missing files of a folder: an authority (`ca.pem`, `ca.key`), a tester's certificate
/// (`tester.pem`, `tester.key`), and one for each agent, by its name or address (`NAME.pem`, `NAME.key`).
/// Returns the files that were created.
///
/// An agent's certificate is valid for a server only, a tester's for a client only: with its own certificate
/// an agent cannot use another one.
///
/// # Errors
/// A file cannot be written or read.
pub fn make(folder: &Path, agents: &[String]) -> Result<Vec<PathBuf>, Error> {
    let cannot = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| Error::because(path.display(), &error)
    };
    let failed = |error: rcgen::Error| Error::because("making a certificate", &error);
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || ['/', '\\', '@'].contains(&c);
    if let Some(bad) = agents.iter().find(|name| name.is_empty() || name.contains(is_bad)) {
        return Err(Error(format!("'{bad}' is not a host name")));
    }
    // Their files exist already, and a file system may ignore case.
    let is_taken = |name: &&String| [AUTHORITY, TESTER].iter().any(|taken| name.eq_ignore_ascii_case(taken));
    if let Some(taken) = agents.iter().find(is_taken) {
        return Err(Error(format!(
            "an agent cannot be called '{taken}': those are the files of the {}; give another name of the host, or its address",
            if taken.eq_ignore_ascii_case(TESTER) { "tester" } else { "authority" }
        )));
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    only_mine(&mut builder);
    builder.create(folder).map_err(cannot(folder))?;
    let file = |name: &str, end: &str| folder.join(format!("{name}.{end}"));

    let mut made = Vec::new();
    let mut keep = |name: &str, certificate: String, key: &KeyPair| {
        for (end, text) in [("pem", certificate), ("key", key.serialize_pem())] {
            let path = file(name, end);
            create(&path, text.as_bytes(), end == "key").map_err(cannot(&path))?;
            made.push(path);
        }
        Ok::<_, Error>(())
    };
    let issuer = if file(AUTHORITY, "key").exists() {
        let read = |end| {
            let path = file(AUTHORITY, end);
            std::fs::read_to_string(&path).map_err(cannot(&path))
        };
        let key = KeyPair::from_pem(&read("key")?).map_err(failed)?;
        Issuer::from_ca_cert_pem(&read("pem")?, key).map_err(failed)?
    } else {
        let mut authority = parameters("kpps lab", &[])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(failed)?;
        keep(AUTHORITY, authority.self_signed(&key).map_err(failed)?.pem(), &key)?;
        Issuer::new(authority, key)
    };
    let testers = std::iter::once((TESTER, ExtendedKeyUsagePurpose::ClientAuth));
    let agents = agents.iter().map(|name| (name.as_str(), ExtendedKeyUsagePurpose::ServerAuth));
    for (name, purpose) in testers.chain(agents) {
        if file(name, "key").exists() {
            continue;
        }
        let mut subject = parameters(name, &[name])?;
        subject.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        subject.extended_key_usages = vec![purpose];
        subject.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        keep(name, subject.signed_by(&key, &issuer).map_err(failed)?.pem(), &key)?;
    }
    Ok(made)
}

/// A certificate that signs itself, for a server with these names or addresses, and its key; both in DER.
///
/// # Errors
/// A name is no host name.
pub fn self_signed(names: &[String]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let failed = |error: rcgen::Error| Error::because("making a certificate", &error);
    let mut subject = parameters("kpps", &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    subject.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    subject.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    Ok((subject.self_signed(&key).map_err(failed)?.der().to_vec(), key.serialize_der()))
}

fn parameters(name: &str, names: &[&str]) -> Result<CertificateParams, Error> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut parameters = CertificateParams::new(names).map_err(|e| Error::because(name, &e))?;
    parameters.distinguished_name.push(DnType::CommonName, name);
    let now = OffsetDateTime::now_utc();
    // Other hosts' clocks may be behind.
    (parameters.not_before, parameters.not_after) = (now - Duration::days(1), now + GOOD);
    Ok(parameters)
}

#[cfg(unix)]
fn only_mine(builder: &mut DirBuilder) {
    use std::os::unix::fs::DirBuilderExt;
    builder.mode(0o700);
}

#[cfg(not(unix))]
fn only_mine(_: &mut DirBuilder) {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_there_stays_and_more_is_added() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        let first = make(&keys, &["h1".into(), "10.0.0.2".into()]).unwrap();
        let names: Vec<_> = first.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        let all =
            ["ca", "tester", "h1", "10.0.0.2"].map(|name| [format!("{name}.pem"), format!("{name}.key")]);
        assert_eq!(names, all.concat());
        let authority = std::fs::read(keys.join("ca.pem")).unwrap();
        let more = make(&keys, &["h1".into(), "h3".into()]).unwrap();
        assert_eq!(more, [keys.join("h3.pem"), keys.join("h3.key")]);
        assert_eq!(std::fs::read(keys.join("ca.pem")).unwrap(), authority);
        assert!(make(&keys, &["../x".into()]).is_err());
        #[cfg(unix)]
        for name in ["ca", "tester", "h1", "10.0.0.2", "h3"] {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(keys.join(format!("{name}.key"))).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn names_of_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        for (name, whose) in [("tester", "of the tester"), ("ca", "of the authority"), ("CA", "authority")] {
            let said = make(&keys, &["h1".into(), name.into()]).unwrap_err().to_string();
            assert!(
                said.contains(&format!("'{name}'")) && said.contains(whose) && !said.contains('\n'),
                "{said}"
            );
        }
        assert!(!keys.exists(), "nothing is made");
    }
}
