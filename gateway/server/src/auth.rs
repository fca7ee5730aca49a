//! The table of users and tokens, for all protocols. Every comparison runs in constant time and looks at every
//! entry, so that time says nothing about names or secrets. It decides who somebody is, never what they may do.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use framegate_adaptor_api::{Authenticator, Credentials, LoginError};
use framegate_broker::{Grant, Name, Principal};
use subtle::{Choice, ConstantTimeEq};

use crate::config::{AuthSection, Origins, PermissionSection, Problem};

/// User and password that everybody knows; accepted only where clients without credentials are.
const GUEST: &str = "guest";
/// Longest secret that is compared, in bytes.
const SECRET_BYTES_MAX: usize = 4096;

/// Users and tokens.
#[derive(Debug)]
pub(crate) struct UserTable {
    users: Vec<Entry>,
    tokens: Vec<Entry>,
    anonymous: Principal,
    guest: Principal,
}

#[derive(Debug)]
struct Entry {
    secret: Vec<u8>,
    principal: Principal,
}

impl UserTable {
    /// Builds the table; reads `password_file` and `token_file`.
    ///
    /// # Errors
    /// A secret file that cannot be read or is empty, a name that is too long.
    pub(crate) fn new(section: &AuthSection, origins: &Origins) -> Result<Self, Problem> {
        let mut users = Vec::with_capacity(section.users.len());
        for (index, user) in section.users.iter().enumerate() {
            let key = format!("auth.users[{index}].password_file");
            let secret = secret(&user.password.0, user.password_file.as_deref(), &key, origins)?;
            let principal = principal(&user.name, &user.tags, &user.permissions, &key, origins)?;
            users.push(Entry { secret, principal });
        }
        let mut tokens = Vec::with_capacity(section.tokens.len());
        for (index, token) in section.tokens.iter().enumerate() {
            let key = format!("auth.tokens[{index}].token_file");
            let secret = secret(&token.token.0, token.token_file.as_deref(), &key, origins)?;
            let principal = principal(&token.name, &token.tags, &token.permissions, &key, origins)?;
            tokens.push(Entry { secret, principal });
        }
        Ok(Self {
            users,
            tokens,
            anonymous: Principal::unrestricted(Name::from_static("anonymous")),
            guest: Principal::unrestricted(Name::from_static(GUEST)),
        })
    }

    /// Whether anybody can log in at all.
    pub(crate) fn has_credentials(&self) -> bool {
        !self.users.is_empty() || !self.tokens.is_empty()
    }

    fn check(&self, credentials: &Credentials, anonymous: bool) -> Result<Principal, LoginError> {
        match credentials {
            Credentials::Anonymous if anonymous => Ok(self.anonymous.clone()),
            Credentials::Anonymous => Err(LoginError::Required),
            Credentials::Password { user, password } => {
                let found = find(&self.users, |entry| {
                    same(entry.principal.name().as_bytes(), user.as_bytes())
                        & same(&entry.secret, password.0.as_bytes())
                });
                let is_guest =
                    same(GUEST.as_bytes(), user.as_bytes()) & same(GUEST.as_bytes(), password.0.as_bytes());
                if anonymous && !self.has_credentials() && bool::from(is_guest) {
                    return Ok(self.guest.clone());
                }
                found.ok_or(LoginError::Refused)
            }
            Credentials::Token(token) => {
                find(&self.tokens, |entry| same(&entry.secret, token.0.as_bytes())).ok_or(LoginError::Refused)
            }
            Credentials::Certificate(_) => Err(LoginError::Refused),
        }
    }
}

impl Authenticator for UserTable {
    fn authenticate<'a>(
        &'a self,
        credentials: &'a Credentials,
        anonymous: bool,
    ) -> Pin<Box<dyn Future<Output = Result<Principal, LoginError>> + Send + 'a>> {
        Box::pin(std::future::ready(self.check(credentials, anonymous)))
    }
}

/// Looks at every entry, also after a hit.
fn find(entries: &[Entry], matches: impl Fn(&Entry) -> Choice) -> Option<Principal> {
    let mut found = None;
    for entry in entries {
        if bool::from(matches(entry)) {
            found = Some(entry);
        }
    }
    found.map(|entry| entry.principal.clone())
}

/// Compares in a time that depends on the length of what the client gave, and on nothing else.
fn same(expected: &[u8], given: &[u8]) -> Choice {
    let given = &given[..given.len().min(SECRET_BYTES_MAX + 1)];
    let mut padded = vec![0_u8; given.len()];
    let shared = expected.len().min(given.len());
    padded[..shared].copy_from_slice(&expected[..shared]);
    padded.ct_eq(given) & (expected.len() as u64).ct_eq(&(given.len() as u64))
}

fn secret(text: &str, file: Option<&Path>, key: &str, origins: &Origins) -> Result<Vec<u8>, Problem> {
    let secret = match file {
        None => text.to_owned(),
        Some(path) => {
            let shown = format!("{:?}", path.display().to_string());
            let content = std::fs::read_to_string(path)
                .map_err(|e| origins.problem(key, &shown, format!("cannot be read: {e}")))?;
            let line = content.lines().next().unwrap_or_default().to_owned();
            if line.is_empty() {
                return Err(origins.problem(key, &shown, "has an empty first line"));
            }
            line
        }
    };
    if secret.len() > SECRET_BYTES_MAX {
        return Err(origins.problem(key, "***", format!("must be at most {SECRET_BYTES_MAX} bytes")));
    }
    Ok(secret.into_bytes())
}

