use std::time::Duration;
use conclave_load::*;
#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).map(String::as_str) == Some("serve") { serve(args[2].as_ref()).await.unwrap(); }
    let dir = tempfile::tempdir_in(".").unwrap();
    let options = Options { start: Start { program: std::env::current_exe().unwrap(), arguments: vec!["serve".into()] }, directory: dir.path().into(), clients: 64,
        span: Duration::from_secs(3), etcd: Some("/usr/bin/etcd".into()), large: args.get(1).map(String::as_str) != Some("quick") };
    measure(&options, &mut |f| println!("{:<50} {:>12.1} {} {}", f.what, f.value, f.unit, f.beside.map_or(String::new(), |b| format!("= {:.2} x {} (wanted {:?}) {}", b.ratio, b.what, b.wanted, b.is_met())))).await.unwrap();
}
