//! `conclave cert`.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use crate::service::{ServiceError, plural};
use crate::{Done, Failure};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave cert ca --out certs                      an authority of your own: certs/ca.pem, certs/ca.key
  conclave cert node db1.example 10.0.0.5 --out certs
                                                    for a node with this name and this address
  conclave cert client ci --out certs               for a client: certs/ci.pem, certs/ci.key
  conclave up --listen 0.0.0.0:7411 --tls-cert certs/node.pem --tls-key certs/node.key --client-ca certs/ca.pem
  conclave status --endpoints db1.example:7411 --ca certs/ca.pem --cert certs/ci.pem --key certs/ci.key

Keys can be read by their owner only (0600), certificates by all. No file is overwritten: move the old one away first.
With the authority's key, certificates for any node and client can be made; keep it where no node runs. A node
reads its certificate again when it gets SIGHUP. Certificates of another authority do as well: see docs/operations.md.

Exit codes:
  0  done
  2  the command line cannot be understood
  5  a file is there already, or cannot be read or written
  25 the certificate or the key of the authority cannot be used";

/// Flags of `conclave cert`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Which certificate to make.
    #[command(subcommand)]
    pub what: What,
}

/// Which certificate to make.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Make a certificate authority: ca.pem and ca.key
    Ca(Ca),
    /// Make a certificate for a node: node.pem and node.key
    Node(Node),
    /// Make a certificate for a client: NAME.pem and NAME.key
    Client(ClientName),
}

/// Flags of `conclave cert ca`.
#[derive(Clone, Debug, clap::Args)]
pub struct Ca {
    /// What it is called
    #[arg(long, value_name = "NAME", env = "CONCLAVE_CERT_CA_NAME", default_value = "Conclave CA")]
    pub name: String,
    /// For how many days it is valid
    #[arg(long, value_name = "DAYS", env = "CONCLAVE_CERT_CA_DAYS", default_value_t = 3650)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// Where to write, and how to print.
    #[command(flatten)]
    pub files: Files,
}

/// Flags of `conclave cert node`.
#[derive(Clone, Debug, clap::Args)]
pub struct Node {
    /// The names and addresses that clients reach it by; localhost, 127.0.0.1 and ::1 are added
    #[arg(required = true, value_name = "HOST")]
    pub hosts: Vec<String>,
    /// The name of the files, if there are several nodes
    #[arg(long, value_name = "NAME", env = "CONCLAVE_CERT_FILE", default_value = "node")]
    pub file: String,
    /// For how long, and where to write.
    #[command(flatten)]
    pub issue: Issue,
}

/// Flags of `conclave cert client`.
#[derive(Clone, Debug, clap::Args)]
pub struct ClientName {
    /// What the client is called; the files are, too
    pub name: String,
    /// For how long, and where to write.
    #[command(flatten)]
    pub issue: Issue,
}

/// For how long a certificate of a node or a client is valid, and where to write it.
#[derive(Clone, Debug, clap::Args)]
pub struct Issue {
    /// For how many days it is valid
    #[arg(long, value_name = "DAYS", env = "CONCLAVE_CERT_DAYS", default_value_t = 365)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// Where to write, and how to print.
    #[command(flatten)]
    pub files: Files,
}

/// Where to write, and how to print.
#[derive(Clone, Debug, clap::Args)]
pub struct Files {
    /// The folder for the files; that of the authority, for what it issues
    #[arg(long, value_name = "FOLDER", env = "CONCLAVE_CERT_OUT", default_value = ".")]
    pub out: PathBuf,
    /// Print JSON
    #[arg(long, env = "CONCLAVE_JSON", help_heading = "Output")]
    pub json: bool,
}

/// Clocks of other machines may be behind by so much.
const SKEW: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Makes a certificate.
pub fn perform(args: &Args, out: &mut dyn Write) -> Result<Done, Failure> {
    match &args.what {
        What::Ca(ca) => ca.perform(out),
        What::Node(node) => node.perform(out),
        What::Client(client) => client.perform(out),
    }
}

impl Ca {
    fn perform(&self, out: &mut dyn Write) -> Result<Done, Failure> {
        let mut params = params(&self.name, &[], self.days)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = key()?;
        let certificate = params.self_signed(&key).map_err(unusable)?;
        let made = self.files.write("ca", &certificate.pem(), &key, self.days)?;
        let folder = self.files.out.display();
        let next = [
            format!("conclave cert node HOST --out {folder}"),
            format!("conclave cert client NAME --out {folder}"),
        ];
        made.tell(&next, out)
    }
}

impl Node {
    fn perform(&self, out: &mut dyn Write) -> Result<Done, Failure> {
        is_name(&self.file)?;
        let mut hosts = self.hosts.clone();
        for host in &hosts {
            is_host(host)?;
        }
        for local in ["localhost", "127.0.0.1", "::1"] {
            if !hosts.iter().any(|host| host == local) {
                hosts.push(local.to_owned());
            }
        }
        let mut params = params(&self.hosts[0], &hosts, self.issue.days)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let made = self.issue.files.issue(params, &self.file, self.issue.days)?;
        let (folder, file, host) = (self.issue.files.out.display(), &self.file, &self.hosts[0]);
        let next = [
            format!(
                "conclave up --listen 0.0.0.0:7411 --tls-cert {folder}/{file}.pem --tls-key {folder}/{file}.key \
                 --client-ca {folder}/ca.pem"
            ),
            format!("conclave cert client NAME --out {folder}     # to be let in"),
            format!(
                "export CONCLAVE_ENDPOINTS={host}:7411 CONCLAVE_CA={folder}/ca.pem     # where clients run"
            ),
        ];
        made.tell(&next, out)
    }
}