fn principal(
    name: &str,
    tags: &[String],
    permissions: &[PermissionSection],
    key: &str,
    origins: &Origins,
) -> Result<Principal, Problem> {
    let named = |text: &str| {
        Name::declared(text).map_err(|e| origins.problem(key, format!("{text:?}"), e.to_string()))
    };
    let tags = tags.iter().map(|t| named(t)).collect::<Result<Vec<_>, _>>()?;
    let grants = permissions
        .iter()
        .map(|permission| {
            Ok(Grant {
                vhost: named(&permission.vhost)?,
                configure: pattern(&permission.configure, key, origins)?,
                write: pattern(&permission.write, key, origins)?,
                read: pattern(&permission.read, key, origins)?,
            })
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    Ok(Principal::new(named(name)?, tags, grants))
}

/// A pattern of the whole name; `.*` becomes the empty pattern, which the broker does not even run.
fn pattern(text: &str, key: &str, origins: &Origins) -> Result<Option<regex_lite::Regex>, Problem> {
    let anchored = match text {
        "" => return Ok(None),
        ".*" => String::new(),
        other => format!("^(?:{other})$"),
    };
    let compiled = regex_lite::Regex::new(&anchored);
    compiled.map(Some).map_err(|e| origins.problem(key, format!("{text:?}"), e.to_string()))
}

#[cfg(test)]
mod tests {
    use framegate_adaptor_api::Secret;
    use framegate_broker::{Access, Kind};

    use super::*;
    use crate::config::{Config, Flags, load};

    fn table(auth: &str) -> UserTable {
        let env = [("FRAMEGATE_AUTH__USERS".to_owned(), auth.to_owned())];
        let env = env.into_iter().filter(|(_, v)| !v.is_empty());
        let (config, origins): (Config, _) = load(None, env, &Flags::default()).expect("a configuration");
        UserTable::new(&config.auth, &origins).expect("a table")
    }

    fn password(user: &str, password: &str) -> Credentials {
        Credentials::Password { user: user.to_owned(), password: Secret(password.to_owned()) }
    }

    fn token(text: &str) -> Credentials {
        Credentials::Token(Secret(text.to_owned()))
    }

    const ANN: &str = r#"[{ name = "ann", password = "pw", tags = ["monitoring"], permissions = [{ vhost = "/", write = "orders\\..*", read = ".*" }] }]"#;

    #[test]
    fn guest_and_anonymous_work_where_nothing_is_configured() {
        let table = table("");
        assert_eq!(table.check(&password("guest", "guest"), true).expect("in").name(), &"guest");
        assert_eq!(table.check(&Credentials::Anonymous, true).expect("in").name(), &"anonymous");
        assert_eq!(table.check(&password("guest", "guest"), false).expect_err("out"), LoginError::Refused);
        assert_eq!(table.check(&Credentials::Anonymous, false).expect_err("out"), LoginError::Required);
        assert_eq!(table.check(&password("root", "guest"), true).expect_err("out"), LoginError::Refused);
        assert_eq!(table.check(&token(""), true).expect_err("out"), LoginError::Refused);
    }

    #[test]
    fn guest_is_unknown_once_users_are_configured() {
        let table = table(ANN);
        assert!(table.has_credentials());
        assert_eq!(table.check(&password("guest", "guest"), true).expect_err("out"), LoginError::Refused);
    }

    #[test]
    fn only_the_whole_password_of_the_right_user_is_accepted() {
        let table = table(ANN);
        assert!(table.check(&password("ann", "pw"), false).is_ok());
        for (user, wrong) in
            [("ann", "p"), ("ann", "pwx"), ("ann", ""), ("bob", "pw"), ("", "pw"), ("ann", "pw\0")]
        {
            assert!(table.check(&password(user, wrong), false).is_err(), "{user} {wrong}");
        }
        assert!(table.check(&Credentials::Certificate("ann".to_owned()), false).is_err());
    }

    #[test]
    fn patterns_match_the_whole_name_and_nothing_is_allowed_by_default() {
        let ann = table(ANN).check(&password("ann", "pw"), false).expect("in");
        let vhost = Name::from_static("/");
        let may = |access, name: &'static str| {
            ann.check(access, Kind::Queue, &Name::from_static(name), &vhost).is_ok()
        };
        assert!(may(Access::Write, "orders.new"));
        assert!(!may(Access::Write, "my.orders.new"));
        assert!(may(Access::Read, "anything"));
        assert!(!may(Access::Configure, "orders.new"));
        assert!(ann.has_tag("monitoring") && !ann.has_tag("administrator"));
        assert!(!ann.may_enter("other"));
    }

    #[test]
    fn tokens_can_come_from_a_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        std::fs::write(&path, "s3cret\nignored\n").expect("write");
        let value = format!("[{{ name = \"ci\", token_file = {path:?}, tags = [\"administrator\"] }}]");
        let env = [("FRAMEGATE_AUTH__TOKENS".to_owned(), value)];
        let (config, origins) = load(None, env, &Flags::default()).expect("a configuration");
        let table = UserTable::new(&config.auth, &origins).expect("a table");
        assert_eq!(table.check(&token("s3cret"), false).expect("in").name(), &"ci");
        assert!(table.check(&token("s3cret\n"), false).is_err());
        std::fs::remove_file(&path).expect("remove");
        let said = UserTable::new(&config.auth, &origins).expect_err("refused").to_string();
        assert!(said.contains("auth.tokens[0].token_file") && said.contains("cannot be read"), "{said}");
    }
}
