//! `conclave __names`: what scripts for shells ask in order to complete the names of locks, elections and sessions.

use std::io::Write;
use std::time::Duration;

use clap::Parser;

use crate::Failure;
use crate::service::{ServiceArgs, wait};

/// By which the program knows that names are asked for.
pub(crate) const ARGUMENT: &str = "__names";

/// For how long a reader who has pressed a key is kept waiting.
const PATIENCE: Duration = Duration::from_millis(500);
/// More than so many names are of no use.
const MOST: usize = 500;

/// The flags with which a node is reached, of a command line that is being written.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Connection {
    #[command(flatten)]
    service: ServiceArgs,
}

/// Those of them that have a value.
const WITH_VALUE: [&str; 6] =
    ["--endpoints", "--auth-token-file", "--ca", "--cert", "--key", "--server-name"];

/// Prints the names that begin so, one in a line. `words` are a kind (locks, elections or sessions), what they begin with,
/// and the command line so far. Whatever goes wrong, nothing is printed: there is no place for errors while a command
/// line is being written.
pub(crate) fn print(words: &[String], out: &mut dyn Write) {
    if let [kind, prefix, line @ ..] = words
        && let Ok(names) = names(kind, prefix, line)
    {
        for name in names.iter().filter(|name| is_plain(name)).take(MOST) {
            let _ = writeln!(out, "{name}");
        }
    }
}

fn names(kind: &str, prefix: &str, line: &[String]) -> Result<Vec<String>, Failure> {
    let usage = |error: clap::Error| Failure::Usage(error.to_string());
    let mut connection = Connection::try_parse_from(flags(line)).map_err(usage)?;
    connection.service.connect_timeout = PATIENCE;
    let asked = async {
        let client = connection.service.connect().await?;
        let failed = |error| connection.service.failure(error);
        Ok(match kind {
            "locks" => {
                let locks = client.locks(prefix).await.map_err(failed)?;
                locks.into_iter().map(|lock| lock.name).collect()
            }
            "elections" => {
                let elections = client.elections(prefix).await.map_err(failed)?;
                elections.into_iter().map(|election| election.name).collect()
            }
            _ => {
                let sessions = client.sessions().await.map_err(failed)?;
                let ids = sessions.into_iter().map(|session| session.session.to_string());
                ids.filter(|id| id.starts_with(prefix)).collect()
            }
        })
    };
    wait(async {
        let in_time = tokio::time::timeout(PATIENCE, asked).await;
        in_time.unwrap_or_else(|_| Ok::<_, Failure>(Vec::new()))
    })
}

/// What of a command line says how a node is reached.
fn flags(line: &[String]) -> Vec<String> {
    let (mut flags, mut words) = (Vec::new(), line.iter().take_while(|word| *word != "--"));
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        if ["--tls", "--insecure-token"].contains(&word.as_str()) {
            flags.push(word.clone());
        } else if WITH_VALUE.contains(&name) {
            flags.push(word.clone());
            if !word.contains('=') {
                flags.extend(words.next().cloned());
            }
        }
    }
    flags
}

/// Whether a shell may be given a name as it is.
fn is_plain(name: &str) -> bool {
    !name
        .chars()
        .any(|c| c.is_control() || c.is_whitespace() || "'\"`$\\;&|<>()*?![]{}".contains(c))
}

/// What each command's names are, for the scripts.
const KINDS: [(&str, &str); 4] = [
    ("lock|locks|why|release", "locks"),
    ("elect|elections|observe|depose", "elections"),
    ("expel", "sessions"),
    // So that a script says what is the case for the others.
    ("*", ""),
];

fn kinds(end: &str) -> String {
    let kinds =
        KINDS.iter().map(|(commands, kind)| format!("        {commands}) kind={kind} {end}"));
    kinds.collect::<Vec<_>>().join("\n")
}

/// Adds names to a script for bash that clap has made.
pub(crate) fn for_bash(script: &str) -> String {
    let script = script.replace("complete -F _conclave ", "complete -F _conclave_names ");
    let kinds = kinds(";;");
    format!(
        r#"{script}
# The names of locks, elections and sessions that the node has now.
_conclave_names() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" kind word
    COMPREPLY=()
    _conclave "$@"
    [[ $COMP_CWORD -gt 1 && $cur != -* ]] || return 0
    for word in "${{COMP_WORDS[@]:2:COMP_CWORD-2}}"; do
        # What comes after is a command to run.
        [[ $word == -- ]] && return 0
    done
    case "$command" in
{kinds}
    esac
    [[ -n $kind ]] || return 0
    local names
    names="$(command conclave {ARGUMENT} "$kind" "$cur" "${{COMP_WORDS[@]:2:COMP_CWORD-2}}" 2>/dev/null)"
    COMPREPLY+=($(compgen -W "$names" -- "$cur"))
}}
"#
    )
}

/// Adds names to a script for zsh that clap has made.
pub(crate) fn for_zsh(script: &str) -> String {
    let kinds = kinds(";;");
    let names = format!(
        r#"# The names of locks, elections and sessions that the node has now.
_conclave_names() {{
    local kind
    _conclave "$@"
    local ret=$?
    (( CURRENT > 2 )) && [[ "$PREFIX" != -* ]] && (( ! ${{words[(I)--]}} )) || return $ret
    case "$words[2]" in
{kinds}
    esac
    [[ -n "$kind" ]] || return $ret
    local -a names
    names=(${{(f)"$(command conclave {ARGUMENT} $kind "$PREFIX" ${{words[3,CURRENT-1]}} 2>/dev/null)"}})
    compadd -a names && ret=0
    return $ret
}}

"#
    );
    // The function that clap has made stays, and this one is called instead.
    match script.rfind("if [ \"$funcstack[1]\"") {
        Some(end) => {
            let last = script[end..]
                .replace("_conclave \"$@\"", "_conclave_names \"$@\"")
                .replace("compdef _conclave ", "compdef _conclave_names ");
            format!("{}{names}{last}", &script[..end])
        }
        None => script.to_owned(),
    }
}

/// Adds names to a script for fish that clap has made.
pub(crate) fn for_fish(script: &str) -> String {
    let mut script = script.to_owned();
    script += "# The names of locks, elections and sessions that the node has now.\n";
    for (commands, kind) in KINDS.iter().filter(|(_, kind)| !kind.is_empty()) {
        for command in commands.split('|') {
            script += &format!(
                "complete -c conclave -n \"__fish_conclave_using_subcommand {command}; and not contains -- -- \
                 (commandline -opc)\" -a '(command conclave {ARGUMENT} {kind} (commandline -ct) (commandline \
                 -opc) 2>/dev/null)'\n"
            );
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_node_is_reached_is_found_in_a_command_line() {
        let words = ["--endpoints", "a:1", "-v", "--ca=x", "--tls", "b", "--", "--key", "k"];
        let words = words.map(str::to_owned);
        assert_eq!(flags(&words), ["--endpoints", "a:1", "--ca=x", "--tls"]);
    }

    #[test]
    fn names_that_a_shell_would_understand_otherwise_are_left_out() {
        assert!(is_plain("ci/build-7@x") && is_plain("größe"));
        assert!(!is_plain("$(reboot)") && !is_plain("a b") && !is_plain("a\nb"));
    }
}