impl ClientName {
    fn perform(&self, out: &mut dyn Write) -> Result<Done, Failure> {
        let name = &self.name;
        is_name(name)?;
        let mut params = params(name, &[], self.issue.days)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let made = self.issue.files.issue(params, name, self.issue.days)?;
        let folder = self.issue.files.out.display();
        let next = [
            format!(
                "export CONCLAVE_CA={folder}/ca.pem CONCLAVE_CERT={folder}/{name}.pem \
                 CONCLAVE_KEY={folder}/{name}.key"
            ),
            "conclave status --endpoints HOST:7411".to_owned(),
        ];
        made.tell(&next, out)
    }
}

fn params(name: &str, hosts: &[String], days: u32) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(hosts.to_vec()).map_err(unusable)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let now = now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + DAY * days).into();
    Ok(params)
}

#[expect(clippy::disallowed_methods, reason = "a certificate is valid by the calendar")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn key() -> Result<KeyPair, Failure> {
    KeyPair::generate().map_err(unusable)
}

fn unusable(error: rcgen::Error) -> Failure {
    ServiceError::Security(format!("cannot make the certificate: {error}")).into()
}

/// A name becomes part of a path.
fn is_name(name: &str) -> Result<(), Failure> {
    let fits = |c: char| c.is_alphanumeric() || "-_.@".contains(c);
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(fits) && name != "ca" {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{name:?} names no file; use letters, digits, and - _ . @ within, and not \"ca\""
    )))
}

/// A name or an address, without a port.
fn is_host(host: &str) -> Result<(), Failure> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._*".contains(c);
    if host.parse::<IpAddr>().is_ok() || !host.is_empty() && host.chars().all(fits) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{host:?} is neither a host name nor an address; write it without a port or a scheme"
    )))
}

/// What was written.
struct Made {
    certificate: PathBuf,
    key: PathBuf,
    days: u32,
    json: bool,
}

impl Files {
    /// Has the authority sign, and writes the files.
    fn issue(&self, params: CertificateParams, name: &str, days: u32) -> Result<Made, Failure> {
        let read = |name: &str| {
            let path = self.out.join(name);
            let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Failure::Usage(format!(
                    "there is no {}; make an authority first with `conclave cert ca --out {}`",
                    path.display(),
                    self.out.display(),
                )),
                _ => Failure::File { path: path.clone(), error },
            });
            text.map(|text| (path, text))
        };
        let bad = |path: &Path, error: rcgen::Error| -> Failure {
            ServiceError::Security(format!("{} cannot be used: {error}", path.display())).into()
        };
        let (path, text) = read("ca.key")?;
        let signing = KeyPair::from_pem(&text).map_err(|error| bad(&path, error))?;
        let (path, text) = read("ca.pem")?;
        let issuer = Issuer::from_ca_cert_pem(&text, signing).map_err(|error| bad(&path, error))?;
        let key = key()?;
        let certificate = params.signed_by(&key, &issuer).map_err(unusable)?;
        self.write(name, &certificate.pem(), &key, days)
    }

    /// Writes both files, or none.
    fn write(&self, name: &str, text: &str, key: &KeyPair, days: u32) -> Result<Made, Failure> {
        let bad = |path: &Path, error| Failure::File { path: path.to_owned(), error };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.out);
        made.map_err(|error| bad(&self.out, error))?;
        let [certificate, secret] =
            ["pem", "key"].map(|end| self.out.join(format!("{name}.{end}")));
        create(&secret, 0o600, &key.serialize_pem()).map_err(|error| bad(&secret, error))?;
        create(&certificate, 0o644, text).map_err(|error| {
            // Of a pair that was not there before, nothing is left.
            let _ = fs::remove_file(&secret);
            bad(&certificate, error)
        })?;
        Ok(Made { certificate, key: secret, days, json: self.json })
    }
}

/// Writes a file that is not there yet.
pub(super) fn create(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())
}

impl Made {
    fn tell(&self, next: &[String], out: &mut dyn Write) -> Result<Done, Failure> {
        let Self { certificate, key, days, json } = self;
        if *json {
            let value = json!({
                "certificate": certificate.to_string_lossy(),
                "key": key.to_string_lossy(),
                "days": days,
            });
            writeln!(out, "{value}")?;
            return Ok(Done::Well);
        }
        let days = plural(u64::from(*days), "day");
        writeln!(out, "wrote {} and {}, valid for {days}", certificate.display(), key.display())?;
        writeln!(out, "\nNext:")?;
        for line in next {
            writeln!(out, "  {line}")?;
        }
        Ok(Done::Well)
    }
}
