//! Programs that were written for any service of this kind accept this one. Each is used if it is installed; what it has
//! found once is also tested without it, in `http.rs` and beside the code.

use std::ffi::OsString;
use std::process::{Command, Output, Stdio};

use crate::support::{get, open, request, send, server};
use conclave_testing::skipped;
use std::io::Write;

/// Where a tool is: where the variable says, or under its own name.
fn tool(variable: &str, name: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| name.into())
}

/// Runs a tool to its end, unless it is not installed.
fn run(command: &mut Command, input: &str) -> Option<Output> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.ok()?;
    let mut stdin = child.stdin.take().expect("it is piped");
    // It may not want to read to the end.
    drop(stdin.write_all(input.as_bytes()));
    drop(stdin);
    Some(child.wait_with_output().expect("it ends"))
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Who says nothing else waits for as long as it takes, which the tool would, too.
const IMPATIENT: &str = "
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    if case.path in ('/v1/acquire', '/v1/upgrade', '/v1/campaign') and isinstance(case.body, dict):
        case.body.setdefault('timeout_ms', 0)
        if case.body['timeout_ms'] is None or isinstance(case.body['timeout_ms'], (int, float)):
            case.body['timeout_ms'] = 0
";

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    std::fs::write(directory.path().join("impatient.py"), IMPATIENT).expect("written");
    let mut command = Command::new(tool("CONCLAVE_SCHEMATHESIS", "schemathesis"));
    command
        .arg("run")
        .arg(format!("http://{}/openapi.json", server.address()))
        // These have no end, which it would wait for.
        .args(["--exclude-path-regex", "^/v1/(observe|events)$"])
        .args(["--max-examples", "15", "--seed", "14", "--request-timeout", "60", "--no-color"])
        .env("SCHEMATHESIS_HOOKS", "impatient")
        .env("PYTHONPATH", directory.path())
        .current_dir(directory.path());
    let found = tokio::task::block_in_place(|| run(&mut command, ""));
    let Some(found) = found else {
        skipped("tools::schemathesis_finds_nothing", "schemathesis is not installed");
        return;
    };
    assert!(found.status.success(), "{}", text(&found));
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_has_nothing_to_say() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    open(&server).await;
    assert_eq!(get(&server, "/v1/why").await.status, 400, "so that a refusal is counted, too");
    for accepted in ["text/plain;version=0.0.4", "application/openmetrics-text"] {
        let asked = request("GET", "/metrics", &format!("accept: {accepted}\r\n"), "");
        let figures = send(&server, asked.as_bytes()).await;
        assert_eq!(figures.status, 200, "{figures:?}");
        let open_metrics = accepted.starts_with("application/");
        assert_eq!(figures.body.ends_with("# EOF\n"), open_metrics, "{}", figures.body);
        // It reads the older text only.
        if open_metrics {
            continue;
        }
        let mut command = Command::new(tool("CONCLAVE_PROMTOOL", "promtool"));
        let Some(said) = run(command.args(["check", "metrics"]), &figures.body) else {
            skipped("tools::promtool_has_nothing_to_say", "promtool is not installed");
            return;
        };
        assert!(said.status.success() && text(&said).is_empty(), "{}", text(&said));
    }
}

/// Lists the services of a server by reflection, in its first version, as the library of Python does.
const REFLECT: &str = "
import grpc, sys
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
names = ProtoReflectionDescriptorDatabase(grpc.insecure_channel(sys.argv[1])).get_services()
print(' '.join(sorted(names)))
";

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_lists_the_services_by_reflection() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path()).await;
    let python = tool("CONCLAVE_PYTHON", "python3");
    let has = run(Command::new(&python).args(["-c", "import grpc_reflection"]), "");
    if !has.is_some_and(|has| has.status.success()) {
        let test = "tools::a_python_client_lists_the_services_by_reflection";
        skipped(test, "python3 with grpcio-reflection is not installed");
        return;
    }
    let mut command = Command::new(python);
    command.args(["-c", REFLECT]).arg(server.address().to_string());
    let listed = tokio::task::block_in_place(|| run(&mut command, "")).expect("it is installed");
    let listed = text(&listed);
    for service in ["conclave.v1.Conclave", "grpc.health.v1.Health"] {
        assert!(listed.contains(service), "{listed}");
    }
}
