//! How tester and agent identify each other.

use crate::Error;
use std::path::Path;
use subtle::ConstantTimeEq;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use tonic::{Request, Status};

/// Tokens of fewer characters can be guessed.
const SHORTEST: usize = 16;
/// The header with the token (RFC 6750).
const HEADER: &str = "authorization";

/// A warning if others than its owner may read a file with a secret.
pub fn exposed(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).ok()?.permissions().mode();
        let file = path.display();
        (mode & 0o077 != 0)
            .then(|| format!("warning: other users may read {file}: `chmod 600 {file}` ends that"))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// A secret that both sides know, for networks without eavesdroppers.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// From a file, without surrounding white space.
    ///
    /// # Errors
    /// It cannot be read, is too short, or has characters that no header may have.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::because(path.display(), &e))?;
        let token = text.trim();
        if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error(format!(
                "{}: a token has at least {SHORTEST} characters, letters and digits, in one line: `openssl rand -hex 16 > FILE` makes one",
                path.display()
            )));
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether this is the token. The time does not depend on how much of it is right.
    pub fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

/// The identification of both sides.
#[derive(Clone)]
pub enum Security {
    /// A token. Nothing is encrypted.
    Token(Token),
    /// Certificates on both sides.
    Tls {
        /// The authority that signed the other side's certificate.
        authority: Certificate,
        /// The own certificate with its key.
        identity: Identity,
    },
}

impl Security {
    /// A token by its file.
    ///
    /// # Errors
    /// The file cannot be read, or holds no token.
    pub fn token(file: &Path) -> Result<Self, Error> {
        Ok(Self::Token(Token::read(file)?))
    }

    /// Certificates by their files, in PEM.
    ///
    /// # Errors
    /// The file that cannot be read.
    pub fn tls(authority: &Path, certificate: &Path, key: &Path) -> Result<Self, Error> {
        let read = |path: &Path| std::fs::read(path).map_err(|e| Error::because(path.display(), &e));
        let identity = Identity::from_pem(read(certificate)?, read(key)?);
        Ok(Self::Tls { authority: Certificate::from_pem(read(authority)?), identity })
    }

    /// The agent's TLS configuration, which checks its clients; with certificates.
    pub(crate) fn server(&self) -> Option<ServerTlsConfig> {
        match self {
            Self::Token(_) => None,
            Self::Tls { authority, identity } => {
                Some(ServerTlsConfig::new().identity(identity.clone()).client_ca_root(authority.clone()))
            }
        }
    }

    /// A client's TLS configuration, which checks the agent with this name; with certificates.
    pub(crate) fn client(&self, name: &str) -> Option<ClientTlsConfig> {
        match self {
            Self::Token(_) => None,
            Self::Tls { authority, identity } => {
                let config = ClientTlsConfig::new().domain_name(name);
                Some(config.ca_certificate(authority.clone()).identity(identity.clone()))
            }
        }
    }

    /// Adds the token to a call.
    pub(crate) fn show<T>(&self, mut call: Request<T>) -> Request<T> {
        if let Self::Token(Token(token)) = self
            && let Ok(value) = format!("Bearer {token}").parse()
        {
            call.metadata_mut().insert(HEADER, value);
        }
        call
    }

    /// Whether a call has the token. The time does not depend on how much of it is right.
    pub(crate) fn check<T>(&self, call: &Request<T>) -> Result<(), Status> {
        let Self::Token(Token(token)) = self else { return Ok(()) };
        let mut all = call.metadata().get_all(HEADER).iter();
        let refused = |why: &str| Err(Status::unauthenticated(why));
        match (all.next(), all.next()) {
            (None, _) => refused("it requires a token"),
            (_, Some(_)) => refused("it requires one token, not several"),
            (Some(shown), None) => {
                match shown.as_bytes().ct_eq(format!("Bearer {token}").as_bytes()).into() {
                    true => Ok(()),
                    false => refused("wrong token"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn token(text: &str) -> Result<Token, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Token::read(file.path())
    }

    #[test]
    fn only_the_same_token_is_let_in() {
        let mine = Security::Token(token("0123456789abcdef\n").unwrap());
        let check = |other: &Security| mine.check(&other.show(Request::new(()))).is_ok();
        assert!(check(&Security::Token(token("  0123456789abcdef").unwrap())));
        for other in ["0123456789abcdeF", "0123456789abcdef0", "1123456789abcdef"] {
            assert!(!check(&Security::Token(token(other).unwrap())), "{other}");
        }
        assert!(mine.check(&Request::new(())).is_err());
    }

    #[test]
    fn one_token_is_shown_and_no_more() {
        let mine = Security::Token(token("0123456789abcdef").unwrap());
        let with = |all: &[&'static str]| {
            let mut call = Request::new(());
            for value in all {
                call.metadata_mut().append(HEADER, value.parse().unwrap());
            }
            mine.check(&call).map_err(|status| status.message().to_owned())
        };
        let good = "Bearer 0123456789abcdef";
        assert_eq!(with(&[good]), Ok(()));
        for (all, why) in [
            (&[][..], "it requires a token"),
            (&[""], "wrong token"),
            (&["Bearer "], "wrong token"),
            (&["0123456789abcdef"], "wrong token"),
            (&["Basic 0123456789abcdef"], "wrong token"),
            (&[good, good], "one token, not several"),
            (&[good, "Bearer another"], "one token, not several"),
            (&["Bearer another", good], "one token, not several"),
        ] {
            assert!(with(all).unwrap_err().contains(why), "{all:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn who_leaves_a_secret_readable_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, readable) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o644, true)]
        {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let said = exposed(file.path());
            assert_eq!(
                said.is_some_and(|it| it.contains("chmod 600") && !it.contains('\n')),
                readable,
                "{mode:o}"
            );
        }
        assert_eq!(exposed(Path::new("/no/such")), None);
    }

    #[test]
    fn tokens_that_are_none_are_refused() {
        for bad in ["", "short", "with a space in its middle", "häßlich-0123456789"] {
            assert!(token(bad).is_err(), "{bad}");
        }
        assert!(Token::read(Path::new("/no/such")).is_err());
    }
}
